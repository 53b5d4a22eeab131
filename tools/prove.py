"""Proves the environments of this machine's architecture that lack their best proof, two at a time.

    python -m tools.prove [--dry-run] [--again] [--arch ARCH] [--git-mirror FOLDER] [--workers N] [--jobs N]
                          [IDENTIFIER...]

What passes is recorded as evidence at once. What fails is recorded with its cause, and is tried again only when the row
or the code that proves it has changed. A run that is killed loses the environments at work, and nothing else. Images
are removed as soon as they are proven.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from threading import Event, Lock
from typing import NamedTuple

from envbuilder import paths, platforms, versions
from envbuilder.docker.emulation import processor
from envbuilder.environment import Catalog, Environment, Filters
from envbuilder.errors import HostError, NetworkError
from envbuilder.matrix import evidence, load
from envbuilder.matrix.model import CPU, STAND_IN, Device
from envbuilder.validate.smoke.job import Job, NotRun, Place, smoke_job
from tools.changed import base_of, fingerprints

ROOT = Path(__file__).resolve().parent.parent
# the first part of the names of all images that are made here
REGISTRY = "prove"
# most of a proof waits or keeps one core busy: starting trainers and engines, and training
WORKERS = 2
_CLEANING = Lock()
# what a proof runs: with the same code a failure would happen again
ROOMS = ("build", "inputs", "plan", "render", "stand_in", "validate")
BUILD_CACHE = "25GB"
# once it is set, no further proof is started
_LACKING = Event()
LONGEST_CAUSE = 400
_ERROR = re.compile(r"^(?:\x1b\[[\d;]*m)*error(?:\x1b\[[\d;]*m)*: (.*?)(?=^\S*hint\S*: |\Z)", re.MULTILINE | re.DOTALL)


class Run(NamedTuple):
    """A training run: what trains the model, if not the usual backend, and on how many devices for each model."""

    backend: str | None = None
    devices: int = 1

    @property
    def options(self) -> list[str]:
        backend = ["--backend", self.backend] if self.backend else []
        return [*backend, *(["--npus", str(self.devices)] if self.devices > 1 else [])]


USUAL = Run()


@dataclass(frozen=True)
class Proof:
    """What is left to prove of an environment, and the options of the commands that do it."""

    environment: Environment
    # the environment itself, or its rehearsal
    target: Environment
    device: Device
    runs: tuple[Run, ...]

    @property
    def options(self) -> list[str]:
        if self.environment.hardware.has_npus:
            return ["--rehearse", *(["--base-image", base] if (base := base_of(self.environment)) else [])]
        return ["--device", self.device]

    @property
    def image(self) -> str:
        return self.target.image_name(REGISTRY)


class Task(NamedTuple):
    """A proof, and the digest of the row and of the code that proves it."""

    proof: Proof
    of: str


def left(environment: Environment, *, in_all_ways: bool) -> Proof:
    """Return what is left to prove: one training run or, in all ways, one with every backend and one on two devices."""
    target, groups = environment, environment.smoke_run.groups if environment.smoke_run else 1
    device: Device = CPU
    if environment.hardware.has_npus:
        target, device = environment.rehearsed(), STAND_IN
    elif environment.hardware.cpu_only and environment.smoke_run and isinstance(_job(target, CPU, groups), NotRun):
        # its trainer needs a device
        device = STAND_IN
    job = _job(target, device, groups)
    if isinstance(job, NotRun):
        # what is left is to build and to import it
        return Proof(environment, target, device, () if environment.proven not in {None, "resolved"} else (USUAL,))
    level = "smoke-cpu" if device == CPU else "rehearsed"
    done = {
        Run(item.backend, (item.devices or 1) // (groups if item.devices else 1))
        for item in environment.evidence
        if item.level == level and item.depth == job.depth
    }
    wanted = [USUAL]
    if in_all_ways:
        wanted += [Run(backend=name) for name in job.other_backends]
        wanted += [Run(devices=2)] if device == STAND_IN and groups == 1 else []
    return Proof(environment, target, device, tuple(run for run in wanted if run not in done))


def _job(environment: Environment, device: Device, groups: int) -> Job | NotRun:
    return smoke_job(environment, device, Place("", ""), devices=groups if device == STAND_IN else 1)


def in_order(environments: Sequence[Environment]) -> Iterator[tuple[Environment, bool]]:
    """Yield the environments, with whether they are proven in all ways.

    Those of the newest release with their engine on their hardware come first, as a default chooses them; the others
    follow from the oldest on, which the source documents name. One of each engine is proven in all ways: images for
    other hardware differ in compiled kernels, which a rehearsal does not have. Twins for GPUs are last: their images
    are the largest, and here only their imports are left to prove.
    """
    newest: dict[tuple[str, str, str], Environment] = {}
    rows = sorted((item for item in environments if not item.hardware.has_gpus), key=_age)
    for item in rows:
        newest[item.coordinates.framework, item.coordinates.engine, item.coordinates.hardware] = item
    first = sorted(newest.values(), key=lambda item: (item.hardware.has_npus, item.rank), reverse=True)
    names = {item.id for item in first}
    by_hardware = sorted(newest.values(), key=lambda item: (not item.hardware.has_npus, item.coordinates.hardware))
    # the last of an engine stays, which is that of the first hardware
    whole = {(item.coordinates.framework, item.coordinates.engine): item.id for item in reversed(by_hardware)}
    yield from ((item, item.id in whole.values()) for item in first)
    yield from ((item, False) for item in rows if item.id not in names)
    yield from ((item, False) for item in sorted(environments, key=_age, reverse=True) if item.hardware.has_gpus)


def _age(environment: Environment) -> versions.Key:
    return versions.key(environment.coordinates.branch)


def code() -> str:
    """Return the code that builds and proves, as a digest."""
    files = (file for room in ROOMS for file in sorted((ROOT / "envbuilder" / room).rglob("*.*")))
    return sha256(b"".join(file.read_bytes() for file in files if "__pycache__" not in file.parts)).hexdigest()


class CommandError(Exception):
    """A command of envbuilder that failed, with its exit code and what it said."""

    def __init__(self, code: int, cause: str) -> None:
        super().__init__(cause)
        self.code = code


def prove(proof: Proof, options: Sequence[str], results: Path) -> None:
    """Build an environment, and record every run that passes, up to the first that fails."""
    name = proof.environment.id
    # where the usual run is proven, the build makes the image for the others
    ends = ["--record", "--report", f"{results / name}.json"] if USUAL in proof.runs else ["--no-validate"]
    run(["build", name, "--registry", REGISTRY, *proof.options, *options, *ends], results / f"{name}.log")
    for training in (item for item in proof.runs if item != USUAL):
        log = results / f"{name}-{training.backend or training.devices}.log"
        try:
            run(["validate", proof.image, "--device", proof.device, *training.options, "--record"], log)
        except CommandError as error:
            raise CommandError(error.code, f"{' '.join(training.options)}: {error}") from error


def prove_with_room(proof: Proof, options: Sequence[str], results: Path) -> None:
    """Prove an environment; if this machine lacks something for it, remove what earlier builds left and try again."""
    try:
        prove(proof, options, results)
    except CommandError as error:
        if error.code != HostError.exit_code or not is_ours():
            raise
        with _CLEANING:
            docker("builder", "prune", "--force", "--all")
        prove(proof, options, results)


def run(words: Sequence[str], log: Path) -> None:
    with log.open("w", encoding="utf-8") as file:
        # it ends with this process, however that ends
        command = ["setpriv", "--pdeathsig", "TERM", sys.executable, "-m", "envbuilder", *words]
        code = subprocess.run(command, stdout=file, stderr=file, cwd=ROOT, check=False).returncode  # noqa: S603
    if code != 0:
        raise CommandError(code, cause_of(log.read_text(encoding="utf-8")) or f"exit code {code}")


def cause_of(output: str) -> str:
    """Return the error that a command has printed, as one line."""
    errors = _ERROR.findall(output)
    lines = [line.strip() for line in errors[-1].splitlines() if line.strip()] if errors else []
    # the first line says that something failed, the others what
    cause = "; ".join(lines[1:] or lines)
    # of a proof the first words say most, of a build the last lines
    half = LONGEST_CAUSE // 2
    return cause if len(cause) <= LONGEST_CAUSE else f"{cause[:half]} ... {cause[-half:]}"


def remove_images(name: str = f"{REGISTRY}/*") -> None:
    """Remove the images of a name that were made here, and of our engine's build cache what is more than its bound."""
    names = docker("images", "--filter", f"reference={name}", "--format", "{{.Repository}}:{{.Tag}}").split()
    # a run that was killed leaves its container
    for container in {item for name in names for item in docker("ps", "-aq", "--filter", f"ancestor={name}").split()}:
        docker("rm", "--force", container)
    if names:
        docker("rmi", "--force", *names)
    if is_ours():
        docker("builder", "prune", "--force", "--keep-storage", BUILD_CACHE)


def is_ours() -> bool:
    """Return whether the engine is one of tools/engine.sh: what another one keeps belongs to its user."""
    return "/envbuilder/engine" in os.environ.get("DOCKER_HOST", "")


def docker(*words: str) -> str:
    return subprocess.run(["docker", *words], capture_output=True, text=True, check=True).stdout  # noqa: S603, S607


def main() -> None:
    given = arguments()
    tasks = list(planned(given))
    if given.dry_run:
        for task in tasks:
            runs = (f"[{' '.join(item.options)}]" for item in task.proof.runs)
            print(task.proof.environment.id, *task.proof.options, *runs)
        return
    os.nice(19)
    given.results.mkdir(parents=True, exist_ok=True)
    remove_images()
    if is_ours():
        docker("image", "prune", "--force")
    with ThreadPoolExecutor(given.workers) as pool:
        codes = pool.map(partial(attempt, given=given), tasks)
    sys.exit(max(codes, default=0))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("identifiers", nargs="*", help="identifiers or globs; all environments by default")
    parser.add_argument("--dry-run", action="store_true", help="only print what would be proven, in order")
    parser.add_argument("--again", action="store_true", help="also what is proven, and what would fail again")
    parser.add_argument("--arch", default=platforms.arch(), help="another one is emulated, and proven to level import")
    parser.add_argument("--matrices", type=Path, help="a folder of matrices of your own")
    parser.add_argument("--results", type=Path, default=ROOT / "results", help="the folder for logs and reports")
    parser.add_argument("--git-mirror")
    parser.add_argument("--workers", type=int, default=WORKERS, help="how many environments are proven at once")
    parser.add_argument("--jobs")
    return parser.parse_args()


def options_for(given: argparse.Namespace) -> list[str]:
    """Return the options that go to the commands of envbuilder as they are."""
    values = {f"--{name.replace('_', '-')}": getattr(given, name) for name in ("git_mirror", "jobs", "matrices")}
    return [str(word) for option, value in values.items() if value for word in (option, value)]


def planned(given: argparse.Namespace) -> Iterator[Task]:
    """Yield what is left to prove and would not fail again, in order."""
    matrix = load(given.matrices, everything=True)
    catalog, of_arch = Catalog(matrix), Filters(arch=given.arch)
    chosen = {item.id for item in catalog.select(tuple(given.identifiers), of_arch)}
    locked = [item for item in catalog.select((), of_arch) if item.lock is not None]
    rows, tool = fingerprints(matrix), code()
    for environment, in_all_ways in in_order(locked):
        if environment.id not in chosen:
            continue
        proof = left(environment, in_all_ways=in_all_ways)
        if given.again and USUAL not in proof.runs:
            proof = replace(proof, runs=(USUAL, *proof.runs))
        of = sha256(f"{rows[environment.id]}{tool}".encode()).hexdigest()[:16]
        would_fail = environment.failure is not None and environment.failure.of == of
        if proof.runs and (given.again or not would_fail):
            yield Task(proof, of)


def attempt(task: Task, given: argparse.Namespace) -> int:
    """Prove an environment, record a failure, and return the exit code of the command that failed, or 0."""
    environment, began = task.proof.environment, time.monotonic()
    if _LACKING.is_set():
        return HostError.exit_code
    print(f"{environment.id} ...", flush=True)
    record = partial(evidence.record_failure, given.matrices or paths.matrices(), environment.coordinates.folder)
    said, code = "proven", 0
    try:
        prove_with_room(task.proof, options_for(given), given.results)
        if environment.failure is not None:
            record(None)
    except CommandError as error:
        said, code = f"failed: {error}", error.code
        # the others would lack the same
        if code == HostError.exit_code:
            _LACKING.set()
        # what this machine or its network lacks says nothing of the environment
        if code not in {HostError.exit_code, NetworkError.exit_code}:
            machine = f"{processor(given.arch)}, {os.cpu_count()} cores, no NPU"
            record(evidence.failure(machine, str(error), task.of))
    repository, _, tag = task.proof.image.partition(":")
    # the engine refuses two prunings at once; a proof that failed leaves its image under another name
    with _CLEANING:
        remove_images(f"{repository}:*{tag}")
    print(f"{environment.id}: {said} ({time.monotonic() - began:.0f} s)", flush=True)
    return code


if __name__ == "__main__":
    main()
