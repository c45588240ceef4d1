"""Tables with wrong labels: coteach beside scikit-learn's classifiers and cleanlab, on the same rows.

    pip install cleanlab
    python -m benchmarks.tables --out results/own-data/tables.json

The tables are scikit-learn's own and two that it makes up, each with a column of row numbers, a column of categories
that means nothing, and 2 % of its values missing. Three rows in ten, with their right labels, are for testing. cleanlab
judges by gradient boosting with five folds; the classifiers beside coteach learn the labels as given. Of two classes,
pair noise is symmetric noise and is left out.
"""

import argparse
import csv
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from cleanlab.filter import find_label_issues
from cleanlab.rank import get_label_quality_scores
from numpy.typing import NDArray
from sklearn import datasets
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_predict, train_test_split

from benchmarks.audit import flags, measures
from benchmarks.own_data import Cells
from coteach.audit.audit import audit
from coteach.data import Dataset, load
from coteach.estimate.prepare import run_estimated
from coteach.model import load_model
from coteach.noise import KINDS, corrupt
from coteach.recipes import recipe
from coteach.results.run import Runner
from coteach.training.device import set_threads
from coteach.training.setup import draw_labels

NOISES = [("symmetric", 0.0), ("symmetric", 0.1), ("symmetric", 0.3), ("pair", 0.3)]
TWO_CLASSES = ("breast cancer", "one in ten")
LABEL = "kind"


def made(weights: list[float], classes: int, seed: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """3,000 rows of classes that overlap a little."""
    x, y = datasets.make_classification(
        3000, 12, n_informative=6, n_redundant=3, n_classes=classes, weights=weights, flip_y=0, class_sep=1.5,
        random_state=seed,
    )  # fmt: skip
    return x.round(4), y


TABLES = {
    "wine": lambda: datasets.load_wine(return_X_y=True),
    "breast cancer": lambda: datasets.load_breast_cancer(return_X_y=True),
    "digits": lambda: datasets.load_digits(return_X_y=True),
    "four segments": lambda: made([0.25] * 4, 4, 1),
    "one in ten": lambda: made([0.9, 0.1], 2, 2),
}


def written(folder: Path, x: NDArray[Any], y: NDArray[np.int64], rows: dict[str, NDArray[np.int64]], seed: int) -> None:
    """The table as files, as somebody would have it: the parts that `rows` name."""
    rng = np.random.default_rng(seed)
    shop = rng.choice(["north", "south", "west"], len(x))
    missing = rng.random(x.shape) < 0.02
    for name, part in rows.items():
        with (folder / f"{name}.csv").open("w", newline="") as file:
            table = csv.writer(file)
            table.writerow(["row", *(f"f{n}" for n in range(x.shape[1])), "shop", LABEL])
            for n in part:
                values = ["" if gone else value for value, gone in zip(x[n], missing[n], strict=True)]
                table.writerow([n, *values, shop[n], f"k{y[n]}"])


def compare(name: str, kind: str, rate: float, seed: int) -> dict[str, Any]:
    x, clean = TABLES[name]()
    train, test = train_test_split(np.arange(len(x)), test_size=0.3, stratify=clean, random_state=seed)
    y = clean.copy()
    y[train] = corrupt(clean[train], KINDS[kind](int(clean.max()) + 1, rate), 100 + seed).noisy
    wrong = y[train] != clean[train]
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        written(folder, x, y, {"train": train, "test": test}, seed)
        dataset = load(folder / "train.csv", label=LABEL, test=folder / "test.csv")
        runner = Runner(folder / "runs", threads=1)
        config = recipe(dataset, seed=seed, guard="off")
        result, prepared = run_estimated(runner, config, dataset, draw_labels(config, dataset))
        model = load_model(result.path)
        found = audit(dataset, recipe(dataset, name="audit", seed=seed), runner).issues
    right = {"co-teaching": accuracy(model.predict_proba(dataset.x_test).argmax(1), dataset)}
    boosting = HistGradientBoostingClassifier(random_state=seed)
    for title, other in (("logistic regression", LogisticRegression(max_iter=2000)), ("gradient boosting", boosting)):
        right[title] = accuracy(other.fit(dataset.x_train, dataset.y_train).predict(dataset.x_test), dataset)
    folds = StratifiedKFold(5, shuffle=True, random_state=seed)
    p = cross_val_predict(boosting, dataset.x_train, dataset.y_train, cv=folds, method="predict_proba")
    judged = {
        "coteach": (found.score, found.is_issue),
        "cleanlab": (-get_label_quality_scores(dataset.y_train, p), find_label_issues(dataset.y_train, p)),
    }
    return {
        "true": float(wrong.mean()),
        "rate": prepared.estimate.rate,
        "trusted": prepared.estimate.trusted,
        "accuracy": right,
        **{
            title: {"flagged": float(flagged.mean())}
            | (measures(s, wrong) | flags(flagged, wrong) if wrong.any() else {})
            for title, (s, flagged) in judged.items()
        },
    }


def accuracy(predicted: NDArray[Any], dataset: Dataset) -> float:
    return 100 * float((predicted == dataset.y_test).mean())


def show(cells: Cells) -> None:
    print("| table | noise | n | wrong, estimated | co-teaching | logistic regression | gradient boosting "
          "| AUC | cleanlab's | flags right | cleanlab's | wrong flagged | cleanlab's |")  # fmt: skip
    print("|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|")
    for (data, noise), group in cells.groups("data", "noise"):
        right = [f"{np.mean([cell['accuracy'][name] for cell in group]):.1f}" for name in group[0]["accuracy"]]
        rate, true = (100 * np.mean([cell[key] for cell in group]) for key in ("rate", "true"))
        found = [
            f"{np.mean([cell[who][key] for cell in group]):.{digits}f}" if true else "-"
            for key, digits in (("auc", 3), ("flags_right", 2), ("wrong_flagged", 2))
            for who in ("coteach", "cleanlab")
        ]
        numbers = " | ".join([f"{rate:.1f} % ({true:.1f} %)", *right, *found])
        print(f"| {data} | {noise} | {len(group)} | {numbers} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--out", type=Path, required=True)
    ask = parser.parse_args()
    set_threads(1)
    cells = Cells(ask.out)
    for name in TABLES:
        for seed in range(1, ask.seeds + 1):
            for kind, rate in NOISES[: 3 if name in TWO_CLASSES else None]:
                key = {"data": name, "noise": f"{kind} {rate:g}" if rate else "none", "seed": seed}
                cells.measure(key, partial(compare, name, kind, rate, seed))
    show(cells)


if __name__ == "__main__":
    main()
