# Two commands do everything: `make demo` and `make test`. Each makes the environment that it needs.
PYTHON ?= python3
VENV := .venv
# Python compiles what is imported; to compile all of torch here would take longer than all else.
PIP := $(VENV)/bin/python -m pip --disable-pip-version-check install --quiet --no-compile --constraint constraints.txt

.NOTPARALLEL:
.PHONY: demo test test-all lint format tables clean

demo: $(VENV)/ready
	$(VENV)/bin/coteach demo

test: $(VENV)/ready-for-tests lint
	$(VENV)/bin/pytest --numprocesses 4 --dist worksteal

test-all: $(VENV)/ready-for-tests lint
	$(VENV)/bin/pytest --numprocesses 4 --dist worksteal -m 'slow or not slow'

lint: $(VENV)/ready-for-tests
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy

format: $(VENV)/ready-for-tests
	$(VENV)/bin/ruff format .
	$(VENV)/bin/ruff check --fix .

# What README.md, docs/ and results/ show of the runs in results/: again, after a run was added.
tables: $(VENV)/ready
	$(VENV)/bin/python results/show.py

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "coteach needs Python 3.11 or later: make PYTHON=python3.11 ...")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/ready: $(VENV)/bin/python pyproject.toml constraints.txt
	@echo "Installing coteach into $(VENV) (once, about a minute)"
	$(PIP) --editable .
	touch $@

$(VENV)/ready-for-tests: $(VENV)/bin/python pyproject.toml constraints.txt
	@echo "Installing coteach and what its tests need into $(VENV) (once, about a minute)"
	$(PIP) --editable '.[dev]'
	touch $(VENV)/ready $@

clean:
	rm -rf $(VENV) demo runs .pytest_cache .mypy_cache .ruff_cache .hypothesis
