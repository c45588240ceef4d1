"""`coteach audit`: which labels are wrong; `coteach audit apply`: the labels with the accepted suggestions."""

import json
import shlex
import sys
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from coteach.cli.options import share
from coteach.data import NAMES
from coteach.errors import SettingError, StorageError

if TYPE_CHECKING:
    from coteach.audit.audit import Audit
    from coteach.config import Source
    from coteach.data import Dataset

ISSUES, ABOUT, PAGE = "label_issues.csv", "audit.json", "audit.html"


@dataclass(frozen=True)
class Ask:
    """Find the wrong labels in data: train once, and write label_issues.csv and a page to look through them.

    The same command again goes on where it stopped. `coteach audit apply` then writes the labels corrected. With
    --noise and --rate, known wrong labels are put on the data first, to see how many of them are found.
    """

    data: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="DATA")]
    """Dataset: the path of your own data, or a known name."""
    label: str = ""
    """Where the labels of your own data are: a column of a table, or an .npy file. As for `coteach train`."""
    image_size: int = 0
    """Pixels on each side that image files are brought to. As for `coteach train`."""
    out: Path = Path("audit")
    """Folder to write to."""
    noise_rate: str = "auto"
    """Share of wrong labels: a number, or auto to estimate it."""
    method: str = "co-teaching"
    """How to train: `coteach methods` lists them."""
    network: str | None = None
    """Network; by default the one that suits the data. As for `coteach train`."""
    epochs: int | None = None
    """Epochs after the warm-up (default: 4)."""
    balanced: Literal["yes", "no"] = "no"
    """Keep a share of each class instead of the whole batch, for data with rare classes."""
    shown: int = 500
    """At most this many labels on the page, the worst; the CSV has all."""
    noise: str = "none"
    """Noise to put on the labels first: pair, symmetric, a matrix or saved labels. As for `coteach train`."""
    rate: float | None = None
    """Share of labels to make wrong, for pair and symmetric."""
    noise_seed: int = 0
    """Seed of the noise draw."""
    seed: int = 1
    """Seed of the networks and the order of samples."""
    device: str = "auto"
    """Device: auto takes a GPU when there is one, else the CPU."""
    threads: int = 0
    """CPU threads; 0 for as many as pay: one for a small network, else one a core."""
    checkpoint_every: float = 30.0
    """Seconds between checkpoints; a killed audit loses no more than that."""
    json: bool = False
    """Print the result as JSON."""
    quiet: bool = False
    """No progress, and no notes on the data."""


@dataclass(frozen=True)
class Apply:
    """Write a copy of audited labels in which the accepted suggestions are made; the original stays as it is.

    The copy of a table or an .npz file is like the original but for the labels; for images it is a CSV of files and
    labels. Each can be given to --data. For an .npy file of samples it is the .npy file of their labels.
    """

    folder: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="FOLDER")]
    """Folder that `coteach audit` wrote."""
    out: Path
    """File to write; it must not be there yet."""
    decisions: Path | None = None
    """The decisions.csv that the page of the audit lets you download."""
    accept_above: float | None = None
    """Accept every suggestion of at least this score, unless the decisions reject it."""
    data: Path | None = None
    """Where the audited data lie now, if they were moved since."""
    json: bool = False
    """Print the result as JSON."""


def main(argv: list[str]) -> int:
    """Audit, or apply what was decided about an audit."""
    return _apply(argv[1:]) if argv[:1] == ["apply"] else _audit(argv)


def _audit(argv: list[str]) -> int:
    ask = tyro.cli(Ask, prog="coteach audit", args=argv)
    rate = share("noise_rate", ask.noise_rate)
    if ask.shown < 1:
        raise SettingError(f"shown is {ask.shown}: give at least 1")

    from coteach.audit.audit import audit
    from coteach.data import load_source
    from coteach.methods import catalogue
    from coteach.progress import RunProgress
    from coteach.recipes import recipe, saved_labels
    from coteach.results.run import Runner
    from coteach.training.setup import draw_labels

    where: dict[str, Any] = {"label": ask.label, "image_size": ask.image_size, "test_share": 0.0}
    drawn = recipe(ask.data, noise=ask.noise, rate=ask.rate, method="standard", noise_seed=ask.noise_seed, **where)
    source = drawn.source
    dataset = load_source(source)
    draw = draw_labels(drawn, dataset, saved_labels(ask.noise))
    if ask.noise != "none":
        dataset = replace(dataset, y_train=draw.noisy)  # from here on nobody knows the right ones
    changes: dict[str, Any] = {}
    if ask.epochs is not None:
        changes |= {"epochs": ask.epochs, "decay_from": ask.epochs // 2}
    if rate is not None:
        catalogue.check_setting(ask.method, "tau", said="noise_rate")
    if ask.balanced == "yes":
        catalogue.check_setting(ask.method, "balanced")
        changes["balanced"] = True
    if ask.network:
        changes["network"] = ask.network
    config = recipe(dataset, method=ask.method, name="audit", seed=ask.seed, **changes)
    _refuse_other(ask.out, dataset.fingerprint)
    with RunProgress(quiet=ask.quiet) as progress:
        runner = Runner(
            ask.out / "runs",
            device=ask.device,
            threads=ask.threads,
            checkpoint_every=ask.checkpoint_every,
            on_progress=progress.step,
            on_message=progress.message,
        )
        found = audit(dataset, config, runner, rate=rate)
    _write(found, dataset, source, ask)
    issues = found.issues
    answer = {
        "out": str(ask.out),
        "model": str(found.result.path),
        "samples": len(issues),
        "label_issues": int(issues.is_issue.sum()),
        "noise_rate": found.estimate.to_dict(),
    }
    if ask.noise != "none":
        wrong = draw.noisy != draw.clean
        answer |= {"wrong": int(wrong.sum()), "found": int((wrong & issues.is_issue).sum())}
    if ask.json:
        json.dump(answer, sys.stdout, indent=2)
        print()
        return 0
    print(f"{answer['label_issues']:,} of {len(issues):,} labels look wrong: {ask.out / PAGE}")
    if ask.noise != "none":
        print(f"{answer['found']:,} of the {answer['wrong']:,} that really are wrong are among them")
    print(f"every label with its score, the most suspect first: {ask.out / ISSUES}")
    print(f"the model: {found.result.path}")
    if answer["label_issues"]:
        print(f"decide on the page, then: {_next(ask.out, dataset, source)}")
    return 0


def _write(found: "Audit", dataset: "Dataset", source: "Source", ask: Ask) -> None:
    """The files of an audit."""
    from coteach.report.audit import AuditPage, looks, render_audit
    from coteach.storage import write_over

    config, summary = found.result.config, found.result.summary
    made = summary["environment"]
    known = source.data in NAMES
    about = {
        "data": source.data if known else str(Path(source.data).expanduser().absolute()),
        "label": str(Path(source.label).expanduser().absolute())
        if source.label.endswith(".npy")
        else dataset.preprocessing.get("label", source.label),
        "noise": ask.noise,
        "kind": dataset.preprocessing["kind"],
        "class_names": list(dataset.class_names),
        "data_sha256": dataset.fingerprint,
        "samples": len(found.issues),
        "label_issues": int(found.issues.is_issue.sum()),
        "noise_rate": found.estimate.to_dict(),
        "run": found.result.path.name,
        "environment": made,
    }
    page = AuditPage(
        title=f"The labels of {dataset.name}",
        issues=found.issues,
        estimate=found.estimate,
        look=looks(dataset, source.data),
        apply=_next(ask.out, dataset, source),
        command=shlex.join(["coteach", "audit", *sys.argv[2:]] if sys.argv[1:2] == ["audit"] else ["coteach", "audit"]),
        facts={
            "data": f"{len(found.issues):,} samples of {dataset.classes} classes",
            "training": f"{config.method}, {config.network}, {config.epochs} epochs after the warm-up, "
            f"{summary['seconds']:.0f} s",
            "versions": f"coteach {made['coteach']}, torch {made['torch']}, Python {made['python']}",
            "device": f"{made['device']}, {made['threads']} threads",
        },
        notes=dataset.notes,
        shown=ask.shown,
    )
    found.issues.write(ask.out / ISSUES)
    write_over(ask.out / PAGE, render_audit(page))
    write_over(ask.out / ABOUT, json.dumps(about, indent=2) + "\n")


def _refuse_other(out: Path, fingerprint: str) -> None:
    """A folder with the audit of other data is not written over."""
    if out.exists() and not out.is_dir():
        raise SettingError(f"{out} is a file: give a folder with --out")
    try:
        there = json.loads((out / ABOUT).read_text(encoding="utf-8"))["data_sha256"]
    except FileNotFoundError:
        if (out / ISSUES).exists() and not (out / "runs").exists():  # else a kill came before the end
            raise SettingError(f"{out / ISSUES} is there already, of no audit: give another --out") from None
        return
    except OSError as error:
        raise StorageError(f"cannot read {out / ABOUT}: {error.strerror}: give another --out") from error
    except (ValueError, KeyError, TypeError):
        there = None
    if there != fingerprint:
        raise SettingError(f"{out} holds the audit of other data, or of these before they changed: give another --out")


def _next(out: Path, dataset: "Dataset", source: "Source") -> str:
    """The command that writes the corrected labels."""
    from coteach.audit.apply import Source as Audited

    suffix = Audited(source.data, dataset.preprocessing["kind"]).suffix
    words = ["coteach", "audit", "apply", str(out), "--decisions", "decisions.csv", "--out", f"cleaned{suffix}"]
    return shlex.join(words)


def _apply(argv: list[str]) -> int:
    ask = tyro.cli(Apply, prog="coteach audit apply", args=argv)

    from coteach.audit.apply import apply

    done = apply(ask.folder, ask.decisions, ask.out, ask.accept_above, moved_to=ask.data)
    if ask.json:
        json.dump(asdict(done) | {"out": str(done.out)}, sys.stdout)
        print()
    else:
        word = "suggestion" if done.rejected == 1 else "suggestions"
        print(f"{done.changed:,} of {done.labels:,} labels changed, {done.rejected:,} {word} rejected")
        if done.gone:
            are = "image is not there any more and is" if done.gone == 1 else "images are not there any more and are"
            print(f"{done.gone:,} audited {are} left out")
        print(f"saved in {done.out}; the original is as it was")
    return 0
