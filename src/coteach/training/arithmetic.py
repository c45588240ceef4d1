"""What a step runs as: the one place that decides it from the device and the config.

On a CPU: the plain networks in fp32. On a CUDA GPU: bf16 by default, the networks fused or compiled, each on a stream
of its own, and the whole step captured as one graph (`captured.py`).
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from coteach.config import Config
from coteach.errors import SettingError

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")


def settled(config: Config, device: torch.device) -> Config:
    """The config with `auto` precision and compilation settled for a device: their names stand in the run's config."""
    gpu = device.type == "cuda"
    precision = config.precision
    if precision == "auto":
        fast = gpu and torch.cuda.is_bf16_supported(including_emulation=False)
        precision = "bf16" if fast else "fp32"
    if precision != "fp32" and not gpu:
        raise SettingError(f"precision {precision} needs a CUDA GPU, this is {device.type}: choose precision fp32")
    return replace(config, precision=precision, compile=config.compile and gpu)


@contextmanager
def switches(config: Config, device: torch.device) -> Iterator[None]:
    """Torch's global switches for a run on a GPU, put back afterwards."""
    if device.type != "cuda":
        yield
        return
    cudnn, matmul = torch.backends.cudnn, torch.backends.cuda.matmul
    try:
        before = cudnn.allow_tf32, matmul.allow_tf32, cudnn.benchmark
    except RuntimeError as error:  # torch refuses to say, once fp32_precision was set
        raise SettingError(
            "torch.backends was set by fp32_precision, which excludes allow_tf32 that coteach sets for a run: "
            "leave it out, --precision decides"
        ) from error
    cudnn.allow_tf32 = matmul.allow_tf32 = config.precision != "fp32"
    cudnn.benchmark = True  # shapes never change: let cuDNN look for its fastest kernels once
    # A grid has many runs, and each compiles the same few functions for its own method and shapes.
    compiler = torch._dynamo.config.patch(recompile_limit=1000, accumulated_recompile_limit=1000)
    try:
        with torch.cuda.device(device), compiler:
            yield
    finally:
        cudnn.allow_tf32, matmul.allow_tf32, cudnn.benchmark = before


class Arithmetic:
    """Runs the networks of a method on a batch."""

    def __init__(self, networks: Sequence[nn.Module], config: Config, device: torch.device) -> None:
        self.bf16 = config.precision == "bf16"
        self.captured = config.compile and device.type == "cuda"
        self.networks = list(networks)
        self._prepared: Callable[[Tensor], Tensor] = lambda x: x
        self._input: Tensor | None = None
        if self.captured:
            self._make_fast()
        self._streams = (
            [torch.cuda.Stream(device) for _ in networks[1:]] if self.captured else []  # type: ignore[no-untyped-call]
        )
        self._autocast = torch.autocast("cuda", torch.bfloat16, enabled=self.bf16)

    def compiled(self, function: F) -> F:
        """A function or a network with its operations made into few kernels."""
        if not self.captured or not find_spec("triton"):
            return function  # without triton there is nothing to compile with; the step is captured all the same
        return torch.compile(function, dynamic=False)  # type: ignore[return-value]

    def _make_fast(self) -> None:
        if self.bf16 and find_spec("triton"):
            from coteach.training.fused_cnn import FusedCNN, blocks
            from coteach.training.kernels import unfolded

            if all(blocks(net) is not None for net in self.networks):
                self.networks = [FusedCNN(net, self.compiled) for net in self.networks]
                self._prepared = unfolded
                return
        self.networks = [self.compiled(net) for net in self.networks]

    def logits(self, x: Tensor) -> list[Tensor]:
        """Each network's scores for a batch, as fp32 tensors."""
        # Kept until the next batch: autograd lets go of it while another stream may still be reading it.
        self._input = x = self._prepared(x)
        return self.side_by_side([partial(self._scores, net, x) for net in self.networks])

    def side_by_side(self, works: Sequence[Callable[[], T]]) -> list[T]:
        """One piece of work for each network; on a GPU they do not wait for each other."""
        if not self._streams:
            return [work() for work in works]
        main = torch.cuda.current_stream()
        for stream in self._streams:  # all of them before the first piece of work, which they would wait for, too
            stream.wait_stream(main)
        done = []
        for work, stream in zip(works, [main, *self._streams], strict=True):
            with torch.cuda.stream(stream):
                done.append(work())
        for stream in self._streams:
            main.wait_stream(stream)
        return done

    def _scores(self, net: nn.Module, x: Tensor) -> Tensor:
        if not self.bf16:
            return net(x)  # type: ignore[no-any-return]
        with self._autocast:
            return net(x).float()  # type: ignore[no-any-return]
