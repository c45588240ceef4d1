"""A checkpoint file that knows whether it is whole, and the one before it in case it is not."""

import hashlib
import io
from pathlib import Path
from typing import Any

import torch

from coteach.storage import storage_errors, unfinished, written_over

_MAGIC = b"coteach checkpoint 1\n"


class Checkpoints:
    """The newest checkpoint of a run and the one before it."""

    def __init__(self, folder: Path) -> None:
        self.newest = folder / "checkpoint.pt"
        self.previous = folder / "checkpoint.previous.pt"
        self._fresh = folder / "checkpoint.new.pt"

    def save(self, state: dict[str, Any]) -> None:
        """Write a state; at every moment at least one whole checkpoint is there."""
        buffer = io.BytesIO()
        torch.save(state, buffer)
        payload = buffer.getbuffer()
        with written_over(self._fresh) as file:
            file.write(_MAGIC + hashlib.sha256(payload).digest())
            file.write(payload)
        with storage_errors(self.newest):
            if self.newest.exists():
                self.newest.replace(self.previous)
            self._fresh.replace(self.newest)

    def load(self) -> tuple[dict[str, Any] | None, list[str]]:
        """The newest whole state, and a line for each damaged file that was passed over."""
        warnings: list[str] = []
        for path in (self.newest, self.previous):
            if path.exists():
                state = _read(path)
                if state is not None:
                    return state, warnings
                warnings.append(f"{path.name} is damaged and was passed over")
        return None, warnings

    def remove(self) -> None:
        """Delete them, once the run is done, and what a kill left half written."""
        for path in (self.newest, self.previous, self._fresh, *unfinished(self._fresh)):
            path.unlink(missing_ok=True)


def _read(path: Path) -> dict[str, Any] | None:
    try:
        content = path.read_bytes()
    except OSError:
        return None
    start = len(_MAGIC) + hashlib.sha256().digest_size
    payload = content[start:]
    if content[:start] != _MAGIC + hashlib.sha256(payload).digest():
        return None
    state: dict[str, Any] = torch.load(io.BytesIO(payload), map_location="cpu", weights_only=True)
    return state
