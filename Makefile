# Two commands: `make demo` shows the product, `make test` checks it. Both set up .venv first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check -q
# One thread a process: two threads beside a busy neighbour are slower than one.
export OMP_NUM_THREADS ?= 1
.DEFAULT_GOAL := help
.PHONY: help demo tour test lint types tests tests-base coverage wheel acceptance release release-check bench docs examples clean

help:
	@echo "make demo        defences compared on real digits, with a report (2 minutes)"
	@echo "make tour        the accounting commands on the papers' settings"
	@echo "make test        lint, types, doctests, tests, both wheels built and tried out"
	@echo "make tests-base  the tests that need no torch, on PYTHON=python3.12 or another, in an environment of its own"
	@echo "make coverage    the tests again, with the lines they reach"
	@echo "make acceptance  the commands as a user runs them, and slow checks"
	@echo "make release-check  every extra installed on its own, newest and oldest versions (an hour)"
	@echo "make release     both wheels, each built twice with one digest, and their SBOM, in dist/"
	@echo "make bench       ratios against peers, benchmarks/results/latest.json"
	@echo "make docs        the documentation site in site/"
	@echo "make examples    data and weights of the examples, hash-pinned, in examples/data (250 MB)"

$(VENV)/.ready: pyproject.toml papers/pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(PIP) install -c constraints.txt torch==2.13.0
	$(PIP) install -c constraints.txt -e '.[test]' -e papers
	@touch $@

demo: $(VENV)/.ready
	@$(BIN)/recondite demo --out demo

tour: $(VENV)/.ready
	@PATH="$(CURDIR)/$(BIN):$$PATH" sh examples/tour.sh

test: lint types tests wheel

lint: $(VENV)/.ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.ready
	$(BIN)/mypy

tests: $(VENV)/.ready
	$(BIN)/python -m pytest -n 2

# On any interpreter that can be had, in an environment of its own: make tests-base PYTHON=python3.12
tests-base: $(VENV)/.ready
	$(BIN)/python tests/acceptance/try_base.py --python $(PYTHON)

# Half as long again as the tests alone.
coverage: $(VENV)/.ready
	$(BIN)/python -m pytest -n 2 --cov --cov-report=term

wheel: $(VENV)/.ready
	$(BIN)/python tests/acceptance/try_installs.py
	$(BIN)/python papers/tests/acceptance/try_wheels.py

acceptance: $(VENV)/.ready
	$(BIN)/python -m pytest tests/acceptance papers/tests/acceptance --run-acceptance
	$(BIN)/python tests/acceptance/try_installs.py dp-accounting

release-check: $(VENV)/.ready
	$(BIN)/python tests/acceptance/try_installs.py --all
	$(BIN)/python tests/acceptance/make_release.py

release: $(VENV)/.ready
	$(BIN)/python tests/acceptance/make_release.py

bench: $(VENV)/.ready
	$(BIN)/python -m benchmarks

examples: $(VENV)/.ready
	$(BIN)/python examples/fetch.py

docs: $(VENV)/.ready
	PYTHONPATH=docs $(BIN)/mkdocs build --strict

clean:
	rm -rf $(VENV) site dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis
