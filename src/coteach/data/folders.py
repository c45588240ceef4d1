"""Which image files a folder or a list of files names, and the label of each."""

import os
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from coteach.data.images import is_image
from coteach.data.notes import counted, first_few, left_out
from coteach.data.tables import Cells, Table, labels_in
from coteach.errors import DataError
from coteach.storage import storage_errors

FILE_NAMES = ("file", "files", "path", "image", "filename", "file_name", "filepath", "file_path", "image_path")
"""A column of such a name, with names of images in it, makes a table a list of files."""
_TRAIN = ("train", "training")
_TEST = ("test", "testing", "val", "valid", "validation")


@dataclass(frozen=True)
class ImageFiles:
    """Files with what they are called and, where that is known, their labels."""

    where: str
    """The folder or the list, for errors."""
    paths: tuple[Path, ...]
    ids: tuple[str, ...]
    labels: tuple[str, ...]
    """One each, or none at all when nobody asked for them."""
    notes: tuple[str, ...] = ()

    def some(self, places: Iterable[int]) -> "ImageFiles":
        """Those at some places."""
        chosen = list(places)
        return replace(
            self,
            paths=tuple(self.paths[place] for place in chosen),
            ids=tuple(self.ids[place] for place in chosen),
            labels=tuple(self.labels[place] for place in chosen) if self.labels else (),
        )


def labelled_folder(folder: Path) -> tuple[ImageFiles, ImageFiles | None]:
    """The images below the subfolders of a folder, each subfolder a class; and those of a test set, if there is one.

    A folder of nothing but `train` and `test` (or `val`) has the classes one folder deeper.
    """
    with storage_errors(folder, "read"):
        below = {each.name.lower(): each for each in _subfolders(folder)}
        train = next((below[name] for name in _TRAIN if name in below), None)
        if train is None or below.keys() - {*_TRAIN, *_TEST}:
            return _classes(folder, folder), None
        test = next((below[name] for name in _TEST if name in below), None)
        unused = [each.name for each in below.values() if each not in (train, test)]
        found = _classes(train, folder)
        if unused:
            found = replace(found, notes=(*found.notes, *left_out(unused, "folder", "that would be a second test set")))
        return found, None if test is None else _classes(test, folder)


def any_folder(folder: Path) -> ImageFiles:
    """All images in a folder and below it, whatever their labels."""
    with storage_errors(folder, "read"):
        paths = [path for path in _files(folder) if is_image(path)]
    if not paths:
        raise DataError(f"{folder} has no images in it: give a folder with image files")
    return ImageFiles(str(folder), tuple(paths), _relative(paths, folder), ())


def none_readable(files: ImageFiles) -> DataError:
    """The error when no image is left."""
    if not any(path.exists() for path in files.paths):
        where = files.paths[0].parent
        return DataError(f"{files.where}: none of its images is there (first {files.ids[0]}, looked for in {where})")
    return DataError(
        f"{files.where}: none of {len(files.paths):,} images can be read (first {files.ids[0]}): check the files"
    )


def file_column(table: Table) -> str | None:
    """The column that names image files; None if the table is no list of them."""
    for name, cells in table.items():
        if may_list_files([name]) and names_images(cells):
            return name
    return None


def names_images(cells: Cells) -> bool:
    """Whether most of a column are names of image files."""
    given = [cell for cell in cells.tolist() if cell] if cells.dtype.kind == "U" else []
    return 2 * sum(map(is_image, given)) > len(given)


def may_list_files(names: Iterable[str]) -> bool:
    """Whether a table with columns of these names may be a list of files."""
    return any(name.lower() in FILE_NAMES for name in names)


def listed_path(folder: Path, name: str) -> Path:
    """Where a file lies that is listed by its path from a folder, whichever way the strokes in it lean."""
    return folder / name.replace("\\", os.sep)


def listed_files(table: Table, path: Path, label: str | None, classes: Collection[str] = ()) -> ImageFiles:
    """The files that a table lists, by their paths from the folder of the table; `label` is the column of labels.

    A word for a missing value is a label if it is one of the `classes`, or the name of a folder of these files.
    """
    column = file_column(table)
    assert column is not None, f"{path} lists no files"
    names = table[column].tolist()
    if label is None:
        labels = [""] * len(names)
    else:
        folders = {listed_path(path.parent, name).parent.name for name in names}
        labels = labels_in(table[label], folders.union(classes))
    kept = [row for row, (name, given) in enumerate(zip(names, labels, strict=True)) if name and (given or not label)]
    lost = sorted(set(range(len(names))) - set(kept))
    if not kept:
        raise DataError(f"{path}: no row has a file and a label: check the columns {column} and {label}")
    notes = left_out([names[row] or f"row {row}" for row in lost], "row", "without a file or a label", len(names))
    twice = [name for name, times in Counter(names[row] for row in kept).items() if times > 1]
    if twice:
        notes = (*notes, f"{path.name} lists {counted(twice, 'file')} more than once: {first_few(twice)}")
    paths = tuple(listed_path(path.parent, names[row]) for row in kept)
    return ImageFiles(
        str(path),
        paths,
        tuple(names[row] for row in kept),
        () if label is None else tuple(labels[row] for row in kept),
        notes,
    )


def _classes(folder: Path, root: Path) -> ImageFiles:
    """The images below the subfolders of `folder`, called by their paths from `root`."""
    paths, labels, others, empty = [], [], [], []
    strange: list[Path] = []
    for each in _subfolders(folder):
        if not _is_text(each.name):
            raise DataError(f"the name of a subfolder of {folder} is not in UTF-8 ({each.name!a}): rename it")
        found: list[Path] = []
        for path in _files(each):
            (found if _is_text(str(path)) else strange).append(path)
        images = [path for path in found if is_image(path)]
        paths += images
        labels += [each.name] * len(images)
        others += [path for path in found if not is_image(path)]
        if not images:
            empty.append(each.name)
    if not paths:
        lists = sorted(path.name for path in folder.glob("*.csv"))
        hint = f"--data {folder / lists[0]}" if lists else "a CSV of files and labels"
        raise DataError(f"{folder} has no images in subfolders: make one subfolder a class, or give {hint}")
    loose = [path.name for path in sorted(folder.iterdir()) if path.is_file() and is_image(path)]
    return ImageFiles(
        str(folder),
        tuple(paths),
        _relative(paths, root),
        tuple(labels),
        (
            *left_out(empty, "subfolder", "without an image"),
            *left_out(_relative(others, root), "file", "not named like an image"),
            *left_out(loose, "image", "in no subfolder"),
            *left_out([ascii(path.name) for path in strange], "file", "whose name is not in UTF-8"),
        ),
    )


def _is_text(name: str) -> bool:
    """Whether a name can be written into a table; on some systems a file may have any bytes for a name."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _subfolders(folder: Path) -> list[Path]:
    return sorted(each for each in folder.iterdir() if each.is_dir() and not each.name.startswith("."))


def _files(folder: Path) -> Iterator[Path]:
    """Every file below a folder that nobody hid, in the order of their names."""
    for each in sorted(folder.iterdir()):
        if each.name.startswith("."):
            continue
        if each.is_file():
            yield each
        elif each.is_dir() and not each.is_symlink():  # which may lead in a circle
            yield from _files(each)


def _relative(paths: list[Path], root: Path) -> tuple[str, ...]:
    return tuple(path.relative_to(root).as_posix() for path in paths)
