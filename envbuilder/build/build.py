"""Runs a build: gets the inputs, renders a clean context, builds, keeps the wheels, proves the image, reports."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from envbuilder import paths, platforms
from envbuilder.build.bill_of_materials import bill_of_materials
from envbuilder.bundle import Bundle, as_bundled, bundle_of
from envbuilder.docker.buildkit import Listener, Silent, StepResult
from envbuilder.docker.buildx import Build, BuildError, run
from envbuilder.docker.engine import Docker
from envbuilder.docker.failures import hint_with_log
from envbuilder.environment import Environment
from envbuilder.environment.image_names import FALLBACK, candidate_name
from envbuilder.errors import EnvbuilderError
from envbuilder.files import turn, workspace, write_text
from envbuilder.inputs.base_image import BaseImageOptions, base_image
from envbuilder.inputs.kept_wheels import WheelCache, inputs_of
from envbuilder.inputs.other_indexes import within_reach
from envbuilder.inputs.source_archives import SourceOptions, obtain_all
from envbuilder.inputs.stand_in_base import stand_in_base
from envbuilder.network import Network, offline_network
from envbuilder.plan import Layer, Plan, SourceArchive, make_plan
from envbuilder.plan.plan import SOURCE_DATE_EPOCH, SOURCES
from envbuilder.progress import Progress
from envbuilder.render import build_context, commands_of
from envbuilder.validate import Report, ValidationOptions
from envbuilder.validate.gate import pass_gate

_BILL = "sbom.cdx.json"
_LAST_LINES = 30
_COMMAND_LINES = 12


@dataclass(frozen=True)
class BuildOptions:
    """What a user chooses for a build."""

    # None if everything comes from a bundle
    sources: SourceOptions | None
    network: Network
    wheels: WheelCache
    base: BaseImageOptions
    registry: str = "envbuilder"
    # the bundle that everything comes from, for builds without a network
    offline: Path | None = None
    no_cache: bool = False
    jobs: int | None = None
    push: bool = False
    # how far the image must be proven before it gets its name; None if it need not be
    validation: ValidationOptions | None = None


@dataclass(frozen=True)
class Built:
    """The result of a build."""

    environment: str
    image: str
    labels: Mapping[str, str]
    id: str
    size: int
    seconds: float
    # a step is None where the engine's progress did not mention it, which old engines do under load
    steps: tuple[tuple[str, StepResult | None], ...]
    sources: tuple[SourceArchive, ...]
    wheels: Mapping[str, str]
    log: Path
    digest: str | None
    # None if the image was not proven, or had been proven before
    proof: Report | None

    def report(self) -> dict[str, Any]:
        return {
            "environment": self.environment,
            "image": self.image,
            "id": self.id,
            "digest": self.digest,
            "size": self.size,
            "seconds": round(self.seconds, 1),
            "steps": [
                {
                    "title": title,
                    "seconds": round(step.seconds, 1) if step else None,
                    "cached": step.cached if step else None,
                }
                for title, step in self.steps
            ],
            "sources": [
                {"component": item.component, "kind": item.kind, "reference": item.reference, "sha256": item.sha256}
                for item in self.sources
            ],
            "wheels": dict(self.wheels),
            "fallback": self.labels.get(FALLBACK),
            "log": str(self.log),
            "validation": {**self.proof.document(), "digest": self.proof.digest} if self.proof else None,
        }


def build(environment: Environment, options: BuildOptions, docker: Docker, progress: Progress) -> Built:
    """Build the image of an environment, prove it if that is wanted, and return the result."""
    started = time.monotonic()
    docker.require_buildkit()
    _check_disk(environment, docker)
    if options.offline is not None:
        environment = as_bundled(environment, options.offline)
    else:
        environment = within_reach(environment, options.network.ca_bundle, progress.say)
    image, log = environment.image_name(options.registry), paths.new_log(environment.id)
    waiting = partial(progress.say, "waiting for another build on this engine")
    with workspace() as folder:
        prepared = _prepare(environment, options, docker, progress, folder)
        titles = _titles(prepared.plan)
        progress.expect([layer.title for layer in titles.values()])
        task = Build(
            context=_context(folder / "context", prepared),
            secrets=prepared.secrets,
            arguments={"BASE_IMAGE": prepared.base} | ({"MAX_JOBS": str(options.jobs)} if options.jobs else {}),
            platform=docker.platform(environment.coordinates.arch),
            log=log,
            tag=candidate_name(image) if options.validation else image,
            no_cache=options.no_cache,
            is_cut_off=prepared.bundle is not None,
        )
        # an engine runs equal steps of concurrent builds once, with the secrets of one build, and old engines fail
        with turn(f"docker {docker.address}", waiting):
            try:
                steps = run(task, _LayerProgress(titles, progress))
                _keep_wheels(task, prepared, options.wheels, folder / "wheels", progress)
            except BuildError as error:
                raise _failure(environment, error, titles, log) from error
    proof = None
    if options.validation is not None:
        proof = pass_gate(environment, image, docker, options.validation, progress)
    digest = docker.push(image) if options.push else None
    found = docker.image(image)
    assert found is not None  # noqa: S101  the build has just tagged it
    results = {(step.stage, step.number): step for step in steps}
    return Built(
        environment=environment.id,
        image=image,
        labels=found.labels,
        id=found.id,
        size=found.size,
        seconds=time.monotonic() - started,
        steps=tuple((layer.title, results.get(key)) for key, layer in titles.items()),
        sources=tuple(prepared.sources.values()),
        wheels={name: "kept" if name in prepared.kept else "built" for name in prepared.inputs},
        log=log,
        digest=digest,
        proof=proof,
    )


@dataclass(frozen=True)
class _Prepared:
    """The inputs of a build, all on this machine."""

    base: str
    sources: Mapping[str, SourceArchive]
    bundle: Bundle | None
    secrets: Mapping[str, str]
    plan: Plan
    bill: str
    # by the stage that makes wheels: the inputs of the wheels, and the wheels that an earlier build has kept
    inputs: Mapping[str, Mapping[str, Any]]
    kept: Mapping[str, list[Path]]


def _prepare(
    environment: Environment, options: BuildOptions, docker: Docker, progress: Progress, folder: Path
) -> _Prepared:
    needed = make_plan(environment)
    if options.offline is not None:
        progress.say(f"comparing every byte of {options.offline}")
        bundle = bundle_of(environment, options.offline, folder / "bundle", for_build=True)
        base, sources, network = _load(bundle, docker), bundle.sources, offline_network()
    else:
        assert options.sources is not None  # noqa: S101
        bundle, network = None, options.network
        if environment.on_stand_in:
            base = stand_in_base(environment, options.base, network, docker, progress.say)
        else:
            base = base_image(environment, options.base, docker, progress.say)
        sources = obtain_all(environment, needed.components, options.sources, progress.say)
    found = docker.image(base)
    base_id = found.id if found else ""
    secrets = network.secrets()
    plan = replace(make_plan(environment, sources).reading(secrets), bill=_BILL)
    plan = plan.cut_off() if bundle else plan
    # a wheel for the CPU may use all instructions of the machine that compiles it; one for the NPU does not
    arch = environment.coordinates.arch
    is_for_here = environment.hardware.rehearsal and arch == platforms.arch()
    instructions = platforms.cpu_features() if is_for_here else arch
    inputs = {stage.name: inputs_of(plan, stage, base_id, instructions, sources) for stage in plan.wheel_stages}
    cached = {} if options.no_cache else {name: options.wheels.find(name, value) for name, value in inputs.items()}
    kept = {name: wheels for name, wheels in cached.items() if wheels}
    bill = bill_of_materials(environment, sources, base, base_id)
    return _Prepared(base, sources, bundle, secrets, plan.keeping(kept), bill, inputs, kept)


def _load(bundle: Bundle, docker: Docker) -> str:
    """Load the base image of a bundle, unless the engine has it from an earlier build, and return its name."""
    assert bundle.base_image is not None  # noqa: S101  it was opened for a build
    if docker.image(bundle.base_image) is None:
        docker.load(bundle.base_archive, bundle.base_image)
    return bundle.base_image


def _keep_wheels(task: Build, prepared: _Prepared, cache: WheelCache, folder: Path, progress: Progress) -> None:
    """Keep the wheels that the build made. Its stages have just run, so that this only copies their files."""
    made = prepared.inputs.keys() - prepared.kept.keys()
    if not made:
        return
    run(replace(task, tag=None, target="wheels", output=folder, no_cache=False), Silent())
    for name in made:
        try:
            cache.keep(name, prepared.inputs[name], sorted((folder / name).glob("*.whl")))
        except OSError as error:
            progress.say(f"warning: {name} is not kept for other builds: {error}")


class _LayerProgress(Listener):
    """Reports the steps that are layers of the plan, under the titles of the layers."""

    def __init__(self, titles: Mapping[tuple[str, int], Layer], progress: Progress) -> None:
        self._titles, self._progress = titles, progress

    def started(self, step: StepResult) -> None:
        if layer := self._titles.get((step.stage, step.number)):
            self._progress.started(layer.title)

    def said(self, step: StepResult, line: str) -> None:
        if layer := self._titles.get((step.stage, step.number)):
            self._progress.said(layer.title, line)

    def ended(self, step: StepResult) -> None:
        if layer := self._titles.get((step.stage, step.number)):
            how = "failed" if step.failed else "cached" if step.cached else f"{step.seconds:.1f} s"
            self._progress.ended(layer.title, how)


def _titles(plan: Plan) -> dict[tuple[str, int], Layer]:
    """Return the layers by the stage and number of BuildKit.

    Only a stage upon an image counts its FROM, and it makes a folder before its layers.
    """
    return {
        (stage.name, number): layer
        for stage in plan.stages
        for number, layer in enumerate(stage.layers, 1 if stage.parent else 4)
    }


def _failure(
    environment: Environment, error: BuildError, titles: Mapping[tuple[str, int], Layer], log: Path
) -> EnvbuilderError:
    layer = titles.get((error.step.stage, error.step.number)) if error.step else None
    command = commands_of(layer).splitlines() if layer else []
    left_out = len(command) - _COMMAND_LINES
    if left_out > 0:
        command[_COMMAND_LINES:] = [f"    ... and {left_out} more lines"]
    output = error.lines[-_LAST_LINES:]
    return EnvbuilderError(
        "\n".join(
            [
                f"building {environment.id} failed in '{layer.title if layer else 'the Dockerfile'}'",
                *(f"  $ {line}" if number == 0 else f"  {line}" for number, line in enumerate(command)),
                *(f"  | {line}" for line in output),
            ]
        ),
        hint=hint_with_log(error.lines, log),
    )


def _check_disk(environment: Environment, docker: Docker) -> None:
    free, needed = docker.free_bytes(), environment.disk_gb
    if free is not None and free < needed * 10**9:
        raise EnvbuilderError(
            f"a build of {environment.id} needs about {needed} GB; {free / 10**9:.1f} GB are free at the engine's root",
            hint="run docker system prune, or use an engine whose root is on another disk",
        )


def _context(folder: Path, prepared: _Prepared) -> Path:
    (folder / SOURCES).mkdir(parents=True)
    for path, text in {**build_context(prepared.plan), _BILL: prepared.bill}.items():
        write_text(folder / path, text)
    if prepared.bundle is not None:
        prepared.bundle.lay_out(folder)
    for source in prepared.sources.values():
        shutil.copyfile(source.archive, folder / SOURCES / source.archive.name)
    for name, wheels in prepared.kept.items():
        place = folder / "wheels" / name
        place.mkdir(parents=True)
        for wheel in wheels:
            shutil.copyfile(wheel, place / wheel.name)
    # all users of the image must be able to read the files, docker's cache compares content and mode, and a layer
    # has the times of what it copies
    for item in folder.rglob("*"):
        item.chmod(0o755 if item.is_dir() else 0o644)
        os.utime(item, (SOURCE_DATE_EPOCH, SOURCE_DATE_EPOCH))
    return folder
