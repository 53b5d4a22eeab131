# make demo      builds an image on the default hardware, cpu, with a docker engine of its own where none answers
# make test      everything CI runs
# make stop      stops the engine that demo or test started
# make generate  rewrites schemas, reference documents and Dockerfiles from code and data
# make bench     ratios of the pure core
# make bench-build  ratios of image builds, on the engine that demo started; prunes its build cache

PYTHON ?= python3
BIN := .venv/bin
ENGINE := $(or $(XDG_STATE_HOME),$(HOME)/.local/state)/envbuilder/engine

.PHONY: demo test lint unit generate bench bench-build stop clean

demo: .venv/ready
	DOCKER_HOST=$$(tools/engine.sh "$(ENGINE)") && export DOCKER_HOST && \
	$(BIN)/envbuilder build --hw cpu --branch v0.6.0 --engine sglang

test: lint unit

lint: .venv/ready
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# what shares the engine runs one after the other
unit: .venv/ready
	command -v docker-registry >/dev/null || \
	(apt-get update --quiet && apt-get install --yes --quiet --no-install-recommends docker-registry) >&2
	DOCKER_HOST=$$(tools/engine.sh "$(ENGINE)") && export DOCKER_HOST && \
	$(BIN)/pytest -n auto --ignore tests/integration && \
	$(BIN)/pytest tests/integration

generate: .venv/ready
	$(BIN)/python tools/generate.py

bench: .venv/ready
	$(BIN)/python -m benchmarks.core

bench-build: .venv/ready
	DOCKER_HOST=$$(tools/engine.sh "$(ENGINE)") && export DOCKER_HOST && \
	$(BIN)/python -m benchmarks.build --prune

# a virtual environment of our own; a fresh Debian has Python but not the module that makes one
.venv/ready: pyproject.toml
	$(PYTHON) -m venv .venv || (apt-get update && apt-get install --yes python3-venv && $(PYTHON) -m venv .venv)
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $@

stop:
	test ! -f "$(ENGINE)/pid" || kill "$$(cat "$(ENGINE)/pid")"

clean:
	rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
