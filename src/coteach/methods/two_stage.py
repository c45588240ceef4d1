"""What the methods share that first train a Standard network and learn from it how labels go wrong."""

from typing import ClassVar, Literal

import torch
from torch import Tensor

from coteach.methods.base import Method


class TwoStageMethod(Method):
    """A method whose first stage is a Standard run of its own."""

    continues: ClassVar[bool] = False
    """Whether stage two goes on with the network of stage one; else it starts a new one."""

    stage_one: Literal["full", "early"] = "full"
    """Stage one: the whole Standard run of the same seeds, or one that held out a tenth of the noisy data, kept its
    best epoch, and stopped when 20 more were no better."""

    def learn_from(self, probabilities: Tensor, labels: Tensor) -> None:
        """Take in what stage one's network says of every training sample, and the label that was given."""
        raise TypeError(f"{type(self).__name__} has no learn_from()")

    def believed(self) -> Tensor | None:
        """[true class, label]: how labels go wrong, as far as it knows by now; a run's summary says it."""
        return None


def noisy_label_loss(logits: Tensor, log_transition: Tensor, labels: Tensor) -> Tensor:
    """Mean of -log (p @ T)[label]: the loss of the label as given, when T says how true classes become labels."""
    log_given_if = log_transition[:, labels].T  # [sample, true class]
    return -torch.logsumexp(logits.log_softmax(1) + log_given_if, 1).mean()
