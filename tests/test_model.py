"""Trained models: what they predict, what loading refuses, predictions as CSV, and ONNX."""

import csv
import io
import json
import pickle
import re
import shlex
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch
from PIL import Image

import coteach
from coteach.errors import CoteachError, DataError, SettingError
from coteach.nets import SmallCNN
from coteach.results.run import run

PAGE = Path(__file__).parents[1] / "docs" / "predict.md"


@pytest.fixture(scope="module")
def digits():
    return coteach.load("digits")


@pytest.fixture(scope="module")
def finished(quick, tmp_path_factory):
    """The folder of a short run; nobody writes to it."""
    return run(quick(), tmp_path_factory.mktemp("runs")).path


@pytest.fixture
def folder(finished, tmp_path):
    """A copy of its model to tamper with."""
    (tmp_path / "model").mkdir()
    for name in ("model.json", "weights.safetensors"):
        shutil.copy(finished / name, tmp_path / "model")
    return tmp_path / "model"


def change(folder, **values):
    """Change model.json; None takes a value out."""
    path = folder / "model.json"
    changed = json.loads(path.read_text()) | values
    path.write_text(json.dumps({name: value for name, value in changed.items() if value is not None}))


def rows_of(text):
    return list(csv.DictReader(io.StringIO(text)))


def same(rows, model, x):
    """Whether the rows of a CSV say what the model says of x."""
    wanted = model.predict_proba(x)
    found = [[float(row[f"p_{name}"]) for name in model.class_names] for row in rows]
    assert np.abs(np.array(found) - wanted).max() <= 1e-6
    assert [row["predicted_label"] for row in rows] == model.predict(x).tolist()
    assert [float(row["probability"]) for row in rows] == [max(each) for each in found]


# Predicting


def test_it_predicts_the_mean_of_its_networks_computed_by_hand(finished, digits):
    tensors = safetensors.torch.load_file(finished / "weights.safetensors")
    x = torch.from_numpy(digits.x_train).permute(0, 3, 1, 2) / 255
    by_hand = []
    for number in "01":
        net = SmallCNN((8, 8, 1), 10).eval()
        net.load_state_dict({name[2:]: value for name, value in tensors.items() if name[0] == number})
        by_hand.append(net(x).softmax(1).detach().numpy())
    assert np.abs(by_hand[0] - by_hand[1]).max() > 0.01, "two networks, else their mean shows nothing"
    model = coteach.load_model(finished)
    found = model.predict_proba(digits.x_train)  # more than one batch
    np.testing.assert_allclose(found, (by_hand[0] + by_hand[1]) / 2, atol=1e-6)
    assert model.predict(digits.x_train).tolist() == [digits.class_names[c] for c in found.argmax(1)]
    np.testing.assert_allclose(model.predict_proba(digits.x_train[:5] / 255), found[:5], atol=1e-6)
    assert model.class_names == digits.class_names
    assert model.shape == digits.shape


def test_samples_of_another_kind_are_refused(finished, digits):
    model = coteach.load_model(finished)
    with pytest.raises(DataError, match=r"shape \(16, 4, 1\), this model takes \(8, 8, 1\)"):
        model.predict(digits.x_test.reshape(-1, 16, 4, 1))
    with pytest.raises(DataError, match="learned from bytes"):
        model.predict(digits.x_test.astype(np.float32))


def test_a_model_of_floats_refuses_bytes(folder, digits):
    change(folder, dtype="float32")
    with pytest.raises(DataError, match="learned from float32"):
        coteach.load_model(folder).predict(digits.x_test)


# Saving and loading


def test_a_saved_model_is_the_same_and_is_not_overwritten(finished, digits, tmp_path):
    model = coteach.load_model(finished)
    model.save(tmp_path / "saved")
    for name in ("model.json", "weights.safetensors"):
        assert (tmp_path / "saved" / name).read_bytes() == (finished / name).read_bytes()
    again = coteach.load_model(tmp_path / "saved")
    assert np.array_equal(again.predict_proba(digits.x_test), model.predict_proba(digits.x_test))
    with pytest.raises(SettingError, match="holds a model already"):
        model.save(tmp_path / "saved")


def test_loading_leaves_random_numbers_alone(finished):
    torch.manual_seed(3)
    wanted = torch.rand(1)
    torch.manual_seed(3)
    coteach.load_model(finished, network=SmallCNN)
    assert torch.rand(1) == wanted


def test_a_run_of_an_older_version_loads_if_its_shape_is_known(finished, digits, tmp_path):
    old = tmp_path / "old"
    shutil.copytree(finished, old)
    (old / "model.json").unlink()
    wanted = coteach.load_model(finished).predict_proba(digits.x_test)
    assert np.array_equal(coteach.load_model(old).predict_proba(digits.x_test), wanted)
    config = json.loads((old / "config.json").read_text())
    (old / "config.json").write_text(json.dumps(config | {"data": "mine.npz"}))
    with pytest.raises(DataError, match="older coteach"):
        coteach.load_model(old)
    (old / "summary.json").unlink()
    with pytest.raises(DataError, match="no finished run"):
        coteach.load_model(old)


def cut(name):
    def tamper(folder):
        content = (folder / name).read_bytes()
        (folder / name).write_bytes(content[: len(content) // 2])

    return tamper


def described(**values):
    return lambda folder: change(folder, weights_sha256=None, **values)


def other_weights(folder):
    path = folder / "weights.safetensors"
    tensors = safetensors.torch.load_file(path)
    safetensors.torch.save_file({name: value + 1 for name, value in tensors.items()}, path)


def without_sha256_cut(folder):
    change(folder, weights_sha256=None)
    cut("weights.safetensors")(folder)


ARRAYS = {"preprocessing": {"kind": "arrays"}}
TAMPERED = {
    "json cut": (cut("model.json"), "model.json is damaged"),
    "no json": (lambda folder: (folder / "model.json").unlink(), "has no model.json"),
    "a list": (lambda folder: (folder / "model.json").write_text("[]"), "holds no table"),
    "nested": (lambda folder: (folder / "model.json").write_text("[" * 100_000), "model.json is damaged"),
    "no weights": (lambda folder: (folder / "weights.safetensors").unlink(), "cannot read"),
    "weights cut": (without_sha256_cut, "weights.safetensors is damaged"),
    "other weights": (other_weights, "not the file that model.json was written for"),
    "newer": (described(format=2), "its format is 2"),
    "a key less": (described(dtype=None), "has no dtype"),
    "dropout": (described(dropout=float("nan")), "its dropout is NaN"),
    "yes networks": (described(networks=True), "its networks is true"),
    "shape of text": (described(shape=["8", 8, 1]), "its shape is"),
    "empty shape": (described(shape=[8, 0, 1]), "its shape is"),
    "names": (described(class_names=[1] * 10), "its class_names is"),
    "preprocessing": (described(preprocessing=[]), "its preprocessing is"),
    "other size": (described(preprocessing={"kind": "images", "size": 10**9, "channels": 1}), "makes no samples"),
    "more networks": (described(networks=3), r"lack '2\.0\.weight'"),
    "fewer networks": (described(networks=1), r"have '1\."),
    "fewer classes": (described(class_names=["a", "b"]), r"'0\.14\.weight' is float32 \(10, 256\), the network has"),
    "other network": (described(network="mlp"), "the network has"),
    "unknown network": (described(network="huge-cnn"), "this coteach does not have"),
    "too small": (described(shape=[2, 2, 1], **ARRAYS), "needs images of 4 pixels"),
    "a terabyte": (described(shape=[10**9], network="mlp", **ARRAYS), "the network has"),
    "too large": (described(shape=[2**62], network="mlp", **ARRAYS), "no mlp for samples"),
    "beyond numbers": (described(shape=[2**70], network="mlp", **ARRAYS), "no mlp for samples"),
}


@pytest.mark.parametrize(("tamper", "line"), TAMPERED.values(), ids=TAMPERED)
def test_tampered_files_are_one_line(folder, tamper, line):
    tamper(folder)
    with pytest.raises(CoteachError, match=line) as caught:
        coteach.load_model(folder)
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 1


# Loading runs no code from the file


def test_a_name_in_the_file_imports_nothing(folder, finished, digits, cli, tmp_path, monkeypatch):
    np.savez(tmp_path / "new.npz", x=digits.x_test)
    (tmp_path / "trap.py").write_text(
        "from pathlib import Path\n"
        "from coteach.nets import SmallCNN\n"
        "Path('sprung').touch()\n"
        "def network(shape, classes):\n"
        "    return SmallCNN(shape, classes)\n"
    )
    change(folder, network="trap:network")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(SettingError, match="if you trust it, give --network 'trap:network'") as caught:
        coteach.load_model(folder)
    assert "\n" not in str(caught.value)
    for words in (["predict", folder, "new.npz"], ["export", "onnx", folder]):
        answer = cli(*words)
        assert (answer.returncode, answer.stdout, answer.stderr.count("\n")) == (2, "", 1)
    assert "trap" not in sys.modules
    assert not Path("sprung").exists()
    model = coteach.load_model(folder, network="trap:network")
    assert Path("sprung").exists()  # so the trap was one
    wanted = coteach.load_model(finished).predict_proba(digits.x_test)
    np.testing.assert_allclose(model.predict_proba(digits.x_test), wanted, atol=1e-6)
    same(rows_of(cli("predict", folder, "new.npz", "--network", "trap:network").stdout), model, digits.x_test)


class Sprung:
    """Pickled, it makes a file when it is read."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


def test_weights_are_never_unpickled(folder, tmp_path):
    trap = Sprung(tmp_path / "sprung")
    change(folder, weights_sha256=None)
    torch.save({"0.0.weight": trap}, folder / "weights.safetensors")
    with pytest.raises(DataError, match="is damaged"):
        coteach.load_model(folder)
    (folder / "weights.safetensors").write_bytes(pickle.dumps(trap))
    with pytest.raises(DataError, match="is damaged"):
        coteach.load_model(folder)
    assert not trap.path.exists()


def linear(shape, classes):
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(int(np.prod(shape)), classes))


def test_a_network_of_ones_own_comes_back_by_its_function(quick, digits, tmp_path):
    result = run(quick(epochs=1, decay_from=0, method="standard"), tmp_path, network=linear)
    with pytest.raises(SettingError, match=r"--network '.*test_model:linear'"):
        coteach.load_model(result.path)
    model = coteach.load_model(result.path, network=linear)
    right = (model.predict(digits.x_test).astype(int) == digits.y_test).mean()
    assert right == pytest.approx(result.epochs[-1].test_accuracy[0])
    with pytest.raises(DataError, match="name the network"):
        coteach.load_model(result.path, network="mlp")


# On the command line, and the page about it


def test_the_page_does_what_it_says(cli, tmp_path, monkeypatch, capsys):
    """Every block of docs/predict.md, one after another in an empty folder; installing is done already."""
    monkeypatch.chdir(tmp_path)
    names = {}
    for language, block in re.findall(r"```(\w+)\n(.*?)```", PAGE.read_text(), re.DOTALL):
        if language == "python":
            exec(block, names)
            continue
        for line in block.splitlines():
            program, *words = shlex.split(line)
            if program == "coteach":
                answer = cli(*(found for word in words for found in (Path().glob(word) if "*" in word else [word])))
                assert answer.returncode == 0, answer
    rows = rows_of(Path("predictions.csv").read_text())
    assert [row["predicted_label"] for row in rows] == names["names"].tolist()
    assert capsys.readouterr().out == f"{names['names'].tolist()}\n"
    keys = re.search(r"## The two files\n(.*?)## ONNX", PAGE.read_text(), re.DOTALL)[1]
    told = [key for row in re.findall(r"^\| (`.*?) \|", keys, re.MULTILINE) for key in re.findall(r"`(\w+)`", row)]
    assert sorted(told) == sorted(json.loads(Path("model/model.json").read_text()))


def test_predictions_of_arrays_as_csv_and_json(finished, digits, cli, tmp_path):
    model = coteach.load_model(finished)
    np.savez(tmp_path / "new.npz", x=digits.x_test)
    answer = cli("predict", finished, "new.npz")
    rows = rows_of(answer.stdout)
    assert list(rows[0]) == ["id", "predicted_label", "probability", *(f"p_{name}" for name in range(10))]
    assert [row["id"] for row in rows] == [str(number) for number in range(360)]
    same(rows, model, digits.x_test)
    assert cli("predict", finished, "digits", "--device", "cpu").stdout == answer.stdout
    told = json.loads(cli("predict", finished, "new.npz", "--json").stdout)
    assert told["samples"] == sum(told["predicted"].values()) == 360
    assert [row["predicted_label"] for row in told["predictions"]] == model.predict(digits.x_test).tolist()


def test_predictions_never_replace_a_file(finished, digits, cli, tmp_path):
    out = tmp_path / "deep" / "predictions.csv"
    np.savez(tmp_path / "new.npz", x=digits.x_test[:3])
    answer = cli("predict", finished, "new.npz", "--out", out, "--json")
    assert json.loads(answer.stdout)["file"] == str(out)
    content = out.read_bytes()
    same(rows_of(content.decode()), coteach.load_model(finished), digits.x_test[:3])
    answer = cli("predict", finished, "digits", "--out", out)
    assert (answer.returncode, answer.stderr.count("\n")) == (2, 1)
    assert "is there already" in answer.stderr
    assert out.read_bytes() == content


def test_what_cannot_be_predicted_is_one_line(finished, digits, cli, tmp_path):
    np.savez(tmp_path / "small.npz", x=digits.x_test[:, :4])
    for words in ([finished, "small.npz"], [finished, "absent.npz"], ["absent", "digits"], [tmp_path, "digits"]):
        answer = cli("predict", *words)
        assert (answer.returncode, answer.stdout, answer.stderr.count("\n")) == (1, "", 1), answer
    answer = cli("predict", "--json", finished, finished, "small.npz")  # as from runs/*
    assert (answer.returncode, answer.stderr.count("\n")) == (2, 1)
    assert "2 models are given" in answer.stderr


def grey(path, shade):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.full((8, 8), shade, np.uint8)).save(path)


def folder_of(answer, tmp_path):
    assert answer.returncode == 0, answer
    return tmp_path / json.loads(answer.stdout)["folder"]


def test_predictions_of_images(cli, tmp_path):
    """From a folder of pictures to the names of new ones; one that is none is left out, and told."""
    for number in range(40):
        grey(tmp_path / "photos" / "dark" / f"{number}.png", 20 + number)
        grey(tmp_path / "photos" / "bright" / f"{number}.png", 220 - number)
    words = ["--method", "standard", "--network", "mlp", "--epochs", 20, "--batch-size", 8, "--json"]
    model = folder_of(cli("train", "--data", "photos", *words), tmp_path)
    grey(tmp_path / "new" / "black.png", 5)
    grey(tmp_path / "new" / "white.png", 250)
    (tmp_path / "new" / "none.png").write_text("no picture")
    answer = cli("predict", model, "new")
    rows = [(row["id"], row["predicted_label"]) for row in rows_of(answer.stdout)]
    assert rows == [("black.png", "dark"), ("white.png", "bright")]
    assert "none.png" in answer.stderr


def test_predictions_of_a_table(cli, tmp_path):
    """Columns in another order, a colour that training did not have, a missing number, no labels."""
    lines = [f"{number % 7},{'red,yes' if number % 2 else 'blue,no'}" for number in range(80)]
    (tmp_path / "table.csv").write_text("\n".join(["size,colour,ripe", *lines]) + "\n")
    words = ["--label", "ripe", "--method", "standard", "--epochs", 20, "--batch-size", 8, "--json"]
    model = folder_of(cli("train", "--data", "table.csv", *words), tmp_path)
    (tmp_path / "new.csv").write_text("colour,size\nred,3\nblue,\ngreen,4\n")
    rows = rows_of(cli("predict", model, "new.csv").stdout)
    assert [row["id"] for row in rows] == ["0", "1", "2"]
    assert [row["predicted_label"] for row in rows][:2] == ["yes", "no"]
    for columns in (None, [{"name": "size"}], [1]):
        change(model, preprocessing={"kind": "table", "columns": columns})
        answer = cli("predict", model, "new.csv")
        assert (answer.returncode, answer.stdout, answer.stderr.count("\n")) == (1, "", 1), answer


def test_many_classes_have_no_column_each(cli, tmp_path):
    y = np.arange(404) % 101
    np.savez(tmp_path / "many.npz", x_train=np.eye(101)[y], y_train=y, x_test=np.eye(101), y_test=np.arange(101))
    words = ["--method", "standard", "--network", "mlp", "--epochs", 1, "--batch-size", 8, "--json"]
    model = folder_of(cli("train", "--data", "many.npz", *words), tmp_path)
    rows = rows_of(cli("predict", model, "many.npz").stdout)
    assert list(rows[0]) == ["id", "predicted_label", "probability"]
    names = coteach.load_model(model).predict(np.eye(101)).tolist()
    assert [row["predicted_label"] for row in rows] == names


# ONNX


def test_onnx_says_what_torch_says(finished, digits, cli, tmp_path):
    import onnx
    import onnxruntime

    answer = cli("export", "onnx", finished)
    assert answer.returncode == 0, answer
    assert answer.stdout.startswith("model.onnx\nlargest difference from torch in onnxruntime: ")
    assert float(answer.stdout.split()[-1]) < 1e-5
    file = tmp_path / "model.onnx"
    onnx.checker.check_model(onnx.load(file), full_check=True)
    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    model = coteach.load_model(finished)
    for number in (1, 360):  # samples as they are stored, any number of them
        x = digits.x_test[:number]
        (found,) = session.run(None, {"x": x})
        np.testing.assert_allclose(found, model.predict_proba(x), atol=1e-5)
    about = session.get_modelmeta().custom_metadata_map
    assert json.loads(about["class_names"]) == list(model.class_names)
    assert json.loads(about["preprocessing"]) == model.preprocessing
    content = file.read_bytes()
    assert b".py" not in content, "the exporter's notes on source files are in it"
    answer = cli("export", "onnx", finished)
    assert (answer.returncode, answer.stderr.count("\n")) == (2, 1)
    assert "is there already" in answer.stderr
    assert file.read_bytes() == content


def strange(shape, classes):
    """A network whose answer depends on a number that ONNX cannot know."""

    class Strange(torch.nn.Linear):
        def forward(self, x):
            scores = super().forward(x.flatten(1))
            return scores if scores.sum().item() > 0 else -scores

    return Strange(int(np.prod(shape)), classes)


def test_what_onnx_cannot_hold_is_one_line(quick, tmp_path, capfd):
    from coteach.model.onnx import export

    result = run(quick(epochs=1, decay_from=0, method="standard"), tmp_path, network=strange)
    with pytest.raises(SettingError, match="cannot be exported to ONNX") as caught:
        export(coteach.load_model(result.path, network=strange), tmp_path / "model.onnx")
    assert "\n" not in str(caught.value)
    assert capfd.readouterr() == ("", "")
    assert not (tmp_path / "model.onnx").exists()
