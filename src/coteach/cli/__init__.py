"""The command line. Nothing here imports torch before a command needs it, so that help is quick."""

from coteach.cli.main import main

__all__ = ["main"]
