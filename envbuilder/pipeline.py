"""The order of the stages of a build: judge, get sources, render into a clean context, build, keep, prove, report."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from envbuilder import host, resources
from envbuilder.backends.build import Build, BuildError, run
from envbuilder.backends.buildkit import Listener, StepResult
from envbuilder.backends.debian import base_name, make_base
from envbuilder.backends.engine import Engine, unreachable
from envbuilder.backends.failures import hint_of
from envbuilder.check import Finding, check_environment
from envbuilder.errors import EnvbuilderError, MatrixError
from envbuilder.gate import pass_gate
from envbuilder.host import Network
from envbuilder.matrix import Matrix
from envbuilder.model import LocalBase
from envbuilder.names import PLATFORMS, candidate_name, image_name
from envbuilder.plan import Layer, Plan, Source, make_plan
from envbuilder.render import commands_of, render_dockerfile
from envbuilder.resolve import Environment
from envbuilder.sbom import bill_of_materials
from envbuilder.sources import Origin, obtain
from envbuilder.validate import Report, Wish
from envbuilder.watching import Progress
from envbuilder.wheels import WheelCache, inputs_of
from envbuilder.workspace import turn, workspace

_BILL = "sbom.cdx.json"
_LAST_LINES = 30
_COMMAND_LINES = 12


@dataclass(frozen=True)
class Request:
    """What a user asks of a build."""

    origin: Origin
    network: Network
    wheels: WheelCache
    registry: str = "envbuilder"
    base_image: str | None = None
    registry_mirror: str | None = None
    no_cache: bool = False
    jobs: int | None = None
    push: bool = False
    # how far the image must be proven before it gets its name; None for not at all
    wish: Wish | None = None


@dataclass(frozen=True)
class Built:
    """What came of it."""

    environment: str
    image: str
    id: str
    size: int
    seconds: float
    # a step is None where the engine's progress did not mention it, which old engines do under load
    steps: tuple[tuple[str, StepResult | None], ...]
    sources: tuple[Source, ...]
    wheels: Mapping[str, str]
    log: Path
    digest: str | None
    # None where nothing was proven, or nothing anew
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
            "log": str(self.log),
            "validation": {**self.proof.document(), "digest": self.proof.digest} if self.proof else None,
        }


def judge(matrix: Matrix, environment: Environment) -> list[Finding]:
    """The warnings of an environment; an error stops the build, and nothing forces it."""
    findings = check_environment(matrix, environment)
    for finding in findings:
        if finding.severity == "error":
            raise MatrixError.of(finding.message, finding.where, finding.hint)
    return [finding for finding in findings if finding.severity == "warning"]


def build(matrix: Matrix, environment: Environment, request: Request, engine: Engine, progress: Progress) -> Built:
    started = time.monotonic()
    engine.require_buildkit()
    _check_disk(environment, engine)
    prepared = _prepare(matrix, environment, request, engine, progress)
    image, log = image_name(matrix, environment, request.registry), resources.new_log(environment.id)
    titles = _titles(prepared.plan)
    progress.expect([layer.title for layer in titles.values()])
    # the engine runs equal steps of concurrent builds once, with the secrets of one of them; and old ones fail over it
    waiting = partial(progress.say, "waiting for another build on this engine")
    with workspace() as folder, turn(f"engine {engine.address}", waiting):
        task = Build(
            context=_context(folder / "context", prepared),
            secrets=prepared.secrets,
            arguments={"BASE_IMAGE": prepared.base} | ({"MAX_JOBS": str(request.jobs)} if request.jobs else {}),
            platform=_platform(environment, engine),
            log=log,
            tag=candidate_name(image) if request.wish else image,
            no_cache=request.no_cache,
        )
        try:
            steps = run(task, _Told(titles, progress))
            _keep_wheels(task, prepared, request.wheels, folder / "wheels")
        except BuildError as error:
            raise _failure(environment, error, titles, log) from error
    proof = None
    if request.wish is not None:
        proof = pass_gate(matrix, environment, image, engine, request.wish, progress)
    digest = engine.push(image) if request.push else None
    found = engine.image(image)
    assert found is not None  # noqa: S101  the engine has just tagged it
    told = {(step.stage, step.number): step for step in steps}
    return Built(
        environment=environment.id,
        image=image,
        id=found.id,
        size=found.size,
        seconds=time.monotonic() - started,
        steps=tuple((layer.title, told.get(key)) for key, layer in titles.items()),
        sources=tuple(prepared.sources.values()),
        wheels={name: "kept" if name in prepared.kept else "built" for name in prepared.inputs},
        log=log,
        digest=digest,
        proof=proof,
    )


@dataclass(frozen=True)
class _Prepared:
    """Everything that a build needs, lying ready."""

    base: str
    sources: Mapping[str, Source]
    secrets: Mapping[str, str]
    plan: Plan
    bill: str
    # by the stage that makes wheels: what goes into them, and the wheels where they are there already
    inputs: Mapping[str, Mapping[str, Any]]
    kept: Mapping[str, list[Path]]


def _prepare(
    matrix: Matrix, environment: Environment, request: Request, engine: Engine, progress: Progress
) -> _Prepared:
    needed = make_plan(matrix, environment)
    base = _base_image(needed.base_image, environment, request, engine, progress)
    found = engine.image(base)
    base_id = found.id if found else ""
    sources = {name: obtain(matrix, environment, name, request.origin, progress.say) for name in needed.components}
    secrets = request.network.secrets()
    more = tuple(name for name in secrets if name not in {"network", "ca"})
    plan = replace(make_plan(matrix, environment, sources), more_secrets=more, bill=_BILL)
    # a wheel for the CPU uses what the machine that compiles it has; one for the NPU does not
    instructions = host.cpu_features() if environment.hardware.rehearsal else environment.coordinates.arch
    inputs = {stage.name: inputs_of(plan, stage, base_id, instructions, sources) for stage in plan.wheel_stages}
    there = {} if request.no_cache else {name: request.wheels.find(name, value) for name, value in inputs.items()}
    kept = {name: wheels for name, wheels in there.items() if wheels}
    bill = bill_of_materials(matrix, environment, plan, sources, base, base_id)
    return _Prepared(base, sources, secrets, plan.keeping(kept), bill, inputs, kept)


def _keep_wheels(task: Build, prepared: _Prepared, cache: WheelCache, folder: Path) -> None:
    """The stages have just run, so this only copies what they made."""
    made = prepared.inputs.keys() - prepared.kept.keys()
    if not made:
        return
    run(replace(task, tag=None, target="wheels", output=folder, no_cache=False), _Silent())
    for name in made:
        cache.keep(name, prepared.inputs[name], sorted((folder / name).glob("*.whl")))


class _Silent(Listener):
    def started(self, step: StepResult) -> None: ...
    def said(self, step: StepResult, line: str) -> None: ...
    def ended(self, step: StepResult) -> None: ...


class _Told(Listener):
    """Passes on what concerns the layers of the plan, under their titles."""

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
    """The layers by the stage and number that BuildKit knows them by; only a stage upon an image counts its FROM."""
    return {
        (stage.name, number): layer
        for stage in plan.stages
        for number, layer in enumerate(stage.layers, 1 if stage.parent else 2)
    }


def _failure(
    environment: Environment, error: BuildError, titles: Mapping[tuple[str, int], Layer], log: Path
) -> EnvbuilderError:
    layer = titles.get((error.step.stage, error.step.number)) if error.step else None
    command = commands_of(layer).splitlines() if layer else []
    left_out = len(command) - _COMMAND_LINES
    if left_out > 0:
        command[_COMMAND_LINES:] = [f"    ... and {left_out} more lines"]
    said = error.lines[-_LAST_LINES:]
    return EnvbuilderError(
        "\n".join(
            [
                f"building {environment.id} failed in '{layer.title if layer else 'the Dockerfile'}'",
                *(f"  $ {line}" if number == 0 else f"  {line}" for number, line in enumerate(command)),
                *(f"  | {line}" for line in said),
            ]
        ),
        hint="; ".join(filter(None, (hint_of(error.lines), f"the whole log: {log}"))),
    )


def _check_disk(environment: Environment, engine: Engine) -> None:
    free, needed = engine.free_bytes(), environment.hardware.disk_gb
    if free is not None and free < needed * 10**9:
        raise EnvbuilderError(
            f"a build of {environment.id} needs about {needed} GB; {free / 10**9:.1f} GB are free at the engine's root",
            hint="docker system prune, or an engine with its root elsewhere",
        )


def _platform(environment: Environment, engine: Engine) -> str | None:
    """None where the engine builds for itself."""
    return None if environment.coordinates.arch == engine.arch else PLATFORMS[environment.coordinates.arch]


def _base_image(standard: str, environment: Environment, request: Request, engine: Engine, progress: Progress) -> str:
    """The row's base image; where no registry answers, one made here, if the hardware knows how."""
    wanted = request.base_image or standard
    if request.registry_mirror:
        wanted = f"{request.registry_mirror.rstrip('/')}/{wanted.partition('/')[2]}"
    if engine.image(wanted) is not None:
        return wanted
    local = environment.hardware.local_base
    if request.base_image or environment.coordinates.arch != engine.arch:
        local = None
    # one that was made here is not asked for again, unless somebody says where to ask
    if local is None or request.registry_mirror or engine.image(base_name(local)) is None:
        progress.say(f"pulling {wanted}")
        trouble = engine.pull(wanted, _platform(environment, engine))
        if trouble is None:
            return wanted
        if local is None:
            raise unreachable(wanted, trouble)
        progress.say(f"{wanted} cannot be pulled: {trouble}")
    return local_base(engine, local, standard, request.network.apt_mirror, progress.say)


def local_base(
    engine: Engine, local: LocalBase, standard: str, apt_mirror: str | None, say: Callable[[str], None]
) -> str:
    """The base image that is made here in place of the standard one."""
    name = base_name(local)
    made = f"from the packages of Debian {local.suite} in place of {standard}"
    say(f"base image {name}, made here {made}" if engine.image(name) else f"making base image {name} {made}")
    return make_base(engine, local, apt_mirror)


def _context(folder: Path, prepared: _Prepared) -> Path:
    (folder / "sources").mkdir(parents=True)
    (folder / "Dockerfile").write_text(render_dockerfile(prepared.plan), encoding="utf-8")
    (folder / _BILL).write_text(prepared.bill, encoding="utf-8")
    if prepared.plan.lock is not None:
        (folder / f"{prepared.plan.environment}.txt").write_text(prepared.plan.lock, encoding="utf-8")
    for source in prepared.sources.values():
        shutil.copyfile(source.archive, folder / "sources" / source.archive.name)
    for name, wheels in prepared.kept.items():
        place = folder / "wheels" / name
        place.mkdir(parents=True)
        for wheel in wheels:
            # with the mode that a build gives them: the engine finds the layer again by content and mode
            shutil.copyfile(wheel, place / wheel.name)
            (place / wheel.name).chmod(0o644)
        place.chmod(0o755)
    return folder
