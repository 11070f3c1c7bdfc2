# Everything a contributor needs; each target makes .venv by itself.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
E2E := .venv-e2e
WORKERS := $(shell expr $$(nproc 2>/dev/null || echo 2) + 1) # one more than cores: some tests wait
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet --retries 5 install --constraint constraints.txt
PIP_E2E := $(subst $(BIN),$(E2E)/bin,$(PIP))

.PHONY: run test coverage check bench bench-gateway round-trip sequences docs e2e fuzz format clean

run: $(VENV)/.run ## the gateway with the scripted model, on 127.0.0.1:8787
	@$(BIN)/python -m penstock serve

test: $(VENV)/.dev ## all tests
	PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n $(WORKERS) -p no:anyio -p no:cov --durations 10 tests

coverage: $(VENV)/.dev ## all tests again, slower, with the branches that none of them takes
	$(BIN)/python -m pytest -n auto --cov --cov-report=term:skip-covered tests

check: $(VENV)/.dev ## style, types and rooms
	$(BIN)/ruff format --check .
	$(BIN)/ruff check --no-cache . # a cached verdict misses a neighbour that came or went
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/.dev ## what ruff can mend by itself
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

bench: $(VENV)/.bench ## ratios within one run, as a table
	$(BIN)/python bench/run.py

bench-gateway: $(VENV)/.dev ## the gateway beside a floor that only passes bytes on; takes minutes
	$(BIN)/python bench/gateway/run.py
	$(BIN)/python bench/gateway/soak.py --seconds 60

round-trip: $(VENV)/.dev ## real calls in every format, there and back; LIMIT=400 takes a minute
	$(BIN)/python bench/round_trip.py $(if $(LIMIT),--limit $(LIMIT))

sequences: $(VENV)/.dev ## 100,000 random answers through every API; NUMBER=2000 takes a minute
	$(BIN)/python bench/sequences.py $(if $(NUMBER),--number $(NUMBER))

e2e: $(E2E)/.e2e $(VENV)/.dev ## a real model: held to our grammars, in the process, and behind three APIs
	$(E2E)/bin/python tests/e2e/run.py $(FORMATS)
	$(E2E)/bin/python tests/e2e/local_model.py
	$(E2E)/bin/python tests/e2e/agent_loop.py
	$(E2E)/bin/python tests/e2e/served_model.py
	$(E2E)/bin/python tests/e2e/ai_sdk/run.py
	$(E2E)/bin/python tests/e2e/agents/run.py
	$(E2E)/bin/python tests/e2e/inspector/run.py
	INTERLEAVINGS=1000 $(BIN)/python -m pytest -q -p no:anyio -p no:cov tests/agent/test_interleavings.py
	EVERY_CRASH=1 $(BIN)/python -m pytest -q -p no:anyio -p no:cov tests/agent/session/test_killed.py

fuzz: $(VENV)/.fuzz ## coverage-guided, SECONDS on each reader in turn
	$(BIN)/python tests/fuzz/run.py $(or $(SECONDS),60)

docs: $(VENV)/.docs ## the documentation as HTML, warnings as errors
	$(BIN)/sphinx-build -W --keep-going -b html docs docs/_build/html

clean: ## back to what is in git
	rm -rf $(VENV) $(E2E) tests/e2e/ai_sdk/node_modules tests/e2e/agents/node_modules tests/e2e/inspector/node_modules dist docs/_build .coverage .hypothesis .*_cache

# One stamp per set of extras: a new pyproject or constraints file installs anew.
$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "penstock needs Python 3.11 or newer")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.run: $(VENV)/bin/python pyproject.toml constraints.txt
	$(PIP) --editable '.[cli,server]'
	@touch $@

$(VENV)/.dev: $(VENV)/bin/python pyproject.toml constraints.txt
	$(PIP) --editable '.[dev]'
	@touch $@ $(VENV)/.run

$(VENV)/.docs: $(VENV)/.dev
	$(PIP) --editable '.[docs]'
	@touch $@

$(VENV)/.fuzz: $(VENV)/.dev
	$(PIP) atheris
	@touch $@

$(VENV)/.bench: $(VENV)/.dev bench/requirements.txt
	$(PIP) --requirement bench/requirements.txt
	@touch $@

# The model and its server are large and of no use to anything else: they have a room of their own.
$(E2E)/.e2e: pyproject.toml constraints.txt tests/e2e/requirements.txt
	$(PYTHON) -m venv $(E2E)
	for try in 1 2 3; do \
	  $(PIP_E2E) --editable '.[cli,server]' && \
	  $(PIP_E2E) --no-deps --requirement tests/e2e/requirements.txt && exit 0; \
	  sleep 5; \
	done; exit 1
	@touch $@
