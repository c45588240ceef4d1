"""Run a config in its folder: start it, or go on where it stopped, or find it done."""

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from coteach.config import Config
from coteach.data import CATALOGUE, Dataset, load_source
from coteach.data.notes import first_few
from coteach.errors import DataError, SettingError
from coteach.function_source import source_sha256
from coteach.methods import catalogue
from coteach.methods.two_stage import TwoStageMethod
from coteach.nets import Network, count_parameters, function_named, name_of
from coteach.noise import Draw, load_draw
from coteach.recipes import stage_one_of
from coteach.results.checkpoint import Checkpoints
from coteach.results.environment import environment
from coteach.results.folder import RunFolder
from coteach.results.saving import Saver, stop_requests
from coteach.results.weights import Description, read_description, read_weights, write_weights
from coteach.samples import Streamed
from coteach.training.arithmetic import settled, switches
from coteach.training.device import choose_device, kept_random_state, threads
from coteach.training.loop import EpochRecord, Trainer
from coteach.training.setup import draw_labels, make_trainer, threads_that_pay


class InterruptedRun(KeyboardInterrupt):
    """The run was stopped from outside and saved where it stood; no `except Exception` must keep it from ending."""


@dataclass(frozen=True)
class Progress:
    """Where a run stands, told after each step."""

    config: Config
    epoch: int
    step: int
    steps: int
    record: EpochRecord | None = None
    """What the epoch measured, when this step was its last."""
    over: bool = False
    """Whether it ended before its last epoch, and there is no more to tell."""


@dataclass(frozen=True)
class Result:
    """A finished run."""

    config: Config
    path: Path
    epochs: list[EpochRecord]
    summary: dict[str, Any]
    already_done: bool = False
    """Whether the folder held the finished run before this call."""

    @property
    def device_seconds(self) -> float:
        """Seconds of a device that the run took: of the time that runs spent on one side by side, its share."""
        return device_seconds(self.summary)


def device_seconds(summary: Mapping[str, Any]) -> float:
    """Seconds of a device that the run of this summary took; runs that do not say had it for themselves."""
    return float(summary.get("device_seconds", summary["seconds"]))


def read_result(path: Path | str, *, weights: bool = True) -> Result:
    """The finished run in a folder; `weights` says whether its networks must be there."""
    path = Path(path)
    folder = RunFolder(path)
    if not folder.done:
        raise DataError(f"{path} holds no finished run: run it to its end first")
    config, epochs = folder.config(), folder.epochs()
    summary = folder.summary()
    if len(epochs) != epochs_made(config, summary) or (weights and not folder.weights_file.exists()):
        raise DataError(f"{path} has lost a part of its finished run: delete the folder and run again")
    return Result(config, path, epochs, summary, already_done=True)


def epochs_made(config: Config, summary: Mapping[str, Any]) -> int:
    """How many epochs a finished run has: those of its config, unless it was one to stop earlier."""
    made: int = summary["epochs"] if config.patience else config.epochs
    return made


def whole(config: Config, device: torch.device, network: Network | None = None) -> Config:
    """The config as its folder names it: settled for a device, with hashes of the sources that it depends on."""
    config = settled(config.effective, device)
    if network is not None:
        config = replace(config, network=name_of(network))
    return replace(config, inputs=replace(config.inputs, **sources(config, network)))


def sources(config: Config, network: Network | None = None) -> dict[str, Any]:
    """Hashes of the sources that a config depends on, as they are now."""
    found: dict[str, Any] = {"method_sha256": catalogue.source_sha256(config.method)}
    if ":" in config.network:
        found["network_sha256"] = source_sha256(network or function_named(config.network))
    return found


def run(
    config: Config,
    out: Path | str,
    *,
    dataset: Dataset | None = None,
    labels: Draw | None = None,
    network: Network | None = None,
    **how: Any,
) -> Result:
    """Train a config in its folder under `out` and answer the finished run.

    A run that was stopped or killed goes on from its last checkpoint and ends as if it had not been. `dataset`
    saves loading it again, `labels` are those of a config with saved labels, `network` replaces the config's
    network by a function of (shape, classes). `how` are the fields of `Runner`, such as `device`; what there is to say
    goes to the log `coteach`, unless `on_message` takes it.
    """
    how.setdefault("on_message", logging.getLogger("coteach").warning)
    return Runner(Path(out), **how).run(config, dataset=dataset, labels=labels, network=network)


@dataclass(frozen=True)
class Runner:
    """Runs configs in folders under `out`."""

    out: Path
    device: str = "auto"
    threads: int = 0
    """CPU threads; 0 for as many as pay: one for a small network, else one a core."""
    checkpoint_every: float = 30.0
    """Seconds between checkpoints."""
    on_progress: Callable[[Progress], None] = lambda progress: None
    on_message: Callable[[str], None] = lambda message: None
    sharing: Callable[[], int] = lambda: 1
    """How many runs are on the device now: of the time they spend there side by side, each counts its share."""
    _told: set[str] = field(default_factory=set, init=False, repr=False, compare=False)
    """What was told: the runs of a grid need not repeat it."""

    def __post_init__(self) -> None:
        """Refuse a pause between checkpoints that is negative or endless."""
        if not 0 <= self.checkpoint_every < math.inf:
            raise SettingError(f"checkpoint_every is {self.checkpoint_every}: give seconds, 0 or more")

    def run(
        self,
        config: Config,
        *,
        dataset: Dataset | None = None,
        labels: Draw | None = None,
        network: Network | None = None,
        initial: Sequence[Mapping[str, Tensor]] = (),
        wait: bool = False,
        summary: Mapping[str, Any] | None = None,
    ) -> Result:
        """The finished run of a config; `wait` for another process that works on it instead of refusing.

        `initial` are the weights that the networks start with, where the config says that there are some; `summary` is
        what the run's summary is to say besides.
        """
        device = choose_device(self.device)
        config = whole(config, device, network)
        folder = RunFolder(self.out / config.name)
        if folder.done:
            Checkpoints(folder.path).remove()  # a kill just before the end may have left them
            return read_result(folder.path)
        if dataset is None and config.data not in CATALOGUE and not Path(config.data).expanduser().exists():
            raise DataError(f"{config.data} is not here: give run(..., dataset=...), or go to where the file is")
        dataset = dataset or load_source(config.source)
        _check_data(config, dataset)
        self.tell(*dataset.notes)
        if config.inputs.data_sha256 and config.noise == "none" and config.settings.get("tau") == 0 and not initial:
            self.on_message(
                "tau is 0, so every label is believed: give tau, the share of wrong labels, or have it estimated by "
                "`coteach train` or NoisyLabelClassifier"
            )
        if labels is not None and config.noise != "labels":
            raise SettingError(
                f"labels are given, and the config's noise is {config.noise}: describe it with noise=labels"
            )
        if labels is None and config.noise == "labels" and folder.labels_file.exists():
            labels = load_draw(folder.labels_file)
        if config.inputs.warm_up_sha256 is not None and not initial:
            raise SettingError("this run starts from a warm-up: run the command that made it again")
        draw = draw_labels(config, dataset, labels)
        before = stage_one_of(config)
        taught = None
        if before is not None:
            first = self.run(before, dataset=dataset, labels=labels, network=network, initial=initial, wait=True)
            taught = _first_network(first.path)
        number = self.threads or threads_that_pay(config, dataset, network)
        with threads(number), switches(config, device), kept_random_state(device):
            trainer = make_trainer(
                config, dataset, draw, device=device, network=network, stage_one=taught, initial=initial
            )
            if isinstance(trainer.batches.samples, Streamed):
                size = (dataset.x_train.nbytes + dataset.x_test.nbytes) / 2**30
                self.on_message(f"{size:.1f} GiB of data are too much for the device's memory: streaming them to it")
            with folder.claimed(on_wait=self.on_message if wait else None):
                waited = folder.done  # another process finished it in the meantime
                if not waited:
                    self._work(trainer, folder, dataset, draw, summary or {})
        return replace(read_result(folder.path), already_done=waited)

    def tell(self, *notes: str) -> None:
        """Say what a user should know about the data or the training, each note once."""
        for note in notes:
            if note not in self._told:
                self._told.add(note)
                self.on_message(note)

    def _work(
        self, trainer: Trainer, folder: RunFolder, dataset: Dataset, draw: Draw, besides: Mapping[str, Any]
    ) -> None:
        """Train what is left, then write weights and summary."""
        self.tell(*_mistaken_classes(draw, dataset.class_names))
        folder.start(trainer.config, draw)
        first = _believed(trainer)
        saver = Saver(trainer, Checkpoints(folder.path), self.checkpoint_every, self.sharing)
        saver.restore(self.on_message, keep_threads=self.threads == 0)
        stopped = self._train(saver, folder)
        about = Description.of(trainer.config, dataset, len(trainer.networks))
        write_weights(folder.path, trainer.weights, about)
        if trainer.ledger is not None:
            folder.write_evidence(trainer.ledger)
        known = trainer.config.noise != "none" or trainer.config.inputs.data_sha256 is None
        saver.count()
        summary = {
            "epochs": len(saver.epochs),
            "seconds": round(saver.seconds, 3),
            "device_seconds": round(saver.device_seconds, 3),
            "noise_rate": draw.rate if known else None,
            "noise_matrix": draw.realised.tolist() if known else None,
            "labels_sha256": draw.sha256,
            "data_sha256": dataset.fingerprint,
            "class_names": list(dataset.class_names),
            "train_samples": len(trainer.batches.rows),
            "test_samples": len(trainer.test),
            "parameters": [count_parameters(net) for net in trainer.networks],
            "environment": environment(trainer.device),
        }
        if trainer.held_out is not None:
            summary["best_epoch"] = trainer.best["epoch"]
        if first is not None:
            summary |= {"matrix_of_stage_one": first, "matrix_at_the_end": _believed(trainer)}
        summary |= besides
        folder.rewrite_epochs(saver.epochs)  # lines that were appended may not have reached the disk
        folder.finish(summary)
        saver.checkpoints.remove()
        if stopped:
            raise InterruptedRun(f"stopped as asked; {folder.path} is done")

    def _train(self, saver: Saver, folder: RunFolder) -> bool:
        """Train from where the trainer stands to the end of the run; returns whether a stop came too late for it."""
        trainer, config = saver.trainer, saver.trainer.config
        folder.rewrite_epochs(saver.epochs)
        with stop_requests() as stop:

            def pause() -> None:
                saver.count()
                if stop.is_set() or saver.due:
                    saver.save()
                if stop.is_set():
                    raise InterruptedRun(
                        f"stopped in epoch {trainer.epoch} of {config.epochs} and saved in {folder.path}: "
                        "run the same command again to go on"
                    )

            steps = trainer.steps_per_epoch
            while not trainer.over:
                for _ in trainer.run_epoch():
                    self.on_progress(Progress(config, trainer.epoch, trainer.steps_done, steps))
                    pause()
                record = trainer.finish_epoch()
                self.tell(*trainer.warnings.values())
                saver.epochs.append(record)
                folder.append(record)
                self.on_progress(Progress(config, record.epoch, steps, steps, record))
                if not trainer.over:
                    pause()
            if trainer.epoch <= config.epochs:
                self.on_progress(Progress(config, trainer.epoch, 0, steps, over=True))
            return stop.is_set()


def _mistaken_classes(draw: Draw, names: Sequence[str]) -> list[str]:
    """The line about classes that mostly have another one's label, if there are any."""
    found = [f"{names[true]} (as {names[given]})" for true, given in draw.mistaken]
    if not found:
        return []
    return [
        f"in some classes more labels are those of one other class than their own: {first_few(found)}; a method that "
        "sees only the labels confuses the two" + (": another noise_seed may be better" if draw.unlucky else "")
    ]


def _check_data(config: Config, dataset: Dataset) -> None:
    """Refuse a dataset that is not the one of the config; a known one is known by its size and its classes."""
    if config.inputs.data_sha256 is not None:
        if config.inputs.data_sha256 != dataset.fingerprint:
            raise DataError(f"{config.data} has changed since this run was described: describe it anew")
        return
    if config.data not in CATALOGUE:
        raise SettingError(f"this config of {config.data} does not say what is in it: describe the run with recipe()")
    known = CATALOGUE[config.data]
    right = (known.train, known.test, known.class_names)
    if (len(dataset.y_train), len(dataset.y_test), dataset.class_names) != right:
        raise DataError(f"the dataset given is not {known.name}: describe the run with recipe(dataset) instead")


def _believed(trainer: Trainer) -> list[list[float]] | None:
    """How labels go wrong by a two-stage method, in four digits; None if it does not say."""
    matrix = trainer.method.believed() if isinstance(trainer.method, TwoStageMethod) else None
    if matrix is None:
        return None
    if not isinstance(matrix, Tensor) or matrix.ndim != 2:
        raise SettingError(
            f"{type(trainer.method).__name__}.believed() must return a matrix, a tensor of two dimensions"
        )
    return [[round(share, 4) for share in row] for row in matrix.tolist()]


def _first_network(path: Path) -> dict[str, Tensor]:
    """The weights of a run's first network."""
    described = RunFolder(path).model_file.exists()  # not by an older version
    tensors = read_weights(path, read_description(path) if described else None)
    return {name.removeprefix("0."): value for name, value in tensors.items() if name.startswith("0.")}
