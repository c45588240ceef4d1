"""MentorNet with its predefined, self-paced curriculum (Jiang et al., 2018)."""

from collections.abc import Sequence

from torch import Tensor

from coteach.batches import Batch
from coteach.methods.base import Step
from coteach.methods.selection import per_sample_loss
from coteach.methods.small_loss import SmallLossMethod


class MentorNet(SmallLossMethod):
    """One network that learns the samples it finds easy itself (self-paced)."""

    name = "mentornet"

    def step(self, logits: Sequence[Tensor], batch: Batch, epoch: Tensor) -> Step:
        """Co-teaching without the peer: what a network picks, it learns itself."""
        losses = per_sample_loss(logits[0], batch.y)
        picked = self.easy(losses, batch.y, epoch)
        return Step(losses=(self.mean(losses, picked),), picked=(picked,))
