"""The finished runs of a folder: run folders, or small files made of them."""

from collections.abc import Iterable
from pathlib import Path

from coteach.config import Config
from coteach.errors import CoteachError, DataError
from coteach.results.folder import RunFolder
from coteach.results.publish import read_published
from coteach.results.run import Result, read_result, sources


class Collection:
    """Finished runs, found by what they are an answer to."""

    def __init__(self, results: Iterable[Result], passed_over: Iterable[str] = ()) -> None:
        self._results: dict[str, list[Result]] = {}
        for result in results:
            self._results.setdefault(result.config.experiment, []).append(result)
        self.passed_over = list(passed_over)
        """What was there and could not be read, and why."""

    def find(self, config: Config) -> Result | None:
        """The run that answers a config. One whose precision is `auto` is answered by any precision.

        Of several ways to compute a step, the one counts that is the default on the run's device; of runs that differ
        in the source of their method or network, the one made with the present source.
        """
        found = [
            result
            for result in self._results.get(config.experiment, [])
            if config.precision in ("auto", result.config.precision)
        ]
        if len(found) > 1:
            found = [result for result in found if _of_itself(result)] or found
        if len(found) > 1:
            now = sources(config).items()
            found = [result for result in found if now <= vars(result.config.inputs).items()] or found
        if len(found) > 1:
            one, two = found[:2]
            raise DataError(
                f"{one.path.name} and {two.path.name} are two runs of the same cell and seed, which differ in "
                f"{_difference(one.config, two.config)}: move one of them away"
            )
        return found[0] if found else None


def _of_itself(result: Result) -> bool:
    """Whether a run was computed as it is on its device unless something else is asked for."""
    on_gpu = str(result.summary["environment"].get("device", "")).startswith("cuda")
    return (result.config.precision, result.config.compile) == (("bf16", True) if on_gpu else ("fp32", False))


def _difference(one: Config, two: Config) -> str:
    values, others = one.to_dict(), two.to_dict()
    names = [name for name, value in values.items() if others[name] != value]
    return " and ".join(names) or "nothing"


def read_runs(folder: Path, *, may_be_empty: bool = False) -> Collection:
    """Every finished run in a folder; weights may be gone. What cannot be read is passed over.

    A folder in which nothing can be read is refused, unless it `may_be_empty`.
    """
    if not folder.is_dir():
        raise DataError(f"{folder} is no folder: give one with run folders, or with published runs")
    results: dict[str, Result] = {}
    passed_over = []
    for path in sorted(folder.iterdir(), key=lambda path: path.suffix == ".json"):
        try:
            if path.is_dir() and RunFolder(path).done:
                results[path.name] = read_result(path, weights=False)
            elif path.suffix == ".json" and path.stem not in results:  # else it was published beside its folder
                results[path.stem] = read_published(path)
        except CoteachError as error:
            passed_over.append(str(error))
    if passed_over and not results and not may_be_empty:
        raise DataError(passed_over[0])
    return Collection(results.values(), passed_over)
