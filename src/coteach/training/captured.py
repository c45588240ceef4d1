"""A training step captured as one CUDA graph: replaying it costs one launch instead of hundreds."""

from collections.abc import Callable

import torch
from torch import Tensor

_WARM_UP = 3  # compiles, chooses cuDNN's kernels and fills the allocator's pools


class CapturedStep:
    """A step whose only input is the numbers of its samples; all else that it reads or writes stays in place.

    Warm it up first (`warm_up`), and put back what that changed.
    """

    def __init__(self, step: Callable[[Tensor], None], rows: Tensor) -> None:
        self._rows = rows.clone()
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph):
            step(self._rows)

    def __call__(self, rows: Tensor) -> None:
        """Do the step for these samples."""
        self._rows.copy_(rows)
        self._graph.replay()


def warm_up(step: Callable[[Tensor], None], rows: Tensor) -> None:
    """Run a step a few times on a stream of its own, as a capture needs."""
    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(_WARM_UP):
            step(rows)
    torch.cuda.current_stream().wait_stream(stream)
