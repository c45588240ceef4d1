"""F-correction (Patrini et al., 2017): the forward correction of the loss by an estimated transition matrix."""

from collections.abc import Sequence

import torch
from torch import Tensor

from coteach.batches import Batch
from coteach.methods.base import Step
from coteach.methods.selection import everything
from coteach.methods.two_stage import TwoStageMethod, noisy_label_loss


class FCorrection(TwoStageMethod):
    """A new network whose predictions are pushed through a transition matrix that a Standard run estimated."""

    name = "f-correction"

    filter_outliers: bool = True
    """Leave out the samples at or above the 97th percentile when looking for a class's surest one; the recipe for
    CIFAR-100 does not."""
    transposed: bool = False
    """Push the predictions through the matrix the wrong way round, from labels to classes: with the true
    matrix of pair noise every class is then taken for the next; a symmetric matrix does not feel it."""

    def __init__(self, classes: int, **settings: object) -> None:
        super().__init__(classes, **settings)
        self.register_buffer("transition", torch.eye(classes))  # until stage one says more: no noise
        self.transition: Tensor

    def learn_from(self, probabilities: Tensor, labels: Tensor) -> None:
        """T[i] is what the network says of the sample that it is surest is of class i."""
        self.transition.copy_(anchor_rows(probabilities, filter_outliers=self.filter_outliers))

    def be_told(self, transition: Tensor) -> None:
        """T is the matrix itself."""
        self.transition.copy_(transition)

    def believed(self) -> Tensor:
        """What stage one said."""
        return self.transition

    def held_out_loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Through the matrix, for p alone is not to say what the labels say."""
        return noisy_label_loss(logits, self._log_transition(), labels)

    def _log_transition(self) -> Tensor:
        return (self.transition.T if self.transposed else self.transition).clamp(min=1e-12).log()

    def step(self, logits: Sequence[Tensor], batch: Batch, epoch: Tensor) -> Step:
        """-log (p @ T)[label]; the prediction is p."""
        loss = noisy_label_loss(logits[0], self._log_transition(), batch.y)
        return Step(losses=(loss,), picked=(everything(batch.y),))


def anchor_rows(probabilities: Tensor, *, filter_outliers: bool) -> Tensor:
    """The rows of the transition matrix: for each class the probabilities of its surest sample, summing to 1."""
    rows = []
    for column in probabilities.T:
        left = column < column.quantile(0.97, interpolation="higher")
        leave_out = filter_outliers and bool(left.any())
        surest = (torch.where(left, column, -1) if leave_out else column).argmax()
        rows.append(probabilities[surest])
    matrix = torch.stack(rows)
    return matrix / matrix.sum(1, keepdim=True)
