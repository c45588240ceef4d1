"""One run's whole description: a frozen dataclass, TOML or JSON in, JSON out, and a stable hash."""

import dataclasses
import hashlib
import json
import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self

from coteach.errors import SettingError, unknown
from coteach.fields import Field, checked, classes, fields_of


@dataclass(frozen=True)
class Inputs:
    """What was read from files of the user's, held here so that a changed file is another run."""

    data_sha256: str | None = None
    labels_sha256: str | None = None
    network_sha256: str | None = None
    method_sha256: str | None = None
    matrix: tuple[tuple[float, ...], ...] | None = None
    warm_up_sha256: str | None = None
    """Of the weights that the networks start with, if they were trained before."""


class Source(NamedTuple):
    """What it takes to load the data of a run; see the fields of `Config`."""

    data: str
    label: str = ""
    test: str = ""
    image_size: int = 0
    test_share: float | None = None


def data_name(data: str) -> str:
    """Data as the names of runs have it: a known name, or that of a file or folder, without its path and ending."""
    path = Path(data)
    name = path.stem if path.suffix.lower() in (".npz", ".npy", ".csv", ".tsv", ".parquet") else path.name
    return name.strip(".") or "data"


@dataclass(frozen=True, kw_only=True)
class Config:
    """Two runs with equal configs train the same networks on the same labels in the same order.

    Each plain field below is also a flag of `coteach train` and a key of a config file. `settings` holds the
    method's own settings, which its file defines. Make one with `coteach.recipe`, which fills in the defaults.
    """

    data: str
    """Dataset: digits, mnist, fashion-mnist, cifar10, cifar100, or the path of your own: a folder of images (one
    subfolder a class), a table or a list of images (.csv, .tsv, .parquet), or arrays (.npz, .npy)."""
    label: str = ""
    """Where the labels of your own data are: the column of a table, or the .npy file for an .npy file of samples."""
    test: str = ""
    """Path of a test set with right labels, in the same form as your own data; by default the one that comes with
    the data, else a part of the data is held out."""
    test_share: float = 0.2
    """Share of your own data to hold out for testing if there is no test set; 0 for none."""
    image_size: int = 0
    """Pixels on each side that image files are brought to; 0 for 32, or their own size if all are small."""
    noise: str = "none"
    """Noise put on the training labels: none, pair, symmetric, the path of a transition matrix (.csv, .npy),
    or the path of saved labels (.npz, from `coteach noise`)."""
    rate: float = 0.0
    """Share of labels that the noise makes wrong, in [0, 1)."""
    noise_seed: int = 0
    """Seed of the noise draw; the authors used one draw for all repetitions."""

    method: str = "co-teaching"
    """How to train: `coteach methods` lists them."""
    network: str = "paper-cnn"
    """Network: paper-cnn, small-cnn, mlp, table-mlp, or module:function of your own, called with (shape, classes). By
    default the one that suits the samples; for your own images without a GPU, the small one."""
    dropout: float = 0.25
    """Dropout of the built-in networks, of whole channels in images; the paper's text says 0.25, the authors' program
    had 0."""
    norm_init: Literal["ones", "uniform"] = "ones"
    """First scales of batch norm in the built-in networks: ones, or uniform in [0, 1], which was PyTorch's default up
    to version 1.1 and so the authors'."""

    epochs: int = 200
    """Number of epochs."""
    batch_size: int = 128
    """Samples in a step."""
    drop_last: bool = True
    """Leave out the last batch of an epoch when it is short."""
    max_steps: int = 0
    """Stop each epoch after this many steps; 0 for no limit. The authors stop at 401 of 468 on MNIST."""
    idle_epochs: int = 0
    """Epochs at the start that only evaluate; the authors' program has one."""
    lr: float = 0.001
    """Learning rate of Adam."""
    decay_from: int = 80
    """Epochs at the full learning rate; after them it falls linearly, to zero just after the last."""
    beta1: float = 0.9
    """Adam's beta1 before the decay starts."""
    late_beta1: float = 0.1
    """Adam's beta1 once the decay has started."""
    hold_out: float = 0.0
    """Share of the noisy training data to hold out; the weights kept are then those of the epoch with the lowest
    loss on it."""
    patience: int = 0
    """Stop once the loss on the held-out share has not been lower for this many epochs; 0 to make all epochs."""
    correction_epochs: int = 0
    """Where the noise rate is estimated, and the method selects by loss: epochs in which the networks learn the labels
    that the estimate suggests, after the warm-up. The method then leaves out the share tau from its first epoch on."""
    guard: Literal["off", "warn", "stop"] = "off"
    """What to do when training has collapsed: a class is not picked any more, or the networks are the same. (A loss
    that is not a number always stops it.)"""
    full_test: bool = True
    """Test on every test sample; no for the authors' way, which leaves out the last short batch."""

    init_seed: int = 1
    """Seed of the networks' initial weights."""
    order_seed: int = 1
    """Seed of the order of samples and of dropout."""
    precision: Literal["auto", "fp32", "tf32", "bf16"] = "auto"
    """Arithmetic of a step: auto is bf16 on a GPU and fp32 on a CPU."""
    compile: bool = True
    """On a GPU, fuse or compile the networks and capture the whole step as one graph."""

    settings: Mapping[str, Any] = field(default_factory=dict)
    inputs: Inputs = Inputs()

    def __post_init__(self) -> None:
        """Check the type and the range of every plain field."""
        plain = {name: getattr(self, name) for name in config_fields()}
        for name, value in checked(plain, config_fields(), "a run").items():
            object.__setattr__(self, name, value)
        for name in _RANGES:
            check_range(name, getattr(self, name))
        for name in ("rate", "beta1", "late_beta1", "dropout", "hold_out", "test_share"):
            if not 0 <= getattr(self, name) < 1:
                raise SettingError(f"{name} is {getattr(self, name):g}: it must be at least 0 and less than 1")
        if self.patience and not self.hold_out:
            raise SettingError(
                f"patience {self.patience} waits for the loss on held-out samples, and there are none: give hold_out"
            )
        if self.lr == 0:
            raise SettingError("lr is 0, so nothing would be learned: give a positive learning rate")
        if self.idle_epochs >= self.epochs:
            raise SettingError(f"idle_epochs {self.idle_epochs} leaves none of {self.epochs} epochs to train in")

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON-ready values."""
        return dataclasses.asdict(self) | {"settings": dict(self.settings)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """The config that `to_dict` described; unknown keys are errors."""
        names = {f.name for f in dataclasses.fields(cls)}
        for key in values:
            if key not in names:
                raise unknown("config key", key, names)
        inputs = dict(values.get("inputs", {}))
        if inputs.get("matrix") is not None:
            inputs["matrix"] = tuple(tuple(map(float, row)) for row in inputs["matrix"])
        return cls(**{**values, "inputs": Inputs(**inputs)})

    @property
    def digest(self) -> str:
        """Eight hex digits that change with any value of the config."""
        values = self.to_dict()
        if self.inputs.data_sha256 is not None:
            for name in ("data", "label", "test"):  # the content is in the hash; where it lies does not matter
                values[name] = Path(values[name]).name
        for table in (values, values["settings"], values["inputs"]):
            for name in _LATER.keys() & table.keys():
                if table[name] == _LATER[name]:
                    del table[name]
        text = json.dumps(values, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:8]

    @property
    def source(self) -> "Source":
        """Where the data come from: two configs with equal sources load the same."""
        return Source(self.data, self.label, self.test, self.image_size, self.test_share)

    @property
    def effective(self) -> "Config":
        """Without what cannot do anything: where no warm-up was made, no estimate is there to correct by."""
        return self if self.inputs.warm_up_sha256 else replace(self, correction_epochs=0)

    @cached_property
    def experiment(self) -> str:
        """Hex digits that are equal for two configs that ask the same and differ only in how a step is computed.

        That is: the precision, the compilation, and the sources of the method and the network.
        """
        inputs = replace(self.inputs, method_sha256=None, network_sha256=None)
        return replace(self.effective, precision="auto", compile=True, inputs=inputs).digest

    @property
    def noise_name(self) -> str:
        """The noise as tables name it: pair-45, symmetric-20, none; one from a file has a piece of its hash too."""
        if self.noise == "none":
            return self.noise
        name = f"{self.noise}-{100 * self.rate:.4g}"
        content = self.inputs.labels_sha256 or self.inputs.matrix
        return f"{name}-{hashlib.sha256(repr(content).encode()).hexdigest()[:4]}" if content else name

    @property
    def name(self) -> str:
        """A readable slug with the hash: the name of the run's folder."""
        seed = f"s{self.init_seed}" if self.init_seed == self.order_seed else f"s{self.init_seed}.{self.order_seed}"
        return f"{data_name(self.data)}-{self.noise_name}-{self.method}-{seed}-{self.digest}"


# What was added after the first results were published. At these values a run keeps the name it had before.
_LATER = {
    "guard": "off", "balanced": False, "warm_up_sha256": None, "correction_epochs": 0,
    "label": "", "test": "", "test_share": 0.2, "image_size": 0, "norm_init": "ones", "transposed": False,
    "patience": 0,
}  # fmt: skip

# The least and the most.
_RANGES = {
    "epochs": (1, 10**6), "batch_size": (2, 10**6), "max_steps": (0, 10**9), "idle_epochs": (0, 10**6),
    "lr": (0, math.inf), "decay_from": (0, 10**6), "noise_seed": (0, 2**63 - 1), "init_seed": (0, 2**63 - 1),
    "order_seed": (0, 2**63 - 1), "image_size": (0, 4096), "correction_epochs": (0, 10**6), "patience": (0, 10**6),
}  # fmt: skip


def check_range(name: str, value: float) -> None:
    """Refuse a number that a plain field of `Config` cannot be."""
    low, high = _RANGES[name]
    if not low <= value <= high:
        raise SettingError(f"{name} is {value}: it must be {f'at least {low}' if value < low else f'at most {high}'}")


@cache
def config_fields() -> dict[str, Field]:
    """The plain fields of `Config`, those that are flags, by name."""
    (node,) = (node for node in classes(Path(__file__)) if node.name == "Config")
    return {field.name: field for field in fields_of(node)}


def read_toml(path: Path) -> dict[str, Any]:
    """The settings in a TOML file, as one flat table."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingError(f"cannot read {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingError(f"{path} is not valid TOML: {error}") from error
