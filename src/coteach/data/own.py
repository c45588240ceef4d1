"""Data of the user's own as a Dataset: images decoded, tables encoded, and a test set found or held out."""

from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from coteach.config import data_name
from coteach.data.arrays import Arrays
from coteach.data.cache import cache_folder
from coteach.data.dataset import Dataset
from coteach.data.doors import Rows, opened, opened_test, version
from coteach.data.folders import ImageFiles, names_images, none_readable
from coteach.data.holding_out import held_out
from coteach.data.images import check_room, form_of, headers, memory, read_images, too_large
from coteach.data.labels import names_of, numbered
from coteach.data.notes import left_out, part_held_out, spelt_alike
from coteach.data.tables import TableEncoder
from coteach.errors import DataError, SettingError

Labels = NDArray[np.int64]

# A command asks for the shape of its data first and for the data later: decoding a folder twice would take minutes.
_last: dict[object, Dataset] = {}


def load_own(path: Path, *, label: str, test: str, image_size: int, share: float) -> Dataset:
    """The data at a path, with the test set at another, or its own, or a part of it that is held out."""
    key = path.absolute(), label, test, image_size, share, version(path, label=label, test=test)
    if key in _last:
        return _last[key]
    _last.clear()
    dataset = _loaded(path, label, test, image_size, share)
    if dataset.x_train.nbytes + dataset.x_test.nbytes <= memory() // 4:
        _last[key] = dataset
    return dataset


def _loaded(path: Path, label: str, test: str, image_size: int, share: float) -> Dataset:
    source, own_test = opened(path, label)
    tested = opened_test(Path(test).expanduser(), source, label) if test else own_test
    if image_size and not isinstance(source, ImageFiles):
        raise SettingError(f"image_size goes with image files, and {path} has none: leave it out")
    name = data_name(str(path.resolve()))
    match source, tested:
        case ImageFiles(), ImageFiles() | None:
            dataset = _from_images(name, source, tested, image_size, share)
        case Rows(), Rows() | None:
            dataset = _from_rows(name, source, tested, share)
        case Arrays(), Arrays() | None:
            dataset = _from_arrays(name, source, tested, share)
        case _:
            raise DataError(f"{path} and {test} are data of different kinds: give the test set in the same form")
    if test and own_test is not None:
        note = f"the test set of {path} itself is left out, for {test} was given"
        dataset = replace(dataset, notes=(note, *dataset.notes))
    return dataset


def _from_images(name: str, source: ImageFiles, test: ImageFiles | None, size: int, share: float) -> Dataset:
    found = headers(source.paths)
    good = source.some(place for place, header in enumerate(found) if header)
    broken = [source.ids[place] for place, header in enumerate(found) if not header]
    if not good.paths:
        raise none_readable(source)
    form = form_of([header for header in found if header], size)
    names, y, y_test = _classes(good, test)
    train, held = (np.arange(len(y)), y[:0]) if test else held_out(y, share)
    # Which part is held out is settled before anything is decoded, so that each part can be a file of its own.
    parts = [(good.some(train), y[train]), (good.some(held), y[held]) if test is None else (test, y_test)]
    in_file = too_large(sum(len(files.paths) for files, _ in parts), form)
    if in_file:
        check_room([files.paths for files, _ in parts], form)
    read: list[tuple[NDArray[np.uint8], Labels, ImageFiles]] = []
    for files, labels in parts:
        x, lost = read_images(files.paths, form, in_file=in_file)
        if not len(x) and (files is test or not read):
            raise none_readable(files)
        broken += [files.ids[place] for place in lost]
        read.append((x, np.delete(labels, lost), files.some(np.delete(np.arange(len(labels)), lost))))
    (x_train, y_train, trained), (x_test, y_test, _) = read
    of = len(source.ids) + (len(test.ids) if test else 0)
    notes = [*source.notes, *(test.notes if test else ()), *left_out(broken, "image", "that cannot be read", of)]
    if in_file:
        notes.append(f"the decoded images are more than memory should hold, and lie in {cache_folder() / 'images'}")
    if test is None and share:
        notes.append(part_held_out(len(y_test), len(y_train) + len(y_test)))
    return Dataset.checked(
        name,
        x_train,
        y_train,
        x_test,
        y_test,
        class_names=names,
        ids=trained.ids,
        test_labels="clean" if test else "as given",
        notes=notes,
        preprocessing={"kind": "images", "size": form.size, "channels": form.channels},
    )


def _from_rows(name: str, source: Rows, test: Rows | None, share: float) -> Dataset:
    names, y, y_test = _classes(source, test)
    learned_from = np.arange(len(y)) if test else held_out(y, share)[0]
    pictures = [column for column, cells in source.table.items() if column != source.label and names_images(cells)]
    if pictures and set(source.table) == {source.label, *pictures}:
        raise SettingError(f"column {pictures[0]} of {source.where} names image files: call it file")
    encoder, notes = TableEncoder.fit(source.table, {source.label, *pictures}, learned_from)
    notes += spelt_alike(names)
    notes += [
        f"column {column} names image files and is left out: call it file to learn from them" for column in pictures
    ]
    dataset = Dataset.checked(
        name,
        encoder.transform(source.table, source.where),
        y,
        encoder.transform(test.table, test.where) if test else [],
        y_test,
        class_names=names,
        ids=source.ids,
        notes=(*source.notes, *(() if test is None else test.notes), *notes),
        preprocessing={"kind": "table", "columns": encoder.to_list(), "label": source.label},
    )
    return dataset if test is not None else _divided(dataset, share)


def _from_arrays(name: str, source: Arrays, test: Arrays | None, share: float) -> Dataset:
    x_test, y_test = (None, None) if test is None else (test.x, test.y)
    dataset = Dataset.checked(name, source.x, source.y, x_test, y_test, class_names=source.class_names)
    dataset = replace(dataset, ids=tuple(map(str, range(len(dataset.y_train)))))
    return dataset if test is not None else _divided(dataset, share)


def _classes(source: ImageFiles | Rows, test: ImageFiles | Rows | None) -> tuple[tuple[str, ...], Labels, Labels]:
    """The names of the classes, and the labels of the training data and of the test data, if any, as their numbers."""
    names = names_of(source.labels)
    if len(names) > max(20, len(source.labels) / 2) and all(map(_is_number, names)):
        raise DataError(
            f"{source.where} has {len(names):,} different labels for {len(source.labels):,} samples: "
            "labels must be classes, not numbers to predict"
        )
    tested = numbered(test.where, test.labels, names) if test else np.empty(0, np.int64)
    return names, numbered(source.where, source.labels, names), tested


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _divided(dataset: Dataset, share: float) -> Dataset:
    """The dataset with a part held out to test on."""
    train, held = held_out(dataset.y_train, share)
    assert dataset.ids is not None, "own data name their samples"
    return replace(
        dataset,
        x_train=dataset.x_train[train],
        y_train=dataset.y_train[train],
        x_test=dataset.x_train[held],
        y_test=dataset.y_train[held],
        ids=tuple(dataset.ids[row] for row in train),
        test_labels="as given",
        notes=(*dataset.notes, *([part_held_out(len(held), len(dataset.y_train))] if share else [])),
    )
