# The two commands of the README are `make run` and `make test`; each sets up all that it needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: help run test check prose browser bench verify numbers fuzz-engines fuzz-inputs fuzz-metadata fuzz-page mutate roundtrip soak soak-page setup clean

help:  ## Show what there is
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; assert sys.version_info >= (3, 11), f"Python 3.11 or newer is needed, this is {sys.version}"'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

soak-page: $(STAMP)  ## Ask the live page 500 questions, and check that memory and processes do not grow
	$(BIN)/python -m tests.serve.soak --questions 500

setup: $(STAMP)  ## Make the virtual environment

run: $(STAMP)  ## Run a small study from end to end: sweep, metrics, report, and its answer in words
	$(BIN)/endive examples run load_by_provider -o experiments/load_by_provider

check: $(STAMP)  ## Format, lint and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

prose: $(STAMP)  ## Count words that the project does not use, docstrings without a verb and misspellings, by directory
	$(BIN)/python docs/prose.py

browser:  ## Install chromium for the tests of reports, if there is no browser and it can be done
	@for name in "$$CHROMIUM" chromium chromium-browser google-chrome; do \
	    if [ -n "$$name" ] && command -v "$$name" > /dev/null; then exit 0; fi; \
	done; \
	if command -v apt-get > /dev/null && [ "$$(id -u)" = 0 ]; then \
	    echo "installing chromium for the tests of reports"; \
	    { apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq --yes install --no-install-recommends chromium > /dev/null; } \
	        || echo "chromium could not be installed: the tests that open reports in a browser are skipped"; \
	else \
	    echo "there is no chromium, and only root can install it by apt-get: the tests that open reports in a browser are skipped"; \
	fi

test: check browser  ## Check and run the tests
	$(BIN)/pytest -n 2 --dist loadgroup

bench: $(STAMP)  ## Measure both engines and print tables (minutes)
	$(BIN)/python -m benchmarks

verify: $(STAMP)  ## Run real Iceberg clients and compare them with the simulator (40 minutes)
	$(BIN)/python -m verification

numbers: $(STAMP)  ## Run the commands that README, tutorial, guide and gallery show, and compare their numbers (an hour)
	$(BIN)/python docs/check_numbers.py

fuzz-engines: $(STAMP)  ## Run 10,000 random configurations on both engines
	$(BIN)/python -m tests.fuzz_engines --examples 10000

soak: $(STAMP)  ## Kill sweeps on Spark a hundred times, and drivers without Spark a hundred times
	ENDIVE_KILLS=100 $(BIN)/pytest tests/pipeline/test_faults.py
	$(BIN)/python -m tests.soak --kills 100

fuzz-inputs: $(STAMP)  ## Give 20,000 broken files of all kinds to the commands
	$(BIN)/python -m tests.fuzz_inputs --examples 20000

fuzz-page: $(STAMP)  ## Change the live page at random a thousand times, in a browser
	$(BIN)/python -m tests.serve.random_settings --changes 1000

mutate: $(STAMP)  ## Change the code in some 500 places and look whether tests notice (half an hour)
	$(BIN)/python -m verification.mutations

fuzz-metadata: $(STAMP)  ## Import 2,000 broken metadata files
	$(BIN)/python -m tests.calibrate.mutations --count 2000

roundtrip: $(STAMP)  ## Simulate 20 random systems, import their tables and compare what is predicted
	$(BIN)/python -m tests.calibrate.roundtrip --count 20

clean:  ## Remove what was built
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis dist build
