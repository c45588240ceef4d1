"""S-model (Goldberger and Ben-Reuven, 2017): a learned layer that models the noise."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from coteach.batches import Batch
from coteach.methods.base import Step
from coteach.methods.selection import everything
from coteach.methods.two_stage import TwoStageMethod, noisy_label_loss


class SModel(TwoStageMethod):
    """One network and a noise layer on top of it, trained together after a Standard run."""

    name = "s-model"
    continues = True

    def __init__(self, classes: int, **settings: object) -> None:
        super().__init__(classes, **settings)
        self.noise = nn.Parameter((torch.eye(classes) + 1e-8).log())  # until stage one says more: no noise

    def learn_from(self, probabilities: Tensor, labels: Tensor) -> None:
        """Start the noise layer from how often each predicted class carries each label."""
        pairs = probabilities.argmax(1) * self.classes + labels
        counts = torch.bincount(pairs, minlength=self.classes**2).reshape(self.classes, self.classes)
        share = counts / counts.sum(1, keepdim=True).clamp(min=1)
        self.noise.data.copy_((share + 1e-8).log())

    def be_told(self, transition: Tensor) -> None:
        """Start the noise layer as the matrix."""
        self.noise.data.copy_((transition + 1e-8).log())

    def believed(self) -> Tensor:
        """What the noise layer has come to."""
        return self.noise.softmax(1)

    def held_out_loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Through the noise layer, for p alone is not to say what the labels say."""
        return noisy_label_loss(logits, self.noise.log_softmax(1), labels)

    def step(self, logits: Sequence[Tensor], batch: Batch, epoch: Tensor) -> Step:
        """-log (p @ softmax(W))[label]; the prediction is p alone."""
        loss = noisy_label_loss(logits[0], self.noise.log_softmax(1), batch.y)
        return Step(losses=(loss,), picked=(everything(batch.y),))
