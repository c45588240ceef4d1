import faulthandler
import io
import os
import shutil
import signal
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from typing import NamedTuple

import hypothesis
import pytest
import torch

from coteach.cli.main import main
from coteach.methods import catalogue
from coteach.recipes import recipe

os.environ["SCIPY_ARRAY_API"] = "1"  # before scipy is imported, or scikit-learn skips one of its checks
os.environ["OMP_NUM_THREADS"] = "1"  # the suite runs in one process a core; more threads would only fight
torch.set_num_threads(1)
hypothesis.settings.register_profile("patient", deadline=None)  # beside other tests, any step may take long
hypothesis.settings.load_profile("patient")
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # in the background of a script; the commands would inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(trylast=True)
def pytest_exception_interact(node):
    """Pytest lifts the time limit of a test that fails, for a debugger; without one, its teardown must not hang."""
    if not node.config.getoption("usepdb"):
        faulthandler.dump_traceback_later(float(node.config.getini("faulthandler_timeout")), exit=True)


@pytest.fixture(autouse=True)
def _forgotten(monkeypatch):
    """A method that one test hands over as a class is not there for the next."""
    monkeypatch.setattr(catalogue, "_handed_over", {})


@pytest.fixture(scope="session")
def quick():
    """A config on the digits that trains in about a second; keywords change it."""

    def make(**changes):
        base = {"noise": "pair", "rate": 0.45, "noise_seed": 1, "epochs": 3, "decay_from": 2, "max_steps": 4}
        base |= {"dropout": 0.1, "precision": "fp32", "compile": False}  # settled, so that the run keeps its name
        return recipe("digits", **(base | changes))

    return make


class Answer(NamedTuple):
    """What a command answered."""

    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def cli(tmp_path):
    """Runs the command line inside this process, in an empty folder: as `process` does, without starting Python."""

    def call(*words, cwd=tmp_path, **environment):
        handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
        modules, path = set(sys.modules), list(sys.path)
        out, err = io.StringIO(), io.StringIO()
        with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
            patch.chdir(cwd)
            for name, value in environment.items():
                patch.setenv(name, value)
            code = main(list(map(str, words)))
        for number, handler in handlers.items():
            signal.signal(number, handler)
        sys.path[:] = path
        for name in set(sys.modules) - modules:  # a network or a method of the test's own
            if str(getattr(sys.modules[name], "__file__", "")).startswith(str(tmp_path)):
                del sys.modules[name]
        return Answer(code, out.getvalue(), err.getvalue())

    return call


@pytest.fixture
def process(tmp_path):
    """Runs the command line in a process of its own, in an empty folder."""

    def call(*words, timeout=120, cwd=tmp_path, **environment):
        return subprocess.run(
            [sys.executable, "-m", "coteach", *map(str, words)],
            capture_output=True,
            text=True,
            timeout=timeout,
            cwd=cwd,
            env=os.environ | environment,
            check=False,
        )

    return call


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    """A real browser without a window, driven through selenium."""
    chromium, chromedriver = shutil.which("chromium"), shutil.which("chromedriver")
    if not chromium or not chromedriver:
        pytest.skip("no chromium and chromedriver are installed")
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    for word in (
        "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
        "--disable-component-update", "--disable-sync", f"--user-data-dir={tmp_path_factory.mktemp('chromium')}",
    ):  # fmt: skip
        options.add_argument(word)
    driver = webdriver.Chrome(options=options, service=Service(chromedriver))
    yield driver
    driver.quit()
