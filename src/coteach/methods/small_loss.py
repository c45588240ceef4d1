"""What the methods share that learn from the samples of small loss: how many they keep, R(T)."""

from typing import Literal

import torch
from torch import Tensor

from coteach.errors import SettingError
from coteach.methods.base import Method
from coteach.methods.selection import (
    authors_keep_share,
    constant_keep_share,
    keep_count,
    keep_share,
    mean_over,
    per_sample_loss,
    small_loss,
    small_loss_within,
)

_SCHEDULES = {"text": keep_share, "authors": authors_keep_share, "constant": constant_keep_share}


class SmallLossMethod(Method):
    """A method that keeps the share R(T) of each batch."""

    tau: float = 0.0
    """Share of each batch that is dropped in the end; by default the noise rate."""
    t_k: int = 10
    """Epochs over which the dropped share grows to tau, unless it is constant."""
    c: float = 1.0
    """Exponent of the growth: below 1 drops more at first, above 1 less."""
    schedule: Literal["text", "authors", "constant"] = "text"
    """R(T) as the paper's text has it, as the authors' program computes it, or 1 - tau from the first epoch on."""
    rounding: Literal["up", "down"] = "up"
    """Rounding of the number kept: up by Algorithm 1, down in the authors' program."""
    divide_again: bool = False
    """Divide the mean loss by the number kept once more, as the authors' program does."""
    balanced: bool = False
    """Keep the share R(T) of each label's samples instead of the whole batch's, so that no rare class is lost."""

    def check(self) -> None:
        """Refuse a schedule that keeps nothing."""
        if not 0 <= self.tau < 1:
            raise SettingError(f"tau is {self.tau:g}: dropping that share leaves nothing; give 0 <= tau < 1")
        if self.t_k < 1:
            raise SettingError(f"t_k is {self.t_k}: it must be at least 1")
        if self.c <= 0:
            raise SettingError(f"c is {self.c:g}: it must be positive")
        if self.schedule == "authors" and self.tau**self.c >= 1:
            raise SettingError(f"tau {self.tau:g} with c {self.c:g} leaves nothing under the authors' schedule")

    def easy(self, losses: Tensor, labels: Tensor, epoch: Tensor) -> Tensor:
        """A mask of the R(T) |D| samples of a batch that a network finds easy."""
        share = _SCHEDULES[self.schedule](epoch, self.tau, self.t_k, self.c)
        up = self.rounding == "up"
        if self.balanced:
            return small_loss_within(losses, labels, share, up=up)
        return small_loss(losses, keep_count(share, len(losses), up=up))

    def held_out_loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Over the share 1 - tau of smallest loss: a good network disagrees with the others, which are wrong."""
        losses = per_sample_loss(logits, labels)
        share = torch.tensor(1 - self.tau, dtype=torch.float64, device=losses.device)
        return mean_over(losses, small_loss(losses, keep_count(share, len(losses))))

    def mean(self, losses: Tensor, picked: Tensor) -> Tensor:
        """The loss of a network over the samples picked for it."""
        mean = mean_over(losses, picked)
        return mean / picked.sum().clamp(min=1) if self.divide_again else mean
