"""Reaching a Ray cluster, and what a run takes of it."""

import contextlib
import logging
import os
import secrets
import signal
import socket
import threading
from collections.abc import Iterator, Mapping
from typing import Any

from coteach.errors import SettingError
from coteach.results.run import Runner
from coteach.training.device import allowed_cores

GPUS = 1.0
"""What a run takes of a GPU, where there are any; with a half, two runs share one."""
_QUIET = {  # Ray's settings that keep it from talking on the user's terminal; they count when it is imported
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_DEDUP_LOGS_SKIP_REGEX": ".",  # it would print on standard output that a task is tried again
}
_PATIENCE = 10.0  # seconds until an address that does not answer is given up


def connect(address: str) -> Any:
    """Ray, connected: to the cluster at an address, to the one of this machine (auto) or to a new one here (local)."""
    for name, value in _QUIET.items():
        os.environ.setdefault(name, value)
    try:
        import ray
    except ImportError:
        raise SettingError("the engine ray needs Ray: pip install 'coteach[ray]'") from None
    if ray.is_initialized():
        return ray
    try:
        _knock(address)
        with _kept_signals():
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR, **_own(address))
    except (OSError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
        raise SettingError(_unreachable(address, error)) from error
    return ray


def _own(address: str) -> dict[str, Any]:
    """How a cluster is started here: for this user alone, and without a trace in the home folder."""
    if address != "local":
        return {}
    if "RAY_AUTH_TOKEN_PATH" not in os.environ:
        os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
    return {"num_cpus": allowed_cores(), "include_dashboard": False}


def _unreachable(address: str, error: Exception) -> str:
    """The cause and the way out, in one line."""
    if type(error).__name__ == "AuthenticationError":
        return (
            f"Ray at {address} wants its token: set RAY_AUTH_MODE=token and copy ~/.ray/auth_token from its head node"
        )
    cause = f"cannot reach a Ray cluster at {address} ({(str(error).splitlines() or ['no answer'])[0]})"
    if address == "auto" and isinstance(error, ConnectionError):
        cause = "no Ray cluster of this machine answers"
    way_out = "start one with `ray start --head` (set RAY_AUTH_MODE=token if it has a token), or choose --address local"
    return f"{cause}: {way_out}"


def _knock(address: str) -> None:
    """Find out whether anybody is there: Ray itself tries for minutes."""
    host, colon, port = address.rpartition(":")
    if colon and port.isdecimal() and "/" not in host:
        socket.create_connection((host.strip("[]"), int(port)), _PATIENCE).close()


@contextlib.contextmanager
def _kept_signals() -> Iterator[None]:
    """Leave SIGTERM to who has it: Ray takes it for itself."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def needs_of(ray: Any, runner: Runner) -> tuple[str, dict[str, float]]:
    """The device of the workers, and the resources that a run takes."""
    has_gpus = ray.cluster_resources().get("GPU", 0) > 0
    device = ("cuda" if has_gpus else "cpu") if runner.device == "auto" else runner.device
    if device not in ("cpu", "cuda"):
        raise SettingError(f"device is {device}, but Ray says which GPU a run gets: choose cuda, cpu or auto")
    needs: dict[str, float] = {"num_cpus": runner.threads or 1, "num_gpus": GPUS if device == "cuda" else 0}
    if not room_for(ray, needs):
        wanted = f"{needs['num_cpus']:g} CPUs" + (f" and {GPUS:g} GPU" if device == "cuda" else "")
        raise SettingError(f"no node of the cluster has {wanted} for a run: lower --threads, or choose another device")
    return device, needs


def room_for(ray: Any, needs: Mapping[str, float]) -> int:
    """How many runs the living nodes can make at once."""
    names = {"num_cpus": "CPU", "num_gpus": "GPU"}
    return sum(
        min(int(node["Resources"].get(names[kind], 0) / amount) for kind, amount in needs.items() if amount)
        for node in ray.nodes()
        if node["Alive"]
    )
