"""A convolutional network of ours run by fused kernels in bf16, on the parameters of the plain one."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from coteach.nets import PaperCNN
from coteach.training import kernels


@dataclass(frozen=True)
class Block:
    """A convolution with the batch norm, the LeakyReLU and, maybe, the pool and the dropout that follow it."""

    conv: nn.Conv2d
    norm: nn.BatchNorm2d
    act: nn.LeakyReLU
    pool: bool
    dropout: float


def blocks(net: nn.Module) -> list[Block] | None:
    """The blocks of the paper's network; None for any other, which may look alike and compute something else."""
    if type(net) is not PaperCNN:
        return None
    layers = list(net)
    head = [type(layer) for layer in layers[-3:]]
    if head != [nn.AdaptiveAvgPool2d, nn.Flatten, nn.Linear]:
        return None
    found: list[Block] = []
    rest: Iterator[nn.Module] = iter(layers[:-3])
    for layer in rest:
        match layer:
            case nn.Conv2d():
                norm, act = next(rest, None), next(rest, None)
                if not isinstance(norm, nn.BatchNorm2d) or not isinstance(act, nn.LeakyReLU):
                    return None
                if norm.num_features not in (16, 32, 64, 128, 256, 512) or layer.bias is None:
                    return None
                found.append(Block(layer, norm, act, pool=False, dropout=0.0))
            case nn.MaxPool2d(kernel_size=2, stride=2, padding=0) if found and not found[-1].pool:
                found[-1] = Block(found[-1].conv, found[-1].norm, found[-1].act, pool=True, dropout=0.0)
            case nn.Dropout2d(p=p) if found and found[-1].pool:
                found[-1] = Block(found[-1].conv, found[-1].norm, found[-1].act, pool=True, dropout=p)
            case _:
                return None
    first = found[0].conv
    plain = (first.kernel_size, first.stride, first.padding) == ((3, 3), (1, 1), (1, 1))
    return found if plain else None


class FusedCNN(nn.Module):
    """Computes what the plain network computes. Its parameters, and so its checkpoints, are the plain network's.

    The biases of the convolutions get no gradient: batch norm cancels them, and their true gradient is zero.
    """

    def __init__(self, net: nn.Module, compiled: Callable[[Any], Any] = lambda function: function) -> None:
        super().__init__()
        found = blocks(net)
        if found is None or not isinstance(net, nn.Sequential):
            raise TypeError(f"{type(net).__name__} is not made of the blocks that can be fused")
        self.plain = [net]  # in a list, so that it is not registered twice
        self.blocks = found
        self.linear: list[Any] = [net[-1]]
        self.head = compiled(_head)
        device = found[0].conv.weight.device
        self.room = kernels.Workspace(max(block.norm.num_features for block in found), device)
        first, *others = [block.conv for block in found]
        shapes = [
            (first.out_channels, kernels.unfolded_channels(first.in_channels), 1, 1),
            *(conv.weight.shape for conv in others),
        ]
        self.bf16 = [
            torch.zeros(shape, dtype=torch.bfloat16, device=device).to(memory_format=torch.channels_last)
            for shape in shapes
        ]

    def forward(self, x: Tensor) -> Tensor:
        """One score a class, for images that `kernels.unfolded` prepared."""
        weights = _Cast.apply(self.bf16, *[block.conv.weight for block in self.blocks])  # type: ignore[no-untyped-call]
        x = self._finish(self.blocks[0], F.conv2d(x, weights[0]))
        for block, weight in zip(self.blocks[1:], weights[1:], strict=True):
            x = self._finish(block, F.conv2d(x, weight, None, block.conv.stride, block.conv.padding))
        linear = self.linear[0]
        head = self.head if self.plain[0].training else _head  # batches of one size are worth compiling for
        with torch.autocast("cuda", enabled=False):
            return head(x, linear.weight, linear.bias)

    def _finish(self, block: Block, x: Tensor) -> Tensor:
        """Batch norm, LeakyReLU, pool and dropout of a block."""
        norm = block.norm
        pool = block.pool and x.shape[2] % 2 == x.shape[3] % 2 == 0
        drop = None
        training = self.plain[0].training
        if training and block.dropout:
            drop = torch.empty(x.shape[:2], device=x.device).bernoulli_(1 - block.dropout).div_(1 - block.dropout)
        if training:
            how = How(block, self.room, pool, drop if pool else None)
            y: Tensor = _NormAct.apply(x, norm.weight, norm.bias, how)  # type: ignore[no-untyped-call]
        else:
            mean, rstd = kernels.running_statistics(block.conv, norm)
            y = kernels.normalise(x, mean, rstd, norm.weight, norm.bias, block.act.negative_slope, pool, None)
        if block.pool and not pool:  # an odd number of pixels
            y = F.max_pool2d(y, 2)
            if drop is not None:
                y = y * drop[:, :, None, None].to(y.dtype)
        return y


def _head(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """The mean over the pixels and the last layer, in fp32: they cost nothing."""
    return F.linear(x.float().mean((2, 3)), weight, bias)


class _Cast(torch.autograd.Function):
    """All weights to bf16 in one go, and their gradients back."""

    @staticmethod
    def forward(ctx: Any, targets: Sequence[Tensor], *weights: Tensor) -> tuple[Tensor, ...]:
        ctx.shape = weights[0].shape
        _folded(targets[0], ctx.shape).copy_(weights[0])
        kernels.cast(weights[1:], targets[1:])
        return tuple(target.view_as(target) for target in targets)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        full = [torch.empty_like(g, dtype=torch.float32) for g in gradients[1:]]
        kernels.cast(gradients[1:], full)
        first = _folded(gradients[0], ctx.shape).to(torch.float32, memory_format=torch.channels_last)
        return None, first, *full


def _folded(weight: Tensor, shape: torch.Size) -> Tensor:
    """The first convolution's weight as it was before images were unfolded, in the same memory."""
    return weight[:, : shape[1:].numel(), 0, 0].view(shape)


class _NormAct(torch.autograd.Function):
    """A block after its convolution, in training."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, gamma: Tensor, beta: Tensor, how: "How") -> Tensor:
        block = how.block
        mean, rstd = kernels.statistics(x, block.conv, block.norm, how.room)
        ctx.save_for_backward(x, gamma, beta, mean, rstd, how.drop)
        ctx.how = how
        return kernels.normalise(x, mean, rstd, gamma, beta, block.act.negative_slope, how.pool, how.drop)

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
        x, gamma, beta, mean, rstd, drop = ctx.saved_tensors
        how = ctx.how
        dy = dy.contiguous(memory_format=torch.channels_last)
        slope = how.block.act.negative_slope
        return *kernels.gradient(x, dy, mean, rstd, gamma, beta, slope, how.pool, drop, how.room), None


class How(NamedTuple):
    """What a block's kernels need besides tensors that have gradients."""

    block: Block
    room: kernels.Workspace
    pool: bool
    drop: Tensor | None
