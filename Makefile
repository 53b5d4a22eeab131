# make demo      builds an image on the default hardware, cpu, with a docker engine of its own where none answers, and
#                proves it: checks, imports, and a training run that has to learn
# make check     what to run while working: formatting, types, imports, and the tests that need neither an engine nor a
#                network; less than two minutes on two cores
# make test      everything CI runs: make check, the slow tests, and those that build images and train in them
# make fresh     make demo and make test on a Debian that has nothing, with an engine and a network of its own; needs root
# make stop      stops the engines that demo or test started
# make clean     stops them, and removes their images and build caches, which are many gigabytes, and all caches here
# make site      builds the site into build/site; it works from files too, and loads nothing from elsewhere
# make generate  rewrites schemas, reference documents and Dockerfiles from code and data
# make constraints  renews constraints.txt, the versions of everything that the checks and tests run with
# make validate ID='verl-*-cpu-aarch64'  builds and proves these environments, and records that as evidence of the rows;
#                results in results/; slow
# make rehearse ID='verl-v0.8.0-*-aarch64'  builds NPU images on a stand-in of CANN, proves them on it, and records that as
#                evidence of the rows; GIT_MIRROR is a folder of bare repositories, for what no package index has; BASE is
#                an image with the Python of a row that Debian does not have, such as python:3.10; ARCH is another
#                architecture than this machine's: it is emulated, which takes more than an hour for a row and proves it
#                to level import
# make controls  trains with each engine, and finds what must fail: an engine that forgets, weights that are not sent, a
#                rate of zero, a constant reward; slow
# make bench     ratios of the pure core
# make bench-smoke  ratios of smoke runs to a bare training loop
# make bench-rehearse ID='verl-v0.8.0-sglang-a3-aarch64'  ratios of a rehearsal to the row's image for a CPU
# make bench-pull  ratio of a pull to that of docker
# make bench-size  ratio of what a CPU environment on x86_64 downloads to the same with torch of the package index
# make bench-same  whether two engines publish one digest of a row
# make bench-upgrade  what an upgrade between neighbouring rows downloads, as a ratio to images that pip makes; slow
# make bench-build  ratios of image builds, on the engine that demo started; prunes its build cache

PYTHON ?= python3
BIN := .venv/bin
ENGINE := $(or $(XDG_STATE_HOME),$(HOME)/.local/state)/envbuilder/engine

ARCH ?= $(shell uname -m)
SOME = { test -n "$$ids" || { echo "no environment of $(ARCH) matches '$(ID)'; set ARCH for another architecture" >&2; exit 4; }; }

.PHONY: demo check test fresh lint unit validate rehearse controls site generate constraints bench bench-build bench-same bench-size bench-upgrade bench-smoke bench-rehearse bench-pull stop clean

demo: .venv/ready
	DOCKER_HOST=$$(tools/engine.sh "$(ENGINE)") && export DOCKER_HOST && \
	$(BIN)/envbuilder build --hw cpu --branch v0.6.0 --engine sglang

check: lint
	$(BIN)/pytest -n auto -m 'not slow' tests/unit tests/matrices tests/cli

test: lint unit

fresh:
	tools/fresh.sh demo test

lint: .venv/ready
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# where the engine is our own, a second one halves the time of the tests that build images; these often wait for the
# network, so one worker more than cores is at work
unit: .venv/ready
	for program in docker-registry chromium debootstrap docker-compose gcc podman catatonit newuidmap rootlesskit zstd; do \
	  command -v $$program >/dev/null || missing=1; \
	done; [ -z "$$missing" ] || (apt-get update --quiet && apt-get install --yes --quiet --no-install-recommends \
	  docker-registry chromium debootstrap docker-compose gcc libc6-dev podman catatonit uidmap rootlesskit zstd) >&2
	DOCKER_HOST=$$(tools/engine.sh "$(ENGINE)") && export DOCKER_HOST && \
	if [ "$$DOCKER_HOST" = "unix://$(ENGINE)/docker.sock" ]; then \
	  SECOND_DOCKER_HOST=$$(tools/engine.sh "$(ENGINE)-2" envbuilder2) && export SECOND_DOCKER_HOST; \
	fi && \
	$(BIN)/pytest -n $$(($$(nproc) + 1)) --durations=10

# every environment as a job of its own would: one that fails does not stop the others
validate: .venv/ready
	mkdir -p results
	DOCKER_HOST=$$(tools/engine.sh "$(ENGINE)") && export DOCKER_HOST && failed= && \
	ids=$$($(BIN)/envbuilder list $(if $(ID),'$(ID)',--hw cpu --arch $(ARCH))) && \
	$(SOME) && for id in $$ids; do \
	  $(BIN)/envbuilder build --no-validate "$$id" && \
	  $(BIN)/envbuilder validate "$$id" --record --report "results/$$id.json" --junit "results/$$id.xml" --html "results/$$id.html" \
	  || failed="$$failed $$id"; \
	done && \
	{ test -z "$$failed" || { echo "failed:$$failed" >&2; exit 6; }; }

rehearse: .venv/ready
	mkdir -p results
	tools/emulate.sh $(ARCH)
	DOCKER_HOST=$$(tools/engine.sh "$(ENGINE)") && export DOCKER_HOST && failed= && \
	ids=$$($(BIN)/envbuilder list '$(or $(ID),*-a[0-9]-*)' --arch $(ARCH)) && \
	$(SOME) && for id in $$ids; do \
	  $(BIN)/envbuilder build --rehearse --record "$$id" --report "results/$$id.json" \
	  $(if $(GIT_MIRROR),--git-mirror '$(GIT_MIRROR)') $(if $(BASE),--base-image '$(BASE)') || failed="$$failed $$id"; \
	done && \
	{ test -z "$$failed" || { echo "failed:$$failed" >&2; exit 6; }; }

controls: .venv/ready
	DOCKER_HOST=$$(tools/engine.sh "$(ENGINE)") && export DOCKER_HOST && CONTROLS=1 $(BIN)/pytest tests/integration/test_rehearsal.py tests/integration/test_controls.py

site: .venv/ready
	$(BIN)/python -m tools.site

generate: .venv/ready
	$(BIN)/python tools/generate.py

# every Python that is supported, every architecture; without it a new release of a tool could fail an unchanged commit
constraints: .venv/ready
	$(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.10 --extra dev \
	--custom-compile-command 'make constraints' --output-file constraints.txt pyproject.toml

bench: .venv/ready
	$(BIN)/python -m benchmarks.core

bench-size: .venv/ready
	$(BIN)/python -m benchmarks.size

bench-build: .venv/ready
	DOCKER_HOST=$$(tools/engine.sh "$(ENGINE)") && export DOCKER_HOST && \
	$(BIN)/python -m benchmarks.build --prune

# a virtual environment of our own; a fresh Debian has Python but not the module that makes one
.venv/ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv || (apt-get update && apt-get install --yes python3-venv && $(PYTHON) -m venv .venv)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

bench-smoke: .venv/ready
	DOCKER_HOST=$$(tools/engine.sh "$(ENGINE)") && export DOCKER_HOST && \
	$(BIN)/python -m benchmarks.smoke

bench-rehearse: .venv/ready
	DOCKER_HOST=$$(tools/engine.sh "$(ENGINE)") && export DOCKER_HOST && \
	$(BIN)/python -m benchmarks.rehearsal '$(ID)' $(if $(GIT_MIRROR),--git-mirror '$(GIT_MIRROR)')

bench-same: .venv/ready
	one=$$(tools/engine.sh "$(ENGINE)") && two=$$(tools/engine.sh "$(ENGINE)-2" envbuilder2) && \
	tools/registry.sh $(BIN)/python -m benchmarks.reproducibility --engines $$one $$two

bench-upgrade: .venv/ready
	DOCKER_HOST=$$(tools/engine.sh "$(ENGINE)") && export DOCKER_HOST && \
	tools/registry.sh $(BIN)/python -m benchmarks.upgrade

bench-pull: .venv/ready
	DOCKER_HOST=$$(tools/engine.sh "$(ENGINE)") && export DOCKER_HOST && \
	tools/registry.sh $(BIN)/python -m benchmarks.pull

stop:
	for state in "$(ENGINE)" "$(ENGINE)-2"; do \
	  pid=$$(cat "$$state/pid" 2>/dev/null); ! grep -qs dockerd "/proc/$$pid/comm" || kill "$$pid"; \
	  while grep -qs dockerd "/proc/$$pid/comm"; do sleep 0.1; done; \
	done

# an engine leaves its root mounted
clean: stop
	for state in "$(ENGINE)" "$(ENGINE)-2"; do \
	  ! mountpoint --quiet "$$state/root" || umount "$$state/root"; rm -rf "$$state"; \
	done
	rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
