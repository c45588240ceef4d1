"""Trained weights, and the small JSON beside them that says what they are of: written together, read without running.

weights.safetensors    the tensors of each network, named "0.<name>", "1.<name>", ...
model.json             a `Description`
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import safetensors
import safetensors.torch
from torch import Tensor

import coteach
from coteach.config import Config
from coteach.data import Dataset
from coteach.errors import DataError, StorageError
from coteach.storage import write_over

FORMAT = 1
"""Of model.json; a file of another one is not read."""
WEIGHTS, DESCRIPTION = "weights.safetensors", "model.json"


@dataclass(frozen=True, kw_only=True)
class Description:
    """What the weights are of, and what they take."""

    network: str
    """A name that `nets.build` knows, or module:function of the user's."""
    dropout: float
    networks: int
    """How many networks of this kind there are."""
    shape: tuple[int, ...]
    """Of one sample: (height, width, channels) or (features,)."""
    dtype: str
    """As the samples were stored in training: uint8, which are scaled to [0, 1], or float32, taken as they are."""
    class_names: tuple[str, ...]
    preprocessing: Mapping[str, Any]
    """How the raw source became samples of this shape: `Dataset.preprocessing`."""
    weights_sha256: str | None = None
    """Of the file with the weights."""

    @classmethod
    def of(cls, config: Config, dataset: Dataset, networks: int) -> Self:
        """Of the networks that a config makes of a dataset."""
        return cls(
            network=config.network,
            dropout=config.dropout,
            networks=networks,
            shape=dataset.shape,
            dtype=str(dataset.x_train.dtype),
            class_names=dataset.class_names,
            preprocessing=dict(dataset.preprocessing),
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON-ready values."""
        lists = {"shape": list(self.shape), "class_names": list(self.class_names)}
        return {"format": FORMAT, **vars(self), **lists, "coteach": coteach.__version__}

    @classmethod
    def from_dict(cls, values: Any) -> Self:
        """The description in plain values; a ValueError names the first that is missing or not what it must be."""
        if not isinstance(values, dict):
            raise ValueError("it holds no table of values")
        if values.get("format") != FORMAT:
            raise ValueError(f"its format is {values.get('format')!r}, this coteach reads {FORMAT}")
        found = {"weights_sha256": None} | {name: values[name] for name in _RIGHT if name in values}
        for name, right in _RIGHT.items():
            if name not in found:
                raise ValueError(f"it has no {name}")
            if not right(found[name]):
                raise ValueError(f"its {name} is {json.dumps(found[name])[:60]}")
        form = found["preprocessing"]
        if "size" in form and [form["size"], form["size"], form.get("channels")] != found["shape"]:
            raise ValueError(f"its preprocessing makes no samples of shape {found['shape']}")
        return cls(**found | {name: tuple(found[name]) for name in ("shape", "class_names")})


_RIGHT: dict[str, Callable[[Any], bool]] = {
    "network": lambda value: isinstance(value, str),
    "dropout": lambda value: type(value) in (int, float) and 0 <= value < 1,
    "networks": lambda value: type(value) is int and value >= 1,
    "shape": lambda value: _list_of(int, value) and len(value) in (1, 3) and min(value) >= 1,
    "dtype": lambda value: value in ("uint8", "float32"),
    "class_names": lambda value: _list_of(str, value),
    "preprocessing": lambda value: isinstance(value, dict) and isinstance(value.get("kind"), str),
    "weights_sha256": lambda value: value is None or isinstance(value, str),
}


def _list_of(kind: type, value: Any) -> bool:
    return isinstance(value, list) and len(value) > 0 and all(type(each) is kind for each in value)


def write_weights(folder: Path, tensors: Mapping[str, Tensor], description: Description) -> None:
    """Write both files, the JSON last."""
    content = safetensors.torch.save(
        {name: value.detach().cpu().contiguous().clone() for name, value in tensors.items()}
    )
    described = replace(description, weights_sha256=hashlib.sha256(content).hexdigest())
    write_over(folder / WEIGHTS, content)
    write_over(folder / DESCRIPTION, json.dumps(described.to_dict(), indent=2) + "\n")


def read_description(folder: Path) -> Description:
    """What the weights in a folder are of."""
    path = folder / DESCRIPTION
    try:
        return Description.from_dict(json.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise StorageError(f"cannot read {path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} is damaged ({error}): copy it again, or train again") from error


def read_weights(folder: Path, description: Description | None) -> dict[str, Tensor]:
    """The tensors in a folder, which must be those that the description, if there is one, was written for."""
    path = folder / WEIGHTS
    try:
        content = path.read_bytes()
    except OSError as error:
        raise StorageError(f"cannot read {path}: {error.strerror}") from error
    if description is not None and description.weights_sha256 not in (None, hashlib.sha256(content).hexdigest()):
        raise DataError(f"{path} is not the file that {DESCRIPTION} was written for: copy both again, or train again")
    try:
        return safetensors.torch.load(content)
    except safetensors.SafetensorError as error:
        raise DataError(f"{path} is damaged ({error}): copy it again, or train again") from error
