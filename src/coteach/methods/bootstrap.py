"""Bootstrap, hard version (Reed et al., 2015)."""

from collections.abc import Sequence

from torch import Tensor

from coteach.batches import Batch
from coteach.errors import SettingError
from coteach.methods.base import Method, Step
from coteach.methods.selection import everything, per_sample_loss


class Bootstrap(Method):
    """One network whose targets mix the given label with its own prediction."""

    name = "bootstrap"

    beta: float = 0.8
    """Weight of the given label; the rest goes to the class that the network predicts."""

    def check(self) -> None:
        """Refuse a weight that is no share."""
        if not 0 <= self.beta <= 1:
            raise SettingError(f"beta is {self.beta:g}: it must be between 0 and 1")

    def step(self, logits: Sequence[Tensor], batch: Batch, epoch: Tensor) -> Step:
        """Cross entropy against beta * label + (1 - beta) * prediction, the prediction taken as given."""
        z = logits[0]
        given = per_sample_loss(z, batch.y)
        predicted = per_sample_loss(z, z.detach().argmax(1))
        loss = (self.beta * given + (1 - self.beta) * predicted).mean()
        return Step(losses=(loss,), picked=(everything(given),))
