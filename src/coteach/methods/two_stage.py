"""What the methods share that first train a Standard network and learn from it how labels go wrong."""

from typing import ClassVar, Literal

import torch
from torch import Tensor

from coteach.errors import SettingError
from coteach.methods.base import Method


class TwoStageMethod(Method):
    """A method whose first stage is a Standard run of its own."""

    continues: ClassVar[bool] = False
    """Whether stage two goes on with the network of stage one; else it starts a new one."""

    stage_one: Literal["full", "early", "none"] = "full"
    """Stage one: the whole Standard run of the same seeds, or one that held out a tenth of the noisy data, kept its
    best epoch, and stopped when 20 more were no better; or none, and instead of it the matrix of the noise itself,
    which nobody knows of labels that came wrong."""

    def learn_from(self, probabilities: Tensor, labels: Tensor) -> None:
        """Take in what stage one's network says of every training sample, and the label that was given."""
        raise TypeError(f"{type(self).__name__} has no learn_from()")

    def be_told(self, transition: Tensor) -> None:
        """Take in [true class, label], how labels go wrong, instead of a stage one."""
        raise SettingError(f"{self.name} cannot be told how labels go wrong: give stage_one full or early")

    def believed(self) -> Tensor | None:
        """[true class, label]: how labels go wrong, as far as it knows by now; a run's summary says it."""
        return None


def noisy_label_loss(logits: Tensor, log_transition: Tensor, labels: Tensor) -> Tensor:
    """Mean of -log (p @ T)[label]: the loss of the label as given, when T says how true classes become labels."""
    log_given_if = log_transition[:, labels].T  # [sample, true class]
    return -torch.logsumexp(logits.log_softmax(1) + log_given_if, 1).mean()
