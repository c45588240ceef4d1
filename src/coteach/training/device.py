"""Which device a run uses, and how many threads."""

import os

import torch

from coteach.errors import SettingError


def choose_device(name: str) -> torch.device:
    """`auto` takes a CUDA GPU when there is one; any other name is a torch device."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise SettingError(f"device {name!r} is not usable here: choose cpu, or auto") from error
    return device


def set_threads(threads: int) -> None:
    """Use this many CPU threads; 0 for OMP_NUM_THREADS, or else one a core that this process may use.

    Torch counts the machine's cores, not this process's share of them, and its threads fight for a busy core.
    """
    if threads < 0:
        raise SettingError(f"threads is {threads}: give a positive number, or 0 for one a core")
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    asked = os.environ.get("OMP_NUM_THREADS", "")
    torch.set_num_threads(threads or (int(asked) if asked.isdecimal() and int(asked) else allowed))
