"""A training step captured as one CUDA graph: replaying it costs one launch instead of hundreds."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

_WARM_UP = 3  # compiles, chooses cuDNN's kernels and fills the allocator's pools


class CapturedStep:
    """A step that reads its inputs from one place; all else that it reads or writes stays in place, too.

    Warm it up first (`warm_up`), and put back what that changed.
    """

    def __init__(self, step: Callable[..., None], inputs: Sequence[Tensor]) -> None:
        self._inputs = [tensor.clone() for tensor in inputs]
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph):
            step(*self._inputs)

    def __call__(self, *inputs: Tensor) -> None:
        """Do the step for these inputs."""
        for mine, given in zip(self._inputs, inputs, strict=True):
            mine.copy_(given)
        self._graph.replay()


def warm_up(step: Callable[..., None], inputs: Sequence[Tensor]) -> None:
    """Run a step a few times on a stream of its own, as a capture needs."""
    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(_WARM_UP):
            step(*inputs)
    torch.cuda.current_stream().wait_stream(stream)
