"""Image files as one array, which is a mapped file if it is too large for memory; what cannot be read is left out."""

import hashlib
import json
import logging
import math
import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray

from coteach.data.cache import cache_folder, claimed
from coteach.errors import StorageError
from coteach.storage import storage_errors, write_over, written_over

if TYPE_CHECKING:
    import PIL.Image

SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm")
SIZE = 32
"""Pixels on each side, unless all images are smaller or have one size of their own."""
_LARGEST_OWN_SIZE = 64
_GREY = ("1", "L", "LA", "I", "I;16", "I;16B", "I;16L", "F")
_DECODER = 2  # changes with what `decode` makes of a file, so that decoded images in the cache are not mixed up
_CHUNK = 1024  # images that are decoded before they are written
_LINE_EVERY = 10.0  # seconds
_log = logging.getLogger(__name__)

T = TypeVar("T")


@dataclass(frozen=True)
class Form:
    """What every image is brought into: this many pixels on each side, 1 channel (grey) or 3 (red, green, blue)."""

    size: int
    channels: int

    @property
    def shape(self) -> tuple[int, int, int]:
        """Of one image."""
        return self.size, self.size, self.channels


@dataclass(frozen=True)
class Header:
    """What the first bytes of an image file tell."""

    width: int
    height: int
    grey: bool


def is_image(path: Path | str) -> bool:
    """Whether a file's name is that of an image that nobody hid."""
    name = Path(path).name
    return name.lower().endswith(SUFFIXES) and not name.startswith(".")


def headers(paths: Sequence[Path]) -> list[Header | None]:
    """What each file says of itself; None for one that is no image. Reads only the files' first bytes."""
    return list(_each(_header, paths, "looked at"))


def form_of(found: Sequence[Header], size: int = 0) -> Form:
    """The form that suits images: grey if all are; of `size` pixels, else of their own size if that is small.

    Images that all have the same square size of at most 64 pixels keep it. Others become 32 pixels on each side, or
    as large as the largest if all are smaller than that.
    """
    sides = {side for header in found for side in (header.width, header.height)}
    own = len(sides) == 1 and max(sides) <= _LARGEST_OWN_SIZE
    return Form(size or (max(sides) if own else min(max(sides), SIZE)), 1 if all(h.grey for h in found) else 3)


def decode(path: Path, form: Form) -> NDArray[np.uint8]:
    """An image as bytes [size, size, channels]."""
    from PIL import Image, ImageOps

    with Image.open(path) as file:
        file.draft(None, (2 * form.size, 2 * form.size))  # a large photograph need not be decoded at full size
        image = ImageOps.exif_transpose(file)
        if image.mode.startswith("I"):  # 16 bits, of which Pillow would keep only what fits into 8
            image = Image.fromarray((np.asarray(image).astype(np.int64) >> 8).clip(0, 255).astype(np.uint8))
        image = on_white(image).convert("L" if form.channels == 1 else "RGB")
        if image.size != (form.size, form.size):
            image = image.resize((form.size, form.size), Image.Resampling.BILINEAR)
        return np.asarray(image, np.uint8).reshape(form.shape)


def on_white(image: "PIL.Image.Image") -> "PIL.Image.Image":
    """An image as one sees it on paper: what is transparent may have any colour below it, mostly black."""
    from PIL import Image

    if not image.has_transparency_data:
        return image
    return Image.alpha_composite(Image.new("RGBA", image.size, "white"), image.convert("RGBA"))


def read_images(paths: Sequence[Path], form: Form, *, in_file: bool) -> tuple[NDArray[np.uint8], list[int]]:
    """The images that can be read, and the places in `paths` of those that cannot.

    With `in_file` they become a file in the cache folder, which is mapped into memory: a batch is read when it is
    needed. The same files in the same form are decoded once.
    """
    if not in_file:
        images = np.empty((len(paths), *form.shape), np.uint8)
        read = 0
        broken = []
        for place, image in enumerate(_decoded(paths, form)):
            if image is None:
                broken.append(place)
            else:
                images[read] = image
                read += 1
        return images[:read], broken
    folder, key, file, about = _in_cache(paths, form)
    with claimed(folder, key):
        if not about.exists() or not file.exists():
            broken = []
            with written_over(file) as out:
                for place, image in enumerate(_decoded(paths, form)):
                    if image is None:
                        broken.append(place)
                    else:
                        out.write(image.tobytes())
            write_over(about, json.dumps({"unreadable": broken}))  # last: it means that the file is whole
        with storage_errors(about, "read"):
            broken = json.loads(about.read_text())["unreadable"]
            shape = len(paths) - len(broken), *form.shape
            if not shape[0]:
                return np.empty(shape, np.uint8), broken
            return np.memmap(file, np.uint8, "r", shape=shape), broken


def _in_cache(paths: Sequence[Path], form: Form) -> tuple[Path, str, Path, Path]:
    """The folder and the key of decoded images in the cache, their file, and the one that says that it is whole."""
    folder, key = cache_folder() / "images", _key(paths, form)
    return folder, key, folder / f"{key}.bytes", folder / f"{key}.json"


def check_room(parts: Iterable[Sequence[Path]], form: Form) -> None:
    """Refuse files of decoded images that the disk cannot hold, before hours are spent on them."""
    missing = [paths for paths in parts if not _in_cache(paths, form)[3].exists()]
    size = sum(map(len, missing)) * math.prod(form.shape)
    folder = next(each for each in (cache_folder(), *cache_folder().absolute().parents) if each.exists())
    free = shutil.disk_usage(folder).free
    if size > free:
        raise StorageError(
            f"the decoded images take {size / 2**30:.1f} GiB, and {folder} has room for {free / 2**30:.1f}: "
            "lower image_size, or set COTEACH_DATA to a folder with more room"
        )


def too_large(number: int, form: Form) -> bool:
    """Whether so many images would take more than a quarter of the memory."""
    return number * math.prod(form.shape) > memory() // 4


def memory() -> int:
    """The bytes of memory that this process may use."""
    found = [8 * 2**30]  # if nothing is to be known
    try:
        found = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
        found.append(int(Path("/sys/fs/cgroup/memory.max").read_text()))  # the limit of a container
    except (AttributeError, ValueError, OSError):
        pass
    return min(found)


def files_sha256(paths: Sequence[Path]) -> str:
    """Changes when a file comes, goes or is written to; reads none of them."""
    digest = hashlib.sha256()
    for path in paths:
        try:
            stat = path.stat()
            version = f"{stat.st_size} {stat.st_mtime_ns}"
        except OSError:
            version = "absent"
        digest.update(f"{path.absolute()}\0{version}\0".encode(errors="surrogateescape"))
    return digest.hexdigest()


def _key(paths: Sequence[Path], form: Form) -> str:
    return f"{files_sha256(paths)[:16]}-{form.size}-{form.channels}-{_DECODER}"


def _decoded(paths: Sequence[Path], form: Form) -> Iterator[NDArray[np.uint8] | None]:
    """Each image, None for one that cannot be read."""

    def attempt(path: Path) -> NDArray[np.uint8] | None:
        try:
            return decode(path, form)
        except Exception:  # damaged bytes can make a decoder fail in any way it knows
            return None

    return _each(attempt, paths, "decoded")


def _header(path: Path) -> Header | None:
    from PIL import Image

    try:
        with Image.open(path) as image:
            return Header(image.width, image.height, image.mode in _GREY)
    except Exception:  # see _decoded
        return None


def _each(work: Callable[[Path], T], paths: Sequence[Path], done: str) -> Iterator[T]:
    """The work on each path, in their order; a line of the log says now and then how far it is.

    Decoding leaves Python alone, so that threads do it at once.
    """
    last_line = time.monotonic()
    with ThreadPoolExecutor(min(os.cpu_count() or 1, 16)) as threads:
        for start in range(0, len(paths), _CHUNK):
            chunk = paths[start : start + _CHUNK]
            yield from threads.map(work, chunk)
            if time.monotonic() - last_line >= _LINE_EVERY:
                last_line = time.monotonic()
                _log.info("%s %s of %s images", done, f"{start + len(chunk):,}", f"{len(paths):,}")
