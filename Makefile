# make demo      builds an image on the default hardware, cpu, and proves it: checks, imports, and a training run that
#                has to learn; starts a docker engine if none runs
# make check     the checks while you work: formatting, types, imports, and the tests without an engine or a network;
#                less than two minutes on two cores
# make test      everything CI runs: make check, the slow tests, and those that build images and train in them
# make fresh     make demo and make test on a minimal Debian, with its own engine and network; needs root
# make stop      stops the engines that demo or test started
# make clean     stops them, and removes their images and build caches (many gigabytes), and all caches of this folder
# make site      builds the site into build/site; it also works from files, and loads nothing from elsewhere
# make generate  rewrites schemas, reference documents and Dockerfiles from code and data
# make constraints  renews constraints.txt, the versions of all tools of the checks and tests
# make prove     proves the environments of this architecture that lack their best proof, and records that as evidence of the
#                rows: CPU environments train, images for NPUs are built and proven on a stand-in of CANN. It can be
#                killed and started again; results/ has logs and reports. ID='verl-*-a3-*' names some; AGAIN=1 also
#                proves what is proven; WORKERS is how many are proven at once, 2 unless given; JOBS is the number of
#                compilers of each; GIT_MIRROR is a folder of bare repositories, for what no package index has; ARCH is
#                another architecture: it is emulated, which takes more than an hour for a row and proves it to level
#                import
# make controls  trains with each engine, and checks that faulty runs fail: an attention without the past, weights that
#                are not sent, a learning rate of zero, a constant reward; slow
# make bench     ratios of loading, rendering and checking
# make bench-smoke  ratios of smoke runs to a bare training loop
# make bench-rehearse ID='verl-v0.8.0-sglang-a3-aarch64'  ratios of a rehearsal to the CPU environment of the row
# make bench-pull  ratio of a pull to that of docker
# make bench-size  ratio of the download of a CPU environment on x86_64 to that with torch of the package index
# make bench-same  whether two engines publish the same digest of a row
# make bench-upgrade  ratio of the download of an upgrade between neighbouring rows to that of images of pip; slow
# make bench-build  ratios of image builds, on the engine that demo started; prunes its build cache

PYTHON ?= python3
BIN := .venv/bin
ENGINE := $(or $(XDG_STATE_HOME),$(HOME)/.local/state)/envbuilder/engine

ARCH ?= $(shell uname -m)

.PHONY: demo check test fresh lint unit prove controls site generate constraints bench bench-build bench-same bench-size bench-upgrade bench-smoke bench-rehearse bench-pull stop clean

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

# with our own engine, a second one halves the time of the tests that build images; these often wait for the network,
# so there is one worker more than cores
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

# where no engine answers, with one of its own at low priority, so that tests and proofs do not disturb each other
prove: .venv/ready
	tools/emulate.sh $(ARCH)
	DOCKER_HOST=$$(if docker version >/dev/null 2>&1; then tools/engine.sh "$(ENGINE)"; else \
	  nice -n 19 tools/engine.sh "$(ENGINE)-prove" envbuilder8; fi) && export DOCKER_HOST && \
	$(BIN)/python -m tools.prove --arch $(ARCH) $(if $(ID),'$(ID)') $(if $(AGAIN),--again) \
	  $(if $(WORKERS),--workers $(WORKERS)) $(if $(JOBS),--jobs $(JOBS)) $(if $(GIT_MIRROR),--git-mirror '$(GIT_MIRROR)')

controls: .venv/ready
	DOCKER_HOST=$$(tools/engine.sh "$(ENGINE)") && export DOCKER_HOST && CONTROLS=1 $(BIN)/pytest tests/integration/test_rehearsal.py tests/integration/test_controls.py

site: .venv/ready
	$(BIN)/python -m tools.site

generate: .venv/ready
	$(BIN)/python tools/generate.py

# for every supported Python and architecture: otherwise a new release of a tool could fail an unchanged commit
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

# a new Debian has Python, but not its module venv
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
	for state in "$(ENGINE)" "$(ENGINE)-2" "$(ENGINE)-prove"; do \
	  pid=$$(cat "$$state/pid" 2>/dev/null); ! grep -qs dockerd "/proc/$$pid/comm" || kill "$$pid"; \
	  while grep -qs dockerd "/proc/$$pid/comm"; do sleep 0.1; done; \
	done

# the root of an engine stays mounted after its end
clean: stop
	for state in "$(ENGINE)" "$(ENGINE)-2" "$(ENGINE)-prove"; do \
	  ! mountpoint --quiet "$$state/root" || umount "$$state/root"; rm -rf "$$state"; \
	done
	rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
