"""The networks: the paper's nine-layer CNN, a small CNN, an MLP, and the user's own."""

import importlib
import sys
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn

from coteach.errors import SettingError, unknown

Shape = tuple[int, ...]
"""Of one sample: (height, width, channels) for images, (features,) for vectors."""
Network = Callable[[Shape, int], nn.Module]
"""Makes a new network for samples of a shape and a number of classes."""


def _block(inputs: int, outputs: int, padding: int = 1) -> list[nn.Module]:
    return [nn.Conv2d(inputs, outputs, 3, padding=padding), nn.BatchNorm2d(outputs), nn.LeakyReLU(0.01)]


class PaperCNN(nn.Sequential):
    """Table 3 of the paper. Images of 28 pixels or more on each side."""

    def __init__(self, shape: Shape, classes: int, dropout: float = 0.25) -> None:
        channels = _image(shape, least=28, name="paper-cnn")[2]
        super().__init__(
            *_block(channels, 128), *_block(128, 128), *_block(128, 128),
            nn.MaxPool2d(2), nn.Dropout2d(dropout),
            *_block(128, 256), *_block(256, 256), *_block(256, 256),
            nn.MaxPool2d(2), nn.Dropout2d(dropout),
            *_block(256, 512, padding=0), *_block(512, 256, padding=0), *_block(256, 128, padding=0),
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, classes),
        )  # fmt: skip


class SmallCNN(nn.Sequential):
    """Three convolutions in the paper's style, for images of a few pixels: quick on a CPU."""

    def __init__(self, shape: Shape, classes: int, dropout: float = 0.0) -> None:
        height, width, channels = _image(shape, least=4, name="small-cnn")
        super().__init__(
            *_block(channels, 16), nn.MaxPool2d(2), nn.Dropout2d(dropout),
            *_block(16, 32), nn.MaxPool2d(2), nn.Dropout2d(dropout),
            *_block(32, 64), nn.Flatten(), nn.Linear(64 * (height // 4) * (width // 4), classes),
        )  # fmt: skip


class TableMLP(nn.Sequential):
    """Two hidden layers of 256 with batch norm, for the columns of a table.

    Its numbers are standardised when they are read. To standardise zeros and ones too would make what is rare, such as
    a missing value, larger than all else.
    """

    def __init__(self, shape: Shape, classes: int, dropout: float = 0.0) -> None:
        features = int(torch.Size(shape).numel())

        def layer(inputs: int) -> list[nn.Module]:
            return [nn.Linear(inputs, 256), nn.BatchNorm1d(256), nn.LeakyReLU(0.01), nn.Dropout(dropout)]

        first = self.standardise(features)
        super().__init__(nn.Flatten(), *first, *layer(features), *layer(256), nn.Linear(256, classes))

    @staticmethod
    def standardise(features: int) -> list[nn.Module]:
        """What brings the features into one unit."""
        return []


class MLP(TableMLP):
    """The same for vectors in any unit: its first layer standardises them."""

    @staticmethod
    def standardise(features: int) -> list[nn.Module]:
        """A batch norm of the features themselves."""
        return [nn.BatchNorm1d(features)]


NETWORKS: dict[str, Callable[[Shape, int, float], nn.Module]] = {
    "paper-cnn": PaperCNN,
    "small-cnn": SmallCNN,
    "mlp": MLP,
    "table-mlp": TableMLP,
}


def build(network: str, shape: Shape, classes: int, dropout: float) -> nn.Module:
    """The named network for samples of a shape; `module:function` calls your own with (shape, classes)."""
    if network in NETWORKS:
        return NETWORKS[network](shape, classes, dropout)
    if ":" not in network:
        raise unknown("network", network, NETWORKS, "or module:function of your own")
    return own(function_named(network), shape, classes)


def draw_norm_scales(net: nn.Module, generator: torch.Generator) -> None:
    """Start batch norm with scales that are uniform in [0, 1], as PyTorch did up to version 1.1."""
    for layer in net.modules():
        if isinstance(layer, nn.BatchNorm1d | nn.BatchNorm2d):
            nn.init.uniform_(layer.weight, generator=generator)


def own(function: Network, shape: Shape, classes: int) -> nn.Module:
    """The user's network, after a check that it returns one score a class."""
    name = getattr(function, "__name__", repr(function))
    try:
        net = function(shape, classes)
    except Exception as error:
        raise SettingError(f"{name}({shape}, {classes}) fails: {error!r}") from error
    if not isinstance(net, nn.Module):
        raise SettingError(f"{name} returned {type(net).__name__}: it must return a torch.nn.Module")
    if not any(True for _ in net.parameters()):
        raise SettingError(f"{name}: its network has no parameters to train")
    if not all(isinstance(value, Tensor) for value in net.state_dict().values()):
        raise SettingError(f"{name}: its network keeps more than tensors in its state (get_extra_state): leave it out")
    training = net.training
    with torch.no_grad():
        try:
            scores = net.eval()(torch.zeros(2, *_as_input(shape)))
        except Exception as error:
            raise SettingError(f"{name}: its network fails on samples of shape {shape}: {error}") from error
    if not isinstance(scores, Tensor) or tuple(scores.shape) != (2, classes):
        got = tuple(scores.shape) if isinstance(scores, Tensor) else type(scores).__name__
        raise SettingError(f"{name}: its network gives {got} for two samples, {(2, classes)} is needed")
    return net.train(training)


def _as_input(shape: Shape) -> Shape:
    return (shape[2], shape[0], shape[1]) if len(shape) == 3 else shape


def name_of(function: Network) -> str:
    """A user's function as `module:function`, which `function_named` finds."""
    return f"{function.__module__}:{getattr(function, '__qualname__', 'network')}"


def function_named(name: str) -> Network:
    """The function that `module:function` names."""
    module, _, attribute = name.partition(":")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)  # as `python -m` does, so that a file in this folder is found
    try:
        function = getattr(importlib.import_module(module), attribute)
    except AttributeError as error:
        raise SettingError(f"network {name!r}: {module!r} has no {attribute!r}") from error
    except Exception as error:  # whatever the user's module raises while it is imported
        raise SettingError(f"network {name!r}: cannot import {module!r} ({error})") from error
    if not callable(function):
        raise SettingError(f"network {name!r} is not a function of (shape, classes)")
    return function  # type: ignore[no-any-return]


def _image(shape: Shape, least: int, name: str) -> tuple[int, int, int]:
    if len(shape) != 3:
        raise SettingError(f"{name} takes images, these samples have shape {shape}: choose --network mlp")
    if min(shape[:2]) < least:
        raise SettingError(
            f"{name} needs images of {least} pixels or more, these are {shape[0]}x{shape[1]}: "
            f"choose --network {'small-cnn' if min(shape[:2]) >= 4 else 'mlp'}"
        )
    return shape[0], shape[1], shape[2]


def forward_flop(net: nn.Module, shape: Shape) -> int:
    """Multiplications and additions of the convolutions and linear layers for one sample."""
    total = 0

    def count(layer: nn.Module, inputs: object, output: Tensor) -> None:
        nonlocal total
        total += 2 * layer.weight[0].numel() * output[0].numel()  # type: ignore[index]

    hooks = [m.register_forward_hook(count) for m in net.modules() if isinstance(m, nn.Conv2d | nn.Linear)]
    training = net.training
    try:
        with torch.no_grad():
            net.eval()(torch.zeros(1, *_as_input(shape), device=next(net.parameters()).device))
    finally:
        net.train(training)
        for hook in hooks:
            hook.remove()
    return total


def count_parameters(net: nn.Module) -> int:
    """The number of trained values."""
    return sum(p.numel() for p in net.parameters() if p.requires_grad)
