"""Co-teaching (Han et al., NeurIPS 2018), Algorithm 1."""

from collections.abc import Sequence

from torch import Tensor

from coteach.batches import Batch
from coteach.methods.base import Step
from coteach.methods.selection import per_sample_loss
from coteach.methods.small_loss import SmallLossMethod


class CoTeaching(SmallLossMethod):
    """Two networks, each taught the samples that its peer finds easy."""

    name = "co-teaching"
    networks = 2

    def step(self, logits: Sequence[Tensor], batch: Batch, epoch: Tensor) -> Step:
        """One mini-batch of Algorithm 1."""
        f, g = (per_sample_loss(z, batch.y) for z in logits)
        by_f = self.easy(f, batch.y, epoch)  # step 4: the R(T) |D| samples of the smallest loss
        by_g = self.easy(g, batch.y, epoch)  # step 5
        return Step(
            losses=(self.mean(f, by_g), self.mean(g, by_f)),  # steps 6 and 7: each learns what its peer picked
            picked=(by_f, by_g),
        )
