"""The contract of a method: it owns its loss and its choice of samples, and nothing else."""

from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from coteach.batches import Batch
from coteach.errors import TrainingError
from coteach.fields import checked
from coteach.methods.catalogue import name_of, settings_of
from coteach.methods.selection import per_sample_loss


class Step(NamedTuple):
    """What a method makes of one batch."""

    losses: tuple[Tensor, ...]
    """One scalar for each network; the loop calls backward on their sum."""
    picked: tuple[Tensor, ...]
    """For each network, a mask of the samples that it chose. If a network chose none, no network is updated."""


def checked_step(method: "Method", step: Step, networks: int, samples: int) -> Step:
    """A method's answer, after a check that it has the form of one; nothing here looks at a value."""
    who = f"{type(method).__name__}.step()"
    if not isinstance(step, Step):
        raise TrainingError(f"{who} answers with {type(step).__name__}: return Step(losses, picked)")
    if (len(step.losses), len(step.picked)) != (networks, networks):
        raise TrainingError(
            f"{who} has {len(step.losses)} losses and {len(step.picked)} picks for {networks} networks: give one each"
        )
    for loss in step.losses:
        if not isinstance(loss, Tensor) or loss.ndim:
            raise TrainingError(f"a loss of {who} is no tensor of one number: take its mean")
    for picked in step.picked:
        if not isinstance(picked, Tensor) or picked.dtype is not torch.bool or tuple(picked.shape) != (samples,):
            raise TrainingError(f"a pick of {who} is no mask: give a tensor of bools, one for each of the batch")
    return step


class Method(nn.Module):
    """Base of all methods. A module, for it may own parameters or buffers.

    A subclass gives a `name`, the number of `networks` and `step`. Every annotated attribute is a setting: a flag
    of the command line and a key of the config, explained by the docstring under it. A step must not wait for
    the host (no `.item()`, no `if` on a tensor) and must not change shapes.
    """

    name: ClassVar[str]
    networks: ClassVar[int] = 1
    leaves_classes: ClassVar[bool] = False
    """Whether it may rightly pick nothing of a class for an epoch; for other methods that is a sign of collapse."""

    def __init__(self, classes: int, **settings: Any) -> None:
        super().__init__()
        self.classes = classes
        fields = settings_of(name_of(type(self)))
        defaults = {name: field.default for name, field in fields.items()}
        for name, value in (defaults | checked(settings, fields, type(self).name)).items():
            setattr(self, name, value)
        self.check()

    def check(self) -> None:
        """Raise a SettingError for settings that cannot work."""

    def step(self, logits: Sequence[Tensor], batch: Batch, epoch: Tensor) -> Step:
        """Losses and picks for one batch, from each network's logits; `epoch` is T, counted from 1."""
        raise TypeError(f"{type(self).__name__} has no step()")

    def held_out_loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        """One number for what a network says of samples that it has not learned, by their labels as given.

        The epoch where it is lowest is the one to keep. A method whose networks are not to say what the labels say
        must take that into account.
        """
        return per_sample_loss(logits, labels).mean()
