"""The training loop: the only backward and the only optimizer step of the project."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from coteach.batches import Batch, Batches, TestSet
from coteach.config import Config
from coteach.errors import TrainingError
from coteach.methods.base import Method, Step
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
    """Mean cross entropy on held-out samples with their noisy labels; empty where none are held out."""


class Sums:
    """What an epoch adds up. Stays on the device and is read once, so that no step waits for the host."""

    def __init__(self, networks: int, device: torch.device) -> None:
        self.values = torch.zeros(4, networks, dtype=torch.float64, device=device)
        self.steps = 0

    def add(self, step: Step, batch: Batch) -> None:
        """Count one step in."""
        picked = torch.stack(step.picked)
        chosen = picked.sum(1)
        self.values[0] += torch.stack(step.losses).detach()
        self.values[1] += chosen / len(batch)
        if batch.clean is not None:
            self.values[2] += (picked & batch.clean).sum(1) / chosen.clamp(min=1)
            self.values[3] += chosen > 0  # a batch without picks has no precision
        self.steps += 1


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
    ) -> None:
        self.config = config
        self.networks = nn.ModuleList(networks)
        self.method = method
        self.batches = batches
        self.test = test
        self.held_out = held_out
        self.best: dict[str, Any] = {"loss": math.inf, "epoch": 0, "weights": {}}
        self.device = batches.y.device
        owned = [list(net.parameters()) for net in networks]
        owned[0] += method.parameters()  # what a method learns, it learns with the first network
        self.optimisers = [torch.optim.Adam(mine, lr=config.lr, fused=True) for mine in owned]
        self.epoch = 1
        self._sums = Sums(len(networks), self.device)

    @property
    def steps_per_epoch(self) -> int:
        """Steps in an epoch that trains."""
        limit = self.config.max_steps
        return min(len(self.batches), limit) if limit else len(self.batches)

    @property
    def steps_done(self) -> int:
        """Steps done in the epoch that is under way."""
        return self._sums.steps

    def run_epoch(self) -> Iterator[None]:
        """Train for what is left of the current epoch. After each step it yields: then the state may be saved."""
        if self.epoch <= self.config.idle_epochs:
            return
        if self.steps_done == 0:
            torch.manual_seed(_seed(self.config.order_seed, self.epoch))  # of dropout
        rate, momentum = learning_rate(self.config, self.epoch), beta1(self.config, self.epoch)
        for optimiser in self.optimisers:
            for group in optimiser.param_groups:
                group["lr"], group["betas"] = rate, (momentum, group["betas"][1])
        self.networks.train()
        epoch = torch.tensor(self.epoch, device=self.device)
        order = self.batches.order(self.config.order_seed, self.epoch)
        size = self.config.batch_size
        for step in range(self.steps_done, self.steps_per_epoch):
            self._step(self.batches.take(order[step * size : (step + 1) * size]), epoch)
            yield

    def _step(self, batch: Batch, epoch: Tensor) -> None:
        step = self.method.step([net(batch.x) for net in self.networks], batch, epoch)
        for optimiser in self.optimisers:
            optimiser.zero_grad(set_to_none=True)
        torch.stack(step.losses).sum().backward()  # type: ignore[no-untyped-call]
        # Fused Adam leaves weights, moments and step count alone when told that a gradient overflowed. A step
        # with nothing to learn from uses that: zero gradients would still move the weights by momentum.
        nothing = torch.stack([mask.any() for mask in step.picked]).all().logical_not().float()
        for optimiser in self.optimisers:
            optimiser.found_inf = nothing  # type: ignore[attr-defined]
            optimiser.step()
        self._sums.add(step, batch)

    def finish_epoch(self) -> EpochRecord:
        """Evaluate, answer what the epoch measured, and move on to the next one."""
        self.check()
        loss, picked, precision, counted = self._sums.values.cpu().numpy()
        steps = max(self._sums.steps, 1)
        trained = self._sums.steps > 0
        known = trained and self.batches.clean is not None
        held_out = self._held_out_loss()
        record = EpochRecord(
            epoch=self.epoch,
            test_accuracy=self.evaluate(),
            train_loss=_numbers(loss / steps) if trained else (),
            label_precision=_numbers(precision / np.maximum(counted, 1)) if known else (),
            picked=_numbers(picked / steps) if trained else (),
            held_out_loss=held_out,
        )
        if held_out and np.mean(held_out) < self.best["loss"]:
            weights = {name: value.clone() for name, value in self.networks.state_dict().items()}
            self.best = {"loss": float(np.mean(held_out)), "epoch": self.epoch, "weights": weights}
        self.epoch += 1
        self._sums = Sums(len(self.networks), self.device)
        return record

    @torch.no_grad()
    def evaluate(self) -> tuple[float, ...]:
        """The test accuracy of each network."""
        self.networks.eval()
        right = torch.zeros(len(self.networks), dtype=torch.int64, device=self.device)
        for x, y in self.test:
            right += torch.stack([(net(x).argmax(1) == y).sum() for net in self.networks])
        return tuple(count / len(self.test) for count in right.tolist())

    @torch.no_grad()
    def _held_out_loss(self) -> tuple[float, ...]:
        if self.held_out is None:
            return ()
        self.networks.eval()
        total = torch.zeros(len(self.networks), dtype=torch.float64, device=self.device)
        for x, y in self.held_out:
            total += torch.stack([F.cross_entropy(net(x), y, reduction="sum").double() for net in self.networks])
        return tuple((total / len(self.held_out)).tolist())

    @property
    def weights(self) -> dict[str, Tensor]:
        """The weights to keep: the best epoch's where samples are held out to choose it, else the last's."""
        return self.best["weights"] or self.networks.state_dict()

    def check(self) -> None:
        """Raise a TrainingError if a loss of this epoch is not finite."""
        loss = self._sums.values[0]
        if not bool(loss.isfinite().all()):
            raise TrainingError(
                f"the loss became {'NaN' if bool(loss.isnan().any()) else 'infinite'} in epoch {self.epoch}: "
                "lower the learning rate (--lr) or look for extreme values in the data"
            )

    def state(self) -> dict[str, Any]:
        """All that the rest of the run depends on, as tensors and plain values."""
        return {
            "epoch": self.epoch,
            "steps": self._sums.steps,
            "sums": self._sums.values,
            "networks": self.networks.state_dict(),
            "method": self.method.state_dict(),
            "best": self.best,
            "optimisers": [optimiser.state_dict() for optimiser in self.optimisers],
            "random": torch.get_rng_state(),
            "random_cuda": torch.cuda.get_rng_state(self.device) if self.device.type == "cuda" else None,
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Go on from a state that `state` gave, on this device or another."""
        self.epoch = state["epoch"]
        self._sums = Sums(len(self.networks), self.device)
        self._sums.steps = state["steps"]
        self._sums.values.copy_(state["sums"])
        self.networks.load_state_dict(state["networks"])
        self.method.load_state_dict(state["method"])
        self.best = state["best"]
        for optimiser, saved in zip(self.optimisers, state["optimisers"], strict=True):
            optimiser.load_state_dict(saved)
        torch.set_rng_state(state["random"].cpu())
        if self.device.type == "cuda" and state["random_cuda"] is not None:
            torch.cuda.set_rng_state(state["random_cuda"].cpu(), self.device)


def _numbers(values: Any) -> tuple[float, ...]:
    return tuple(float(value) for value in values)


def _seed(*parts: int) -> int:
    """One seed out of several; unlike a sum of them, neighbours do not collide."""
    return int(np.random.SeedSequence([*parts, 1]).generate_state(1, np.uint64)[0] >> np.uint64(1))
