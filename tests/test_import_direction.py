"""The one direction through the house: a room may import from those before it, never from those after."""

import ast
from pathlib import Path

import coteach

ROOMS = [
    "errors", "storage", "paper", "fields", "config", "data", "noise", "nets", "function_source", "samples",
    "batches", "methods", "recipes", "training", "results", "model", "estimate", "audit", "estimator", "bench",
    "analysis", "progress", "report", "demo", "cli",
]  # fmt: skip
SOURCE = Path(coteach.__file__).parent


def room(path):
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imported(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("coteach."):
            yield node.module.split(".")[1]
        elif isinstance(node, ast.ImportFrom) and node.module == "coteach":
            yield from (alias.name for alias in node.names if alias.name in ROOMS)
        elif isinstance(node, ast.Import):
            yield from (n.name.split(".")[1] for n in node.names if n.name.startswith("coteach."))


def test_every_import_points_to_the_left():
    files = [f for f in SOURCE.rglob("*.py") if room(f) not in ("__init__", "__main__")]
    assert {room(f) for f in files} == set(ROOMS)
    wrong = [
        f"{file.relative_to(SOURCE)} imports {other}"
        for file in files
        for other in imported(file)
        if ROOMS.index(other) > ROOMS.index(room(file))
    ]
    assert wrong == []


def test_one_backward_and_one_optimizer_step():
    used = {"backward": [], "step": []}
    for file in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Attribute) and node.attr in used:
                owner = ast.unparse(node.value)
                if node.attr == "backward" or "optimi" in owner:
                    used[node.attr].append(file.name)
    assert used == {"backward": ["loop.py"], "step": ["loop.py"]}
