import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from official_formats import BATCHES, cifar_archive, cifar_files, idx_files, tiny_arrays, tiny_known

import coteach.data.digits
from coteach.data import CATALOGUE, NAMES, cache_folder, fetch, load, status, verify
from coteach.data.cache import write_npz
from coteach.errors import DataError, SettingError


@pytest.fixture
def arrays():
    return tiny_arrays(train=12, test=6)


@pytest.fixture
def tiny(arrays, monkeypatch):
    """A small dataset in the catalogue."""
    known = tiny_known(arrays)
    monkeypatch.setitem(CATALOGUE, "tiny", known)
    return known


def test_digits():
    dataset = load("digits")
    assert dataset.x_train.shape == (1437, 8, 8, 1)
    assert dataset.x_test.shape == (360, 8, 8, 1)
    assert (dataset.x_train.dtype, dataset.x_train.min(), dataset.x_train.max()) == (np.uint8, 0, 255)
    assert set(dataset.y_train) == set(dataset.y_test) == set(range(10))
    assert dataset.class_names == tuple("0123456789")
    assert load("digits").fingerprint == dataset.fingerprint


def test_digits_are_the_images_of_scikit_learn_each_once():
    from sklearn.datasets import load_digits

    dataset = load("digits")
    images = np.concatenate([dataset.x_train, dataset.x_test])[..., 0]
    original = np.rint(load_digits().images * 255 / 16).astype(np.uint8)
    assert sorted(map(bytes, images)) == sorted(map(bytes, original))


def test_digits_come_from_scikit_learn_itself_where_their_file_lies_elsewhere(monkeypatch):
    fingerprint = load("digits").fingerprint
    monkeypatch.setattr(coteach.data.digits, "find_spec", lambda name: None)
    assert load("digits").fingerprint == fingerprint


def test_digits_are_embedded(cache):
    assert (status("digits").state, status("digits").where) == ("embedded", None)
    assert fetch("digits") is None
    assert len(verify("digits")) == 4


@pytest.mark.parametrize("name", NAMES)
def test_the_catalogue_is_complete(name):
    known = CATALOGUE[name]
    assert known.name == name
    assert len(set(known.class_names)) == known.classes == (100 if name == "cifar100" else 10)
    assert bool(known.array_sha256) != bool(known.split_sha256)
    for digest in (*known.array_sha256.values(), *known.split_sha256.values()):
        assert len(digest) == 64
    assert all(address.endswith("/") for address in known.addresses)
    assert bool(known.addresses) == bool(known.official)


@pytest.mark.parametrize("name", [name for name in NAMES if name != "digits"])
def test_missing_data_says_how_to_get_it_and_where_it_was_looked_for(cache, name):
    assert (status(name).state, status(name).where) == ("missing", None)
    for function in (load, verify):
        with pytest.raises(DataError, match=f"{name} is not here: run `coteach data fetch {name}`") as raised:
            function(name)
        assert str(cache) in str(raised.value)


def test_a_fetched_dataset(cache, tiny, arrays):
    write_npz(cache / "tiny.npz", arrays)
    dataset = load("tiny")
    np.testing.assert_array_equal(dataset.x_train, arrays["x_train"])
    assert dataset.class_names == ("a", "b", "c")
    assert (status("tiny").state, status("tiny").where) == ("ready", cache / "tiny.npz")
    assert [check.what for check in verify("tiny")] == [
        "x_train 12×28×28×1",
        "y_train 12",
        "x_test 6×28×28×1",
        "y_test 6",
    ]


def test_a_copy_without_channel_axis_and_with_wide_labels_is_the_same_data(cache, tiny, arrays):
    write_npz(cache / "tiny.npz", arrays)
    wanted = load("tiny").fingerprint
    copy = {key: a[..., 0] if key[0] == "x" else a.astype(np.int64) for key, a in arrays.items()}
    write_npz(cache / "tiny.npz", copy)
    assert load("tiny").fingerprint == wanted


@pytest.mark.parametrize("key", ["x_train", "y_train", "x_test", "y_test"])
@pytest.mark.parametrize("any_order", [False, True])
def test_one_changed_value_is_found(cache, arrays, monkeypatch, key, any_order):
    monkeypatch.setitem(CATALOGUE, "tiny", tiny_known(arrays, any_order=any_order))
    changed = arrays[key].copy()
    changed.flat[3] ^= 1
    write_npz(cache / "tiny.npz", {**arrays, key: changed})
    for function in (load, verify):
        with pytest.raises(DataError, match=r"damaged or was changed: .* delete it and run `coteach data fetch tiny`"):
            function("tiny")


def test_another_order_is_found_where_the_order_is_official(cache, tiny, arrays, monkeypatch):
    turned = {key: array[::-1] for key, array in arrays.items()}
    write_npz(cache / "tiny.npz", turned)
    with pytest.raises(DataError, match="x_train 12×28×28×1 has sha256"):
        load("tiny")
    monkeypatch.setitem(CATALOGUE, "tiny", tiny_known(arrays, any_order=True))
    found = load("tiny")
    np.testing.assert_array_equal(found.y_train, sorted(turned["y_train"]))
    write_npz(cache / "tiny.npz", arrays)
    assert load("tiny").fingerprint == found.fingerprint  # noise is drawn by position: one order for all copies
    swapped = {**turned, "y_train": turned["y_train"][::-1]}  # the same labels at other images
    write_npz(cache / "tiny.npz", swapped)
    with pytest.raises(DataError, match="train split, 12 samples in any order has sha256"):
        load("tiny")


@pytest.mark.parametrize(
    "change",
    [lambda x: x[1:], lambda x: x.astype(np.float32), lambda x: x.astype(np.int64) - 1, lambda x: x[:, :-1]],
)
def test_arrays_of_another_kind_are_not_the_dataset(cache, tiny, arrays, change):
    write_npz(cache / "tiny.npz", {**arrays, "x_train": change(arrays["x_train"])})
    with pytest.raises(DataError, match=r"not the official tiny: x_train is .* instead of uint8 \[12, 28, 28, 1\]"):
        load("tiny")


@pytest.mark.parametrize("folder", ["", "tiny"])
@pytest.mark.parametrize("compressed", [True, False])
def test_official_idx_files_are_loaded_where_they_lie(cache, tiny, arrays, folder, compressed):
    import gzip

    (cache / folder).mkdir(parents=True)
    for name, content in idx_files(arrays).items():
        path = cache / folder / (name if compressed else name.removesuffix(".gz"))
        path.write_bytes(content if compressed else gzip.decompress(content))
    np.testing.assert_array_equal(load("tiny").x_train, arrays["x_train"])
    assert (status("tiny").state, status("tiny").where) == ("ready", cache / folder)


def test_changed_official_files_do_not_make_one_delete_the_whole_cache(cache, tiny, arrays):
    cache.mkdir()
    for name, content in idx_files(tiny_arrays(train=12, test=6, seed=1)).items():
        (cache / name).write_bytes(content)
    with pytest.raises(DataError, match=r"^tiny in .* was changed: .*: delete its files there and run `coteach"):
        load("tiny")


def test_files_of_the_same_names_are_not_taken_for_another_set(cache, arrays, monkeypatch):
    monkeypatch.setitem(CATALOGUE, "tiny", tiny_known(arrays, own_folder_only=True))
    cache.mkdir()
    for name, content in idx_files(arrays).items():
        (cache / name).write_bytes(content)
    assert status("tiny").state == "missing"


@pytest.mark.parametrize("packed", [True, False])
def test_official_cifar_files_are_loaded_where_they_lie(cache, monkeypatch, packed):
    arrays = tiny_arrays((4, 5, 3), train=12, test=6)
    monkeypatch.setitem(CATALOGUE, "tiny", tiny_known(arrays, official=BATCHES))
    files = cifar_files(arrays)
    (cache / BATCHES.folder).mkdir(parents=True)
    if packed:
        (cache / BATCHES.archive).write_bytes(cifar_archive(files))
    else:
        for name, content in files.items():
            (cache / BATCHES.folder / name).write_bytes(content)
    np.testing.assert_array_equal(load("tiny").x_test, arrays["x_test"])


def test_a_damaged_official_file_says_what_to_do(cache, tiny, arrays):
    cache.mkdir()
    for name, content in idx_files(arrays).items():
        (cache / name).write_bytes(content[:-9])
    with pytest.raises(DataError, match=r"idx3-ubyte.gz is damaged .*: delete it and run `coteach data fetch tiny`"):
        load("tiny")


def test_own_data(tmp_path, arrays):
    path = tmp_path / "mine.npz"
    np.savez(path, **arrays)
    for source in (path, str(path)):
        dataset = load(source)
        assert (dataset.name, dataset.class_names) == ("mine", ("0", "1", "2"))
    np.savez(path, **arrays, class_names=np.array(["cat", "dog", "owl", "none of these"]))
    assert load(path).class_names == ("cat", "dog", "owl", "none of these")


def test_own_data_is_validated(tmp_path, arrays):
    path = tmp_path / "mine.npz"
    np.savez(path, **{**arrays, "y_test": arrays["y_test"][:-1]})
    with pytest.raises(DataError, match="mine: x_test holds 6 samples and y_test 5 labels"):
        load(path)
    np.savez(path, **arrays, class_names=np.array(["a", "b"]))
    with pytest.raises(DataError, match="label 2 is out of range, at most 2 classes"):
        load(path)
    np.savez(path, **arrays, class_names=np.arange(3))
    with pytest.raises(DataError, match="class_names is not a list of strings"):
        load(path)


def test_own_data_in_the_home_folder(tmp_path, arrays, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    np.savez(tmp_path / "mine.npz", **arrays)
    assert load("~/mine.npz").name == "mine"


@pytest.mark.parametrize("source", ["absent.npz", "folder/absent", Path("absent")])
def test_a_path_that_does_not_exist(source):
    with pytest.raises(DataError, match=r"absent.* does not exist: give the path of a folder .*, or a name \(digits, "):
        load(source)


def test_a_file_of_another_format(tmp_path):
    path = tmp_path / "mine.xlsx"
    path.write_text("1,2,3")
    with pytest.raises(DataError, match=r"mine.xlsx is of no known kind: give the path of a folder .* or .npy file"):
        load(path)


@pytest.mark.parametrize("function", [load, verify, status, fetch])
def test_an_unknown_name_names_the_nearest(function):
    with pytest.raises(SettingError, match="unknown dataset 'mnits': did you mean 'mnist'") as raised:
        function("mnits")
    assert ("nothing lies at this one" in str(raised.value)) == (function is load)


def test_the_cache_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("COTEACH_DATA", str(tmp_path))
    assert cache_folder() == tmp_path
    monkeypatch.setenv("COTEACH_DATA", "")
    assert cache_folder().name == "coteach"


def test_importing_the_package_imports_nothing_heavy():
    script = (
        f"import sys; sys.path.insert(0, {str(Path(coteach.__file__).parents[1])!r}); import coteach.data; "
        "print([m for m in ('torch', 'sklearn', 'PIL', 'scipy', 'urllib.request') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
