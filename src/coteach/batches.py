"""Samples with their labels: in the order of an epoch to train on, and in their own order to be tested on."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from coteach.errors import SettingError
from coteach.samples import Samples, as_tensor


@dataclass(frozen=True)
class Batch:
    """The samples of one step: inputs, labels as given, and which labels are right, where that is known."""

    x: Tensor
    y: Tensor
    clean: Tensor | None = None

    def __len__(self) -> int:
        return len(self.y)


class Batches:
    """Training samples with their labels, handed out batch by batch in the order of an epoch.

    `y` and `clean` are the given and the true label of every sample; `rows` are the numbers of those to train on.
    """

    def __init__(
        self,
        samples: Samples,
        y: NDArray[np.int64],
        clean: NDArray[np.int64] | None,
        *,
        rows: NDArray[np.int64],
        batch_size: int,
        drop_last: bool,
        device: torch.device,
    ) -> None:
        if drop_last and batch_size > len(rows):
            raise SettingError(
                f"batch_size {batch_size} is more than the {len(rows)} training samples: lower it, or hold out less"
            )
        self.samples = samples
        self.rows = as_tensor(rows)
        self.batch_size = batch_size
        self.drop_last = drop_last
        self._y = as_tensor(y).to(device)
        self._clean = None if clean is None else as_tensor(y == clean).to(device)

    def __len__(self) -> int:
        """Batches in an epoch. A last one of a single sample is left out in any case: batch norm needs two."""
        full, rest = divmod(len(self.rows), self.batch_size)
        return full + (rest > 1 and not self.drop_last)

    @property
    def truth_known(self) -> bool:
        """Whether the true labels are there, to measure by."""
        return self._clean is not None

    def order(self, seed: int, epoch: int) -> Tensor:
        """The shuffled sample numbers of an epoch: the same on every device, and known without the epochs before."""
        state = np.random.SeedSequence([seed, epoch]).generate_state(1, np.uint64)[0]
        generator = torch.Generator().manual_seed(int(state >> np.uint64(1)))
        return self.rows[torch.randperm(len(self.rows), generator=generator)]

    def ahead(self, seed: int, epoch: int, first: int, last: int) -> Iterator[tuple[Tensor, ...]]:
        """What `take` needs for the steps of an epoch from number `first` to before `last`, counted from 0."""
        rows = self.order(seed, epoch)[first * self.batch_size : last * self.batch_size]
        return self.samples.ahead(rows, self.batch_size)

    def take(self, rows: Tensor, *more: Tensor) -> Batch:
        """The batch of a step."""
        return Batch(
            x=self.samples.take(rows, *more),
            y=self._y[rows],
            clean=None if self._clean is None else self._clean[rows],
        )


class TestSet:
    """Samples to be tested on and their labels, in large batches; `rows` are their numbers, by default all."""

    __test__ = False  # not a class of pytest's

    def __init__(
        self,
        samples: Samples,
        y: NDArray[np.int64],
        *,
        rows: NDArray[np.int64] | None = None,
        device: torch.device,
    ) -> None:
        self._samples = samples
        self._rows = torch.arange(len(y)) if rows is None else as_tensor(rows)
        self.y = as_tensor(y).to(device)
        self.chunk = _tested_at_once(samples.x, device)

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        for rows, *more in self._samples.ahead(self._rows, self.chunk):
            yield self._samples.take(rows, *more), self.y[rows]


def _tested_at_once(x: Tensor, device: torch.device) -> int:
    """How many samples: enough to keep a device busy, few enough that large images fit its memory."""
    pixels = max(x.shape[1:3].numel(), 1024) if x.ndim == 4 else 1024
    return max((2500 if device.type == "cuda" else 1000) * 1024 // pixels, 1)
