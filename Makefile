# The two commands of the README are `make run` and `make test`; each sets up all that it needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: help run test check bench fuzz-engines soak setup clean

help:  ## Show what there is
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; assert sys.version_info >= (3, 11), f"Python 3.11 or newer is needed, this is {sys.version}"'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

setup: $(STAMP)  ## Make the virtual environment

run: $(STAMP)  ## Run an example and print what comes of it
	$(BIN)/endive run examples/mixed.toml

check: $(STAMP)  ## Format, lint and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

test: check  ## Check and run the tests
	$(BIN)/pytest -n 2 --dist loadgroup

bench: $(STAMP)  ## Measure both engines and print tables (minutes)
	$(BIN)/python -m benchmarks

fuzz-engines: $(STAMP)  ## Run 10,000 random configurations on both engines
	$(BIN)/python -m tests.fuzz_engines --examples 10000

soak: $(STAMP)  ## Kill sweeps a hundred times
	ENDIVE_KILLS=100 $(BIN)/pytest tests/pipeline/test_faults.py

clean:  ## Remove what was built
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis dist build
