"""The tutorial docs/your-data.md: its commands and programs, run as they stand there."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

PAGE = (Path(__file__).parents[1] / "docs" / "your-data.md").read_text()
COLOURS = {"cat": (200, 60, 60), "dog": (60, 60, 200)}


def section(title):
    """The text of the page under a heading."""
    return re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", PAGE, re.DOTALL | re.MULTILINE)[1]


def blocks(title, language):
    return re.findall(rf"^```{language}\n(.*?)^```$", section(title), re.DOTALL | re.MULTILINE)


@pytest.fixture
def world(tmp_path, monkeypatch):
    """A folder with what the page talks about."""
    monkeypatch.setenv("COTEACH_DATA", str(tmp_path / "cache"))
    random = np.random.default_rng(0)
    listed = ["file,label"]
    for label, colour in COLOURS.items():
        (tmp_path / "photos" / label).mkdir(parents=True)
        for number in range(85):
            pixels = np.clip(random.normal(colour, 40, (6, 9, 3)), 0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(tmp_path / "photos" / label / f"{number}.jpg")
            listed.append(f"photos/{label}/{number}.jpg,{label}")
    (tmp_path / "photos.csv").write_text("\n".join(listed))
    kinds = random.integers(0, 3, 240)
    rows = [
        f"{random.normal(3 * kind):.2f},{'' if number % 9 == 0 else ['white', 'blue'][number % 2]},"
        + ["setosa", "versicolor", "virginica"][kind]
        for number, kind in enumerate(kinds)
    ]
    (tmp_path / "flowers.csv").write_text("\n".join(["petal,colour,species", *rows[:200]]))
    (tmp_path / "trusted.csv").write_text("\n".join(["petal,colour,species", *rows[200:]]))
    return tmp_path


def run_program(text, folder):
    """Run the block of a page as a program of its own."""
    (folder / "program.py").write_text(text)
    done = subprocess.run(
        [sys.executable, "program.py"], cwd=folder, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("title", "told"),
    [
        ("A folder of images", ["34 of 170 samples are held out", "34 of 170 samples are held out"]),
        ("A list of files", ["34 of 170 samples are held out"]),
        ("A table", ["column colour: 23 of 200 values are missing", "column colour: 23 of 200 values are missing"]),
        ("Arrays", ["60 of 300 samples are held out"] * 3),
    ],
)
def test_the_commands_of_the_page(world, cli, title, told):
    for program in blocks(title, "python"):
        run_program(program, world)
    commands = [line for block in blocks(title, "sh") for line in block.splitlines()]
    assert len(commands) == len(told)
    for command, note in zip(commands, told, strict=True):
        name, *words = shlex.split(command, comments=True)
        assert name == "coteach"
        answer = cli(*words)
        assert answer.returncode == 0, answer.stderr
        assert "test accuracy" in answer.stdout
        assert note in answer.stderr


@pytest.mark.parametrize(
    ("title", "printed"),
    [
        ("How many labels are wrong", ["together", "together"]),
        ("Which labels are wrong", ["labels look wrong", "labels changed", "test accuracy"]),
        ("Which epoch to keep", ["test accuracy"]),
    ],
)
def test_the_commands_about_labels(world, cli, title, printed):
    commands = [line for block in blocks(title, "sh") for line in block.splitlines()]
    for command, text in zip(commands, printed, strict=True):
        answer = cli(*shlex.split(command)[1:])
        assert answer.returncode == 0, answer.stderr
        assert text in answer.stdout
    assert len(list(world.glob("runs/cleaned-*"))) == (title == "Which labels are wrong")  # so that a * finds the model


def test_the_programs_of_the_page(world):
    programs = blocks("From Python", "python")
    assert len(programs) == 3
    accuracy, *others = run_program("\n".join(programs), world).splitlines()  # one process: torch starts slowly
    assert all(float(number) > 0.5 for number in re.findall(r"[\d.]+", accuracy))
    assert others == [
        "['0', '1', '2']",
        "140 ('setosa', 'versicolor', 'virginica') as given",
        "column colour: 23 of 200 values are missing, counted as a category of their own",
        "no test set was given: 60 of 200 samples are held out, and their labels may be wrong too",
    ]
