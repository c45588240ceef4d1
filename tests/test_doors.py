"""The doors for one's own data: folders, lists of files, tables and arrays, as real files of usual and odd kinds."""

import json
import os
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import DataLoader, IterableDataset, TensorDataset
from torch.utils.data import Dataset as TorchDataset

import coteach
from coteach.cli.main import main
from coteach.data import from_torch, images, load, own, read_samples
from coteach.data.holding_out import held_out
from coteach.errors import CoteachError, DataError, SettingError, StorageError
from coteach.recipes import recipe

DIGITS = load("digits")


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """Nothing of a test is left in the user's own cache."""
    monkeypatch.setenv("COTEACH_DATA", str(tmp_path / "cache"))
    return tmp_path / "cache" / "images"


def save_digits(folder, number=60, names=None):
    """Digits as PNG files, one subfolder a class; answers the pixels by the files' names."""
    pixels = {}
    for place in range(number):
        label = str(DIGITS.y_train[place]) if names is None else names[DIGITS.y_train[place]]
        (folder / label).mkdir(parents=True, exist_ok=True)
        Image.fromarray(DIGITS.x_train[place, ..., 0]).save(folder / label / f"{place:04}.png")
        pixels[f"{label}/{place:04}.png"] = DIGITS.x_train[place]
    return pixels


def one_line(error):
    text = str(error.value)
    assert "\n" not in text
    assert ": " in text or "? " in text, "no way out in the message"
    return text


# Folders


def test_a_folder_of_images(tmp_path):
    pixels = save_digits(tmp_path / "photos")
    dataset = load(tmp_path / "photos")
    assert (dataset.name, dataset.shape, dataset.class_names) == ("photos", (8, 8, 1), tuple("0123456789"))
    assert dataset.preprocessing == {"kind": "images", "size": 8, "channels": 1}
    assert (len(dataset.y_train), len(dataset.y_test)) == (48, 12)
    for file, x, y in zip(dataset.ids, dataset.x_train, dataset.y_train, strict=True):
        np.testing.assert_array_equal(x, pixels[file])
        assert file.startswith(f"{y}/")
    assert dataset.test_labels == "as given"
    assert dataset.notes == ("no test set was given: 12 of 60 samples are held out, and their labels may be wrong too",)
    assert len(load(tmp_path / "photos", test_share=0).ids) == 60


def test_a_folder_with_a_test_set_of_its_own_or_of_another(tmp_path):
    save_digits(tmp_path / "photos" / "train", 40)
    save_digits(tmp_path / "photos" / "test", 20)
    for dataset in (load(tmp_path / "photos"), load(tmp_path / "photos/train", test=tmp_path / "photos/test")):
        assert (len(dataset.y_train), len(dataset.y_test), dataset.test_labels) == (40, 20, "clean")
        assert dataset.notes == ()
    assert load(tmp_path / "photos").ids[0].startswith("train/0/")
    next((tmp_path / "photos/test").iterdir()).rename(tmp_path / "photos/test/nought")
    with pytest.raises(DataError, match=r"'nought' .*, which is no class of the training data: correct it to one of 0"):
        load(tmp_path / "photos")


def test_reading_many_images_says_how_far_it_is(tmp_path, monkeypatch, capfd):
    """In the library's log, which the commands show."""
    save_digits(tmp_path / "photos", 30)
    monkeypatch.setattr(images, "_CHUNK", 20)
    monkeypatch.setattr(images, "_LINE_EVERY", 0.0)
    words = ["noise", "--data", str(tmp_path / "photos"), "--test-share", "0", "--noise", "symmetric", "--rate", "0.2"]
    assert main([*words, "--out", str(tmp_path / "labels.npz")]) == 0
    lines = capfd.readouterr().err.splitlines()
    assert {"looked at 20 of 30 images", "decoded 20 of 30 images", "decoded 30 of 30 images"} <= set(lines)
    monkeypatch.setattr(images, "_LINE_EVERY", 10.0)
    assert main([*words, "--out", str(tmp_path / "again.npz")]) == 0
    assert "images" not in capfd.readouterr().err  # what is quick needs no words


def test_what_cannot_be_read_is_left_out_and_named(tmp_path):
    folder = tmp_path / "photos"
    save_digits(folder, 40)
    first = min(folder.rglob("*.png"))
    (folder / "0" / "cut.png").write_bytes(first.read_bytes()[:-30])  # its header can be read
    (folder / "1" / "text.png").write_text("I am no image")
    (folder / "2" / "empty.jpg").touch()
    (folder / "2" / "notes.txt").write_text("hello")
    (folder / "2" / ".hidden.png").write_text("nobody sees me")
    (folder / "none").mkdir()
    (folder / "loose.png").write_bytes(first.read_bytes())
    dataset = load(folder)
    assert len(dataset.y_train) + len(dataset.y_test) == 40
    assert dataset.classes == 10
    assert dataset.notes[:-1] == (
        "1 subfolder without an image is left out: none",
        "1 file not named like an image is left out: 2/notes.txt",
        "1 image in no subfolder is left out: loose.png",
        "3 images that cannot be read are left out of 43: 1/text.png, 2/empty.jpg, 0/cut.png",
    )


def test_a_class_with_one_sample_stays_in_training(tmp_path):
    save_digits(tmp_path / "photos", 40)
    (tmp_path / "photos" / "rare").mkdir()
    Image.new("L", (8, 8), 7).save(tmp_path / "photos" / "rare" / "only.png")
    dataset = load(tmp_path / "photos", test_share=0.5)
    assert dataset.class_names[-1] == "rare"
    assert "rare/only.png" in dataset.ids
    assert len(dataset.y_test) == 20


def test_a_held_out_image_that_cannot_be_read_is_not_fatal(tmp_path):
    save_digits(tmp_path / "photos", 12)
    (held,) = set(load(tmp_path / "photos", test_share=0).ids) - set(load(tmp_path / "photos", test_share=0.05).ids)
    whole = (tmp_path / "photos" / held).read_bytes()
    (tmp_path / "photos" / held).write_bytes(whole[:-30])
    dataset = load(tmp_path / "photos", test_share=0.05)
    assert (len(dataset.y_train), dataset.x_test.shape) == (11, (0, 8, 8, 1))
    assert f"1 image that cannot be read is left out of 12: {held}" in dataset.notes


def photo(path, size, mode="RGB", **how):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.linear_gradient("L").resize(size).convert(mode).save(path, **how)


@pytest.mark.parametrize(
    ("sizes", "mode", "asked", "shape"),
    [
        ([(8, 8), (8, 8)], "L", 0, (8, 8, 1)),
        ([(64, 64), (64, 64)], "RGB", 0, (64, 64, 3)),
        ([(65, 65), (65, 65)], "RGB", 0, (32, 32, 3)),
        ([(20, 10), (12, 24)], "L", 0, (24, 24, 1)),
        ([(8, 8), (300, 200)], "L", 0, (32, 32, 1)),
        ([(8, 8), (8, 8)], "L", 16, (16, 16, 1)),
    ],
)
def test_the_form_of_images(tmp_path, sizes, mode, asked, shape):
    for place, size in enumerate(sizes):
        photo(tmp_path / "photos" / "ab"[place] / "1.png", size, mode)
    assert load(tmp_path / "photos", image_size=asked, test_share=0).shape == shape


def test_images_of_every_mode(tmp_path):
    folder = tmp_path / "photos"
    photo(folder / "a" / "palette.gif", (16, 16), "P")
    photo(folder / "a" / "transparent.png", (16, 16), "RGBA")
    photo(folder / "b" / "photograph.JPG", (16, 16))
    deep = np.linspace(0, 65535, 256).astype(np.uint16).reshape(16, 16)
    Image.fromarray(deep).save(folder / "b" / "deep.png")
    dataset = load(folder, test_share=0)
    assert dataset.shape == (16, 16, 3)
    deep_one = dataset.x_train[dataset.ids.index("b/deep.png")]
    np.testing.assert_array_equal(deep_one[..., 0], deep >> 8)
    turned = Image.fromarray(DIGITS.x_train[0, ..., 0])
    exif = turned.getexif()
    exif[0x0112] = 3  # held upside down
    for label in "ab":
        (tmp_path / "turned" / label).mkdir(parents=True)
        turned.save(tmp_path / "turned" / label / "1.png", exif=exif)
    np.testing.assert_array_equal(load(tmp_path / "turned", test_share=0).x_train[0], DIGITS.x_train[0, ::-1, ::-1])


def mapped(array):
    while isinstance(array, np.ndarray):
        if isinstance(array, np.memmap):
            return True
        array = array.base
    return False


def test_images_that_are_more_than_memory_lie_in_a_file(tmp_path, cache, monkeypatch):
    folder = tmp_path / "photos"
    save_digits(folder)
    (folder / "1" / "text.png").write_text("I am no image")
    held = load(folder)
    monkeypatch.setattr(images, "memory", lambda: 4 * 60 * 64 - 1)
    dataset = load(folder, test_share=0.2000001)  # asked otherwise, so that it is read again
    assert mapped(dataset.x_train)
    assert mapped(dataset.x_test)
    assert not mapped(held.x_train)
    assert dataset.fingerprint == held.fingerprint
    assert dataset.ids == held.ids
    assert any(str(cache) in note for note in dataset.notes)
    files = {file: file.stat().st_mtime_ns for file in cache.glob("*.bytes")}
    assert sorted(file.stat().st_size for file in files) == [12 * 64, 48 * 64]
    assert load(folder).fingerprint == held.fingerprint
    assert {file: file.stat().st_mtime_ns for file in cache.glob("*.bytes")} == files  # decoded once
    Image.new("L", (8, 8), 9).save(folder / held.ids[0])
    assert (load(folder).x_train[0] == 9).all()


@pytest.mark.parametrize(
    ("files", "cause"),
    [
        ([], "has no images in subfolders: make one subfolder a class"),
        (["train/1.png", "test/2.png"], "train has no images in subfolders"),
        (["1.png", "labels.csv"], "has no images in subfolders: .*or give --data .*labels.csv"),
        (["a/1.png", "b/2.png"], r"none of 2 images can be read \(first a/1.png\): check the files"),
    ],
)
def test_a_folder_without_images(tmp_path, files, cause):
    (tmp_path / "photos").mkdir()
    for file in files:
        (tmp_path / "photos" / file).parent.mkdir(exist_ok=True)
        (tmp_path / "photos" / file).touch()
    with pytest.raises(DataError, match=cause) as error:
        load(tmp_path / "photos")
    one_line(error)


# Lists of files


def test_a_list_of_files(tmp_path):
    save_digits(tmp_path / "photos", 40)
    rows = [f"photos/{file.parent.name}/{file.name};{int(file.parent.name) % 2}.0;7" for file in
            sorted((tmp_path / "photos").rglob("*.png"))]  # fmt: skip
    rows[3] = rows[3].replace("/", "\\")
    rows += [";1.0;7", "photos/0/0000.png;;7", "photos/absent.png;1.0;7", rows[0]]
    (tmp_path / "list.csv").write_text("\ufeff" + "\n".join(["Path;label;width", *rows]), encoding="utf-8")
    dataset = load(tmp_path / "list.csv", test_share=0)
    assert dataset.class_names == ("0", "1")  # not 0.0 and 1.0
    assert (dataset.shape, len(dataset.ids)) == ((8, 8, 1), 41)
    assert dataset.ids[0] == rows[0].split(";")[0]
    assert [int(name.replace("\\", "/").split("/")[1]) % 2 for name in dataset.ids] == dataset.y_train.tolist()
    assert dataset.notes == (
        "1 column of a list of images is left out: width",
        "2 rows without a file or a label are left out of 44: row 40, photos/0/0000.png",
        f"list.csv lists 1 file more than once: {dataset.ids[0]}",
        "1 image that cannot be read is left out of 42: photos/absent.png",
    )


# Tables

TABLE = """,age,colour,note,empty,species
0,10,red,first note,,cat
1,,blue,second note,,dog
2,30,NA,third note,,cat
3,20,red,fourth note,,none
4,40,blue,fifth note,,
5,20,red,sixth note,,dog
"""


@pytest.fixture
def table(tmp_path, monkeypatch):
    monkeypatch.setattr("coteach.data.tables._MOST_CATEGORIES", 4)
    (tmp_path / "pets.csv").write_text(TABLE)
    return tmp_path / "pets.csv"


@pytest.mark.parametrize(
    ("name", "values", "left_out"),
    [
        ("n", range(1, 41), True),  # whatever its name
        ("position", np.random.default_rng(0).permutation(57)[:40], True),  # what is left of them after a split
        ("customer_id", np.random.default_rng(0).integers(10**9, size=40), True),
        ("customerId", np.random.default_rng(0).integers(10**9, size=40), True),
        ("income", np.random.default_rng(0).integers(10**9, size=40), False),
        ("humid", np.random.default_rng(0).integers(10**9, size=40), False),
        ("Id", [*range(39), 38], False),  # one is there twice, so it may mean something
        ("Id", np.arange(40) / 2, False),
    ],
)
def test_numbers_of_rows_are_no_column(tmp_path, name, values, left_out):
    """Who learns them knows every row of a sorted table, and nothing of another one."""
    lines = [f"{value},{n % 7},{'ab'[n % 2]}" for n, value in enumerate(values)]
    (tmp_path / "t.csv").write_text("\n".join([f"{name},other,label", *lines]) + "\n")
    dataset = load(tmp_path / "t.csv", test_share=0)
    assert dataset.shape == ((1,) if left_out else (2,))
    assert (f"column {name} numbers the rows and is left out" in dataset.notes) == left_out


def test_a_table_of_nothing_but_numbers_of_rows_is_learned_from(tmp_path):
    (tmp_path / "t.csv").write_text("\n".join(["x,label", *(f"{n},{'ab'[n // 20]}" for n in range(40))]) + "\n")
    assert load(tmp_path / "t.csv", test_share=0).shape == (1,)


def test_many_columns_with_gaps_are_one_line(tmp_path):
    rows = [",".join(["" if n == c else str(n % 3) for c in range(6)] + ["ab"[n % 2]]) for n in range(12)]
    (tmp_path / "t.csv").write_text("\n".join(["a,b,c,d,e,f,label", *rows]) + "\n")
    told = [note for note in load(tmp_path / "t.csv", test_share=0).notes if "missing" in note]
    assert told == ["6 columns have missing values, filled with the median or a category of their own: a, b, c, ..."]


def test_classes_that_are_spelt_alike_are_pointed_out(tmp_path):
    rows = "\n".join(f"{n % 5},{('Benign', 'benign ', 'malignant')[n % 3]}" for n in range(30))
    (tmp_path / "t.csv").write_text(f"x,label\n{rows}\n")
    notes = load(tmp_path / "t.csv", test_share=0).notes
    assert "'Benign' and 'benign' count as different classes: mend the labels" in notes


def test_a_table(table):
    dataset = load(table, label="species", test_share=0)
    assert dataset.class_names == ("cat", "dog", "none")
    assert dataset.y_train.tolist() == [0, 1, 0, 2, 1]
    assert dataset.ids == ("0", "1", "2", "3", "5")
    assert dataset.notes == (
        "pets.csv: a column without a name is left out",
        "1 row without a label is left out of 6: row 4",
        "column note has 5 different texts and is left out",
        "column empty is empty and left out",
        "column age: 1 of 5 values are missing, filled with the median 20",
        "column colour: 1 of 5 values are missing, counted as a category of their own",
    )
    ages = np.array([10, 20, 30, 20, 20])
    wanted = [
        (ages - ages.mean()) / ages.std(),
        [0, 1, 0, 0, 0],
        [0, 1, 0, 0, 0],
        [1, 0, 0, 1, 1],
        [0, 0, 1, 0, 0],
    ]
    np.testing.assert_allclose(dataset.x_train, np.transpose(wanted), rtol=1e-6)
    assert json.loads(json.dumps(dataset.preprocessing)) == dataset.preprocessing
    assert dataset.preprocessing["label"] == "species"


@pytest.mark.parametrize("mode", ["RGBA", "LA", "P"])
def test_what_is_transparent_is_white(tmp_path, mode):
    for name in ("a", "b"):
        (tmp_path / "photos" / name).mkdir(parents=True)
        ink = np.zeros((8, 8, 4), np.uint8)  # all black; only its transparency draws the cross
        ink[3, :, 3] = ink[:, 3, 3] = 255
        image = Image.fromarray(ink, "RGBA")
        if mode == "P":
            image = image.quantize(4)
        image.convert(mode).save(tmp_path / "photos" / name / "x.png")
    seen = load(tmp_path / "photos", test_share=0).x_train[0, :, :, 0]
    assert (seen[3] == 0).all()
    assert (seen[np.ix_([0, 1, 6], [0, 2, 7])] == 255).all()


def test_numbers_with_an_odd_cell_are_named(tmp_path):
    rows = "".join(f"{number},{'<0.5' if number == 7 else number},{'ab'[number % 2]}\n" for number in range(40))
    (tmp_path / "t.csv").write_text(f"size,weight,kind\n{rows}")
    notes = load(tmp_path / "t.csv", label="kind", test_share=0).notes
    assert "column weight is taken for texts, numbers but for '<0.5'" in notes


def test_a_table_that_is_no_list_of_images_or_of_classes(tmp_path):
    rows = "".join(f"{number}.png,{number},{'ab'[number % 2]}\n" for number in range(60))
    (tmp_path / "t.csv").write_text(f"picture,size,kind\n{rows}")
    assert "column picture names image files and is left out: call it file to learn from them" in (
        load(tmp_path / "t.csv", label="kind").notes
    )
    few = "".join(f"{number}.png,{'ab'[number % 2]}\n" for number in range(60))
    (tmp_path / "p.csv").write_text(f"picture,kind\n{few}")
    with pytest.raises(SettingError, match=r"column picture of .* names image files: call it file"):
        load(tmp_path / "p.csv", label="kind")
    with pytest.raises(DataError, match="60 different labels for 60 samples"):
        load(tmp_path / "t.csv", label="size")


def test_what_is_held_out_does_not_scale_what_is_learned_from(tmp_path):
    rows = "".join(f"{number},{'ab'[number % 2]}\n" for number in np.arange(40) ** 2)
    (tmp_path / "t.csv").write_text(f"size,kind\n{rows}")
    dataset = load(tmp_path / "t.csv", label="kind")
    assert len(dataset.x_test) == 8
    np.testing.assert_allclose([dataset.x_train.mean(), dataset.x_train.std()], [0, 1], atol=1e-6)


def test_the_test_table_is_encoded_as_the_training_table(table, tmp_path):
    (tmp_path / "test.csv").write_text("species\tcolour\tage\ncat\tgreen\t10\ndog\tred\t\n".replace("\t", ";"))
    dataset = load(table, label="species", test=tmp_path / "test.csv")
    assert (dataset.test_labels, dataset.y_test.tolist()) == ("clean", [0, 1])
    assert dataset.x_test[0, 0] == dataset.x_train[0, 0]
    np.testing.assert_array_equal(dataset.x_test[:, 1:], [[0, 0, 0, 1], [1, 0, 1, 0]])  # green counts as missing


def test_parquet_is_read_as_csv_is(tmp_path):
    arrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    columns = {
        "size": [1.5, None, 2.5, 4.0],
        "legs": [4, 2, None, 4],
        "tame": [True, False, None, True],
        "kind": ["cat", "bird", "bird", "cat"],
        "label": [1, 0, 0, 1],
    }
    parquet.write_table(arrow.table(columns), tmp_path / "pets.parquet")
    rows = zip(*columns.values(), strict=True)
    text = "\n".join(",".join("" if value is None else str(value) for value in row) for row in rows)
    (tmp_path / "pets.csv").write_text(",".join(columns) + "\n" + text)
    one, other = load(tmp_path / "pets.parquet"), load(tmp_path / "pets.csv")  # the label's column has a usual name
    assert one.fingerprint == other.fingerprint
    assert one.notes == other.notes
    assert one.shape == (9,)
    parquet.write_table(arrow.table({"size": [1.0, 2.0, 3.0], "label": [0.0, 1.0, None]}), tmp_path / "f.parquet")
    assert load(tmp_path / "f.parquet").class_names == ("0", "1")


def test_parquet_needs_pyarrow(tmp_path, monkeypatch):
    (tmp_path / "pets.parquet").touch()
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(SettingError, match=r"pip install 'coteach\[parquet\]'"):
        load(tmp_path / "pets.parquet", label="x")


def test_tables_as_a_spreadsheet_writes_them(tmp_path):
    text = '\ufeffweight;name;class\r\n1,5;"a;b";10\r\n\r\n2,5;"c\nd";9\r\n3,5;c;9\r\n'
    (tmp_path / "sheet.csv").write_text(text, encoding="utf-8", newline="")
    dataset = load(tmp_path / "sheet.csv", test_share=0)
    assert dataset.class_names == ("9", "10")
    assert dataset.y_train.tolist() == [1, 0, 0]
    np.testing.assert_allclose(dataset.x_train[:, 0], (np.array([1.5, 2.5, 3.5]) - 2.5) / np.std([1.5, 2.5, 3.5]))


BAD_TABLES = {
    "wrong label": ("a,species\n1,x\n2,y\n", "speces", SettingError, "'speces': did you mean 'species'"),
    "no label": ("a,species\n1,x\n2,y\n", "", SettingError, "which column of t.csv holds the labels? give --label, on"),
    "two labels": ("y,label\n1,x\n2,y\n", "", SettingError, "give --label, one of: y, label"),
    "ragged": ("a,label\n1,x\n2\n", "", DataError, "t.csv: line 3 has 1 values, the first line names 2 columns"),
    "twice": ("a,a,label\n1,2,x\n", "", DataError, "its first line must name each column once"),
    "no rows": ("a,label\n", "", DataError, "t.csv has no rows below its first line"),
    "nothing": ("", "", DataError, "t.csv is empty"),
    "only labels": ("label\nx\ny\n", "", DataError, "no column to learn from besides its labels"),
    "no label at all": ("a,label\n1,\n2,\n", "", DataError, "no row has a label"),
    "one class": ("a,label\n1,x\n2,x\n", "", DataError, "a classifier needs at least two classes"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD_TABLES)
def test_a_wrong_table_gets_one_line(tmp_path, case):
    text, label, kind, cause = BAD_TABLES[case]
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(kind) as error:
        load(tmp_path / "t.csv", label=label)
    assert cause in one_line(error)


def test_a_folder_that_is_called_like_a_missing_value_is_a_class_in_a_list_of_its_images_too(tmp_path):
    for name in ("NA/1.png", "NA/2.png", "yes/1.png", "yes/2.png"):
        photo(tmp_path / "photos" / name, (8, 8))
    (tmp_path / "list.csv").write_text(
        "file,label\nphotos/NA/1.png,NA\nphotos/NA/2.png,yes\nphotos/yes/1.png,NA\nphotos/yes/2.png,yes\n"
    )
    assert load(tmp_path / "photos", test_share=0).class_names == ("NA", "yes")
    assert load(tmp_path / "list.csv", test_share=0).class_names == ("NA", "yes")
    photo(tmp_path / "photos" / "tested.png", (8, 8))
    (tmp_path / "test.csv").write_text("file,label\nphotos/tested.png,NA\n")  # a class, for it is one in training
    assert load(tmp_path / "list.csv", test=tmp_path / "test.csv").y_test.tolist() == [0]
    (tmp_path / "list.csv").write_text((tmp_path / "list.csv").read_text().replace("/", "\\"))
    assert load(tmp_path / "list.csv", test_share=0).class_names == ("NA", "yes")
    flat = "file,label\n" + "".join(f"photos/{name},{label}\n" for name, label in FLAT)
    for name, _ in FLAT:
        photo(tmp_path / "photos" / name, (8, 8))
    (tmp_path / "flat.csv").write_text(flat)
    dataset = load(tmp_path / "flat.csv", test_share=0)
    assert dataset.class_names == ("no", "yes")
    assert any("1 row without a file or a label is left out of 3" in note for note in dataset.notes)


FLAT = (("1.png", "yes"), ("2.png", "no"), ("3.png", "NA"))


@pytest.mark.parametrize(("size", "reason"), [(-3, "must be at least 0"), (5000, "must be at most 4096")])
def test_a_size_of_images_that_cannot_be_is_refused_before_any_is_read(tmp_path, size, reason):
    (tmp_path / "photos").mkdir()  # nothing in it can be read
    with pytest.raises(SettingError, match=reason):
        load(tmp_path / "photos", image_size=size)


def test_decoded_images_that_the_disk_cannot_hold_are_refused_before_they_are_decoded(tmp_path, monkeypatch, cache):
    for name in ("a/1.png", "a/2.png", "b/1.png", "b/2.png"):
        photo(tmp_path / "photos" / name, (8, 8))
    monkeypatch.setattr(images, "memory", lambda: 0)
    # Each part would find room by itself, but not both.
    monkeypatch.setattr(images.shutil, "disk_usage", lambda folder: SimpleNamespace(free=3 * 192))
    with pytest.raises(StorageError, match="lower image_size, or set COTEACH_DATA"):
        load(tmp_path / "photos", test_share=0.5)
    assert not list(cache.rglob("*.bytes"))
    monkeypatch.setattr(images.shutil, "disk_usage", lambda folder: SimpleNamespace(free=4 * 192))
    load(tmp_path / "photos", test_share=0.5)
    monkeypatch.setattr(images.shutil, "disk_usage", lambda folder: SimpleNamespace(free=0))
    own._last.clear()
    load(tmp_path / "photos", test_share=0.5)  # they lie there already


def test_other_damage_gets_one_line_too(tmp_path, table):
    (tmp_path / "latin.csv").write_bytes("a,label\n1,für\n".encode("latin-1"))
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 no")
    photo(tmp_path / "photos" / "a" / "1.png", (8, 8))
    photo(tmp_path / "photos" / "b" / "1.png", (8, 8))
    np.savez(tmp_path / "a.npz", x=np.eye(4), y=np.arange(4) % 2)
    for source, how, cause in (
        ("latin.csv", {}, "save it as CSV in UTF-8"),
        ("broken.parquet", {}, "broken.parquet is not a Parquet file"),
        ("photos", {"label": "a"}, "leave --label a out"),
        ("photos/a/1.png", {}, "is one image: give a folder of images"),
        ("photos", {"test": tmp_path / "a.npz"}, "different kinds: give the test set in the same form"),
        ("photos", {"test": tmp_path / "absent"}, "absent does not exist"),
        ("pets.csv", {"label": "species", "image_size": 16}, "image_size goes with image files"),
        ("a.npz", {"label": "y"}, "holds its labels itself"),
        ("a.npz", {"test_share": 1.0}, "test_share is 1"),
    ):
        with pytest.raises(CoteachError) as error:
            load(tmp_path / source, **how)
        assert cause in one_line(error)
    for setting in ({"label": "x"}, {"test": "x"}, {"image_size": 8}):
        with pytest.raises(SettingError, match="goes with your own data, and digits is complete: leave it out"):
            load("digits", **setting)


# Arrays


@pytest.mark.parametrize("label", ["", "names.npy"])
def test_a_pair_of_npy_files(tmp_path, label):
    x, y = DIGITS.x_train[:50], np.array([f"digit {each}" for each in DIGITS.y_train[:50]])
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / (label or "y.npy"), y)
    dataset = load(tmp_path / "x.npy", label=label and str(tmp_path / label))
    assert dataset.class_names == tuple(f"digit {number}" for number in range(10))
    assert (len(dataset.y_train), len(dataset.y_test), dataset.test_labels) == (40, 10, "as given")
    rows = np.array(dataset.ids, int)
    np.testing.assert_array_equal(dataset.x_train, x[rows])
    np.testing.assert_array_equal(dataset.y_train, DIGITS.y_train[rows])


def test_samples_without_labels(tmp_path):
    np.save(tmp_path / "x.npy", np.eye(4))
    with pytest.raises(SettingError, match=r"which labels belong to .*x.npy\? give --label"):
        load(tmp_path / "x.npy")
    np.savez(tmp_path / "a.npz", x=np.eye(4))
    with pytest.raises(DataError, match=r"a.npz holds no y: save x and y in it"):
        load(tmp_path / "a.npz")


def test_arrays_in_one_file(tmp_path):
    x, y = np.random.default_rng(0).random((30, 5), np.float32), np.array(["yes", "no", "maybe"] * 10)
    np.savez(tmp_path / "a.npz", X=x, y=y)
    dataset = load(tmp_path / "a.npz")
    assert (dataset.class_names, len(dataset.y_train), len(dataset.y_test)) == (("maybe", "no", "yes"), 24, 6)
    assert len(load(tmp_path / "a.npz", test_share=0).y_test) == 0
    np.savez(tmp_path / "b.npz", x_train=x[:20], y_train=y[:20], x_test=x[20:], y_test=y[20:])
    assert load(tmp_path / "b.npz").test_labels == "clean"
    dataset = load(tmp_path / "a.npz", test=tmp_path / "b.npz")
    np.testing.assert_array_equal(dataset.x_test, x[20:])
    np.testing.assert_array_equal(dataset.x_train, x)
    assert load(tmp_path / "b.npz", test=tmp_path / "a.npz").notes[0].startswith("the test set of")


@pytest.mark.parametrize(("share", "wanted"), [(0.2, 287), (0.0, 0), (1e-9, 1), (0.999, 1427)])
def test_what_is_held_out_is_a_share_of_every_class(share, wanted):
    train, test = held_out(DIGITS.y_train, share)
    assert len(test) == wanted
    assert sorted([*train, *test]) == list(range(1437))
    assert set(DIGITS.y_train[train]) == set(range(10))
    counts = np.bincount(DIGITS.y_train[test], minlength=10) - share * np.bincount(DIGITS.y_train)
    assert np.abs(counts).max() <= 1
    np.testing.assert_array_equal(held_out(DIGITS.y_train, share)[1], test)


def test_nothing_is_held_out_where_nothing_can_be_spared(tmp_path):
    np.savez(tmp_path / "a.npz", x=np.eye(3), y=np.arange(3))
    dataset = load(tmp_path / "a.npz")
    assert (len(dataset.y_train), dataset.x_test.shape) == (3, (0, 3))
    assert dataset.notes == ("no test set was given, and none of 3 samples can be spared for one",)


# New samples


def test_new_images_are_read_as_the_training_images(tmp_path):
    pixels = save_digits(tmp_path / "photos", 30)
    form = load(tmp_path / "photos").preprocessing
    (tmp_path / "photos" / "loose.png").write_text("no image")
    told = []
    x, ids = read_samples(tmp_path / "photos", form, told.append)
    assert told == ["1 image that cannot be read is left out of 31: loose.png"]
    assert set(ids) == set(pixels)
    np.testing.assert_array_equal(x, [pixels[file] for file in ids])
    (tmp_path / "list.csv").write_text("\n".join(["file", *(f"photos/{file}" for file in ids)]))
    np.testing.assert_array_equal(read_samples(tmp_path / "list.csv", form)[0], x)
    alone, name = read_samples(tmp_path / "photos" / ids[0], form)
    assert (alone.shape, name) == ((1, 8, 8, 1), (ids[0].split("/")[1],))
    np.testing.assert_array_equal(read_samples(tmp_path / "photos", DIGITS.preprocessing)[0], x)
    photo(tmp_path / "large" / "a.jpg", (100, 80))
    assert read_samples(tmp_path / "large", form)[0].shape == (1, 8, 8, 1)


def test_new_rows_are_encoded_as_the_training_rows(table, tmp_path):
    dataset = load(table, label="species", test_share=0)
    x, ids = read_samples(table, json.loads(json.dumps(dataset.preprocessing)))
    assert ids == ("0", "1", "2", "3", "4", "5")
    np.testing.assert_array_equal(np.delete(x, 4, 0), dataset.x_train)
    (tmp_path / "new.csv").write_text("colour,age\nred,20\n")
    np.testing.assert_array_equal(read_samples(tmp_path / "new.csv", dataset.preprocessing)[0], dataset.x_train[3:4])
    for text, cause in (("age\n1\n", "has no column colour"), ("age,colour\nold,red\n", "age was numbers in training")):
        (tmp_path / "new.csv").write_text(text)
        with pytest.raises(DataError, match=cause) as error:
            read_samples(tmp_path / "new.csv", dataset.preprocessing)
        one_line(error)


def test_new_arrays(tmp_path, table):
    np.savez(tmp_path / "a.npz", x_train=np.zeros((4, 3)), x_test=np.ones((2, 3)))
    np.save(tmp_path / "x.npy", np.ones((2, 3)))
    for file in ("a.npz", "x.npy"):
        x, ids = read_samples(tmp_path / file, {"kind": "arrays"})
        assert (x.dtype, x.tolist(), ids) == (np.float32, [[1, 1, 1]] * 2, ("0", "1"))
        with pytest.raises(DataError, match="learned from a table: give one with the same columns"):
            read_samples(tmp_path / file, {"kind": "table", "columns": []})
    with pytest.raises(DataError, match="names no image files, but the model learned from images"):
        read_samples(table, {"kind": "images", "size": 8, "channels": 1})
    photo(tmp_path / "photos" / "a.png", (8, 8))
    with pytest.raises(DataError, match="learned from other arrays"):
        read_samples(tmp_path / "photos", {"kind": "arrays"})


# From Python


class Photographs(TorchDataset):
    def __len__(self):
        return 6

    def __getitem__(self, place):
        return Image.fromarray(DIGITS.x_train[place, ..., 0]), ["even", "odd"][DIGITS.y_train[place] % 2]


def test_a_torch_dataset():
    x = torch.arange(4 * 3 * 5 * 6).reshape(4, 3, 5, 6) / 100
    dataset = coteach.Dataset.checked("mine", *from_torch(TensorDataset(x, torch.tensor([0, 1, 2, 1]))))
    assert (dataset.shape, dataset.y_train.tolist(), dataset.x_test.shape) == ((5, 6, 3), [0, 1, 2, 1], (0, 5, 6, 3))
    np.testing.assert_array_equal(dataset.x_train, x.permute(0, 2, 3, 1).numpy())
    pairs = from_torch(Photographs())
    dataset = coteach.Dataset.checked("mine", *pairs, *pairs)
    assert (dataset.class_names, dataset.shape, dataset.x_train.dtype) == (("even", "odd"), (8, 8, 1), np.uint8)
    np.testing.assert_array_equal(dataset.x_test, DIGITS.x_train[:6])


def test_samples_of_a_torch_dataset_are_not_cut_to_the_type_of_the_first():
    x, _ = from_torch([(np.array([1, 2]), 0), (np.array([0.7, 0.2]), 1)])
    np.testing.assert_array_equal(x, [[1, 2], [0.7, 0.2]])


class Stream(IterableDataset):
    def __iter__(self):
        return iter([])


@pytest.mark.parametrize(
    ("dataset", "cause"),
    [
        (Stream(), "has no length"),
        ([], "is empty"),
        ([np.zeros(3)], "is no pair of a sample and one label"),
        ([{"x": np.zeros(3), "y": 0}], "it is a dict with 'x', 'y'"),
        (DataLoader([1]), r"DataLoader is not indexed: give loader\.dataset"),
        ([(np.zeros(3), np.zeros(3))], "is no pair of a sample and one label"),
        ([(np.zeros(3), 0), (np.zeros(4), 1)], r"sample 1 .* has shape \(4,\), those before it \(3,\)"),
    ],
)
def test_a_wrong_torch_dataset(dataset, cause):
    with pytest.raises(DataError, match=cause) as error:
        from_torch(dataset)
    one_line(error)


# Configs


def test_a_run_is_named_after_its_folder_and_knows_when_it_changes(tmp_path, monkeypatch):
    save_digits(tmp_path / "photos.v2", 40)
    monkeypatch.chdir(tmp_path)
    there, here = recipe(str(tmp_path / "photos.v2")), recipe("photos.v2/")
    assert there.name == here.name
    assert here.name.startswith("photos.v2-none-co-teaching-s1-")
    assert here.network == "small-cnn"
    assert recipe("photos.v2", image_size=28, name="small").network == "paper-cnn"
    suits = "paper-cnn" if torch.cuda.is_available() else "small-cnn"  # the large one is no joy on a CPU
    assert recipe("photos.v2", image_size=28).network == suits
    assert recipe("photos.v2", test_share=0.5).digest != here.digest
    (file,) = list((tmp_path / "photos.v2" / "0").glob("*.png"))[:1]
    Image.new("L", (8, 8), 3).save(file)
    assert recipe("photos.v2").digest != here.digest
    monkeypatch.chdir(tmp_path / "photos.v2")
    assert recipe(".").name.startswith("data-none-")


def test_where_the_test_set_lies_is_not_in_the_name(tmp_path, table):
    (tmp_path / "other").mkdir()
    for folder in (tmp_path, tmp_path / "other"):
        (folder / "test.csv").write_text("species,colour,age\ncat,green,10\n")
    one, other = (recipe(str(table), label="species", test=str(folder / "test.csv"))
                  for folder in (tmp_path, tmp_path / "other"))  # fmt: skip
    assert one.digest == other.digest
    assert recipe(str(table), label="colour").digest != recipe(str(table), label="species").digest


# The command line

WORDS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
QUICK = ["--epochs", "2", "--max-steps", "2", "--batch-size", "16"]


@pytest.mark.parametrize("in_file", [False, True])
def test_train_on_a_folder(cli, tmp_path, monkeypatch, in_file):
    save_digits(tmp_path / "photos", 100, WORDS)
    (tmp_path / "photos" / "one" / "bad.png").touch()
    if in_file:
        monkeypatch.setattr(images, "memory", lambda: 10_000)
    answer = cli("train", "--data", "photos", "--noise", "symmetric", "--rate", "0.2", *QUICK, "--json")
    assert answer.returncode == 0, answer.stderr
    result = json.loads(answer.stdout)
    assert result["summary"]["class_names"] == sorted(WORDS)
    assert (result["summary"]["train_samples"], result["summary"]["test_samples"]) == (80, 20)
    assert result["config"]["network"] == "small-cnn"
    assert answer.stderr.count("1 image that cannot be read is left out of 101: one/bad.png") == 1
    assert answer.stderr.count("20 of 100 samples are held out, and their labels may be wrong too") == 1
    assert ("the decoded images" in answer.stderr) == in_file
    again = cli("train", "--data", "photos/", "--noise", "symmetric", "--rate", "0.2", *QUICK, "--json")
    assert json.loads(again.stdout)["already_done"]


def write_measures(path, number=80):
    random = np.random.default_rng(3)
    rows = [f"{random.normal(kind):.3f},{'' if n % 9 == 0 else 'xyz'[n % 3]},{'ab'[kind]}"
            for n in range(number) for kind in [n % 2]]  # fmt: skip
    path.write_text("\n".join(["width,shape,kind", *rows]))


def test_train_on_a_table(cli, tmp_path):
    write_measures(tmp_path / "measures.csv")
    words = ["train", "--data", "measures.csv", "--label", "kind", "--method", "s-model", *QUICK, "--json"]
    answer = cli(*words)
    assert answer.returncode == 0, answer.stderr
    result = json.loads(answer.stdout)
    assert (result["config"]["network"], result["config"]["label"]) == ("table-mlp", "kind")
    assert result["summary"]["train_samples"] == 64
    assert result["number"].endswith("; by the test labels as given, which may be wrong")
    note = "column shape: 9 of 80 values are missing, counted as a category of their own"
    assert answer.stderr.count(note) == 1  # and not again for the second stage
    wrong = cli(*["kimd" if word == "kind" else word for word in words])
    assert wrong.returncode == 2
    assert wrong.stderr.splitlines() == [
        "coteach: unknown column of measures.csv 'kimd': did you mean 'kind'? known: kind, shape, width; "
        "name the labels' column with --label"
    ]


def test_noise_and_grids_take_ones_own_data(cli, tmp_path):
    save_digits(tmp_path / "here" / "photos", 40)
    write_measures(tmp_path / "here" / "measures.csv")
    where = ["--data", "here/measures.csv", "--label", "kind", "--test-share", "0.5"]
    saved = cli("noise", *where, "--noise", "pair", "--rate", "0.3", "--out", "labels.npz")
    assert "of 40 labels are wrong" in saved.stdout
    assert "40 of 80 samples are held out" in saved.stderr
    trained = cli("train", *where, "--noise", "labels.npz", "--method", "standard", *QUICK, "--quiet", "--json")
    assert json.loads(trained.stdout)["summary"]["train_samples"] == 40
    (tmp_path / "here" / "grid.toml").write_text(
        'noises = ["none"]\nmethods = ["standard"]\n[settings]\nepochs = 1\nmax_steps = 1\nbatch_size = 8\n'
        '[[table]]\ntitle = "one"\ndata = "measures.csv"\nsettings = { label = "kind" }\n'
        '[[table]]\ntitle = "two"\ndata = "measures.csv"\nsettings = { label = "shape" }\n'
        '[[table]]\ntitle = "three"\ndata = "photos"\n'
    )
    answer = cli("bench", "here/grid.toml", "--json")
    assert answer.returncode == 0, answer.stderr
    folders = {path.name for path in (tmp_path / "runs").iterdir() if path.name.startswith(("measures", "photos"))}
    assert len(folders) == 4  # one was made by `train`


@pytest.mark.skipif(os.name != "posix" or sys.platform == "darwin", reason="names of any bytes")
def test_names_that_are_no_text(tmp_path):
    for label in ("cat", "dog"):
        (tmp_path / label).mkdir()
        for number in range(4):
            Image.new("L", (8, 8), number).save(tmp_path / label / f"{number}.png")
    (tmp_path / "cat" / "0.png").rename(os.fsdecode(os.fsencode(tmp_path / "cat") + b"/\xff.png"))
    dataset = load(tmp_path, test_share=0)
    assert len(dataset.y_train) == 7
    assert any("not in UTF-8" in note for note in dataset.notes)
    (tmp_path / "dog").rename(os.fsdecode(os.fsencode(tmp_path) + b"/\xff"))
    with pytest.raises(DataError, match="rename it"):
        load(tmp_path, test_share=0)
