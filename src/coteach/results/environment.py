"""Where a run was made: versions, device, code commit."""

import os
import platform
import subprocess
from pathlib import Path

import numpy
import torch

import coteach


def environment(device: torch.device) -> dict[str, str | int | None]:
    """What a reader of a number needs to know about the machine that made it."""
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.processor() or platform.machine()
    return {
        "coteach": coteach.__version__,
        "commit": _commit(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": numpy.__version__,
        "platform": platform.system(),
        "device": f"{device.type}: {name}",
        "threads": torch.get_num_threads(),
    }


def _commit() -> str | None:
    """The commit of a checkout, with a + when files have changed since; None for an installed package.

    COTEACH_COMMIT tells it for a copy of the files without their history.
    """
    if told := os.environ.get("COTEACH_COMMIT"):
        return told
    here = Path(coteach.__file__).parent
    if not (here.parents[1] / ".git").exists():
        return None
    try:
        git = ["git", "-C", str(here), "describe", "--always", "--abbrev=12", "--dirty=+", "--exclude=*"]
        return subprocess.run(git, capture_output=True, text=True, timeout=10, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None
