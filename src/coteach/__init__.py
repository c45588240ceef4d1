"""Train deep classifiers on wrong labels, and say which labels are wrong."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from coteach.batches import Batch
    from coteach.config import Config
    from coteach.data import Dataset, load
    from coteach.errors import CoteachError
    from coteach.estimator import NoisyLabelClassifier
    from coteach.methods.base import Method, Step
    from coteach.model import Model, load_model
    from coteach.noise import Draw, corrupt, pair, symmetric
    from coteach.recipes import recipe
    from coteach.results.run import InterruptedRun, Progress, Result, Runner, read_result, run

__all__ = [
    "Batch",
    "Config",
    "CoteachError",
    "Dataset",
    "Draw",
    "InterruptedRun",
    "Method",
    "Model",
    "NoisyLabelClassifier",
    "Progress",
    "Result",
    "Runner",
    "Step",
    "corrupt",
    "load",
    "load_model",
    "pair",
    "read_result",
    "recipe",
    "run",
    "symmetric",
]

# Each public name is imported when it is first used: `coteach --help` must not wait for torch.
_HOMES = {
    "Batch": "batches",
    "Config": "config",
    "CoteachError": "errors",
    "Dataset": "data",
    "Draw": "noise",
    "InterruptedRun": "results.run",
    "Method": "methods.base",
    "Model": "model",
    "NoisyLabelClassifier": "estimator",
    "Progress": "results.run",
    "Result": "results.run",
    "Runner": "results.run",
    "Step": "methods.base",
    "corrupt": "noise",
    "load": "data",
    "load_model": "model",
    "pair": "noise",
    "read_result": "results.run",
    "recipe": "recipes",
    "run": "results.run",
    "symmetric": "noise",
}


if not TYPE_CHECKING:  # a type checker knows each name from above, and no others

    def __getattr__(name: str) -> Any:
        if name not in _HOMES:
            raise AttributeError(f"module 'coteach' has no attribute {name!r}")
        return getattr(import_module(f"coteach.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
