"""How good the estimate of the noise rate is, and what it costs in accuracy against the true rate.

    python -m benchmarks.estimation digits mnist --out results/own-data/estimation.json
    python -m benchmarks.estimation digits mnist --accuracy --out results/own-data/accuracy.json

MNIST (`coteach data fetch mnist`) is used in part, 10,000 training images; the network is the small CNN. Stop it and go
on at will.
"""

import time
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from benchmarks.own_data import Cells, asking
from coteach.config import Config
from coteach.data import Dataset
from coteach.estimate.prepare import Prepared, prepare
from coteach.noise import Draw
from coteach.recipes import recipe
from coteach.training.arithmetic import switches
from coteach.training.device import choose_device, kept_random_state, set_threads
from coteach.training.setup import make_trainer

NOISES = [("symmetric", 0.0), ("symmetric", 0.2), ("symmetric", 0.5), ("pair", 0.2), ("pair", 0.45)]
DEVICE = choose_device("auto")


def given(dataset: Dataset, draw: Draw) -> tuple[Dataset, Draw]:
    """The data with the drawn labels as if they were given: nobody knows which are wrong."""
    return replace(dataset, y_train=draw.noisy), Draw(draw.noisy, draw.noisy, np.eye(dataset.classes), 0)


def config_of(dataset: Dataset, method: str, seed: int, name: str = "own", **changes: Any) -> Config:
    """The small CNN in fp32, also on a GPU: the numbers are to be the CPU's."""
    how = {"network": "small-cnn", "guard": "off", "precision": "fp32", "compile": False} | changes
    return recipe(dataset, method=method, name=name, seed=seed, **how)


def prepared(dataset: Dataset, draw: Draw, method: str, seed: int) -> tuple[Prepared, Dataset, Draw]:
    dataset, labels = given(dataset, draw)
    config = config_of(dataset, method, seed)
    return prepare(config, dataset, labels, device=DEVICE), dataset, labels


def estimated(dataset: Dataset, draw: Draw, seed: int) -> dict[str, Any]:
    start = time.perf_counter()
    found, _, _ = prepared(dataset, draw, "co-teaching", seed)
    e = found.estimate
    return {
        "true": draw.rate, "rate": e.rate, "low": e.low, "high": e.high, "trusted": e.trusted,
        "matrix_error": float(np.abs(e.matrix - draw.realised).sum(1).mean()),
        "estimators": {part.name: part.rate for part in e.parts},
        "epochs": found.warm_up.epochs, "seconds": time.perf_counter() - start,
    }  # fmt: skip


def accuracy(config: Config, dataset: Dataset, labels: Draw, initial: Any = ()) -> float:
    """Mean test accuracy of the last five epochs, in percent."""
    with switches(config, DEVICE), kept_random_state(DEVICE):
        trainer = make_trainer(config, dataset, labels, device=DEVICE, initial=initial)
        found = []
        while trainer.epoch <= config.epochs:
            for _ in trainer.run_epoch():
                pass
            found.append(np.mean(trainer.finish_epoch().test_accuracy))
    return float(100 * np.mean(found[-5:]))


def trained(dataset: Dataset, draw: Draw, seed: int) -> dict[str, Any]:
    found, data, labels = prepared(dataset, draw, "co-teaching", seed)
    true = replace(found.config, settings={**found.config.settings, "tau": round(draw.rate, 4)})
    plain = config_of(data, "standard", seed)
    paper = config_of(data, "co-teaching", seed, "small", tau=round(draw.rate, 4), epochs=100)
    return {
        "true": draw.rate,
        "rate": found.estimate.rate,
        "estimated rate": accuracy(found.config, data, labels, found.initial),
        "true rate": accuracy(true, data, labels, found.initial),
        "standard": accuracy(plain, data, labels),
    } | ({"true rate, no warm-up, 100 epochs": accuracy(paper, data, labels)} if dataset.name == "digits" else {})


def show_estimates(cells: Cells) -> None:
    print("| data | noise | n | true | estimate | mean error | worst | in the interval | trusted |")
    print("|---|---|---:|---:|---:|---:|---:|---:|---:|")
    for (data, noise), group in cells.groups("data", "noise"):
        errors = [abs(cell["rate"] - cell["true"]) for cell in group]
        inside = sum(cell["low"] <= cell["true"] <= cell["high"] for cell in group)
        mean = [np.mean([cell[name] for cell in group]) for name in ("true", "rate")]
        print(
            f"| {data} | {noise} | {len(group)} | {mean[0]:.3f} | {mean[1]:.3f} | {np.mean(errors):.3f} | "
            f"{max(errors):.3f} | {inside} of {len(group)} | {sum(cell['trusted'] for cell in group)} |"
        )
    print("\nMean error of each estimator:\n")
    names = list(cells.found[0]["estimators"])
    print(f"| data | noise | {' | '.join(names)} |\n|---|---|{'---:|' * len(names)}")
    for (data, noise), group in cells.groups("data", "noise"):
        errors = [np.mean([abs(cell["estimators"][name] - cell["true"]) for cell in group]) for name in names]
        print(f"| {data} | {noise} | {' | '.join(f'{error:.3f}' for error in errors)} |")


def show_accuracy(cells: Cells) -> None:
    told = ("data", "noise", "seed", "true", "rate", "device", "commit")
    names = [name for name in cells.found[0] if name not in told]
    print(f"| data | noise | n | {' | '.join(names)} |\n|---|---|---:|{'---:|' * len(names)}")
    for (data, noise), group in cells.groups("data", "noise"):
        values = [f"{np.mean([c[n] for c in group]):.2f}" if n in group[0] else "" for n in names]
        print(f"| {data} | {noise} | {len(group)} | {' | '.join(values)} |")


def main() -> None:
    parser = asking(__doc__, seeds=5)
    parser.add_argument("--accuracy", action="store_true", help="train with the estimated and the true rate, too")
    ask = parser.parse_args()
    set_threads(ask.threads)
    cells = Cells(ask.out)
    cells.measure_all(ask.data, NOISES, ask.seeds, trained if ask.accuracy else estimated)
    (show_accuracy if ask.accuracy else show_estimates)(cells)


if __name__ == "__main__":
    torch.manual_seed(0)
    main()
