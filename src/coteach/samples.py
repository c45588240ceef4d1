"""Where the samples of a split lie while a run uses them: on the device, or beside it and copied batch by batch."""

import warnings
from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


class Samples(Protocol):
    """Samples that are asked for in an order that is known ahead."""

    x: Tensor
    """All of them, as they are stored: images [n, h, w, c], rows of a table [n, columns]."""

    def ahead(self, order: Tensor, size: int) -> Iterator[tuple[Tensor, ...]]:
        """What `take` needs for one part of the order after another: first the samples' numbers, on the device.

        What comes after the numbers is good until the part after the next is asked for, also for work that is
        only queued on the device by then.
        """

    def take(self, rows: Tensor, *more: Tensor) -> Tensor:
        """The samples of a part, as a network takes them: floats, images with their channels first."""


def as_tensor(array: NDArray[Any]) -> Tensor:
    """The array as a tensor in the same memory, also if it may not be written to: nobody does."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        return torch.from_numpy(np.ascontiguousarray(array))


class Resident:
    """Samples that lie on the device as they are stored. On a CPU that is the array itself, or its memory map."""

    def __init__(self, x: NDArray[Any], device: torch.device) -> None:
        self.x = as_tensor(x).to(device)

    def ahead(self, order: Tensor, size: int) -> Iterator[tuple[Tensor, ...]]:
        """The numbers are enough."""
        for rows in _parts(order.to(self.x.device), size):
            yield (rows,)

    def take(self, rows: Tensor, *more: Tensor) -> Tensor:
        """Gather them."""
        return as_input(self.x[rows])


class Streamed:
    """Samples that do not fit a GPU: they stay in host memory or a memory map, and a few batches travel ahead.

    The host fills one of three pinned buffers while the device copies from another and works on the third.
    """

    def __init__(self, x: NDArray[Any], device: torch.device) -> None:
        self.x = as_tensor(x)
        self._device = device
        self._copies = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]

    def ahead(self, order: Tensor, size: int) -> Iterator[tuple[Tensor, ...]]:
        """The numbers and the samples."""
        slots = [_Slot(self.x, self._device, self._copies) for _ in range(3)]
        for place, rows in enumerate(_parts(order.cpu(), size)):
            slot = slots[place % len(slots)]
            yield slot.fill(rows)
            slot.used.record(torch.cuda.current_stream(self._device))

    def take(self, rows: Tensor, *more: Tensor) -> Tensor:
        """They are here already."""
        return as_input(more[0])


class _Slot:
    """Room for one part, on the host and on the device."""

    def __init__(self, x: Tensor, device: torch.device, copies: torch.cuda.Stream) -> None:
        self.used = torch.cuda.Event()  # type: ignore[no-untyped-call]
        """When the device no longer needs what is here."""
        self._x, self._device, self._copies = x, device, copies
        self._host: list[Tensor] = []
        self._there: list[Tensor] = []

    def fill(self, rows: Tensor) -> tuple[Tensor, ...]:
        """Bring these samples to the device; work that is queued from now on finds them there."""
        self.used.synchronize()
        now = torch.cuda.current_stream(self._device)
        if not self._host or len(self._host[0]) != len(rows):
            self._host = [
                torch.empty(len(rows), dtype=rows.dtype, pin_memory=True),
                torch.empty((len(rows), *self._x.shape[1:]), dtype=self._x.dtype, pin_memory=True),
            ]
            self._there = [torch.empty_like(part, device=self._device) for part in self._host]
            self._copies.wait_stream(now)  # on which this memory may have been used before
        self._host[0].copy_(rows)
        torch.index_select(self._x, 0, rows, out=self._host[1])
        with torch.cuda.stream(self._copies):
            for there, part in zip(self._there, self._host, strict=True):
                there.copy_(part, non_blocking=True)
        now.wait_stream(self._copies)
        return tuple(self._there)


def _parts(order: Tensor, size: int) -> Iterator[Tensor]:
    return (order[start : start + size] for start in range(0, len(order), size))


def as_input(x: Tensor) -> Tensor:
    """Images [n, h, w, c] as a channels-last view [n, c, h, w]; bytes scaled to [0, 1], other numbers as they are.

    The paper neither normalises nor augments.
    """
    if x.ndim == 4:
        x = x.permute(0, 3, 1, 2)
    return x.float().div_(255) if x.dtype == torch.uint8 else x.float()
