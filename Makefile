# `make run` and `make test` create the virtual environment if it does not exist.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

LOWEST_TESTS := tests/analysis tests/catalog tests/config tests/pipeline tests/report tests/runs tests/studies tests/transaction tests/test_api.py
LOWEST_TOOLS := duckdb==1.5.5 duckdb-extension-avro==1.5.5 duckdb-extension-iceberg==1.5.5 pillow playwright pypdfium2

.PHONY: docs notebooks package container-steps test-lowest help run test check prose browser bench verify numbers fuzz-engines fuzz-inputs fuzz-metadata fuzz-page mutate mutate-model roundtrip soak soak-page setup clean

help:  ## List the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; assert sys.version_info >= (3, 11), f"Python 3.11 or newer is needed, this is {sys.version}"'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

soak-page: $(STAMP)  ## Send 500 requests to the live page, then change it in a browser for 20 minutes: nothing may grow
	$(BIN)/python -m tests.serve.soak --questions 500 --minutes 20

setup: $(STAMP)  ## Create the virtual environment

run: $(STAMP)  ## Run a small study end to end: sweep, metrics, report and summary
	$(BIN)/endive examples run load_by_provider -o experiments/load_by_provider

check: $(STAMP)  ## Check format, lint, types and language
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python docs/prose.py
	$(BIN)/check-jsonschema --quiet --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(BIN)/hadolint Dockerfile

prose: $(STAMP)  ## Check the language: forbidden words, docstrings and spelling
	$(BIN)/python docs/prose.py

browser:  ## Install Chromium for the tests of reports, if no browser is installed
	@for name in "$$CHROMIUM" chromium chromium-browser google-chrome; do \
	    if [ -n "$$name" ] && command -v "$$name" > /dev/null; then exit 0; fi; \
	done; \
	if command -v apt-get > /dev/null && [ "$$(id -u)" = 0 ]; then \
	    echo "installing chromium for the tests of reports"; \
	    { apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq --yes install --no-install-recommends chromium > /dev/null; } \
	        || echo "chromium could not be installed: the tests that open reports in a browser are skipped"; \
	else \
	    echo "chromium is not installed, and installing it requires root and apt-get: the tests that open reports in a browser are skipped"; \
	fi

test: check browser  ## Check format, lint and types, and run the tests
	$(BIN)/pytest -n 2 --dist loadgroup

bench: $(STAMP)  ## Benchmark both engines (a few minutes)
	$(BIN)/python -m benchmarks

verify: $(STAMP)  ## Run the slow tests, and compare the simulator with real Iceberg clients (50 min)
	$(BIN)/pytest -n 2 --dist loadgroup -m slow
	$(BIN)/python -m verification

numbers: $(STAMP)  ## Run the commands that the documentation shows, and compare their output (1 h)
	$(BIN)/python docs/check_numbers.py
	$(BIN)/python docs/run_notebooks.py --check

fuzz-engines: $(STAMP)  ## Run 10,000 random configurations on both engines and check invariants of rows and histories
	$(BIN)/python -m tests.fuzz_engines --examples 10000

soak: $(STAMP)  ## Kill sweeps with and without Spark 100 times each, and check their results
	ENDIVE_KILLS=100 $(BIN)/pytest -m '' tests/pipeline/test_faults.py
	$(BIN)/python -m tests.soak --kills 100

fuzz-inputs: $(STAMP)  ## Run the commands on 20,000 malformed files
	$(BIN)/python -m tests.fuzz_inputs --examples 20000

fuzz-page: $(STAMP)  ## Make 1,000 random changes on the live page in a browser
	$(BIN)/python -m tests.serve.random_settings --changes 1000

mutate: $(STAMP)  ## Run mutation tests with about 500 mutants (30 min)
	$(BIN)/python -m verification.mutations

mutate-model: $(STAMP)  ## Seed 52 mistakes in the model, and check that invariants or known answers catch them (10 min)
	$(BIN)/python -m verification.model_mutations

fuzz-metadata: $(STAMP)  ## Import 2,000 malformed metadata files
	$(BIN)/python -m tests.calibrate.mutations --count 2000

roundtrip: $(STAMP)  ## Simulate 20 random systems, import their tables and compare the predictions
	$(BIN)/python -m tests.calibrate.roundtrip --count 20

docs: $(STAMP)  ## Build the documentation site in site/, strictly and offline
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

notebooks: $(STAMP)  ## Run the notebooks and store their output
	$(BIN)/python docs/run_notebooks.py

package: $(STAMP)  ## Build wheel and sdist, check them, and install the wheel into an empty environment
	rm -rf dist
	$(BIN)/python -m build --outdir dist .
	$(BIN)/twine check --strict dist/*
	$(BIN)/python -m venv --clear build/package
	build/package/bin/pip install --quiet --disable-pip-version-check -c constraints.txt dist/*.whl
	cd build/package && env -u PYTHONPATH bin/endive --help > /dev/null \
	    && env -u PYTHONPATH bin/endive providers > /dev/null \
	    && env -u PYTHONPATH bin/endive examples run load_by_provider -o experiments

container-steps:  ## Run the steps of the Dockerfile in an empty directory
	rm -rf build/container
	sh verification/container_steps.sh build/container

test-lowest:  ## Run the tests with the oldest supported version of each dependency
	rm -rf build/lowest
	$(PYTHON) -m venv build/lowest
	build/lowest/bin/pip install --quiet --disable-pip-version-check uv
	build/lowest/bin/uv pip install --quiet --python build/lowest/bin/python --resolution lowest-direct -e '.[probe]'
	build/lowest/bin/uv pip install --quiet --python build/lowest/bin/python 'pytest<9.2' pytest-xdist hypothesis $(LOWEST_TOOLS)
	build/lowest/bin/pytest -n 2 --dist loadgroup -W default $(LOWEST_TESTS)

clean:  ## Remove the virtual environment, caches and build results
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis dist build site
