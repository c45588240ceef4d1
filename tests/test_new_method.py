"""A new method is one file: nothing else is touched, and it is everywhere."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import ClassVar, Literal

import pytest

from coteach import methods
from coteach.errors import SettingError
from coteach.methods import catalogue
from coteach.methods.base import Method, Step
from coteach.methods.co_teaching import CoTeaching
from coteach.methods.selection import everything, per_sample_loss
from coteach.recipes import recipe
from coteach.results.run import run

TOY = '''
"""A toy: believe a label the less, the more classes there are."""

from coteach.errors import SettingError
from coteach.methods.base import Method, Step
from coteach.methods.selection import everything, per_sample_loss


class Sceptic(Method):
    """One network that smooths every label."""

    name = "sceptic"

    doubt: float = 0.1
    """Share of belief taken from the given label."""

    def check(self):
        if not 0 <= self.doubt < 1:
            raise SettingError(f"doubt is {self.doubt:g}: give 0 <= doubt < 1")

    def step(self, logits, batch, epoch):
        z = logits[0]
        losses = (1 - self.doubt) * per_sample_loss(z, batch.y) - self.doubt * z.log_softmax(1).mean(1)
        return Step(losses=(losses.mean(),), picked=(everything(losses),))
'''


@pytest.fixture
def plugin(tmp_path):
    folder = tmp_path / "my_methods"
    folder.mkdir()
    (folder / "sceptic.py").write_text(TOY)
    return str(folder)


@pytest.fixture
def known(plugin, monkeypatch):
    """As if COTEACH_METHODS had named the folder when this process started."""
    monkeypatch.setattr(methods, "__path__", [*methods.__path__, plugin])


def test_a_setting_that_would_be_lost_is_named(cli, plugin, known):
    for wrong in ("Optional[float] = None", "flaot = 0.5"):
        (Path(plugin) / "sceptic.py").write_text(TOY.replace("doubt: float = 0.1", f"doubt: {wrong}"))
        answer = cli("methods")
        assert answer.returncode == 2
        assert f"Sceptic.doubt is annotated with {wrong.split()[0]}: a setting is a bool" in answer.stderr


def test_a_changed_file_beside_it_is_another_method(plugin, known):
    (Path(plugin) / "sceptic.py").write_text(TOY + "\nfrom coteach.methods.sums import total\n")
    hashes = set()
    for factor in (1, 2):
        (Path(plugin) / "sums.py").write_text(f"def total(x):\n    return {factor} * x.sum()\n")
        hashes.add(catalogue.source_sha256("sceptic"))
    assert len(hashes) == 2


def test_the_command_line_knows_it(process, cli, plugin, known):
    words = ["train", "--data", "digits", "--method", "sceptic", "--epochs", "1", "--max-steps", "2"]
    trained = process(*words, "--doubt", "0.3", "--json", COTEACH_METHODS=plugin)
    assert json.loads(trained.stdout)["config"]["settings"] == {"doubt": 0.3}
    listed = process("methods", "sceptic", COTEACH_METHODS=plugin).stdout
    assert "One network that smooths every label." in listed
    assert "--doubt" in listed
    assert "Share of belief" in cli("train", "--method", "sceptic", "--help").stdout
    refused = cli(*words, "--doubt", "1.5")
    assert (refused.returncode, refused.stderr) == (2, "coteach: doubt is 1.5: give 0 <= doubt < 1\n")


def test_without_the_folder_it_is_not_there(cli):
    assert "unknown method 'sceptic'" in cli("train", "--data", "digits", "--method", "sceptic").stderr


def test_a_changed_method_is_another_run(cli, plugin, known):
    words = ["train", "--data", "digits", "--method", "sceptic", "--epochs", "1", "--max-steps", "2", "--json"]
    first = json.loads(cli(*words).stdout)
    file = Path(plugin, "sceptic.py")
    file.write_text(file.read_text().replace("losses.mean()", "losses.sum()"))
    second = json.loads(cli(*words).stdout)
    assert not second["already_done"]
    assert first["folder"] != second["folder"]


def test_a_file_named_like_one_of_ours_is_refused(process, plugin):
    Path(plugin, "sceptic.py").rename(Path(plugin, "standard.py"))
    assert "the name of a file of coteach's own" in process("methods", COTEACH_METHODS=plugin).stderr
    assert "which is no folder" in process("methods", COTEACH_METHODS=f"{plugin}/nowhere").stderr


def test_two_files_with_one_name_are_told_apart(process, plugin):
    text = Path(plugin, "sceptic.py").read_text()
    Path(plugin, "sceptic_too.py").write_text(text)
    assert "both hold a method 'sceptic'" in process("methods", COTEACH_METHODS=plugin).stderr
    Path(plugin, "sceptic_too.py").write_text(text.replace('"sceptic"', '"other"'))  # the class may keep its name
    assert {"sceptic", "other"} <= {
        e["name"] for e in json.loads(process("methods", "--json", COTEACH_METHODS=plugin).stdout)
    }


@pytest.mark.parametrize(
    ("old", "new", "cause"),
    [
        ("doubt: float = 0.1", "doubt: float = 1 / 3", "must be a plain value"),
        ("doubt: float = 0.1", "lr: float = 0.1", "a run has a setting 'lr' already"),
        ("class Sceptic(Method):", "class Sceptic(Method:", "not valid Python: line 9"),
        ("class Sceptic(Method):", "class Sceptic(Elsewhere):", "inherits from Elsewhere, whose settings are not to"),
    ],
)
def test_a_file_that_cannot_be_one_says_why(process, plugin, old, new, cause):
    file = Path(plugin, "sceptic.py")
    file.write_text(file.read_text().replace(old, new))
    process = process("methods", COTEACH_METHODS=plugin)
    assert process.returncode == 2
    assert cause in process.stderr


@pytest.mark.parametrize("base", ["co_teaching.CoTeaching", "CoTeaching", "small_loss.SmallLossMethod"])
@pytest.mark.parametrize("name", ['name = "mine"', 'name: ClassVar[str] = "mine"'])
def test_it_may_inherit_from_any_method(plugin, known, base, name):
    text = (
        "from typing import ClassVar\nfrom coteach.methods import co_teaching, small_loss\n"
        f"from coteach.methods.co_teaching import CoTeaching\nclass Mine({base}):\n    {name}\n    extra: int = 3\n"
    )
    Path(plugin, "mine.py").write_text(text)
    settings = recipe("digits", noise="pair", rate=0.45, method="mine").settings
    assert (settings["tau"], settings["t_k"], settings["extra"]) == (0.45, 10, 3)


@pytest.mark.parametrize(
    "head",
    [
        "from coteach import Method as M\nclass Mine(M):",
        "import typing as t\nfrom coteach import Method\nT = t.TypeVar('T')\nclass Mine(Method, t.Generic[T]):",
        "from coteach.methods import standard\nclass Standard(standard.Standard):",
    ],
)
def test_it_may_call_its_base_as_it_likes(plugin, known, head):
    Path(plugin, "mine.py").write_text(f'{head}\n    name: str = "mine"\n    extra: int = 3\n')
    assert recipe("digits", method="mine").settings == {"extra": 3}


def test_its_settings_do_not_get_in_the_way_of_other_methods(cli, plugin, known):
    file = Path(plugin, "sceptic.py")
    file.write_text(file.read_text().replace("doubt: float = 0.1", "out: float = 0.1"))
    words = ["train", "--data", "digits", "--noise", "pair", "--rate", "0.45", "--method", "standard", "--epochs", "0"]
    answer = cli(*words, "--out", "elsewhere")
    assert "epochs is 0" in answer.stderr


class Doubter(Method):
    """One network that is never quite sure."""

    name = "doubter"
    doubt: float = 0.1
    how: Literal["mean", "sum"] = "mean"
    counted: ClassVar[int] = 0

    def step(self, logits, batch, epoch):
        losses = (1 - self.doubt) * per_sample_loss(logits[0], batch.y)
        return Step((losses.mean(),), (everything(losses),))


def test_a_class_is_a_method_too(tmp_path):
    config = recipe("digits", noise="pair", rate=0.45, method=Doubter, doubt=0.3, epochs=1, max_steps=2)
    assert (config.method, config.settings) == ("doubter", {"doubt": 0.3, "how": "mean"})
    result = run(config, tmp_path)
    assert result.path.name.startswith("digits-pair-45-doubter-s1-")
    assert result.config.inputs.method_sha256 is not None
    assert run(config, tmp_path).already_done
    assert Doubter(10, doubt=0.2).doubt == 0.2
    assert recipe("digits", method=CoTeaching).method == "co-teaching"  # one of ours is what it is
    with pytest.raises(SettingError, match="doubt of doubter is 'much': give float"):
        recipe("digits", method=Doubter, doubt="much")


class Unknown(Doubter):
    name = "unknown"
    width: list = []  # noqa: RUF012 - that is what is wrong with it


class Taken(Doubter):
    name = "standard"


class Clash(Doubter):
    name = "clash"
    lr: float = 0.1


class Idle(Method):
    name = "idle"


@pytest.mark.parametrize(
    ("method", "cause"),
    [
        (Unknown, "Unknown.width is annotated with <class 'list'>: a setting is a bool"),
        (Taken, "holds a method 'standard' already: give Taken another name"),
        (Clash, "Clash: a run has a setting 'lr' already"),
        (Idle, "Idle has no step(): write one that returns Step(losses, picked)"),
        (Method, 'Method has no name: give it one, such as name = "mine"'),
        (dict, "give a name, or a class that inherits from coteach.Method"),
    ],
)
def test_a_class_that_cannot_be_one_says_why(method, cause):
    with pytest.raises(SettingError, match=re.escape(cause)):
        recipe("digits", method=method)


def test_the_page_shows_one_that_works(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = Path(__file__).parents[1] / "docs" / "methods" / "README.md"
    (block,) = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    names = {"__name__": "of_the_page"}
    exec(block, names)
    assert names["result"].config.settings == {"doubt": 0.3}


NOTEBOOK = """
import sys
from coteach import Method, Step, recipe, run
from torch import nn

FACTOR = {factor}
{more}

def loss(z, y):
    return FACTOR * nn.functional.cross_entropy(z, y, reduction="none")

class Typed(Method):
    name = "typed"
    def step(self, logits, batch, epoch):
        losses = loss(logits[0], batch.y)
        return Step((losses.mean(),), (losses == losses,))

def net(shape, classes):
    return nn.Sequential(nn.Flatten(), nn.Linear({width}, classes))

config = recipe("digits", noise="pair", rate=0.45, method=Typed, epochs=1, max_steps=2)
print(run(config, "runs", network=net).path.name)
"""


def test_what_is_typed_in_is_known_by_its_code(tmp_path):
    """As in a notebook, where nothing is in a file: the same again is found done, and a change is another run."""

    def typed(**values):
        code = NOTEBOOK.format(**{"factor": 1, "width": 64, "more": ""} | values)
        how = {"input": code, "capture_output": True, "text": True, "cwd": tmp_path}
        return subprocess.run([sys.executable, "-"], check=True, **how).stdout

    first = typed()
    assert typed() == first
    assert typed(more="cross_entropy = Flatten = 1") == first  # they only share names with attributes
    assert len({first, typed(factor=2), typed(width="4 * 16")}) == 2  # 4 * 16 compiles to the same


@pytest.mark.slow
def test_the_contract_tests_run_over_it(plugin):
    words = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "no:xdist",
        "-k",
        "sceptic",
        Path(__file__).parent / "test_methods.py",
    ]
    process = subprocess.run(
        words, capture_output=True, text=True, check=False, env=os.environ | {"COTEACH_METHODS": plugin}
    )
    assert process.returncode == 0, process.stdout
    assert process.stdout.startswith("." * 9)  # one for each test of the contract, four moments of resuming


@pytest.mark.slow
def test_the_table_and_the_legend_show_it(cli, known, tmp_path):
    (tmp_path / "grid.toml").write_text(
        'data = "digits"\nnoises = ["pair-45"]\nmethods = ["standard", "sceptic"]\n'
        "[settings]\nepochs = 1\ndoubt = 0.2\n"
    )
    shown = cli("bench", "grid.toml")
    assert shown.returncode == 0, shown.stderr
    assert "sceptic" in shown.stdout
    demo = cli("demo", "--methods", "standard", "sceptic", "--epochs", "1", "--seeds", "1", "--workers", "1")
    assert demo.returncode == 0, demo.stderr
    assert "sceptic" in demo.stdout
    assert "sceptic" in (tmp_path / "demo" / "report.html").read_text()
