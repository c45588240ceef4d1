"""A grid: one dataset, several noises, methods and seeds, described in a few lines of TOML."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from coteach.config import Config, read_toml
from coteach.errors import SettingError, unknown
from coteach.methods import catalogue
from coteach.noise import Draw
from coteach.paper import in_order
from coteach.recipes import recipe, saved_labels

# key: what it must be, and an example
_KEYS: dict[str, tuple[str, str]] = {
    "title": ("text", 'title = "My data"'),
    "data": ("text", 'data = "digits"'),
    "noises": ("texts", 'noises = ["pair-45", "symmetric-20"]'),
    "methods": ("texts", 'methods = ["standard", "co-teaching"]'),
    "seeds": ("numbers", "seeds = [1, 2, 3]"),
    "recipe": ("text", 'recipe = "paper"'),
    "settings": ("table", "[settings]"),
}
_OWN_LINES = {"data", "noise", "rate", "method", "seed", "name", "init_seed", "order_seed"}


@dataclass(frozen=True)
class Grid:
    """Every combination of noise, method and seed on one dataset."""

    title: str
    data: str
    noises: tuple[str, ...]
    methods: tuple[str, ...]
    seeds: tuple[int, ...]
    recipe: str | None
    settings: dict[str, Any]

    def runs(self) -> Iterator[tuple[Config, Draw | None]]:
        """The runs of the grid, cell by cell, with the labels of a noise that is a file of them."""
        for noise in self.noises:
            kind, rate = parse_noise(noise)
            labels = saved_labels(kind)
            for method in self.methods:
                own = self._settings_for(method)
                for seed in self.seeds:
                    config = recipe(self.data, noise=kind, rate=rate, method=method, name=self.recipe, seed=seed, **own)
                    yield config, labels

    def _settings_for(self, method: str) -> dict[str, Any]:
        """The settings of the grid, less those that only other methods of the grid have."""
        others = {name for other in self.methods for name in catalogue.settings_of(other)}
        mine = catalogue.settings_of(method)
        return {key: value for key, value in self.settings.items() if key in mine or key not in others}


def read_grid(name: str) -> Grid:
    """The grid of that name that comes with coteach, or the one in a TOML file."""
    built_in = {Path(file.name).stem: file for file in files("coteach.bench").joinpath("grids").iterdir()}
    if name in built_in:
        path = Path(str(built_in[name]))
    elif name.endswith(".toml"):
        path = Path(name)
    else:
        raise unknown("grid", name, built_in, "or the path of a .toml file")
    values = read_toml(path)
    if values.get("methods", "all") == "all":
        values["methods"] = in_order(catalogue.entries())
    for key, value in values.items():
        _check(path.name, key, value)
    for key in ("data", "noises"):
        if key not in values:
            raise SettingError(f"the grid {path.name} has no {key}: add a line such as {_KEYS[key][1]}")
    settings = values.get("settings", {})
    for key in settings:
        if key in _OWN_LINES:
            raise SettingError(f"the grid {path.name} sets {key} under [settings]: it has a line of its own above")
    return Grid(
        title=values.get("title", path.stem),
        data=values["data"],
        noises=tuple(values["noises"]),
        methods=tuple(values["methods"]),
        seeds=tuple(values.get("seeds", [1])),
        recipe=values.get("recipe"),
        settings=settings,
    )


def _check(grid: str, key: str, value: Any) -> None:
    """Refuse an unknown key, a value of the wrong kind, an empty list and one that repeats itself."""
    if key not in _KEYS:
        raise unknown(f"key of the grid {grid}", key, _KEYS)
    kind, example = _KEYS[key]
    element = {"texts": str, "numbers": int}.get(kind)
    if element is None:
        right = isinstance(value, str if kind == "text" else dict)
    else:
        right = isinstance(value, list) and bool(value) and all(type(each) is element for each in value)
        if right and len(set(value)) != len(value):
            raise SettingError(f"{key} of the grid {grid} has an entry twice: each run counts once")
    if not right:
        raise SettingError(f"{key} of the grid {grid} is {value!r}: write it like {example}")


def parse_noise(name: str) -> tuple[str, float | None]:
    """pair-45 is pair noise at 45 %; a name without a number is a kind or a file by itself."""
    match = re.fullmatch(r"([a-z]+)-(\d+(?:\.\d+)?)", name)
    return (match[1], float(match[2]) / 100) if match else (name, None)
