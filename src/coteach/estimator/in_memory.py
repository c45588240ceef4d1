"""A whole training without a file: warm up, estimate, train, and stop early when somebody asks."""

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from coteach.config import Config
from coteach.data import Dataset
from coteach.estimate.halves import InterruptedWarmUp
from coteach.estimate.prepare import InterruptedCorrection, Prepared, fits, prepare
from coteach.nets import Network
from coteach.noise import Draw
from coteach.recipes import stage_one_of
from coteach.results.run import Progress
from coteach.results.saving import Stop
from coteach.training.arithmetic import settled, switches
from coteach.training.device import kept_random_state
from coteach.training.loop import EpochRecord, Trainer
from coteach.training.setup import draw_labels, make_trainer

LEAST = 8
"""Samples a class below which nothing is estimated: a network of the warm-up would have three or four to learn from.
Measured on parts of digits, wine, iris and breast-cancer: from there on the estimate gains up to 14 points of accuracy
where labels are wrong, and costs about one where they are right."""


@dataclass(frozen=True, eq=False)
class Trained:
    """What a training came to."""

    config: Config
    networks: Iterable[nn.Module]
    history: list[EpochRecord]
    ledger: Mapping[str, NDArray[Any]]
    """What the networks made of each sample, see `training/ledger.py`."""
    prepared: Prepared | None
    """The warm-up and its estimate; None without one."""
    warnings: list[str]
    """For the user, a line each."""


@dataclass(frozen=True, eq=False)
class InMemory:
    """A training that is to be made."""

    dataset: Dataset
    config: Config
    device: torch.device
    rate: float | None
    """The share of wrong labels, where the user knows it. The warm-up is made all the same: the networks start from
    it, and only a network that has not seen a label can judge it."""
    network: Network | None
    """What makes the networks; None for the config's."""
    loud: bool

    def train(self, stop: Stop) -> Trained:
        """Train to the end, or until `stop` is set: then the answer is what there is by then."""
        with switches(settled(self.config, self.device), self.device), kept_random_state(self.device):
            return self._train(draw_labels(self.config, self.dataset), stop)

    def _train(self, draw: Draw, stop: Stop) -> Trained:
        config, said = self.config, self._too_few()
        prepared: Prepared | None = None
        initial: Sequence[Mapping[str, Tensor]] = ()
        if not self._few:
            try:
                prepared = self._prepare(draw)
            except InterruptedCorrection as stopped:
                prepared = stopped.prepared  # the training below will end at once
            except InterruptedWarmUp as stopped:
                half_warm = self._trainer(config, draw, stopped.weights).networks[: len(stopped.weights)]
                where = f"stopped as asked in the warm-up, after epoch 0 of {config.epochs}"
                return Trained(config, half_warm, [], {}, None, [f"{where}: the noise rate is not estimated"])
            config, initial = prepared.config, prepared.initial
            said += self._doubts(prepared)
        elif self.rate is not None and "tau" in config.settings:
            config = replace(config, settings={**config.settings, "tau": self.rate})
        trainer, history, stage = self._stages(config, draw, initial, stop)
        if stage or not trainer.over:
            said.append(
                f"stopped as asked after epoch {len(history)} of {config.epochs}{stage}: the model works as it is"
            )
        said += trainer.warnings.values()
        ledger = {} if trainer.ledger is None else trainer.ledger.state_dict()
        arrays = {name: value.cpu().numpy() for name, value in ledger.items()}
        return Trained(config, trainer.networks, history, arrays, prepared, said)

    def _stages(
        self, config: Config, draw: Draw, initial: Sequence[Mapping[str, Tensor]], stop: Stop
    ) -> tuple[Trainer, list[EpochRecord], str]:
        """Train, after a Standard training if the method wants one to learn from; returns the last stage made."""
        taught: Mapping[str, Tensor] | None = None
        before = stage_one_of(config)
        if before is not None:
            trainer = self._trainer(before, draw, initial)
            history = self._epochs(trainer, stop)
            if stop.is_set() or not trainer.over:
                return trainer, history, " in stage one"
            taught = trainer.networks[0].state_dict()
        trainer = self._trainer(config, draw, initial, taught)
        return trainer, self._epochs(trainer, stop), ""

    def _epochs(self, trainer: Trainer, stop: Stop) -> list[EpochRecord]:
        """Train until the end or the stop, and leave in the networks the weights to keep."""
        history: list[EpochRecord] = []
        try:
            while not trainer.over and not stop.is_set():
                for _ in trainer.run_epoch():
                    if stop.is_set():
                        break
                if trainer.steps_done in (0, trainer.steps_per_epoch):
                    history.append(trainer.finish_epoch())
                    self._tell(_line(history[-1], trainer.config))
        except KeyboardInterrupt:
            if stop.is_set():
                raise  # the second one, which does not wait
            stop.set()  # the first one, in a thread that hears no signals
        trainer.check()
        trainer.networks.load_state_dict(trainer.weights)
        return history

    def _prepare(self, draw: Draw) -> Prepared:
        return prepare(
            self.config,
            self.dataset,
            draw,
            device=self.device,
            rate=self.rate,
            network=self.network,
            on_progress=self._tell_of_warm_up,
            on_message=self._tell,
        )

    def _trainer(
        self,
        config: Config,
        draw: Draw,
        initial: Sequence[Mapping[str, Tensor]],
        taught: Mapping[str, Tensor] | None = None,
    ) -> Trainer:
        return make_trainer(
            config, self.dataset, draw, device=self.device, network=self.network, stage_one=taught, initial=initial
        )

    @property
    def _few(self) -> bool:
        return len(self.dataset.y_train) < LEAST * self.dataset.classes

    def _too_few(self) -> list[str]:
        """What to say if nothing is estimated."""
        if not self._few or self.rate is not None:
            return []
        size = f"{len(self.dataset.y_train)} samples of {self.dataset.classes} classes"
        return [
            f"{size} are too few to estimate the noise rate: all labels are believed; give noise_rate if you know it"
        ]

    def _doubts(self, prepared: Prepared) -> list[str]:
        """What to say of an estimate that is used and may be wrong."""
        found = prepared.estimate
        if self.rate is not None:
            if fits(found, self.rate) or "tau" not in self.config.settings:
                return []
            between = f"{100 * found.low:.0f} to {100 * found.high:.0f} %"
            return [f"noise_rate {100 * self.rate:g} % is used, and the labels look like {between}: try 'auto'"]
        if found.trusted:
            return []
        return [f"the noise rate may not be {100 * found.rate:.0f} %: {'; '.join(found.warnings)}"]

    def _tell_of_warm_up(self, now: Progress) -> None:
        if now.step == now.steps:
            self._tell(f"{now.config.method}: epoch {now.epoch} of at most {now.config.epochs}")

    def _tell(self, line: str) -> None:
        if self.loud:
            print(line, file=sys.stderr, flush=True)


def _line(record: EpochRecord, config: Config) -> str:
    """An epoch in one line."""
    numbers = {"loss": record.train_loss, "picked": record.picked, "held-out loss": record.held_out_loss}
    said = [f"{name} {' '.join(f'{value:.3f}' for value in values)}" for name, values in numbers.items() if values]
    return f"epoch {record.epoch} of {config.epochs}: {', '.join(said)}"
