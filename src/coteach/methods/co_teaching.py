"""Co-teaching (Han et al., NeurIPS 2018), Algorithm 1."""

from collections.abc import Sequence

from torch import Tensor

from coteach.batches import Batch
from coteach.methods.base import Step
from coteach.methods.selection import per_sample_loss, small_loss
from coteach.methods.small_loss import SmallLossMethod


class CoTeaching(SmallLossMethod):
    """Two networks, each taught the samples that its peer finds easy."""

    name = "co-teaching"
    networks = 2

    def step(self, logits: Sequence[Tensor], batch: Batch, epoch: Tensor) -> Step:
        """One mini-batch of Algorithm 1."""
        f, g = (per_sample_loss(z, batch.y) for z in logits)
        k = self.kept(epoch, len(batch))  # R(T) |D|
        by_f, by_g = small_loss(f, k), small_loss(g, k)  # steps 4 and 5
        return Step(
            losses=(self.mean(f, by_g), self.mean(g, by_f)),  # steps 6 and 7: each learns what its peer picked
            picked=(by_f, by_g),
        )
