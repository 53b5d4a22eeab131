# make demo      the default environment: judged and rendered
# make test      everything CI runs
# make generate  rewrites schemas, reference documents and Dockerfiles from code and data
# make bench     ratios of the pure core

PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test lint unit generate bench clean

demo: .venv/ready
	$(BIN)/envbuilder show
	$(BIN)/envbuilder check --hw cpu -q
	$(BIN)/envbuilder render -o build/Dockerfile

test: lint unit

lint: .venv/ready
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

unit: .venv/ready
	$(BIN)/pytest -n auto

generate: .venv/ready
	$(BIN)/python tools/generate.py

bench: .venv/ready
	$(BIN)/python -m benchmarks.core

# a virtual environment of our own; a fresh Debian has Python but not the module that makes one
.venv/ready: pyproject.toml
	$(PYTHON) -m venv .venv || (apt-get update && apt-get install --yes python3-venv && $(PYTHON) -m venv .venv)
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $@

clean:
	rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
