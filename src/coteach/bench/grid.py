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
from coteach.paper import in_order
from coteach.recipes import recipe

_KEYS = {"title", "data", "noises", "methods", "seeds", "recipe", "settings"}


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

    def configs(self) -> Iterator[Config]:
        """The runs of the grid, cell by cell."""
        for noise in self.noises:
            kind, rate = parse_noise(noise)
            for method in self.methods:
                known = catalogue.settings_of(method)
                own = {key: value for key, value in self.settings.items() if key in known or key not in self._foreign}
                for seed in self.seeds:
                    yield recipe(self.data, noise=kind, rate=rate, method=method, name=self.recipe, seed=seed, **own)

    @property
    def _foreign(self) -> set[str]:
        """The settings of any method: one that a method does not have passes it by."""
        return {name for entry in catalogue.entries().values() for name in entry.settings}


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
    for key in values:
        if key not in _KEYS:
            raise unknown(f"key of the grid {path.name}", key, _KEYS)
    for key in ("data", "noises"):
        if key not in values:
            raise SettingError(f"the grid {path.name} has no {key}: add a line such as {_EXAMPLES[key]}")
    methods = values.get("methods", "all")
    return Grid(
        title=values.get("title", path.stem),
        data=values["data"],
        noises=tuple(values["noises"]),
        methods=tuple(in_order(catalogue.entries()) if methods == "all" else methods),
        seeds=tuple(values.get("seeds", [1])),
        recipe=values.get("recipe"),
        settings=values.get("settings", {}),
    )


_EXAMPLES = {"data": 'data = "digits"', "noises": 'noises = ["pair-45"]'}


def parse_noise(name: str) -> tuple[str, float | None]:
    """pair-45 is pair noise at 45 %; a name without a number is a kind or a file by itself."""
    match = re.fullmatch(r"([a-z]+)-(\d+(?:\.\d+)?)", name)
    return (match[1], float(match[2]) / 100) if match else (name, None)
