"""What can go wrong, named by who can mend it. Each message is one line: the cause, then the way out."""

import difflib
from collections.abc import Iterable


class CoteachError(Exception):
    """Base of every error that coteach raises on purpose; the command line prints it and exits with 1."""

    exit_code = 1


class SettingError(CoteachError, ValueError):
    """A setting that makes no sense: the caller can mend it by calling again. Exit code 2."""

    exit_code = 2


class DataError(CoteachError, ValueError):
    """Data that is missing, damaged or not what it says it is."""


class StorageError(CoteachError, OSError):
    """A folder or a file that cannot be read, written or claimed."""


class TrainingError(CoteachError, RuntimeError):
    """Training that cannot go on, such as a loss that became NaN."""


def unknown(kind: str, name: str, known: Iterable[str], hint: str = "") -> SettingError:
    """The error for a name that does not exist, with the nearest one that does."""
    known = sorted(known)
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    guess = f"did you mean {near[0]!r}? " if near else ""
    tail = f"; {hint}" if hint else ""
    return SettingError(f"unknown {kind} {name!r}: {guess}known: {', '.join(known)}{tail}")
