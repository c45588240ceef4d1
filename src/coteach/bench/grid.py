"""A grid: tables of runs (data, noises, methods, seeds, settings), described in a few lines of TOML."""

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from typing import Any

from coteach import paper
from coteach.config import Config, read_toml
from coteach.data import CATALOGUE
from coteach.errors import SettingError, unknown
from coteach.methods import catalogue
from coteach.noise import Draw
from coteach.paper import Cell, in_order
from coteach.recipes import recipe, saved_labels

# key: what it must be, and an example
_KEYS: dict[str, tuple[str, str]] = {
    "title": ("text", 'title = "My data"'),
    "data": ("text", 'data = "digits"'),
    "noises": ("texts", 'noises = ["pair-45", "symmetric-20"]'),
    "methods": ("texts", 'methods = ["standard", "co-teaching"]'),
    "seeds": ("numbers", "seeds = [1, 2, 3]"),
    "recipe": ("text", 'recipe = "paper"'),
    "printed": ("text", 'printed = "mnist"'),
    "settings": ("table", "[settings]"),
    "sweep": ("table", "sweep = { t_k = [5, 10, 15] }"),
}
_OWN_LINES = {"data", "noise", "rate", "method", "seed", "name", "init_seed", "order_seed"}
_OF_THE_RATE = re.compile(r"(\d+(?:\.\d+)?) ?\* ?rate")


@dataclass(frozen=True)
class Planned:
    """One run of a grid and its place in a table."""

    table: str
    row: str
    column: str
    noise: str
    """As tables name it."""
    config: Config
    labels: Draw | None
    """Of a noise that is a file of labels."""

    def tags(self) -> dict[str, str]:
        """What the run may be chosen by."""
        config = self.config
        return {"table": self.table, "data": config.data, "noise": self.noise, "method": config.method}


@dataclass(frozen=True)
class TablePlan:
    """Every combination of noise, method, swept setting and seed on one dataset: one table."""

    title: str
    data: str
    noises: tuple[str, ...]
    methods: tuple[str, ...]
    seeds: tuple[int, ...]
    recipe: str | None
    settings: Mapping[str, Any]
    sweep: Mapping[str, tuple[Any, ...]]
    """Settings with several values. The last one makes the columns, and then the methods do not."""
    printed: str | None
    """Which of the paper's tables these cells stand in."""
    all_methods: tuple[str, ...]
    """Those of the whole table, when this is a part of it: a setting of any of them may stand in it."""

    @cached_property
    def planned(self) -> tuple[Planned, ...]:
        """The runs of the table, cell by cell."""
        runs = tuple(self._runs())
        if len({(run.row, run.column, run.config.init_seed) for run in runs}) != len(runs):
            raise SettingError(
                f"two noises or two swept values of the table {self.title!r} have the same name: each run counts once"
            )
        return runs

    def _runs(self) -> Iterator[Planned]:
        for noise, method, swept in self._cells():
            kind, rate = parse_noise(noise)
            labels = saved_labels(kind)
            settings = self._settings_for(method, swept, rate)
            for seed in self.seeds:
                try:
                    config = recipe(
                        self.data, noise=kind, rate=rate, method=method, name=self.recipe, seed=seed, **settings
                    )
                except SettingError as error:
                    raise SettingError(f"table {self.title!r}: {error}") from error
                name = noise_label(noise)
                yield Planned(self.title, *self._place(name, method, swept), name, config, labels)

    def _cells(self) -> Iterator[tuple[str, str, dict[str, Any]]]:
        """Noise, method and swept settings of each cell."""
        for noise, method, values in itertools.product(
            self.noises, self.methods, itertools.product(*self.sweep.values())
        ):
            yield noise, method, dict(zip(self.sweep, values, strict=True))

    def _place(self, noise: str, method: str, swept: Mapping[str, Any]) -> tuple[str, str]:
        """The row and the column of a cell."""
        if not swept:
            return noise, method
        *rows, last = (f"{key} = {value}" for key, value in swept.items())
        return ", ".join([noise, *([method] if len(self.all_methods) > 1 else []), *rows]), last

    def _settings_for(self, method: str, swept: Mapping[str, Any], rate: float | None) -> dict[str, Any]:
        """The settings of a cell, less those that only other methods of the table have."""
        others = {name for other in self.all_methods for name in catalogue.settings_of(other)}
        mine = catalogue.settings_of(method)
        chosen = {key: value for key, value in self.settings.items() if key in mine or key not in others}
        return chosen | {key: _of_the_rate(value, rate) for key, value in swept.items()}

    def printed_cells(self) -> dict[tuple[str, str], Cell]:
        """What the paper prints for the cells of this table."""
        if self.printed is None:
            return {}
        found = {}
        for noise, method, swept in self._cells():
            name, (_, rate) = noise_label(noise), parse_noise(noise)
            if self.printed in paper.DATASETS:
                places = paper.column(method)
            else:
                values = {key: _of_the_rate(value, rate) for key, value in swept.items()}
                places = paper.place(self.printed, method, values, rate) if rate else None
            printed = paper.printed(self.printed, name, places)
            if printed is not None:
                found[self._place(name, method, swept)] = printed
        return found


@dataclass(frozen=True)
class Grid:
    """The tables of one file."""

    title: str
    tables: tuple[TablePlan, ...]

    def planned(self) -> list[Planned]:
        """Every run, table by table; one that stands in several tables comes as often."""
        return [run for table in self.tables for run in table.planned]

    def runs(self) -> Iterator[tuple[Config, Draw | None]]:
        """Every run once."""
        seen = set()
        for planned in self.planned():
            if planned.config.name not in seen:
                seen.add(planned.config.name)
                yield planned.config, planned.labels

    def only(self, words: Sequence[str]) -> "Grid":
        """The part of the grid that words name: tables, data, noises and methods.

        Words of one kind add up, words of different kinds narrow down: `mnist standard co-teaching` are two
        methods on one dataset.
        """
        known = {(kind, value) for planned in self.planned() for kind, value in planned.tags().items()}
        chosen: dict[str, set[str]] = {}
        for asked in words:
            word = noise_label(asked)
            kinds = {kind for kind, value in known if value in (asked, word)}
            if not kinds:
                raise unknown("part of the grid", asked, sorted({value for _, value in known}))
            for kind in kinds:
                chosen.setdefault(kind, set()).add(word if kind == "noise" else asked)

        def part(kind: str, values: Sequence[str]) -> tuple[str, ...]:
            return tuple(value for value in values if kind not in chosen or value in chosen[kind])

        tables = [
            replace(
                table,
                noises=tuple(noise for noise in table.noises if part("noise", [noise_label(noise)])),
                methods=part("method", table.methods),
            )
            for table in self.tables
            if part("table", [table.title]) and part("data", [table.data])
        ]
        kept = tuple(table for table in tables if table.noises and table.methods)
        if not kept:
            raise SettingError(f"no run of the grid is all of {', '.join(words)}: name fewer")
        return replace(self, tables=kept)

    def repeated(self, seeds: int) -> "Grid":
        """The grid with the seeds 1 to `seeds`."""
        if seeds < 1:
            raise SettingError(f"seeds is {seeds}: give at least one")
        tables = tuple(replace(table, seeds=tuple(range(1, seeds + 1))) for table in self.tables)
        return replace(self, tables=tables)


def built_in() -> dict[str, Path]:
    """The grids that come with coteach."""
    folder = files("coteach.bench").joinpath("grids")
    return {Path(file.name).stem: Path(str(file)) for file in folder.iterdir() if file.name.endswith(".toml")}


def read_grid(name: str) -> Grid:
    """The grid of that name that comes with coteach, or the one in a TOML file.

    What stands at the top of the file holds for every `[[table]]` in it; without any, the file is one table.
    """
    if name.endswith(".toml"):
        path = Path(name)
    elif name in built_in():
        path = built_in()[name]
    else:
        raise unknown("grid", name, built_in(), "or the path of a .toml file")
    values = read_toml(path)
    tables = values.pop("table", [{}])
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables) or not tables:
        raise SettingError(f"table of the grid {path.name} is {tables!r}: begin each table with a line [[table]]")
    title = values.get("title", path.stem)
    plans = []
    for table in tables:
        settings = [each.get("settings", {}) for each in (values, table)]
        for each in settings:
            _check(path.name, "settings", each)
        merged = {"title": title} | values | table | {"settings": settings[0] | settings[1]}
        plans.append(_table(path, merged))
    if len({plan.title for plan in plans}) != len(plans):
        raise SettingError(f"two tables of the grid {path.name} have the same title: give each its own")
    return Grid(title if isinstance(title, str) else path.stem, tuple(plans))


def _table(path: Path, values: dict[str, Any]) -> TablePlan:
    grid = path.name
    if values.get("methods", "all") == "all":
        values["methods"] = in_order(catalogue.entries())
    for key, value in values.items():
        _check(grid, key, value)
    for key in ("data", "noises"):
        if key not in values:
            raise SettingError(f"the grid {grid} has no {key}: add a line such as {_KEYS[key][1]}")
    settings, sweep = values["settings"], values.get("sweep", {})
    for key in (*settings, *sweep):
        if key in _OWN_LINES:
            raise SettingError(
                f"the grid {grid} has {key} among its settings or sweeps: it has a line of its own above"
            )
    for key, each in sweep.items():
        if not isinstance(each, list) or not each:
            raise SettingError(f"sweep of the grid {grid} has no list for {key}: write it like {_KEYS['sweep'][1]}")
    return TablePlan(
        title=values["title"],
        data=_data_beside(path, values["data"]),
        noises=tuple(_beside(path, noise) for noise in values["noises"]),
        methods=tuple(values["methods"]),
        seeds=tuple(values.get("seeds", [1])),
        recipe=values.get("recipe"),
        settings=settings
        | {key: _beside(path, settings[key]) for key in ("label", "test") if isinstance(settings.get(key), str)},
        sweep={key: tuple(each) for key, each in sweep.items()},
        printed=_printed(grid, values),
        all_methods=tuple(values["methods"]),
    )


def _beside(grid: Path, name: str) -> str:
    """A file that lies beside the grid by its path from here, so that a grid can be run from anywhere."""
    file = grid.parent / name
    return str(file) if Path(name).suffix and file.is_file() else name


def _data_beside(grid: Path, name: str) -> str:
    """Data that lie beside the grid, maybe in a folder, by their path from here."""
    folder = grid.parent / name
    return str(folder) if name not in CATALOGUE and folder.is_dir() else _beside(grid, name)


def _printed(grid: str, values: Mapping[str, Any]) -> str | None:
    """The paper's table that a table of a grid repeats: the one it names, or that of its dataset."""
    name, sweep = values.get("printed"), values.get("sweep", {})
    if name is None:
        return values["data"] if values["data"] in paper.DATASETS and not sweep else None
    if name not in (*paper.DATASETS, *paper.SWEPT):
        raise unknown(f"printed table in the grid {grid}", name, [*paper.DATASETS, *paper.SWEPT])
    if name in paper.SWEPT and not set(paper.SWEPT[name]) <= set(sweep):
        raise SettingError(
            f"the printed table {name} sweeps {' and '.join(paper.SWEPT[name])}: the grid {grid} must, too"
        )
    return str(name)


def _check(grid: str, key: str, value: Any) -> None:
    """Refuse an unknown key, a value of the wrong kind, an empty list and one that repeats itself."""
    if key not in _KEYS:
        raise unknown(f"key of the grid {grid}", key, [*_KEYS, "table"])
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


def _of_the_rate(value: Any, rate: float | None) -> Any:
    """A swept value; `0.5 * rate` is that part of the noise rate."""
    match = _OF_THE_RATE.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        return value
    if rate is None:
        raise SettingError(f"{value!r} needs a noise with a rate, such as pair-45")
    return round(float(match[1]) * rate, 10)


def noise_label(noise: str) -> str:
    """A noise as tables name it: pair-45, none, or the name of its file without the folder and the ending."""
    kind, rate = parse_noise(noise)
    if rate is not None:
        return f"{kind}-{100 * rate:.4g}"
    return Path(noise).stem if noise.endswith((".csv", ".npy", ".npz")) else noise


def parse_noise(name: str) -> tuple[str, float | None]:
    """pair-45 is pair noise at 45 %; a name without a number is a kind or a file by itself."""
    match = re.fullmatch(r"([a-z]+)-(\d+(?:\.\d+)?)", name)
    return (match[1], float(match[2]) / 100) if match else (name, None)
