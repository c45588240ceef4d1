"""Which epoch held-out samples choose, by their labels as given: by the method's own measure, and by the plain one.

    python -m benchmarks.held_out digits --out results/own-data/held-out.json

Each method trains once a draw with a tenth of its samples held out, by the recipe `small` and the rate of the noise.
Told is the test accuracy of the last ten epochs and of the epoch with the lowest loss on what is held out: the
method's own (`Method.held_out_loss`), and the mean cross entropy over all of it. Standard has no other.
"""

import numpy as np
import torch
import torch.nn.functional as F

from benchmarks.own_data import Cells, asking
from coteach.data import Dataset
from coteach.noise import Draw
from coteach.recipes import recipe
from coteach.training.device import choose_device, set_threads
from coteach.training.loop import Trainer
from coteach.training.setup import make_trainer

METHODS = ("standard", "mentornet", "co-teaching")
NOISES = [("symmetric", 0.2), ("symmetric", 0.5), ("pair", 0.45)]


def chosen(dataset: Dataset, draw: Draw, seed: int) -> dict[str, float]:
    """For each method, what the last ten epochs, its own measure and the plain one come to."""
    found = {}
    for method in METHODS:
        config = recipe(dataset, noise=draw, method=method, name="small", seed=seed, hold_out=0.1)
        trainer = make_trainer(config, dataset, draw, device=choose_device("auto"))
        accuracy, own, plain = [], [], []
        while not trainer.over:
            for _ in trainer.run_epoch():
                pass
            plain.append(plain_loss(trainer))
            record = trainer.finish_epoch()
            accuracy.append(100 * float(np.mean(record.test_accuracy)))
            own.append(np.mean(record.held_out_loss))
        for name, value in (
            ("last ten", np.mean(accuracy[-10:])),
            ("own", accuracy[int(np.argmin(own))]),
            ("plain", accuracy[int(np.argmin(plain))]),
        ):
            found[f"{method}, {name}"] = round(float(value), 3)
    return found


def plain_loss(trainer: Trainer) -> float:
    """The mean cross entropy over all that is held out."""
    assert trainer.held_out is not None
    labels = torch.cat([y for _, y in trainer.held_out])
    return float(np.mean([F.nll_loss(log_p, labels).item() for log_p in trainer.log_probabilities(trainer.held_out)]))


def main() -> None:
    ask = asking(__doc__, seeds=5).parse_args()
    set_threads(ask.threads)
    cells = Cells(ask.out)
    cells.measure_all(ask.data, NOISES, ask.seeds, chosen)
    names = [f"{method}, {name}" for method in METHODS for name in ("last ten", "own", "plain")]
    print(f"| data | noise | n | {' | '.join(names)} |\n|---|---|---:|{'---:|' * len(names)}")
    for (data, noise), group in cells.groups("data", "noise"):
        values = [f"{np.mean([cell[name] for cell in group]):.2f}" for name in names]
        print(f"| {data} | {noise} | {len(group)} | {' | '.join(values)} |")


if __name__ == "__main__":
    main()
