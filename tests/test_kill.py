"""SIGKILL at random moments: the resumed run ends as if nothing had happened.

Two networks, and two stages of one, the second with parameters of the method's own. That every method resumes to the
same bits from any step is a contract test in test_methods.py.
"""

import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import time

import pytest

from coteach.cli import main

WORDS = [
    "train", "--data", "digits", "--noise", "pair", "--rate", "0.45", "--epochs", "8", "--decay-from", "4",
    "--dropout", "0.1", "--out", "runs", "--checkpoint-every", "0.05",
]  # fmt: skip


def start(cwd, method):
    return subprocess.Popen(
        [sys.executable, "-m", "coteach", *WORDS, "--method", method],
        cwd=cwd,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def alive(runs):
    """What changes on the disk as soon as a process trains: its epochs and checkpoints."""
    found = set()
    for file in [*runs.glob("*/epochs.jsonl"), *runs.glob("*/checkpoint*.pt")]:
        with contextlib.suppress(FileNotFoundError):  # checkpoints come and go
            found.add((file, file.stat().st_mtime_ns, file.stat().st_size))
    return found


@pytest.mark.parametrize("method", ["co-teaching", pytest.param("s-model", marks=pytest.mark.slow)])
def test_killed_at_random_moments(tmp_path, method, monkeypatch):
    for name in ("whole", "killed"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "whole")
    assert main([*WORDS, "--method", method]) == 0
    (whole,) = (tmp_path / "whole" / "runs").glob(f"*-{method}-*")

    dice = random.Random(os.environ.get("COTEACH_KILL_SEED"))  # other moments every time, unless a seed is given
    runs = tmp_path / "killed" / "runs"
    folder = runs / whole.name
    stages = len(list(whole.parent.iterdir()))  # a two-stage method has a folder for each
    hit = set()
    for attempt in range(40):
        if attempt > 1 and len(hit) == stages:
            break
        before = alive(runs)
        process = start(tmp_path / "killed", method)
        stage = min(len(hit) + 1, stages)  # the one that has not been killed yet
        while process.poll() is None and (alive(runs) == before or len(list(runs.iterdir())) < stage):
            time.sleep(0.005)
        time.sleep(dice.uniform(0, 0.3))
        if process.poll() is None:
            hit.add(len(list(runs.iterdir())))
            process.send_signal(signal.SIGKILL)
        process.wait()
        if (folder / "summary.json").exists() and len(hit) < stages:
            shutil.rmtree(runs)  # it slipped through to its end: once more from the start
    assert len(hit) == stages, "not every stage was killed"
    monkeypatch.chdir(tmp_path / "killed")
    assert main([*WORDS, "--method", method]) == 0
    folders = sorted(path.name for path in folder.parent.iterdir())
    assert folders == sorted(path.name for path in whole.parent.iterdir())  # stage one has a folder of its own
    for name in folders:
        for file in ("epochs.jsonl", "weights.safetensors", "config.json", "labels.npz"):
            killed = folder.parent / name / file
            assert killed.read_bytes() == (whole.parent / name / file).read_bytes(), killed
        assert not list((folder.parent / name).glob("checkpoint*"))
