"""Decoupling "when to update" from "how to update" (Malach and Shalev-Shwartz, 2017)."""

from collections.abc import Sequence

from torch import Tensor

from coteach.batches import Batch
from coteach.methods.base import Method, Step
from coteach.methods.selection import mean_over, per_sample_loss


class Decoupling(Method):
    """Two networks that learn only from the samples on which they disagree."""

    name = "decoupling"
    networks = 2
    leaves_classes = True  # one on which the networks agree

    def step(self, logits: Sequence[Tensor], batch: Batch, epoch: Tensor) -> Step:
        """Both learn where their predicted classes differ; where none does, the loop updates nothing."""
        f, g = logits
        differ = f.argmax(1) != g.argmax(1)
        losses = (mean_over(per_sample_loss(z, batch.y), differ) for z in logits)
        return Step(losses=tuple(losses), picked=(differ, differ))
