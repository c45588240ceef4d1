"""The command line as a person or a script meets it: real processes, their output and their exit codes."""

import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import coteach
from coteach.cli.main import COMMANDS, main
from coteach.noise import corrupt, save_draw, symmetric

QUICK = ["--data", "digits", "--noise", "pair", "--rate", "0.45", "--epochs", "2", "--max-steps", "2"]


def one_line(process, code):
    """The only line of an error, after a check that it is one and no traceback."""
    assert process.returncode == code, process.stderr
    assert process.stdout == ""
    lines = process.stderr.strip().splitlines()
    assert len(lines) == 1, process.stderr
    assert lines[0].startswith("coteach: ")
    return lines[0]


@pytest.mark.parametrize("command", [[], *[[name] for name in COMMANDS], ["data", "fetch"]])
def test_help_is_there_and_needs_no_torch(command):
    code = (
        "import sys; from coteach.cli import main; code = main(sys.argv[1:]); sys.exit(code or 'torch' in sys.modules)"
    )
    process = subprocess.run(
        [sys.executable, "-c", code, *command, "--help"], capture_output=True, text=True, check=False
    )
    assert process.returncode == 0, process.stderr
    assert "usage: coteach" in process.stdout


def test_help_of_train_shows_the_settings_of_the_method_and_the_data(cli):
    text = cli("train", "--data", "cifar100", "--help").stdout
    assert "--tau" in text
    assert "(default: 100)" in " ".join(text.split())  # decay_from
    assert "--tau" not in cli("train", "--method", "standard", "--help").stdout


def test_version(process):
    assert process("--version").stdout == f"coteach {coteach.__version__}\n"


def test_without_a_command_it_shows_help_and_fails(cli):
    process = cli()
    assert process.returncode == 2
    assert "coteach demo" in process.stdout


def test_train_then_again_then_json(cli, process, tmp_path):
    first = process("train", *QUICK)
    assert first.returncode == 0, first.stderr
    assert re.search(r"test accuracy +\d+\.\d\d %", first.stdout)
    assert "epoch 2/2" in first.stderr  # a plain line, for this is a pipe
    assert "\x1b" not in first.stdout + first.stderr
    (folder,) = (tmp_path / "runs").iterdir()
    again = cli("train", *QUICK)
    assert "This run is done already" in again.stdout
    answer = json.loads(cli("train", *QUICK, "--json", "--quiet").stdout)
    assert answer["already_done"] is True
    assert Path(answer["folder"]).name == folder.name
    assert 0 <= answer["test_accuracy"] <= 1
    assert answer["config"] == json.loads((folder / "config.json").read_text())


def test_settings_from_a_file_and_flags_over_them(cli, tmp_path):
    (tmp_path / "run.toml").write_text(
        'data = "digits"\nnoise = "pair"\nrate = 0.45\nepochs = 2\nmax_steps = 2\ntau = 0.3\n'
    )
    answer = json.loads(cli("train", "--config", "run.toml", "--tau", "0.2", "--json").stdout)
    assert answer["config"]["settings"]["tau"] == 0.2
    assert answer["config"]["epochs"] == 2
    (tmp_path / "bad.toml").write_text("epochs = \n")
    assert "not valid TOML" in one_line(cli("train", "--config", "bad.toml"), 2)
    for line in (
        "method = 3",
        "data = 3",
        "noise = 3",
        'rate = "x"',
        "recipe = 3",
        '[train]\ndata = "digits"',
        'name = "x"',
    ):
        (tmp_path / "wrong.toml").write_text(f"{line}\n")
        assert "wrong.toml" in one_line(cli("train", "--config", "wrong.toml"), 2)
    (tmp_path / "typo.toml").write_text('data = "digits"\nepoch = 3\n')
    assert "did you mean 'epochs'" in one_line(cli("train", "--config", "typo.toml"), 2)


def test_an_explicit_zero_is_not_a_missing_flag(cli):
    answer = json.loads(cli("train", *QUICK, "--tau", "0", "--json").stdout)
    assert answer["config"]["settings"]["tau"] == 0


def test_ctrl_c_says_how_to_go_on(tmp_path):
    words = ["train", "--data", "digits", "--noise", "pair", "--rate", "0.45", "--epochs", "500"]
    process = subprocess.Popen(
        [sys.executable, "-m", "coteach", *words],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    while (
        not list(tmp_path.glob("runs/*/epochs.jsonl")) or not next(tmp_path.glob("runs/*/epochs.jsonl")).stat().st_size
    ):
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    out, errors = process.communicate(timeout=30)
    assert process.returncode == 130
    assert out == ""
    assert re.search(
        r"coteach: stopped in epoch \d+ of 500 and saved in .*: run the same command again to go on\n$", errors
    )
    assert list(tmp_path.glob("runs/*/checkpoint.pt"))


def test_a_terminal_gets_a_bar(tmp_path):
    screen, terminal = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "coteach", "train", *QUICK],
        cwd=tmp_path,
        stderr=terminal,
        stdout=subprocess.DEVNULL,
        env=os.environ | {"TERM": "xterm-256color", "COLUMNS": "120"},
    )
    os.close(terminal)
    seen = b""
    while True:
        try:
            part = os.read(screen, 65536)
        except OSError:
            break
        if not part:
            break
        seen += part
    assert process.wait() == 0
    assert "━".encode() in seen
    assert b"epoch 2/2" in seen


def test_noise_saves_labels_that_train_takes(cli, tmp_path):
    saved = cli("noise", "--data", "digits", "--noise", "symmetric", "--rate", "0.5", "--out", "labels.npz")
    assert saved.returncode == 0, saved.stderr
    sha256 = re.search(r"sha256 ([0-9a-f]{64})", saved.stdout)[1]
    trained = cli("train", "--data", "digits", "--noise", "labels.npz", "--epochs", "1", "--max-steps", "1", "--json")
    assert json.loads(trained.stdout)["summary"]["labels_sha256"] == sha256
    assert "is there already" in one_line(
        cli("noise", "--data", "digits", "--noise", "pair", "--rate", "0.1", "--out", "labels.npz"), 2
    )


def test_methods_lists_them_with_their_settings(cli):
    text = cli("methods").stdout
    assert "co-teaching" in text
    assert "--tau" in text
    listed = json.loads(cli("methods", "--json").stdout)
    assert {"co-teaching", "standard"} <= {entry["name"] for entry in listed}


def test_data_list(cli, tmp_path):
    text = cli("data", "list", COTEACH_DATA=str(tmp_path)).stdout
    assert re.search(r"digits +1,437 \+ +360 .*embedded", text)
    assert re.search(r"cifar100 .*missing", text)
    listed = json.loads(cli("data", "list", "--json").stdout)
    assert [entry["name"] for entry in listed] == ["digits", "mnist", "fashion-mnist", "cifar10", "cifar100"]


def test_data_verify(cli):
    assert cli("data", "verify", "digits").stdout.startswith("right")


BAD = {
    "unknown command": (["trian"], 2, "did you mean 'train'"),
    "unknown dataset": (["train", "--data", "minst"], 2, "unknown dataset 'minst': did you mean 'mnist'"),
    "unknown method": (["train", "--data", "digits", "--method", "co-teeching"], 2, "did you mean 'co-teaching'"),
    "unknown noise": (["train", "--data", "digits", "--noise", "pare", "--rate", "0.4"], 2, "did you mean 'pair'"),
    "unknown network": (["train", "--data", "digits", "--network", "smal-cnn"], 2, "did you mean 'small-cnn'"),
    "unknown recipe": (["train", "--data", "digits", "--recipe", "papre"], 2, "did you mean 'paper'"),
    "no data": (["train"], 2, "which data? give --data"),
    "rate 1.5": (["train", "--data", "digits", "--noise", "pair", "--rate", "1.5"], 2, "rate is 1.5: it must be"),
    "rate 1": (["train", "--data", "digits", "--noise", "pair", "--rate", "1"], 2, "less than 1"),
    "no rate": (["train", "--data", "digits", "--noise", "pair"], 2, "pair noise needs a rate"),
    "tau 1": (["train", *QUICK, "--tau", "1"], 2, "leaves nothing"),
    "huge batch": (["train", "--data", "digits", "--batch-size", "5000"], 2, "more than the 1437 training samples"),
    "missing data": (["train", "--data", "mnist"], 1, "run `coteach data fetch mnist`"),
    "missing file": (["train", "--data", "nothing.npz"], 1, "nothing.npz does not exist"),
    "truncated file": (["train", "--data", "truncated.npz"], 1, "truncated.npz"),
    "no arrays": (["train", "--data", "incomplete.npz"], 1, "y_test"),
    "NaN": (["train", "--data", "nan.npz"], 1, "NaN"),
    "empty": (["train", "--data", "empty.npz"], 1, "empty"),
    "one class": (["train", "--data", "one_class.npz"], 1, "a classifier needs at least two classes"),
    "negative labels": (["train", "--data", "negative.npz"], 1, "-1"),
    "labels out of range": (["train", "--data", "out_of_range.npz"], 1, "label 3 is out of range"),
    "tampered": (["data", "verify", "mnist"], 1, "mnist.npz"),
    "verify what is not here": (["data", "verify", "cifar10"], 1, "run `coteach data fetch cifar10`"),
    "bad matrix": (
        ["train", "--data", "digits", "--noise", "bad.csv"],
        1,
        "row 0 of the transition matrix sums to 0.9",
    ),
    "no matrix": (["train", "--data", "digits", "--noise", "none.csv"], 1, "no such file"),
    "damaged labels": (["train", "--data", "digits", "--noise", "truncated.npz"], 1, "damaged"),
    "labels of other data": (["train", "--data", "digits", "--noise", "other_labels.npz"], 1, "other data"),
    "a file for a folder": (["train", *QUICK, "--out", "bad.csv"], 1, "a file stands where a folder is needed"),
    "no config file": (["train", "--config", "none.toml"], 2, "cannot read none.toml"),
    "wrong network": (["train", *QUICK, "--network", "paper-cnn"], 2, "choose --network small-cnn"),
    "no module": (["train", *QUICK, "--network", "nowhere:net"], 2, "cannot import"),
    "no such device": (["train", *QUICK, "--device", "cuda:77"], 2, "not usable here"),
    "negative threads": (["train", *QUICK, "--threads", "-1"], 2, "threads is -1"),
    "NaN loss": (["train", *QUICK, "--lr", "1e30", "--max-steps", "9", "--quiet"], 1, "lower the learning rate"),
    "tiny batch": (["train", *QUICK, "--batch-size", "1"], 2, "batch_size is 1"),
    "no test left": (
        ["train", *QUICK, "--full-test", "no", "--batch-size", "500"],
        2,
        "leaves none of 360 test samples",
    ),
    "odd device": (["train", *QUICK, "--device", "meta"], 2, "not supported"),
    "many threads": (["train", *QUICK, "--threads", "99999999999"], 2, "up to 1024"),
    "bf16 on a CPU": (["train", *QUICK, "--precision", "bf16", "--device", "cpu"], 2, "needs a CUDA GPU"),
    "labels of labels": (["noise", "--data", "digits", "--noise", "a.npz", "--out", "b.npz"], 2, "drawn already"),
    "labels into a folder": (["noise", "--data", "digits", "--noise", "pair", "--out", "."], 2, "labels.npz"),
    "NaN seconds": (["train", *QUICK, "--checkpoint-every", "nan"], 2, "give seconds"),
    "no demo": (["demo", "--epochs", "0"], 2, "epochs is 0"),
    "no repetitions": (["demo", "--seeds", "0"], 2, "seeds is 0"),
    "a rate for a method without one": (
        ["train", *QUICK, "--method", "standard", "--noise-rate", "auto"],
        2,
        "standard has no setting noise_rate: leave it out, or take a method with it, co-teaching or mentornet",
    ),
    "a rate for an audit without one": (
        ["audit", "digits", "--method", "standard", "--noise-rate", "0.3"],
        2,
        "no setting noise_rate",
    ),
    "an audit's method without balance": (
        ["audit", "digits", "--method", "standard", "--balanced", "yes"],
        2,
        "standard has no setting balanced",
    ),
    "a share of data that are complete": (["train", *QUICK, "--test-share", "0.5"], 2, "digits is complete"),
    "dropout of one's own network": (
        ["train", "--data", "digits", "--noise", "pair", "--rate", "0.45", "--network", "a:b", "--dropout", "0.5"],
        2,
        "dropout is of the built-in networks, and a:b is your own: leave it out",
    ),
    "another method's setting": (
        ["train", "--data", "digits", "--noise", "pair", "--rate", "0.45", "--method", "standard", "--t-k=5"],
        2,
        "standard has no setting t_k: leave it out, or take a method with it, co-teaching or mentornet",
    ),
    "a demo without threads": (["demo", "--threads", "-1"], 2, "threads is -1"),
    "a demo without processes": (["demo", "--workers", "-3"], 2, "workers is -3"),
}


@pytest.fixture(scope="module")
def bad_files(tmp_path_factory):
    """A folder with files that are wrong in every way."""
    folder = tmp_path_factory.mktemp("bad")
    x, y = np.random.default_rng(0).random((40, 5), np.float32), np.arange(40) % 4
    good = {"x_train": x, "y_train": y, "x_test": x, "y_test": y}
    hurt = x.copy()
    hurt[3, 2] = np.nan
    wrong = {
        "nan": {"x_train": hurt},
        "empty": {"x_train": x[:0], "y_train": y[:0]},
        "one_class": {"y_train": y * 0},
        "negative": {"y_train": y - 1},
        "out_of_range": {"class_names": np.array(["a", "b"])},
    }
    for name, changes in wrong.items():
        np.savez(folder / f"{name}.npz", **(good | changes))
    np.savez(folder / "incomplete.npz", x_train=x, y_train=y, x_test=x)
    np.savez(folder / "whole.npz", **good)
    (folder / "truncated.npz").write_bytes((folder / "whole.npz").read_bytes()[:500])
    images = np.zeros((60_000, 28, 28, 1), np.uint8)
    labels = np.zeros(60_000, np.uint8)
    mnist = {"x_train": images, "y_train": labels, "x_test": images[:10_000], "y_test": labels[:10_000]}
    np.savez_compressed(folder / "mnist.npz", **mnist)
    (folder / "bad.csv").write_text("0.5,0.4\n0,1\n")
    save_draw(corrupt(np.arange(1437) % 10, symmetric(10, 0.5)), folder / "other_labels.npz")
    return folder


@pytest.mark.parametrize("case", BAD)
def test_bad_input_gets_one_clear_line(case, bad_files, tmp_path, capfd, monkeypatch):
    words, code, cause = BAD[case]
    monkeypatch.chdir(bad_files)
    cache = bad_files if words[:3] == ["data", "verify", "mnist"] else tmp_path
    monkeypatch.setenv("COTEACH_DATA", str(cache))
    before = {path: path.read_bytes() for path in bad_files.iterdir() if path.is_file()}
    answered = main(words)
    out, errors = capfd.readouterr()
    assert answered == code, errors
    assert cause in errors
    assert "Traceback" not in errors
    assert len(errors.strip().splitlines()) == 1, errors
    assert out == ""
    assert {path: path.read_bytes() for path in bad_files.iterdir() if path.is_file()} == before


@pytest.mark.parametrize("words", [["train", "--data", "minst"], ["train", "--data", "mnist", "--rate", "1.5"]])
def test_bad_input_in_a_real_process(process, words):
    one_line(process(*words), 2)


def test_an_unknown_flag_gets_a_suggestion(cli):
    process = cli("train", "--data", "digits", "--epoch", "3")
    assert process.returncode == 2
    assert "--epochs" in process.stderr
    assert "Traceback" not in process.stderr


def test_a_choice_is_one_of_those_that_help_shows(cli):
    process = cli("train", "--data", "digits", "--method", "f-correction", "--stage-one", "None")  # it is not `none`
    assert process.returncode == 2
    assert "('full', 'early', 'none')" in " ".join(process.stderr.replace("│", "").split())


def test_a_folder_that_may_not_be_written(cli, tmp_path):
    if os.geteuid() == 0:
        pytest.skip("root may write anywhere")
    (tmp_path / "locked").mkdir(mode=0o500)
    assert "permission denied" in one_line(cli("train", *QUICK, "--quiet", "--out", "locked/runs"), 1)


def test_a_reader_that_leaves_early_is_no_error_worth_a_traceback(tmp_path):
    line = f"{sys.executable} -m coteach methods | head -c 1"
    process = subprocess.run(["bash", "-c", line], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert "Traceback" not in process.stderr


def test_train_reports_the_epoch_whose_model_it_keeps(cli, tmp_path):
    words = ["--data", "digits", "--noise", "symmetric", "--rate", "0.5", "--method", "standard", "--epochs", "12"]
    answer = cli("train", *words, "--lr", "0.01", "--hold-out", "0.1", "--json")
    said = json.loads(answer.stdout)
    best = said["summary"]["best_epoch"]
    assert best < 12
    assert said["number"].startswith(f"epoch {best}, the best on the samples held out")
    digits = coteach.load("digits")
    right = (
        coteach.load_model(tmp_path / said["folder"]).predict(digits.x_test)
        == np.array(digits.class_names)[digits.y_test]
    )
    assert said["test_accuracy"] == pytest.approx(right.mean())


def test_torchs_newer_switch_of_tf32_is_named(tmp_path):
    """In a process of its own: torch cannot go back."""
    code = (
        "import torch\nfrom coteach.config import Config\nfrom coteach.training.arithmetic import switches\n"
        "torch.backends.cuda.matmul.fp32_precision = 'tf32'\n"
        "with switches(Config(data='digits'), torch.device('cuda')): pass\n"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "SettingError: torch.backends was set by fp32_precision" in answer.stderr
