"""The dataset as tensors that stay on the device, and the order of an epoch from its seed."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from coteach.errors import SettingError


@dataclass(frozen=True)
class Batch:
    """The samples of one step: inputs, labels as given, and which labels are right, where that is known."""

    x: Tensor
    y: Tensor
    clean: Tensor | None = None

    def __len__(self) -> int:
        return len(self.y)


def resident(x: NDArray[Any], device: torch.device) -> Tensor:
    """Samples on the device as they are stored. Images [n, h, w, c] become a channels-last view [n, c, h, w]."""
    tensor = torch.from_numpy(np.ascontiguousarray(x)).to(device)
    return tensor.permute(0, 3, 1, 2) if tensor.ndim == 4 else tensor


def scaled(x: Tensor) -> Tensor:
    """Bytes to [0, 1]; other numbers as they are. The paper neither normalises nor augments."""
    return x.float().div_(255) if x.dtype == torch.uint8 else x.float()


class Batches:
    """Training samples with their labels, handed out batch by batch in the order of an epoch."""

    def __init__(
        self,
        x: NDArray[Any],
        y: NDArray[np.int64],
        clean: NDArray[np.int64] | None,
        *,
        batch_size: int,
        drop_last: bool,
        device: torch.device,
    ) -> None:
        if drop_last and batch_size > len(y):
            raise SettingError(f"batch_size {batch_size} is more than the {len(y)} training samples: lower it")
        self.x = resident(x, device)
        self.y = torch.from_numpy(y).to(device)
        self.clean = None if clean is None else torch.from_numpy(y == clean).to(device)
        self.batch_size = batch_size
        self.drop_last = drop_last

    def __len__(self) -> int:
        """Batches in an epoch. A last one of a single sample is left out in any case: batch norm needs two."""
        full, rest = divmod(len(self.y), self.batch_size)
        return full + (rest > 1 and not self.drop_last)

    def order(self, seed: int, epoch: int) -> Tensor:
        """The shuffled sample numbers of an epoch: the same on every device, and known without the epochs before."""
        state = np.random.SeedSequence([seed, epoch]).generate_state(1, np.uint64)[0]
        generator = torch.Generator().manual_seed(int(state >> np.uint64(1)))
        return torch.randperm(len(self.y), generator=generator).to(self.y.device)

    def take(self, rows: Tensor) -> Batch:
        """The samples of these numbers."""
        return Batch(
            x=scaled(self.x[rows]),
            y=self.y[rows],
            clean=None if self.clean is None else self.clean[rows],
        )


class TestSet:
    """Test samples and their true labels, in large batches."""

    __test__ = False  # not a class of pytest's

    def __init__(self, x: NDArray[Any], y: NDArray[np.int64], *, device: torch.device, chunk: int = 1000) -> None:
        self.x = resident(x, device)
        self.y = torch.from_numpy(y).to(device)
        self.chunk = chunk

    def __len__(self) -> int:
        return len(self.y)

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        for start in range(0, len(self.y), self.chunk):
            rows = slice(start, start + self.chunk)
            yield scaled(self.x[rows]), self.y[rows]
