"""Standard training, the baseline: every label is believed."""

from collections.abc import Sequence

from torch import Tensor

from coteach.batches import Batch
from coteach.methods.base import Method, Step
from coteach.methods.selection import everything, per_sample_loss


class Standard(Method):
    """One network that believes every label."""

    name = "standard"

    def step(self, logits: Sequence[Tensor], batch: Batch, epoch: Tensor) -> Step:
        """Mean cross entropy over the whole batch."""
        losses = per_sample_loss(logits[0], batch.y)
        return Step(losses=(losses.mean(),), picked=(everything(losses),))
