"""Find the official files of a known dataset in a folder, and read them."""

from pathlib import Path

from coteach.data.dataset import Array
from coteach.data.known import CifarArchive, IdxFiles, Known
from coteach.data.readers import read_cifar, read_idx


def places(known: Known, cache: Path) -> tuple[Path, ...]:
    """The folders in which the official files may lie."""
    own = cache / known.name
    return (own,) if known.own_folder_only else (own, cache)


def find_official(known: Known, folder: Path) -> Path | None:
    """What `read_official` can read in this folder: an archive, a folder of batches or the folder itself."""
    match known.official:
        case IdxFiles() as files if all(_idx_file(folder, name) for name in files.downloads):
            return folder
        case CifarArchive(folder=name, train=train) if (folder / name / train[0]).is_file():
            return folder / name
        case CifarArchive(archive=name) if (folder / name).is_file():
            return folder / name
    return None


def read_official(known: Known, place: Path, way_out: str) -> dict[str, Array]:
    """The four arrays from what `find_official` found."""
    files = known.official
    if isinstance(files, CifarArchive):
        return read_cifar(place, files, known.shape, way_out)
    assert files is not None, f"{known.name} has no official files"
    return {key: read_idx(_idx_file(place, name) or place / name, way_out) for key, name in vars(files).items()}


def _idx_file(folder: Path, name: str) -> Path | None:
    """The file as it is downloaded, or as some unpacked it."""
    candidates = (folder / name, folder / name.removesuffix(".gz"))
    return next((path for path in candidates if path.is_file()), None)
