"""A trained model: the networks of a run, ready to predict. Loading one runs no code from its files."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from coteach.data import CATALOGUE
from coteach.data.dataset import Array, as_samples
from coteach.errors import DataError, SettingError
from coteach.nets import NETWORKS, Network, Shape, build, name_of, own
from coteach.results.folder import RunFolder
from coteach.results.weights import (
    DESCRIPTION,
    FORMAT,
    WEIGHTS,
    Description,
    read_description,
    read_weights,
    write_weights,
)
from coteach.samples import as_input, as_tensor
from coteach.training.device import choose_device, kept_random_state

_WAY_OUT = "name the network that they are of, or train again"
_MOST_VALUES = 3_000_000
"""In the samples of one batch: a thousand small images, or twenty of 224 pixels."""


class Ensemble(nn.Module):
    """From samples as they are stored to the mean of the networks' probabilities."""

    def __init__(self, networks: Sequence[nn.Module]) -> None:
        super().__init__()
        self.networks = nn.ModuleList(networks)

    def forward(self, x: Tensor) -> Tensor:
        """Probabilities [n, classes]."""
        x = as_input(x)
        return torch.stack([net(x).softmax(1) for net in self.networks]).mean(0)


@dataclass(frozen=True, eq=False)
class Model:
    """The trained networks of a run; `load_model` makes one from a folder."""

    ensemble: Ensemble
    about: Description
    """What stands in model.json."""
    device: torch.device

    @property
    def class_names(self) -> tuple[str, ...]:
        """The classes, in the order of the columns of `predict_proba`."""
        return self.about.class_names

    @property
    def shape(self) -> Shape:
        """The shape of one sample: (height, width, channels) or (features,)."""
        return self.about.shape

    @property
    def preprocessing(self) -> Mapping[str, Any]:
        """How files become samples: what `coteach.data.read_samples` needs to know."""
        return self.about.preprocessing

    @property
    def network(self) -> str:
        """The name of the network, or module:function."""
        return self.about.network

    @torch.no_grad()
    def predict_proba(self, x: ArrayLike) -> NDArray[np.float32]:
        """The probability of each class, [n, classes]: the mean over the networks.

        `x` as in a Dataset: images [n, height, width, channels] or vectors [n, features]. A model that learned from
        bytes takes bytes, or floats that are scaled to [0, 1] already.
        """
        samples = self._checked(x)
        size = max(1, min(1000, _MOST_VALUES // int(np.prod(self.shape))))
        self.ensemble.eval()
        parts = [
            self.ensemble(as_tensor(samples[start : start + size]).to(self.device)).cpu().numpy()
            for start in range(0, len(samples), size)
        ]
        return np.concatenate(parts)

    def predict(self, x: ArrayLike) -> NDArray[np.str_]:
        """The name of the most probable class of each sample."""
        names: NDArray[np.str_] = np.array(self.class_names)[self.predict_proba(x).argmax(1)]
        return names

    def save(self, folder: Path | str) -> None:
        """Write weights.safetensors and model.json into a folder that has neither."""
        folder = Path(folder)
        if (folder / WEIGHTS).exists() or (folder / DESCRIPTION).exists():
            raise SettingError(f"{folder} holds a model already: choose another folder")
        write_weights(folder, self.ensemble.networks.state_dict(), self.about)

    def _checked(self, x: ArrayLike) -> Array:
        samples = as_samples("x", x)
        if samples.shape[1:] != self.shape:
            raise DataError(f"a sample has shape {samples.shape[1:]}, this model takes {self.shape}: give such samples")
        if samples.dtype != self.about.dtype:
            if samples.dtype == np.uint8:
                raise DataError("these images are bytes, the model learned from float32: convert them as it was then")
            if samples.min() < 0 or samples.max() > 1:
                raise DataError("the model learned from bytes: give uint8 images, or float32 ones scaled to [0, 1]")
        return samples


def load_model(path: Path | str, *, network: Network | str | None = None, device: str = "auto") -> Model:
    """The model in a run folder, or in any folder with model.json and weights.safetensors.

    A network of your own is `network`, the function of (shape, classes) or its name module:function. The name in
    model.json alone imports nothing, so that a model from somebody else cannot run code of its choice.
    """
    path = Path(path).expanduser()
    about = _about(path)
    if network is not None:
        about = replace(about, network=network if isinstance(network, str) else name_of(network))
    elif about.network not in NETWORKS:
        if ":" not in about.network:
            raise DataError(f"{path} names a network that this coteach does not have, {about.network!r}: upgrade it")
        raise SettingError(
            f"{path} has a network of somebody's own, which is code: if you trust it, give --network {about.network!r}"
        )
    tensors, place = read_weights(path, about), choose_device(device)
    networks = [_filled(_empty(about, network, path), number, tensors, path) for number in range(about.networks)]
    if tensors:
        raise DataError(f"{path}: its weights have {next(iter(tensors))!r}, which {about.network} has not: {_WAY_OUT}")
    return Model(Ensemble(networks).eval().to(place), about, place)


def _about(path: Path) -> Description:
    """What the model in a folder is; for a run of an older coteach it is put together from the run's other files."""
    if not path.is_dir():
        raise DataError(f"{path} is no folder: give a run folder, or one with {DESCRIPTION} and {WEIGHTS}")
    if (path / DESCRIPTION).exists():
        return read_description(path)
    run = RunFolder(path)
    if not run.config_file.exists():
        raise DataError(f"{path} has no {DESCRIPTION}: give a run folder, or one with {DESCRIPTION} and {WEIGHTS}")
    if not run.done:
        raise DataError(f"{path} holds no finished run: run it to its end first")
    config, summary = run.config(), run.summary()
    if config.data not in CATALOGUE:  # only there the shape is known
        raise DataError(f"{path} is of an older coteach, which wrote no {DESCRIPTION}: delete it and train again")
    try:
        return Description.from_dict(
            {
                "format": FORMAT,
                "network": config.network,
                "dropout": config.dropout,
                "networks": len(summary["parameters"]),
                "shape": list(CATALOGUE[config.data].shape),
                "dtype": "uint8",
                "class_names": summary["class_names"],
                "preprocessing": {"kind": "arrays"},
            }
        )
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"{run.summary_file} is damaged ({error}): delete the folder and train again") from error


def _empty(about: Description, network: Network | str | None, path: Path) -> nn.Module:
    """The network before it has its weights; one of coteach's own takes no memory, whatever size the file claims."""
    shape, classes = about.shape, len(about.class_names)
    if about.network in NETWORKS and not callable(network):
        try:
            with torch.device("meta"):
                return build(about.network, shape, classes, about.dropout)
        except (ValueError, TypeError, OverflowError, RuntimeError) as error:  # too small for it, or beyond any size
            reason = str(error).splitlines()[0]
            raise DataError(
                f"{path}: no {about.network} for samples of shape {shape} ({reason}): {_WAY_OUT}"
            ) from error
    with kept_random_state(torch.device("cpu")):
        if callable(network):
            return own(network, shape, classes)
        return build(about.network, shape, classes, about.dropout)


def _filled(net: nn.Module, number: int, tensors: dict[str, Tensor], path: Path) -> nn.Module:
    """The network of this number with its weights, which are taken out of `tensors`."""
    mine = {}
    for name, wanted in net.state_dict().items():
        full = f"{number}.{name}"
        found = tensors.pop(full, None)
        if found is None:
            raise DataError(f"{path}: its weights lack {full!r}: {_WAY_OUT}")
        if (found.shape, found.dtype) != (wanted.shape, wanted.dtype):
            raise DataError(f"{path}: {full!r} is {_size(found)}, the network has {_size(wanted)}: {_WAY_OUT}")
        mine[name] = found
    net.load_state_dict(mine, assign=any(parameter.is_meta for parameter in net.parameters()))
    return net.to(memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]


def _size(tensor: Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')} {tuple(tensor.shape)}"
