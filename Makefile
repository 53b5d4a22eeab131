# make demo      builds an image on the default hardware, cpu, and proves it: checks, imports, and a training run that
#                has to learn; starts a docker engine if none runs
# make check     the checks while you work: formatting, types, imports, and the tests without an engine or a network;
#                less than two minutes on two cores
# make test      make check, the slow tests, and those that build images; the image of the demo is built and trained
# make test-all  everything CI runs: make test and make extended
# make extended  the tests that take minutes: faulty trainings, rehearsals, kills, load, full disks, engines without root,
#                a cluster of Ray, the oldest Python; FILES='test_rehearsal.py test_npu.py' names some
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
# make controls  trains with each engine and records what is judged of the logs in tests/recorded: a good run, and faulty
#                ones (an attention without the past, weights that are not sent, a learning rate of zero, a constant
#                reward); ID breaks the rehearsal of that row instead, with the GIT_MIRROR of its sources
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

# gigabytes; on x86_64 the package index has only torch with CUDA
ifeq ($(shell uname -m),x86_64)
DOWNLOAD := 0.7 GB, or 3.3 GB if the package index of PyTorch cannot be reached
ROOM := 25
EXTENDED_ROOM := 45
else
DOWNLOAD := 0.5 GB
ROOM := 15
EXTENDED_ROOM := 25
endif

.PHONY: demo check test test-all extended fresh lint unit prove controls site generate constraints bench bench-build bench-same bench-size bench-upgrade bench-smoke bench-rehearse bench-pull stop clean

demo:
	@tools/room.sh "make demo" 12 "$(ENGINE)"
	@echo "it downloads $(DOWNLOAD)"
	@$(MAKE) --no-print-directory .venv/command
	DOCKER_HOST=$$(tools/engine.sh "$(ENGINE)") && export DOCKER_HOST && \
	$(BIN)/envbuilder build --hw cpu --branch v0.6.0 --engine sglang

check: lint
	$(BIN)/pytest -n auto -m 'not slow' tests/unit tests/matrices tests/cli

test:
	@tools/room.sh "make test" $(ROOM) "$(ENGINE)" "$${TMPDIR:-/tmp}"
	@$(MAKE) --no-print-directory lint unit

test-all: test extended

fresh:
	tools/fresh.sh demo test

lint: .venv/ready
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# with our own engine, a second one halves the time of the tests that build images; these often wait for the network,
# so there is one worker more than cores
TESTS = DOCKER_HOST=$$(tools/engine.sh "$(ENGINE)") && export DOCKER_HOST && \
	if [ "$$DOCKER_HOST" = "unix://$(ENGINE)/docker.sock" ]; then \
	  SECOND_DOCKER_HOST=$$(tools/engine.sh "$(ENGINE)-2" envbuilder2) && export SECOND_DOCKER_HOST; \
	fi && \
	$(BIN)/pytest --dist loadgroup -n $$(($$(nproc) + 1)) --durations=10

PROGRAMS = \
  docker-registry:docker-registry:'a registry for tests of push and pull' \
  chromium:chromium:'a browser for the pages' \
  mmdebstrap:mmdebstrap:'for base images, and for a skopeo that checks signatures' \
  docker-compose:docker-compose:'for printed compose files' \
  gcc:gcc:'for the stand-in of CANN' /usr/include/stdio.h:libc6-dev:'for the stand-in of CANN' \
  zstd:zstd:'for layers of images'

unit: .venv/ready
	@tools/programs.sh $(PROGRAMS)
	$(TESTS) -m 'not extended'

extended:
	@tools/room.sh "make extended" $(EXTENDED_ROOM) "$(ENGINE)" "$${TMPDIR:-/tmp}"
	@$(MAKE) --no-print-directory .venv/ready
	@tools/programs.sh $(PROGRAMS) \
	  podman:podman:'an engine without root' catatonit:catatonit:'for podman' \
	  newuidmap:uidmap:'for engines without root' rootlesskit:rootlesskit:'for docker without root' \
	  g++:build-essential:'for packages that are compiled' \
	  /usr/include/numa.h:libnuma-dev:'for packages that are compiled' \
	  python3-config:python3-dev:'for packages that are compiled'
	$(TESTS) -m extended $(addprefix tests/integration/,$(FILES))

# where no engine answers, with one of its own at low priority, so that tests and proofs do not disturb each other
prove: .venv/ready
	tools/emulate.sh $(ARCH)
	DOCKER_HOST=$$(if docker version >/dev/null 2>&1; then tools/engine.sh "$(ENGINE)"; else \
	  tools/engine.sh "$(ENGINE)-prove" envbuilder8 background; fi) && export DOCKER_HOST && \
	$(BIN)/python -m tools.prove --arch $(ARCH) $(if $(ID),'$(ID)') $(if $(AGAIN),--again) \
	  $(if $(WORKERS),--workers $(WORKERS)) $(if $(JOBS),--jobs $(JOBS)) $(if $(GIT_MIRROR),--git-mirror '$(GIT_MIRROR)')

controls: .venv/ready
	DOCKER_HOST=$$(tools/engine.sh "$(ENGINE)") && export DOCKER_HOST && \
	CONTROLS=1 $(if $(ID),CONTROLLED_ROW='$(ID)') $(if $(GIT_MIRROR),ENVBUILDER_GIT_MIRROR='$(GIT_MIRROR)') \
	$(BIN)/pytest $(addprefix tests/integration/,$(if $(ID),test_sabotage.py,test_rehearsal.py test_controls.py))

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

# the command alone, for the demo, and the programs of the checks and tests with it; a new Debian has Python, but not its
# module venv
.venv/command .venv/ready: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || tools/programs.sh /none:python3-venv:'for virtual environments'
	$(PYTHON) -m venv .venv
	@echo "installing $(WHAT) with uv: $(SIZE) MB in .venv"
	$(BIN)/python -m pip install --quiet --constraint constraints.txt uv
	$(BIN)/uv pip install --quiet --python $(BIN)/python $(PACKAGES) || $(BIN)/python -m pip install --quiet $(PACKAGES)
	touch .venv/command $@

# uv takes a quarter of pip's time, but does not know pip's settings
PACKAGES = --constraint constraints.txt --editable '.$(EXTRA)'
.venv/command: WHAT = envbuilder
.venv/command: SIZE = 100
.venv/ready: WHAT = envbuilder and the programs of its checks and tests
.venv/ready: SIZE = 700
.venv/ready: EXTRA = [dev]

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
