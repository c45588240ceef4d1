"""The front door: which command was asked for, and what an error or an interruption looks like."""

import importlib
import logging
import os
import signal
import sys
import threading
import warnings
from collections.abc import Sequence

from coteach import __version__
from coteach.errors import CoteachError, unknown

COMMANDS = {
    "demo": "see in a minute what wrong labels do, and what co-teaching does about them",
    "audit": "find the wrong labels in your data, decide about each on a page, and write them corrected",
    "estimate": "estimate how many labels are wrong, and how",
    "train": "train one method on one dataset, in a folder that can always be continued",
    "predict": "say what a trained model sees in samples, as CSV",
    "bench": "run a grid of data, noises, methods and seeds, here or on a cluster, and print its tables",
    "table": "print the tables of a grid, measured beside printed",
    "figures": "draw the figures of a grid",
    "report": "write a grid's tables, figures and runs into one HTML page",
    "export": "hand a run or its model to another program, such as TensorBoard or ONNX Runtime",
    "data": "list, fetch and verify the datasets",
    "noise": "draw wrong labels and save them, so that others can train on the same",
    "methods": "list the training methods and their settings",
}

_HELP = f"""coteach {__version__}: train deep classifiers on wrong labels.

usage: coteach COMMAND [OPTIONS]

{chr(10).join(f"  {name:<9} {summary}" for name, summary in COMMANDS.items())}

`coteach COMMAND --help` explains a command. Start with `coteach demo`.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code: 0 done, 1 failed, 2 asked for wrongly, 130 interrupted."""
    argv = list(sys.argv[1:] if arguments is None else arguments)
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # a polite kill ends like Ctrl-C
    _show_log(quiet="--quiet" in argv)
    warnings.filterwarnings("ignore", "Image size .* could be decompression bomb")  # of Pillow: they are the user's own
    try:
        return _dispatch(argv)
    except CoteachError as error:
        print(f"coteach: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt as stop:
        print(f"coteach: {str(stop) or 'interrupted; run the same command again to go on'}", file=sys.stderr)
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the reader left: nothing more to say
        return 1
    except OSError as error:
        print(f"coteach: {error.strerror or error}: {error.filename or 'standard output'}", file=sys.stderr)
        return 1


def _show_log(*, quiet: bool) -> None:
    """What the library says in its log while it reads large data, as plain lines on standard error."""
    log = logging.getLogger("coteach")
    log.handlers = [logging.StreamHandler()]
    log.setLevel(logging.WARNING if quiet else logging.INFO)


def _dispatch(argv: list[str]) -> int:
    if not argv or argv[0] in ("-h", "--help", "help"):
        print(_HELP, end="")
        return 0 if argv else 2
    if argv[0] in ("-V", "--version", "version"):
        print(f"coteach {__version__}")
        return 0
    if argv[0] not in COMMANDS:
        raise unknown("command", argv[0], COMMANDS, "`coteach --help` explains them")
    command = importlib.import_module(f"coteach.cli.{argv[0]}")
    try:
        code: int = command.main(argv[1:])
    except SystemExit as stop:  # tyro leaves this way: 0 after help, 2 after a wrong option
        return stop.code if isinstance(stop.code, int) else 1
    return code
