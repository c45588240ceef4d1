"""The training loop: the only backward and the only optimizer step of the project."""

import copy
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from coteach.batches import Batch, Batches, TestSet
from coteach.config import Config
from coteach.errors import TrainingError
from coteach.methods.base import Method, checked_step
from coteach.training.arithmetic import Arithmetic
from coteach.training.captured import CapturedStep, warm_up
from coteach.training.device import seed_of
from coteach.training.guard import collapse
from coteach.training.ledger import Ledger
from coteach.training.schedule import beta1, learning_rate


@dataclass(frozen=True)
class EpochRecord:
    """What an epoch measured; one number for each network in every tuple, shares in [0, 1]."""

    epoch: int
    test_accuracy: tuple[float, ...]
    train_loss: tuple[float, ...]
    """Mean over the steps of the loss that the network learned from; empty in an epoch that only evaluates."""
    label_precision: tuple[float, ...]
    """Clean share of the samples a network picked, averaged over batches; empty where the truth is unknown."""
    picked: tuple[float, ...]
    """Share of the samples that the network picked."""
    held_out_loss: tuple[float, ...] = ()
    """The method's loss on held-out samples with their noisy labels; empty where none are held out."""


class Verdict(NamedTuple):
    """What a batch comes to."""

    loss: Tensor
    """The sum of the networks' losses."""
    nothing: Tensor
    """1.0 where there is nothing to learn from, for a network picked no sample, else 0.0."""
    counts: Tensor
    """For each network: loss, share picked, label precision, and 1 where it has a precision; float64."""
    picked: Tensor
    """[network, sample]: what each network chose."""


def judge(method: Method, logits: Sequence[Tensor], batch: Batch, epoch: Tensor) -> Verdict:
    """Ask the method, and count what it said. Many small operations, which a GPU likes better compiled into few."""
    step = checked_step(method, method.step(logits, batch, epoch), len(logits), len(batch))
    losses, picked = torch.stack(step.losses), torch.stack(step.picked)
    chosen = picked.sum(1)
    counts = [losses.detach().double(), chosen.double() / len(batch)]
    if batch.clean is None:
        counts += [torch.zeros_like(counts[0])] * 2
    else:
        right = (picked & batch.clean).sum(1)
        counts += [right.double() / chosen.clamp(min=1), (chosen > 0).double()]  # without picks, no precision
    return Verdict(losses.sum(), (chosen == 0).any().float(), torch.stack(counts), picked)


class Trainer:
    """The networks of one run, their optimisers, and where in the run they stand."""

    def __init__(
        self,
        config: Config,
        networks: Sequence[nn.Module],
        method: Method,
        batches: Batches,
        *,
        test: TestSet,
        held_out: TestSet | None = None,
        ledger: Ledger | None = None,
        class_names: Sequence[str] = (),
    ) -> None:
        self.config = config
        self.networks = nn.ModuleList(networks)
        self.method = method
        self.batches = batches
        self.test = test
        self.held_out = held_out
        self.ledger = ledger
        self.class_names = class_names or [str(c) for c in range(method.classes)]
        self.best: dict[str, Any] = {"loss": math.inf, "epoch": 0, "weights": {}}
        self.device = test.y.device
        owned = [list(net.parameters()) for net in networks]
        owned[0] += method.parameters()  # what a method learns, it learns with the first network
        self.arithmetic = Arithmetic(networks, config, self.device)
        self._judge = self.arithmetic.compiled(judge)
        captured = self.arithmetic.captured
        self.optimisers = [
            torch.optim.Adam(
                mine,
                lr=torch.tensor(config.lr, device=self.device) if captured else config.lr,
                fused=True,
                capturable=captured,
            )
            for mine in owned
        ]
        self.epoch = 1
        self.steps_done = 0
        self.warnings: dict[str, str] = {}
        """What the guard has seen, each kind once."""
        # Sums stay on the device and are read once an epoch, so that no step waits for the host.
        self._sums = torch.zeros(4, len(networks), dtype=torch.float64, device=self.device)
        self._by_class = torch.zeros(len(networks) + 1, method.classes, device=self.device)
        self._epoch = torch.tensor(1, device=self.device)
        self._captured: CapturedStep | None = None

    @property
    def steps_per_epoch(self) -> int:
        """Steps in an epoch that trains."""
        limit = self.config.max_steps
        return min(len(self.batches), limit) if limit else len(self.batches)

    @property
    def over(self) -> bool:
        """Whether all epochs are made, or the samples held out have shown for long enough that more are no use."""
        no_better = self.epoch - 1 - max(self.best["epoch"], self.config.idle_epochs)
        given_up = self.held_out is not None and 0 < self.config.patience <= no_better
        return self.epoch > self.config.epochs or given_up

    def run_epoch(self) -> Iterator[None]:
        """Train for what is left of the current epoch. After each step it yields: then the state may be saved."""
        if self.epoch <= self.config.idle_epochs:
            return
        if self.steps_done == 0:
            torch.manual_seed(seed_of(self.config.order_seed, self.epoch))  # of dropout
        rate, momentum = learning_rate(self.config, self.epoch), beta1(self.config, self.epoch)
        for optimiser in self.optimisers:
            for group in optimiser.param_groups:
                if isinstance(group["lr"], Tensor):
                    group["lr"].fill_(rate)
                else:
                    group["lr"] = rate
                if group["betas"][0] != momentum:
                    group["betas"] = (momentum, group["betas"][1])
                    self._captured = None  # it holds the old one
        self.networks.train()
        self._epoch.fill_(self.epoch)
        for inputs in self.batches.ahead(self.config.order_seed, self.epoch, self.steps_done, self.steps_per_epoch):
            if self.arithmetic.captured and len(inputs[0]) == self.config.batch_size:
                self._captured = self._captured or self._capture(inputs)
                self._captured(*inputs)
            else:
                self._step(*inputs)
            self.steps_done += 1
            yield

    def _capture(self, inputs: tuple[Tensor, ...]) -> CapturedStep:
        """The step as one graph. What the warm-up changes is put back, so that it trains nothing."""
        before = copy.deepcopy(self.state())
        warm_up(self._step, inputs)
        self.load_state(before)
        self._create_moments()
        return CapturedStep(self._step, inputs)

    def _create_moments(self) -> None:
        """Adam makes its moments at its first step; inside a graph they would be made anew at each replay."""
        for optimiser in self.optimisers:
            for group in optimiser.param_groups:
                for parameter in group["params"]:
                    if not optimiser.state[parameter]:
                        optimiser.state[parameter] = {
                            "step": torch.zeros((), device=self.device),
                            "exp_avg": torch.zeros_like(parameter),
                            "exp_avg_sq": torch.zeros_like(parameter),
                        }

    def _step(self, *inputs: Tensor) -> None:
        batch = self.batches.take(*inputs)
        logits = self.arithmetic.logits(batch.x)
        verdict = self._judge(self.method, logits, batch, self._epoch)
        for optimiser in self.optimisers:
            optimiser.zero_grad(set_to_none=True)
        verdict.loss.backward()  # type: ignore[no-untyped-call]
        # Fused Adam leaves weights, moments and step count alone when told that a gradient overflowed. A step
        # with nothing to learn from uses that: zero gradients would still move the weights by momentum.
        for optimiser in self.optimisers:
            optimiser.found_inf = verdict.nothing  # type: ignore[attr-defined]
        self.arithmetic.side_by_side([optimiser.step for optimiser in self.optimisers])
        self._sums += verdict.counts
        if self.ledger is not None:
            self.ledger.note(inputs[0], batch.y, logits, verdict.picked)
        if self.config.guard != "off":
            chosen = torch.cat([verdict.picked, torch.ones_like(verdict.picked[:1])]).float()
            self._by_class.index_add_(1, batch.y, chosen)

    def finish_epoch(self) -> EpochRecord:
        """Evaluate, answer what the epoch measured, and move on to the next one."""
        self.check()
        loss, picked, precision, counted = self._sums.cpu().numpy()
        steps = max(self.steps_done, 1)
        trained = self.steps_done > 0
        known = trained and self.batches.truth_known and counted.all()
        held_out = self._held_out_loss()
        record = EpochRecord(
            epoch=self.epoch,
            test_accuracy=self.evaluate(),
            train_loss=_numbers(loss / steps) if trained else (),
            label_precision=_numbers(precision / counted) if known else (),
            picked=_numbers(picked / steps) if trained else (),
            held_out_loss=held_out,
        )
        if held_out and np.mean(held_out) < self.best["loss"]:
            weights = {name: value.clone() for name, value in self.networks.state_dict().items()}
            self.best = {"loss": float(np.mean(held_out)), "epoch": self.epoch, "weights": weights}
        self.epoch += 1
        self.steps_done = 0
        self._sums.zero_()
        self._by_class.zero_()
        return record

    @torch.no_grad()
    def evaluate(self) -> tuple[float, ...]:
        """The test accuracy of each network; none without test samples."""
        if not len(self.test):
            return ()
        self.networks.eval()
        right = torch.zeros(len(self.networks), dtype=torch.int64, device=self.device)
        for x, y in self.test:
            right += torch.stack([(z.argmax(1) == y).sum() for z in self.arithmetic.logits(x)])
        return tuple(count / len(self.test) for count in right.tolist())

    @torch.no_grad()
    def _held_out_loss(self) -> tuple[float, ...]:
        if self.held_out is None:
            return ()
        self.networks.eval()
        answers, labels = zip(*((torch.stack(self.arithmetic.logits(x)), y) for x, y in self.held_out), strict=True)
        known = torch.cat(labels)
        return tuple(self.method.held_out_loss(z.double(), known).item() for z in torch.cat(answers, 1))

    @torch.no_grad()
    def log_probabilities(self, samples: TestSet) -> Tensor:
        """What each network says of samples: [network, sample, class]."""
        self.networks.eval()
        parts = [torch.stack(self.arithmetic.logits(x)).double().log_softmax(2) for x, _ in samples]
        return torch.cat(parts, 1)

    @property
    def weights(self) -> dict[str, Tensor]:
        """The weights to keep: the best epoch's where samples are held out to choose it, else the last's."""
        return self.best["weights"] or self.networks.state_dict()

    def check(self) -> None:
        """Raise a TrainingError if a loss of this epoch is not finite, or, with a guard, if training has collapsed."""
        loss = self._sums[0]
        if not bool(loss.isfinite().all()):
            raise TrainingError(
                f"the loss became {'NaN' if bool(loss.isnan().any()) else 'infinite'} in epoch {self.epoch}: "
                "lower the learning rate (lr) or look for extreme values in the data"
            )
        if self.config.guard != "off" and self.steps_done == self.steps_per_epoch:
            self._guard()

    def _guard(self) -> None:
        *picked, seen = self._by_class
        if self.method.leaves_classes:
            seen = torch.zeros_like(seen)
        complaint = collapse(list(self.networks), torch.stack(picked), seen, self.class_names)
        if complaint is None:
            return
        if self.config.guard == "stop":
            raise TrainingError(f"epoch {self.epoch}: {complaint}")
        self.warnings.setdefault(complaint.partition(":")[0], f"epoch {self.epoch}: {complaint}")

    def state(self) -> dict[str, Any]:
        """All that the rest of the run depends on, as tensors and plain values."""
        return {
            "epoch": self.epoch,
            "steps": self.steps_done,
            "sums": self._sums,
            "by_class": self._by_class,
            "ledger": {} if self.ledger is None else self.ledger.state_dict(),
            "networks": self.networks.state_dict(),
            "method": self.method.state_dict(),
            "best": self.best,
            "moments": [optimiser.state_dict()["state"] for optimiser in self.optimisers],
            "random": torch.get_rng_state(),
            "random_cuda": torch.cuda.get_rng_state(self.device) if self.device.type == "cuda" else None,
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Go on from a state that `state` gave, on this device or another."""
        self.epoch = state["epoch"]
        self.steps_done = state["steps"]
        self._sums.copy_(state["sums"])
        if "by_class" in state:  # checkpoints of version 0.1.0 have none
            self._by_class.copy_(state["by_class"])
        if self.ledger is not None:
            self.ledger.load_state_dict(state["ledger"])
        self.networks.load_state_dict(state["networks"])
        self.method.load_state_dict(state["method"])
        self.best = state["best"]
        for optimiser, moments in zip(self.optimisers, state["moments"], strict=True):
            # the groups say how this device steps, and are not the state's
            optimiser.load_state_dict({"state": moments, "param_groups": optimiser.state_dict()["param_groups"]})
        self._captured = None
        torch.set_rng_state(state["random"].cpu())
        if self.device.type == "cuda" and state["random_cuda"] is not None:
            torch.cuda.set_rng_state(state["random_cuda"].cpu(), self.device)


def _numbers(values: Any) -> tuple[float, ...]:
    return tuple(float(value) for value in values)
