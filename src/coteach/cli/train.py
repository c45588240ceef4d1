"""`coteach train`: one method on one dataset."""

import json
import sys
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tyro

from coteach.cli.options import given, options, peek, share
from coteach.config import config_fields, read_toml
from coteach.data import CATALOGUE
from coteach.errors import CoteachError, SettingError
from coteach.fields import Field, checked
from coteach.methods import catalogue
from coteach.recipes import RECIPES, recipe, saved_labels

if TYPE_CHECKING:
    from coteach.estimate.combined import Estimate
    from coteach.results.run import Result


@dataclass(frozen=True)
class Where:
    """Where and how the run is made. No part of its config."""

    out: Path = Path("runs")
    """Folder for run folders."""
    device: str = "auto"
    """Device: auto takes a GPU when there is one, else the CPU."""
    threads: int = 0
    """CPU threads; 0 for as many as pay: one for a small network, else one a core."""
    checkpoint_every: float = 30.0
    """Seconds between checkpoints; a killed run loses no more than that."""
    json: bool = False
    """Print the result as JSON on standard output."""
    quiet: bool = False
    """No progress, and no notes on the data."""


_CHOICE = [
    Field("recipe", str, None, f"Named set of settings: {', '.join(RECIPES)}. By default the one that suits the data."),
    Field("seed", int, 1, "Seed of initialisation and order together; the noise keeps its own."),
    Field(
        "noise_rate",
        str | float,
        None,
        "Share of wrong labels, for methods that need it: a number, or auto to estimate it in a warm-up that the "
        "networks then start from. By default auto for your own labels, else the rate of the noise.",
    ),
    Field("config", str, None, "TOML file with settings, one flat table; flags win over it."),
]


def main(argv: list[str]) -> int:
    """Parse, train or go on, and say what came out."""
    wants, where = _parse(argv)
    if wants.get("data") is None:
        raise SettingError("which data? give --data, such as --data digits; `coteach data list` shows what there is")
    data, noise = wants.pop("data"), wants.pop("noise", "none")
    if "test_share" in wants and data in CATALOGUE:
        raise SettingError(f"test_share goes with your own data, and {data} is complete: leave it out")
    method, seed = wants.pop("method", "co-teaching"), wants.pop("seed", 1)
    if "noise_rate" in wants:
        catalogue.check_setting(method, "tau", said="noise_rate")
    known_rate, auto = _noise_rate(wants.pop("noise_rate", None), wants)
    config = recipe(
        data,
        noise=noise,
        rate=wants.pop("rate", None),
        method=method,
        name=wants.pop("recipe", None),
        seed=seed,
        **wants,
        **known_rate,
    )
    if auto is None:
        auto = config.inputs.data_sha256 is not None and noise == "none" and "tau" not in wants
    auto = auto and "tau" in config.settings
    if not auto and wants.get("correction_epochs"):
        raise SettingError("correction_epochs needs an estimate to correct by: add --noise-rate auto, or leave it out")

    from coteach.progress import RunProgress
    from coteach.results.run import Runner

    estimate = None
    with RunProgress(quiet=where.quiet) as progress:
        runner = Runner(
            where.out,
            device=where.device,
            threads=where.threads,
            checkpoint_every=where.checkpoint_every,
            on_progress=progress.step,
            on_message=progress.message,
        )
        if auto:
            from coteach.data import load_source
            from coteach.estimate.prepare import run_estimated
            from coteach.training.setup import draw_labels

            dataset = load_source(config.source)
            draw = draw_labels(config, dataset, saved_labels(noise))
            result, prepared = run_estimated(runner, config, dataset, draw)
            estimate = prepared.estimate
        else:
            if ("tau" in wants or known_rate) and noise == "none":
                progress.message("the noise rate is given, so there is no warm-up; --noise-rate auto often ends better")
            result = runner.run(config, labels=saved_labels(noise))
    _say(result, estimate, as_json=where.json)
    return 0


def _say(result: "Result", estimate: "Estimate | None", *, as_json: bool) -> None:
    """Print what came out."""
    from coteach.analysis.numbers import LAST_TEN, cell, label_precision, test_accuracy

    counted, number_said = result.epochs, LAST_TEN.said_of([len(result.epochs)])
    kept = result.summary.get("best_epoch")
    if kept is not None:  # the model is that epoch's
        counted = [record for record in result.epochs if record.epoch == kept]
        number_said = f"epoch {kept}, the best on the samples held out; mean over a method's networks"
    if result.config.noise == "none" and result.config.inputs.data_sha256 and not result.config.test:
        number_said += "; by the test labels as given, which may be wrong"
    accuracy, precision = LAST_TEN(counted, test_accuracy), LAST_TEN(counted, label_precision)
    if as_json:
        answer = {
            "folder": str(result.path),
            "already_done": result.already_done,
            "test_accuracy": accuracy,
            "label_precision": precision,
            "number": number_said,
            "estimate": None if estimate is None else estimate.to_dict(),
            "config": result.config.to_dict(),
            "summary": result.summary,
        }
        json.dump(answer, sys.stdout, indent=2)
        print()
        return
    if result.already_done:
        print("This run is done already; nothing was trained.")
    for title, number in (("test accuracy", cell([accuracy])), ("label precision", cell([precision]))):
        if number is not None:
            print(f"{title:<16} {number.percent()} %  ({number_said})")
    if estimate is not None:
        doubt = "" if estimate.trusted else "; in doubt"
        between = f"{100 * estimate.low:.1f} to {100 * estimate.high:.1f} %"
        print(f"{'wrong labels':<16} {100 * estimate.rate:.1f} %  (estimated, {between}{doubt})")
    print(f"{'folder':<16} {result.path}")


def _noise_rate(asked: str | float | None, wants: dict[str, Any]) -> tuple[dict[str, Any], bool | None]:
    """What `--noise-rate` says: a value for tau, and whether to estimate it (None for what suits the data)."""
    if asked is None:
        return {}, None
    if "tau" in wants:
        raise SettingError("--tau and --noise-rate say the same: leave one out")
    rate = share("noise_rate", asked)
    return ({}, True) if rate is None else ({"tau": rate}, False)


def _parse(argv: list[str]) -> tuple[dict[str, Any], Where]:
    """What the run should be, flags over file, and where to make it."""
    file = peek(argv, "--config")
    wanted = _from_file(Path(file)) if file else {}
    asked = {name: peek(argv, f"--{name}") or wanted.get(name) for name in ("method", "data", "recipe")}
    method = asked["method"] or "co-teaching"
    settings = list(catalogue.settings_of(method).values())
    flags_of_all = {field.name for field in _CHOICE} | {field.name for field in fields(Where)}
    for word in argv:
        name = word[2:].partition("=")[0].replace("-", "_")
        if word.startswith("--") and name not in flags_of_all:
            catalogue.check_setting(method, name)
    general = options("Run", [*_CHOICE, *config_fields().values()], _defaults(method, asked["data"], asked["recipe"]))
    own = options("Method", settings, {s.name: s.default for s in settings} | {"tau": "the noise rate"})

    def train(
        run: tyro.conf.OmitArgPrefixes[general],  # type: ignore[valid-type]
        method_settings: tyro.conf.OmitArgPrefixes[own],  # type: ignore[valid-type]
        where: tyro.conf.OmitArgPrefixes[Where],
    ) -> tuple[dict[str, Any], Where]:
        flags = given(run, [*_CHOICE, *config_fields().values()]) | given(method_settings, settings)
        return wanted | flags, where

    train.__doc__ = (
        "Train one method on one dataset. The same command again goes on where it stopped, or says that it is done. "
        f"The settings shown are those of {method}; --method NAME --help shows another's."
    )
    wants, where = tyro.cli(train, prog="coteach train", args=argv)
    wants.pop("config", None)
    return wants, where


def _from_file(path: Path) -> dict[str, Any]:
    """The settings in a TOML file, each of a known name and of its type."""
    wanted = read_toml(path)
    method = wanted.get("method", "co-teaching")
    known = {field.name: field for field in [*_CHOICE, *config_fields().values()]} | (
        catalogue.settings_of(method) if isinstance(method, str) else {}
    )
    return checked(wanted, known, path.name)


def _defaults(method: str, data: str | None, name: str | None) -> dict[str, Any]:
    """The settings that hold when nothing else is said, for the help."""
    try:
        own = data is not None and data not in CATALOGUE
        config = recipe("mnist" if own or data is None else data, method=method, name=name or ("own" if own else None))
    except CoteachError:
        config = recipe("mnist", method=method)
    hidden = {"data", "label", "test", "rate", "init_seed", "order_seed"}
    return {k: v for k, v in config.to_dict().items() if k not in hidden} | {"method": method, "seed": 1}
