"""Samples for a trained model, read and encoded as the data that it was trained on. Labels need not be there."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from coteach.data import arrays, images
from coteach.data.arrays import read_inputs
from coteach.data.dataset import Array, as_samples
from coteach.data.doors import existing
from coteach.data.folders import ImageFiles, any_folder, file_column, listed_files, none_readable
from coteach.data.images import Form, read_images, too_large
from coteach.data.notes import left_out
from coteach.data.tables import Table, TableEncoder, read_table
from coteach.errors import DataError


def read_samples(
    source: str | Path, preprocessing: Mapping[str, Any], on_message: Callable[[str], None] = lambda message: None
) -> tuple[Array, tuple[str, ...]]:
    """The samples at a path, and what each is called: its file, or its row counted from 0.

    `preprocessing` is that of the Dataset that a model was trained on. What cannot be read is left out, and told to
    `on_message`.
    """
    path = existing(Path(source).expanduser())
    learned = preprocessing["kind"]
    if not path.is_dir() and path.suffix.lower() in arrays.SUFFIXES:
        if learned == "table":
            raise DataError(f"{path} holds arrays, but the model learned from a table: give one with the same columns")
        x = as_samples(path.name, read_inputs(path))
        return x, _row_ids(x)
    table: Table | None = None
    if not path.is_dir() and not images.is_image(path):
        table, notes = read_table(path)
        for note in notes:
            on_message(note)
    if learned == "table":
        if table is None:
            raise DataError(f"{path} holds images, but the model learned from a table: give one with the same columns")
        x = TableEncoder.from_list(preprocessing["columns"]).transform(table, str(path))
        return x, _row_ids(x)
    if table is not None and file_column(table) is None:
        raise DataError(f"{path} names no image files, but the model learned from {learned}: give such samples")
    if "size" not in preprocessing:
        raise DataError(f"{path} holds images, but the model learned from other arrays: give an .npz or .npy file")
    return _decoded(_files(path, table), Form(preprocessing["size"], preprocessing["channels"]), on_message)


def _files(path: Path, table: Table | None) -> ImageFiles:
    if table is not None:
        return listed_files(table, path, None)
    return any_folder(path) if path.is_dir() else ImageFiles(str(path), (path,), (path.name,), ())


def _decoded(files: ImageFiles, form: Form, on_message: Callable[[str], None]) -> tuple[Array, tuple[str, ...]]:
    x, lost = read_images(files.paths, form, in_file=too_large(len(files.paths), form))
    if not len(x):
        raise none_readable(files)
    broken = left_out([files.ids[place] for place in lost], "image", "that cannot be read", len(files.ids))
    for note in (*files.notes, *broken):
        on_message(note)
    return x, files.some(np.delete(np.arange(len(files.ids)), lost)).ids


def _row_ids(x: Array) -> tuple[str, ...]:
    return tuple(map(str, range(len(x))))
