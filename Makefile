# Every target creates .venv if it is missing. `make help` lists the targets.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
E2E := .venv-e2e
CORES := $(shell nproc 2>/dev/null || echo 2)
WORKERS := $(shell expr $(CORES) + 1) # one more than cores: some tests wait for a server
PYTEST := PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -p no:anyio -p no:cov
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet --retries 5 install --constraint constraints.txt
PIP_E2E := $(subst $(BIN),$(E2E)/bin,$(PIP))

.PHONY: help run quick test coverage check bench bench-gateway bench-peers bench-engines round-trip sequences docs package compiled-test e2e integrations peers rl scale sdks fuzz format clean

help: ## list the targets
	@sed -n 's/^\([a-z0-9-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 16

run: $(VENV)/.run ## start the gateway on 127.0.0.1:8787, in front of the model server on this machine
	@$(BIN)/python -m penstock serve

quick: $(VENV)/.dev ## run the tests that need no server, with some of their cases (under 45 s on 2 cores)
	$(PYTEST) -q -n $(CORES) --merge-cases --quick tests

test: $(VENV)/.dev ## run all tests (about 4 minutes on 2 cores)
	$(PYTEST) -n $(WORKERS) --merge-cases --durations 10 tests

coverage: $(VENV)/.dev ## run all tests and report the branches that none of them takes
	$(BIN)/python -m pytest -n auto --cov --cov-report=term:skip-covered tests

check: $(VENV)/.dev ## check style (ruff), types (mypy) and layers (import-linter)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check --no-cache . # the cache misses modules that were added or removed
	$(BIN)/mypy
	$(BIN)/python docs/check_examples.py
	$(BIN)/lint-imports

format: $(VENV)/.dev ## fix and format what ruff can
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

bench: $(VENV)/.bench ## print speed and accuracy as ratios within one run
	$(BIN)/python bench/run.py

bench-gateway: $(VENV)/.dev ## compare the gateway with a proxy that only passes bytes on (minutes)
	$(BIN)/python bench/gateway/run.py
	$(BIN)/python bench/gateway/soak.py --seconds 60

bench-peers: $(VENV)/.bench ## compare speed with other gateways and parsers, offline (Linux, large downloads)
	$(PYTHON) -m venv .venv-bench-peers
	.venv-bench-peers/bin/python -m pip --disable-pip-version-check --quiet install smg==1.13.0 vllm-router==0.1.16 cohere-melody==0.15.3 openai-harmony==0.0.8 transformers==5.23.0 tensorzero==2026.6.0 ai-dynamo-runtime==1.6.1 msgspec brotli
	.venv-bench-peers/bin/python -m pip --disable-pip-version-check --quiet install --no-deps vllm==0.33.0 ai-dynamo==1.6.1 # their front ends need no more
	$(PYTHON) -m venv .venv-litellm
	.venv-litellm/bin/python -m pip --disable-pip-version-check --quiet install 'litellm[proxy]==1.106.2'
	$(BIN)/python bench/peers/run.py .venv-bench-peers .venv-litellm

round-trip: $(VENV)/.dev ## write and read real calls in every format; LIMIT=400 takes a minute
	$(BIN)/python bench/round_trip.py $(if $(LIMIT),--limit $(LIMIT))

sequences: $(VENV)/.dev ## send 100,000 random responses through every API; NUMBER=2000 takes a minute
	$(BIN)/python bench/sequences.py $(if $(NUMBER),--number $(NUMBER))

e2e: $(E2E)/.e2e $(VENV)/.dev ## test with a real model, npm clients and a browser
	$(E2E)/bin/python tests/e2e/run.py $(FORMATS)
	$(E2E)/bin/python tests/e2e/local_model.py
	$(E2E)/bin/python tests/e2e/agent_loop.py
	$(E2E)/bin/python tests/e2e/served_model.py
	$(E2E)/bin/python tests/e2e/ai_sdk/run.py
	$(E2E)/bin/python tests/e2e/agents/run.py
	$(E2E)/bin/python tests/e2e/agents/codex.py
	$(E2E)/bin/python tests/e2e/agents/clients.py
	$(E2E)/bin/python tests/e2e/new_user.py
	$(E2E)/bin/python tests/e2e/inspector/run.py
	$(BIN)/python tests/e2e/fleet.py
	$(BIN)/python -m penstock conformance
	NEEDS_REDIS=1 $(PYTEST) -q tests/gateway/test_quotas.py
	EXHAUSTIVE=1 $(PYTEST) -q -n $(CORES) --merge-cases tests/formats tests/parsing tests/views
	INTERLEAVINGS=1000 $(PYTEST) -q tests/agent/test_interleavings.py
	EVERY_CRASH=1 $(PYTEST) -q tests/agent/session/test_process_kill.py

integrations: ## test the plugins for LiteLLM, SGLang and vLLM with the real packages (large downloads)
	$(PYTHON) -m venv .venv-litellm
	.venv-litellm/bin/python -m pip --disable-pip-version-check --quiet install --editable . 'litellm[proxy]==1.106.2' pytest hypothesis
	.venv-litellm/bin/python -m pytest -q -p no:cacheprovider -W ignore tests/integrations/test_litellm.py tests/integrations/test_litellm_proxy.py
	$(PYTHON) -m venv .venv-vllm
	.venv-vllm/bin/python -m pip --disable-pip-version-check --quiet install --editable . vllm==0.32.0 pytest hypothesis
	.venv-vllm/bin/python -m pip --quiet uninstall --yes torchvision torchaudio torchcodec # built for another torch
	.venv-vllm/bin/python -m pytest -q -p no:cacheprovider -W ignore tests/integrations/test_vllm.py
	.venv-vllm/bin/python -m pip --disable-pip-version-check --quiet install --no-deps vllm==0.31.0
	.venv-vllm/bin/python -m pytest -q -p no:cacheprovider -W ignore tests/integrations/test_vllm.py
	.venv-vllm/bin/python -m pip --disable-pip-version-check --quiet install orjson partial-json-parser ipython
	.venv-vllm/bin/python -m pip --disable-pip-version-check --quiet install --no-deps sglang==0.5.23 # its parsers need no more
	.venv-vllm/bin/python -m pytest -q -p no:cacheprovider -W ignore tests/integrations/test_sglang.py

# The environment of `make peers`, with the gateway.
bench-engines: ## compare speed with the parsers of vLLM and SGLang, and with vLLM's Rust front end (large downloads)
	$(PYTHON) -m venv .venv-peers
	.venv-peers/bin/python -m pip --disable-pip-version-check --quiet install uv
	.venv-peers/bin/uv --quiet pip install --python .venv-peers/bin/python --editable '.[cli,server]' vllm==0.32.0 orjson partial-json-parser ipython
	.venv-peers/bin/uv --quiet pip install --python .venv-peers/bin/python --no-deps sglang==0.5.23 # its parsers need no more
	.venv-peers/bin/python bench/peers/engines.py

# A driver exits with 1 if a case fails: that is the result here, not an error.
peers: ## run the conformance suite with the parsers of vLLM, SGLang, transformers and smg (large downloads)
	$(PYTHON) -m venv .venv-peers
	.venv-peers/bin/python -m pip --disable-pip-version-check --quiet install uv
	.venv-peers/bin/uv --quiet pip install --python .venv-peers/bin/python --editable '.[cli]' vllm==0.32.0 transformers==5.19.0 smg==1.13.0 orjson partial-json-parser ipython
	.venv-peers/bin/uv --quiet pip install --python .venv-peers/bin/python --no-deps sglang==0.5.23 # its parsers need no more
	for driver in penstock transformers sglang vllm vllm-rs smg; do \
	  .venv-peers/bin/penstock conformance --driver $$driver --failures 0 || test $$? = 1 || exit 1; \
	done

# verl pins an older transformers than TRL needs, so it is installed with what its parsers import.
rl: ## test the parsers of token ids with the real TRL, verl and renderers (large downloads)
	$(PYTHON) -m venv .venv-rl
	.venv-rl/bin/python -m pip --disable-pip-version-check --quiet install uv
	.venv-rl/bin/uv --quiet pip install --python .venv-rl/bin/python --editable . trl==1.16.0 transformers==5.19.0 torch renderers==0.1.12 verifiers==0.4.0 ray 'tensordict<=0.10' codetiming hydra-core cachetools fastapi pytest hypothesis
	.venv-rl/bin/uv --quiet pip install --python .venv-rl/bin/python --no-deps verl==0.9.1
	.venv-rl/bin/python -m pytest -q -p no:cacheprovider -W ignore tests/integrations/rl tests/integrations/test_tokens.py

# LlamaIndex and pydantic-ai do not support anthropic 1, so the second run has an older one, which is built on httpx.
SDKS := langchain-openai langchain-anthropic langgraph 'pydantic-ai-slim[openai,anthropic]' openai-agents instructor llama-index-llms-openai llama-index-llms-anthropic
sdks: ## test the HTTP client and the framework objects with LangChain, pydantic-ai, openai-agents, instructor and LlamaIndex
	for sdk in 'anthropic>=2' 'anthropic<1'; do \
	  $(PYTHON) -m venv --clear .venv-sdks && \
	  .venv-sdks/bin/python -m pip --disable-pip-version-check --quiet install uv && \
	  .venv-sdks/bin/uv --quiet pip install --python .venv-sdks/bin/python --editable '.[client,httpx]' "$$sdk" $(SDKS) pytest hypothesis && \
	  .venv-sdks/bin/python -m pytest -q -p no:cacheprovider -p no:anyio -W ignore tests/integrations/sdks || exit 1; \
	done

scale: ## parse responses with real Ray and real Spark, and compare them with one process (large downloads, Java)
	$(PYTHON) -m venv .venv-scale
	.venv-scale/bin/python -m pip --disable-pip-version-check --quiet install --editable '.[batch]' 'ray[data]==2.60.0' pyspark==4.3.0 pandas==3.1.1
	.venv-scale/bin/python tests/scale/run.py

package: ## build the packages, install them into empty environments and try each (about a minute)
	$(PYTHON) tests/e2e/package.py

compiled-test: $(VENV)/.dev ## build a wheel with compiled modules, test its parsers and compare their speed (3 minutes)
	rm -rf build/wheel build/compiled
	PENSTOCK_MYPYC=1 $(BIN)/python -m pip --disable-pip-version-check --quiet wheel --no-deps --wheel-dir build/wheel .
	$(BIN)/python -m pip --disable-pip-version-check --quiet install --no-deps --target build/compiled build/wheel/*.whl
	PYTHONPATH=build/compiled $(PYTEST) -q -n $(CORES) --merge-cases tests/parsing tests/values tests/laws tests/test_laws.py tests/formats tests/views
	$(BIN)/python bench/compiled.py build/compiled

fuzz: $(VENV)/.fuzz ## fuzz each reader for SECONDS (60 by default), guided by coverage
	$(BIN)/python tests/fuzz/run.py $(or $(SECONDS),60)

docs: $(VENV)/.docs ## build the documentation as HTML; warnings and dead links are errors
	$(BIN)/sphinx-build -W --keep-going -q -b html docs docs/_build/html
	$(BIN)/python docs/check_links.py docs/_build/html

clean: ## remove everything that make created
	rm -rf $(VENV) $(E2E) .venv-agents .venv-bench-peers .venv-litellm .venv-peers .venv-rl .venv-sdks .venv-vllm .venv-scale tests/e2e/ai_sdk/node_modules tests/e2e/agents/node_modules tests/e2e/inspector/node_modules dist docs/_build .coverage .hypothesis .*_cache

# One stamp per set of extras: a changed pyproject or constraints file installs again.
$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "penstock needs Python 3.11 or newer")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.run: $(VENV)/bin/python pyproject.toml constraints.txt
	@echo 'installing penstock and what it needs into $(VENV) (up to a minute)'
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

# The model and its server are large and used by nothing else, so they have their own environment.
$(E2E)/.e2e: pyproject.toml constraints.txt tests/e2e/requirements.txt
	$(PYTHON) -m venv $(E2E)
	for try in 1 2 3; do \
	  $(PIP_E2E) --editable '.[cli,server]' && \
	  $(PIP_E2E) --no-deps --requirement tests/e2e/requirements.txt && exit 0; \
	  sleep 5; \
	done; exit 1
	@touch $@
