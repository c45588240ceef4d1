"""The finished runs of a folder: run folders, or small files made of them."""

from collections.abc import Iterable
from pathlib import Path

from coteach.config import Config
from coteach.errors import DataError
from coteach.results.folder import RunFolder
from coteach.results.publish import read_published
from coteach.results.run import Result, read_result


class Collection:
    """Finished runs, found by what they are an answer to."""

    def __init__(self, results: Iterable[Result]) -> None:
        self._results: dict[str, list[Result]] = {}
        for result in results:
            self._results.setdefault(result.config.experiment, []).append(result)

    def find(self, config: Config) -> Result | None:
        """The run that answers a config. One whose precision is `auto` is answered by any precision."""
        found = [
            result
            for result in self._results.get(config.experiment, [])
            if config.precision in ("auto", result.config.precision)
        ]
        if len(found) > 1:
            one, two = (result.path.name for result in found[:2])
            raise DataError(
                f"{one} and {two} are two runs of the same cell and seed: "
                "set the precision in the grid, or move one of them away"
            )
        return found[0] if found else None


def read_runs(folder: Path) -> Collection:
    """Every finished run in a folder."""
    if not folder.is_dir():
        raise DataError(f"{folder} is no folder: give one with run folders, or with published runs, with --runs")
    paths = sorted(folder.iterdir())
    results = [read_result(path) for path in paths if path.is_dir() and RunFolder(path).done]
    results += [read_published(path) for path in paths if path.suffix == ".json"]
    return Collection(results)
