"""Which device a run uses, how many threads, and which random numbers."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
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
    if device.type not in ("cpu", "cuda"):
        raise SettingError(f"device {name!r} is not supported: choose cpu, cuda or auto")
    return device


def fits(size: int, device: torch.device, room: int | None = None) -> bool:
    """Whether data of `size` bytes may lie on a device: by default half of its free memory is for them."""
    if device.type != "cuda":
        return True  # they lie there already
    free, _ = torch.cuda.mem_get_info(device)
    free += torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)  # torch's own, to be used again
    return size <= (free // 2 if room is None else room)


@contextmanager
def threads(number: int) -> Iterator[None]:
    """`set_threads` for a while."""
    before = torch.get_num_threads()
    set_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def kept_random_state(device: torch.device) -> Iterator[None]:
    """Leave torch's global random numbers, on the CPU and on a device, as they were."""
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        yield


def seed_of(*parts: int) -> int:
    """One seed out of several numbers; unlike with a sum of them, neighbours do not collide."""
    return int(np.random.SeedSequence([*parts, 1]).generate_state(1, np.uint64)[0] >> np.uint64(1))


def check_threads(threads: int) -> None:
    """Refuse a number of threads that cannot be."""
    if not 0 <= threads <= 1024:
        raise SettingError(f"threads is {threads}: give a number up to 1024, or 0 to leave it to coteach")


def set_threads(threads: int) -> None:
    """Use this many CPU threads; 0 for OMP_NUM_THREADS, or else one a core that this process may use.

    Torch counts the machine's cores, not this process's share of them, and its threads fight for a busy core.
    """
    check_threads(threads)
    asked = os.environ.get("OMP_NUM_THREADS", "")
    torch.set_num_threads(threads or (int(asked) if asked.isdecimal() and int(asked) else allowed_cores()))


def allowed_cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
