import os
import subprocess
import sys

import pytest
import torch

from coteach.recipes import recipe

os.environ["OMP_NUM_THREADS"] = "1"  # the suite runs in one process a core; more threads would only fight
torch.set_num_threads(1)


@pytest.fixture
def quick():
    """A config on the digits that trains in about a second; keywords change it."""

    def make(**changes):
        base = {"noise": "pair", "rate": 0.45, "epochs": 3, "decay_from": 2, "max_steps": 4, "dropout": 0.1}
        base |= {"precision": "fp32", "compile": False}  # settled, so that the run keeps its name
        return recipe("digits", **(base | changes))

    return make


@pytest.fixture
def cli(tmp_path):
    """Runs the real command line in an empty folder and answers the finished process."""

    def call(*words, timeout=120, cwd=tmp_path, **environment):
        return subprocess.run(
            [sys.executable, "-m", "coteach", *map(str, words)],
            capture_output=True,
            text=True,
            timeout=timeout,
            cwd=cwd,
            env=os.environ | environment,
            check=False,
        )

    return call
