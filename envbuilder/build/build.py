"""Builds an image: gathers the inputs, makes the plan, runs the engine, and keeps the wheels."""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from envbuilder import paths, platforms
from envbuilder.build.gather import Gathered, gather
from envbuilder.build.options import BuildOptions
from envbuilder.docker.buildkit import Listener, Silent, StepResult
from envbuilder.docker.buildx import Build, BuildError, run
from envbuilder.docker.engine import Docker
from envbuilder.docker.failures import build_failure
from envbuilder.environment import Environment
from envbuilder.errors import EnvbuilderError, HostError
from envbuilder.files import turn, workspace, write_text
from envbuilder.inputs.kept_wheels import WheelCache, inputs_of
from envbuilder.language import tr
from envbuilder.plan import Layer, Plan, SourceArchive, make_plan
from envbuilder.plan.plan import BILL_FILE, FILES, SOURCES
from envbuilder.progress import Progress
from envbuilder.project.files import lay_out_files
from envbuilder.render import build_context, build_steps, commands_of
from envbuilder.render.dockerfile import DOCKERFILE

_LAST_LINES = 30
_COMMAND_LINES = 12


@dataclass(frozen=True)
class Built:
    """An image that was built, under the name that was asked for."""

    # with builds of the package index where others are out of reach
    environment: Environment
    plan: Plan
    seconds: float
    # a step is None where the engine's progress did not mention it, which old engines do under load
    steps: tuple[tuple[str, StepResult | None], ...]
    sources: tuple[SourceArchive, ...]
    # by the stage that makes wheels: built or kept
    wheels: Mapping[str, str]
    log: Path


def build(environment: Environment, image: str, options: BuildOptions, docker: Docker, progress: Progress) -> Built:
    """Build the image of an environment under a name."""
    started = time.monotonic()
    docker.require_buildkit()
    _check_disk(environment, docker)
    log = paths.new_log(environment.id)
    waiting = partial(progress.say, tr("waiting for another build on this engine"))
    with workspace() as folder:
        gathered = gather(environment, options, docker, progress, folder / "bundle")
        plan = make_plan(gathered.environment, gathered.inputs)
        wheels = _wheels(plan, gathered, options)
        texts = build_context(plan, wheels.kept)
        titles = build_steps(plan, texts[DOCKERFILE])
        progress.expect([layer.title for layer in titles.values()])
        task = Build(
            context=_lay_out({**texts, BILL_FILE: gathered.bill}, gathered, wheels, folder / "context"),
            secrets=gathered.secrets,
            arguments={"BASE_IMAGE": gathered.base} | ({"MAX_JOBS": str(options.jobs)} if options.jobs else {}),
            platform=docker.platform(plan.arch),
            log=log,
            tag=image,
            no_cache=options.no_cache,
            is_cut_off=gathered.bundle is not None,
        )
        # an engine runs equal steps of concurrent builds once, with the secrets of one build, and old engines fail
        with turn(f"docker {docker.address}", waiting):
            try:
                steps = run(task, _LayerProgress(titles, progress))
                _keep_wheels(task, wheels, options.wheels, folder / "wheels", progress)
            except BuildError as error:
                raise _failure(plan.environment, error, titles, log) from error
    results = {(step.stage, step.number): step for step in steps}
    return Built(
        environment=gathered.environment,
        plan=plan,
        seconds=time.monotonic() - started,
        steps=tuple((layer.title, results.get(key)) for key, layer in titles.items()),
        sources=tuple(gathered.sources.values()),
        wheels={name: "kept" if name in wheels.kept else "built" for name in wheels.inputs},
        log=log,
    )


@dataclass(frozen=True)
class _Wheels:
    """By the stage that makes wheels: what they are made from, and those that an earlier build has kept."""

    inputs: Mapping[str, Mapping[str, Any]]
    kept: Mapping[str, list[Path]]


def _wheels(plan: Plan, gathered: Gathered, options: BuildOptions) -> _Wheels:
    # a wheel for the CPU may use all instructions of the machine that compiles it; one for the NPU does not
    is_for_here = gathered.environment.hardware.cpu_only and plan.arch == platforms.arch()
    instructions = platforms.cpu_features() if is_for_here else plan.arch
    inputs = {
        stage.name: inputs_of(plan, stage, gathered.base_id, instructions, gathered.sources)
        for stage in plan.wheel_stages
    }
    cached = {} if options.no_cache else {name: options.wheels.find(name, value) for name, value in inputs.items()}
    return _Wheels(inputs, {name: wheels for name, wheels in cached.items() if wheels})


def _keep_wheels(task: Build, wheels: _Wheels, cache: WheelCache, folder: Path, progress: Progress) -> None:
    """Keep the wheels that the build made. Its stages have just run, so that this only copies their files."""
    made = wheels.inputs.keys() - wheels.kept.keys()
    if not made:
        return
    run(replace(task, tag=None, target="wheels", output=folder, no_cache=False), Silent())
    for name in made:
        try:
            cache.keep(name, wheels.inputs[name], sorted((folder / name).glob("*.whl")))
        except OSError as error:
            progress.say(tr("warning: {name} is not kept for other builds: {reason}", name=name, reason=error))


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


def _failure(
    environment: str, error: BuildError, titles: Mapping[tuple[str, int], Layer], log: Path
) -> EnvbuilderError:
    layer = titles.get((error.step.stage, error.step.number)) if error.step else None
    command = commands_of(layer).splitlines() if layer else []
    left_out = len(command) - _COMMAND_LINES
    if left_out > 0:
        command[_COMMAND_LINES:] = [tr("    ... and {number} more lines", number=left_out)]
    output, title = error.lines[-_LAST_LINES:], layer.title if layer else tr("the Dockerfile")
    lines = [
        tr("building {environment} failed in '{layer}'", environment=environment, layer=title),
        *(f"  $ {line}" if number == 0 else f"  {line}" for number, line in enumerate(command)),
        *(f"  | {line}" for line in output),
    ]
    return build_failure("\n".join(lines), error.lines, log)


def _check_disk(environment: Environment, docker: Docker) -> None:
    free, needed = docker.free_bytes(), environment.disk_gb
    if free is not None and free < needed * 10**9:
        raise HostError(
            tr(
                "a build of {environment} needs about {needed} GB; {free} GB are free at the engine's root",
                environment=environment.id,
                needed=needed,
                free=f"{free / 10**9:.1f}",
            ),
            hint=tr("run docker system prune, or use an engine whose root is on another disk"),
        )


def _lay_out(texts: Mapping[str, str], gathered: Gathered, wheels: _Wheels, folder: Path) -> Path:
    """Write the build context: texts, source archives, kept wheels, and the files of a bundle."""
    (folder / SOURCES).mkdir(parents=True)
    for path, text in texts.items():
        write_text(folder / path, text)
    if gathered.bundle is not None:
        gathered.bundle.lay_out(folder)
    for source in (item for item in gathered.sources.values() if item.sha256):
        shutil.copyfile(source.archive, folder / SOURCES / source.archive.name)
    if additions := gathered.environment.additions:
        lay_out_files(additions, folder / FILES)
    for name, files in wheels.kept.items():
        place = folder / "wheels" / name
        place.mkdir(parents=True)
        for wheel in files:
            shutil.copyfile(wheel, place / wheel.name)
    # all users of the image must be able to read the files, and docker's cache compares content and mode
    for item in folder.rglob("*"):
        if not item.is_symlink():
            item.chmod(0o755 if item.is_dir() or item.stat().st_mode & 0o100 else 0o644)
    return folder
