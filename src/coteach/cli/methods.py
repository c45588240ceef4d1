"""`coteach methods`: what methods there are and what each can be told."""

import json
import sys
from typing import Annotated

import tyro

from coteach.methods import catalogue


def main(argv: list[str]) -> int:
    """Print the catalogue."""

    def methods(
        name: Annotated[str | None, tyro.conf.Positional, tyro.conf.arg(metavar="[NAME]")] = None, json: bool = False
    ) -> tuple[str | None, bool]:
        """List the training methods with their settings.

        Args:
            name: Only this method.
            json: Print as JSON.
        """
        return name, json

    name, as_json = tyro.cli(methods, prog="coteach methods", args=argv)
    chosen = [catalogue.entry(name)] if name else list(catalogue.entries().values())
    if as_json:
        listed = [
            {
                "name": e.name,
                "summary": e.summary,
                "settings": {f.name: {"default": f.default, "help": f.doc} for f in e.settings.values()},
            }
            for e in chosen
        ]
        json.dump(listed, sys.stdout, indent=2)
        print()
        return 0
    for entry in chosen:
        print(f"{entry.name:<14} {entry.summary}")
        for field in entry.settings.values():
            flag = f"--{field.name.replace('_', '-')}"
            default = "the noise rate" if field.name == "tau" else field.default
            print(f"    {flag:<16} {field.doc} (default: {default})")
    return 0
