"""A model as an ONNX file, compared with torch in onnxruntime before it gets its name."""

import copy
import io
import json
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
import torch

import coteach
from coteach.data.dataset import Array
from coteach.errors import SettingError
from coteach.model.trained import Ensemble, Model
from coteach.storage import write_over

INPUT, OUTPUT = "x", "probabilities"
TOLERANCE = 1e-4
"""The largest difference between two probabilities that may be rounding."""


def export(model: Model, out: Path | str) -> float:
    """Write a model to a file that must not be there yet; returns the largest difference from torch.

    The graph takes what `predict_proba` takes, samples as they are stored, any number of them, and gives
    probabilities. Its metadata has class_names and preprocessing as JSON.
    """
    try:
        import onnxruntime
        import onnxscript  # noqa: F401 - what torch exports with
    except ImportError as error:
        raise SettingError(f"{error.name} is not installed: pip install 'coteach[onnx]'") from None
    out = Path(out)
    if out.exists():
        raise SettingError(f"{out} is there already: give another --out, or delete it first")
    ensemble = copy.deepcopy(model.ensemble).cpu().eval()
    content = _converted(model, ensemble).SerializeToString()
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # errors
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    differences = []
    for x in (_random(model, 1), _random(model, 7)):
        with torch.no_grad():
            wanted = ensemble(torch.from_numpy(x)).numpy()
        (found,) = session.run([OUTPUT], {INPUT: x})
        differences.append(np.abs(found - wanted).max())
    difference = float(np.max(differences))
    if not difference <= TOLERANCE:  # NaN is not
        raise SettingError(
            f"{model.network} gives probabilities that differ by {difference:.2g} in ONNX, so nothing was "
            "written: simplify the network"
        )
    write_over(out, content)
    return difference


def _converted(model: Model, ensemble: Ensemble) -> Any:
    """The ONNX model, as onnx's protocol buffer."""
    example = torch.from_numpy(_random(model, 2))
    try:
        with _quiet():
            program: Any = torch.onnx.export(
                ensemble,
                (example,),
                dynamo=True,
                input_names=[INPUT],
                output_names=[OUTPUT],
                dynamic_shapes=({0: torch.export.Dim("batch")},),
                verbose=False,
            )
    except Exception as error:  # whatever the exporter meets in a network of the user's own
        cause: BaseException = error
        while cause.__cause__ is not None:
            cause = cause.__cause__
        reason = next(iter(str(cause).strip().splitlines()), type(cause).__name__)
        raise SettingError(f"{model.network} cannot be exported to ONNX: {reason}") from error
    proto = program.model_proto
    _forget_sources(proto)
    properties = {
        "class_names": json.dumps(model.class_names),
        "preprocessing": json.dumps(dict(model.preprocessing)),
        "coteach": coteach.__version__,
    }
    for key, value in properties.items():
        proto.metadata_props.add(key=key, value=value)
    return proto


def _forget_sources(proto: Any) -> None:
    """Take out the lines and paths of this machine's source files that the exporter notes at every node."""
    for part in (proto.graph, *proto.graph.node, *proto.graph.value_info, *proto.graph.input, *proto.graph.output):
        part.ClearField("metadata_props")


def _random(model: Model, number: int) -> Array:
    """Samples as the model takes them."""
    generator = np.random.default_rng(number)
    size = (number, *model.shape)
    if model.about.dtype == "uint8":
        return generator.integers(0, 256, size, dtype=np.uint8)
    return generator.standard_normal(size, dtype=np.float32)


@contextmanager
def _quiet() -> Iterator[None]:
    """Without what the exporter says about packages that nobody needs here, and whole graphs when it fails."""
    logger = logging.getLogger("torch.onnx")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(), redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(before)
