"""SIGKILL at random moments, for every method: the resumed run ends as if nothing had happened."""

import os
import random
import signal
import subprocess
import sys
import time

import pytest

from coteach.methods import catalogue

WORDS = [
    "train", "--data", "digits", "--noise", "pair", "--rate", "0.45", "--epochs", "6", "--decay-from", "3",
    "--dropout", "0.1", "--out", "runs", "--checkpoint-every", "0.05",
]  # fmt: skip


def start(cwd, method):
    return subprocess.Popen(
        [sys.executable, "-m", "coteach", *WORDS, "--method", method],
        cwd=cwd,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process):
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    return errors


@pytest.mark.parametrize("method", sorted(catalogue.entries()))
def test_killed_at_random_moments(tmp_path, method):
    for name in ("whole", "killed"):
        (tmp_path / name).mkdir()
    finish(start(tmp_path / "whole", method))
    (whole,) = (tmp_path / "whole" / "runs").glob(f"*-{method}-*")

    dice = random.Random(os.environ.get("COTEACH_KILL_SEED"))  # other moments every time, unless a seed is given
    kills = 0
    while kills < 4:
        process = start(tmp_path / "killed", method)
        folder = tmp_path / "killed" / "runs" / whole.name
        while not list(folder.parent.glob("*/config.json")) and process.poll() is None:
            time.sleep(0.01)
        time.sleep(dice.uniform(0, 0.6))
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
            kills += 1
        process.communicate()
        if (folder / "summary.json").exists():
            break
    errors = finish(start(tmp_path / "killed", method))
    assert kills > 0
    assert "Traceback" not in errors
    folders = sorted(path.name for path in folder.parent.iterdir())
    assert folders == sorted(path.name for path in whole.parent.iterdir())  # stage one has a folder of its own
    for name in folders:
        for file in ("epochs.jsonl", "weights.safetensors", "config.json", "labels.npz"):
            killed = folder.parent / name / file
            assert killed.read_bytes() == (whole.parent / name / file).read_bytes(), killed
        assert not list((folder.parent / name).glob("checkpoint*"))
