"""Which labels are wrong: coteach's audit beside cleanlab with five folds, in turns, in one run.

    pip install cleanlab
    python -m benchmarks.audit digits mnist --out results/own-data/audit.json

Both train the same small CNN with the same loop, batch size and learning rate. Each of the five networks behind
cleanlab trains for as many epochs as coteach's networks do in their warm-up and audit together; `stopped early` are
five networks that stop as the warm-up does, by their loss on the fold that they have not seen. A label's score is
cleanlab's own quality (self-confidence), lowest first. MNIST (`coteach data fetch mnist`) is used in part, 10,000
training images.
"""

import time
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from cleanlab.filter import find_label_issues
from cleanlab.rank import get_label_quality_scores
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold

from benchmarks.estimation import DEVICE, given
from benchmarks.own_data import Cells, asking, drawn
from coteach.audit.suspects import Evidence, suspects
from coteach.batches import TestSet
from coteach.data import Dataset, load
from coteach.estimate.prepare import prepare
from coteach.estimate.warm_up import PATIENCE
from coteach.noise import Draw
from coteach.recipes import recipe
from coteach.training.device import kept_random_state, set_threads
from coteach.training.setup import make_trainer

NOISES = [("symmetric", 0.2), ("symmetric", 0.5), ("pair", 0.45)]
FOLDS = 5
Floats = NDArray[np.float64]


class Clock:
    """Seconds by the wall and of the processor; other work beside it lengthens only the first."""

    def __init__(self) -> None:
        self._start = time.perf_counter(), time.process_time()

    def read(self) -> dict[str, float]:
        wall, processor = self._start
        return {"seconds": time.perf_counter() - wall, "processor_seconds": time.process_time() - processor}


def measures(suspicion: Floats, wrong: NDArray[np.bool_]) -> dict[str, float]:
    """Area under the ROC curve, and the share of wrong labels among as many of the most suspect as there are."""
    worst = np.argsort(-suspicion, kind="stable")[: wrong.sum()]
    return {"auc": float(roc_auc_score(wrong, suspicion)), "precision": float(wrong[worst].mean())}


def coteach(dataset: Dataset, labels: Draw, seed: int) -> tuple[Floats, NDArray[np.bool_], float]:
    """The scores and flags of an audit, and the epochs that a network of it trained for."""
    config = recipe(dataset, network="small-cnn", name="audit", seed=seed)
    ready = prepare(config, dataset, labels, device=DEVICE)
    with kept_random_state(DEVICE):
        trainer = make_trainer(ready.config, dataset, labels, device=DEVICE, initial=ready.initial)
        while trainer.epoch <= config.epochs:
            for _ in trainer.run_epoch():
                pass
            trainer.finish_epoch()
        every = TestSet(trainer.batches.samples, labels.noisy, device=DEVICE)
        probabilities = trainer.log_probabilities(every).exp().mean(0).cpu().numpy()
    assert trainer.ledger is not None
    ledger = {name: value.cpu().numpy() for name, value in trainer.ledger.state_dict().items()}
    found = suspects(dataset, labels.noisy, Evidence(ready.estimate.member, probabilities, ledger))
    return found.score, found.is_issue, float(np.mean(ready.warm_up.epochs)) + config.epochs


def out_of_sample(dataset: Dataset, labels: Draw, seed: int, epochs: int, *, early: bool = False) -> Floats:
    """Each sample's probabilities by a network that has not seen it."""
    y = labels.noisy
    probabilities = np.empty((len(y), dataset.classes))
    config = recipe(
        dataset, method="standard", network="small-cnn", name="own", seed=seed, epochs=epochs, decay_from=epochs
    )
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=seed).split(y, y)
    for fold, (seen, unseen) in enumerate(folds):
        with kept_random_state(DEVICE):
            trainer = make_trainer(replace(config, init_seed=seed + fold), dataset, labels, device=DEVICE, rows=seen)
            held = TestSet(trainer.batches.samples, y, rows=unseen, device=DEVICE)
            losses: list[float] = []
            while trainer.epoch <= epochs:
                for _ in trainer.run_epoch():
                    pass
                trainer.finish_epoch()
                if early or trainer.epoch > epochs:
                    log_p = trainer.log_probabilities(held)[0].cpu().numpy()
                    losses.append(-float(log_p[np.arange(len(unseen)), y[unseen]].mean()))
                    if losses[-1] == min(losses):
                        probabilities[unseen] = np.exp(log_p)
                    if len(losses) - int(np.argmin(losses)) > PATIENCE:
                        break
    return probabilities


def compare(dataset: Dataset, draw: Draw, seed: int) -> dict[str, Any]:
    data, labels = given(replace(dataset, x_test=dataset.x_test[:0], y_test=dataset.y_test[:0]), draw)
    wrong = draw.noisy != draw.clean
    clock = Clock()
    score, flagged, epochs = coteach(data, labels, seed)
    result: dict[str, Any] = {
        "coteach": measures(score, wrong) | clock.read() | {"epochs": epochs} | flags(flagged, wrong)
    }
    for name, early in (("cleanlab", False), ("cleanlab, stopped early", True)):
        clock = Clock()
        p = out_of_sample(data, labels, seed, 30 if early else round(epochs), early=early)
        quality = get_label_quality_scores(draw.noisy, p)
        result[name] = measures(-quality, wrong) | clock.read() | flags(find_label_issues(draw.noisy, p), wrong)
    return result


def flags(flagged: NDArray[np.bool_], wrong: NDArray[np.bool_]) -> dict[str, float]:
    """How right the flags are, and how many wrong labels have one."""
    return {
        "flags_right": float(wrong[flagged].mean()) if flagged.any() else 0.0,
        "wrong_flagged": float(flagged[wrong].mean()),
    }


def show(cells: Cells) -> None:
    names = ["coteach", "cleanlab", "cleanlab, stopped early"]
    print("| data | noise | n | | AUC | precision | flags right | wrong flagged | processor s | coteach's time |")
    print("|---|---|---:|---|---:|---:|---:|---:|---:|---:|")
    for (data, noise), group in cells.groups("data", "noise"):
        ours = np.mean([cell["coteach"]["processor_seconds"] for cell in group])
        for name in names:
            mean = {key: np.mean([cell[name][key] for cell in group]) for key in group[0][name]}
            ratio = "" if name == "coteach" else f"{ours / mean['processor_seconds']:.2f} of it"
            print(
                f"| {data} | {noise} | {len(group)} | {name} | {mean['auc']:.4f} | {mean['precision']:.4f} | "
                f"{mean['flags_right']:.3f} | {mean['wrong_flagged']:.3f} | {mean['processor_seconds']:.1f} | {ratio} |"
            )


def main() -> None:
    ask = asking(__doc__, seeds=3).parse_args()
    set_threads(ask.threads)
    cells = Cells(ask.out)
    small = load("digits")
    compare(small, drawn(small, "symmetric", 0.2, 0), 0)  # the first training in a process is slower than any after it
    cells.measure_all(ask.data, NOISES, ask.seeds, compare)
    show(cells)


if __name__ == "__main__":
    torch.manual_seed(0)
    main()
