"""The order of the stages of a build: judge, get sources, render into a clean context, build, report."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from envbuilder.backends.debian import base_name, make_base
from envbuilder.backends.engine import BuildError, Engine, StepResult, unreachable
from envbuilder.check import Finding, check_environment
from envbuilder.errors import EnvbuilderError, MatrixError
from envbuilder.host import Network
from envbuilder.matrix import Matrix
from envbuilder.plan import Plan, Source, components_to_build, make_plan
from envbuilder.render import render_dockerfile
from envbuilder.resolve import Environment
from envbuilder.sources import Origin, obtain
from envbuilder.values import expand

_SECRET_LIMIT = 500 * 1024
_CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----[A-Za-z0-9+/=\s]+-----END CERTIFICATE-----")


@dataclass(frozen=True)
class Request:
    """What a user asks of a build."""

    origin: Origin
    network: Network
    registry: str = "envbuilder"
    base_image: str | None = None
    no_cache: bool = False
    jobs: int | None = None


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
    log: Path

    def report(self) -> dict[str, Any]:
        return {
            "environment": self.environment,
            "image": self.image,
            "id": self.id,
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
                {"component": item.component, "kind": item.kind, "reference": item.reference} for item in self.sources
            ],
            "log": str(self.log),
        }


def image_name(matrix: Matrix, environment: Environment, registry: str) -> str:
    """`<registry>/<framework>:<branch>-<what the hardware says>-<engine>-<arch>`, in lower case as registries want."""
    where = environment.coordinates
    middle = expand(environment.hardware.image_tag, matrix, environment, environment.hardware.where)
    return f"{registry}/{where.framework}:{where.branch}-{middle}-{where.engine}-{where.arch}".lower()


def judge(matrix: Matrix, environment: Environment) -> list[Finding]:
    """The warnings of an environment; an error stops the build, and nothing forces it."""
    findings = check_environment(matrix, environment)
    for finding in findings:
        if finding.severity == "error":
            raise MatrixError.of(finding.message, finding.where, finding.hint)
    return [finding for finding in findings if finding.severity == "warning"]


def build(
    matrix: Matrix, environment: Environment, request: Request, engine: Engine, talk: Callable[[str], None]
) -> Built:
    started = time.monotonic()
    _check_disk(environment, engine)
    base = request.base_image or _base_image(matrix, environment, engine, talk)
    sources = {
        name: obtain(matrix, environment, name, request.origin, talk)
        for name in components_to_build(matrix, environment)
    }
    plan = make_plan(matrix, environment, sources)
    image = image_name(matrix, environment, request.registry)
    titles = step_titles(plan)
    log = (
        Path(os.environ.get("XDG_STATE_HOME") or "~/.local/state").expanduser() / "envbuilder" / f"{environment.id}.log"
    )

    def on_step(step: StepResult, ended: bool) -> None:
        title = titles.get(step.number)
        if title and ended and not step.failed:
            talk(f"  {title}: {'cached' if step.cached else f'{step.seconds:.1f} s'}")
        elif title and not ended:
            talk(f"  {title} ...")

    with tempfile.TemporaryDirectory(prefix="envbuilder-") as folder:
        context = _context(Path(folder) / "context", plan, sources)
        secrets = _secrets(Path(folder), request.network)
        arguments = {"BASE_IMAGE": base} | ({"MAX_JOBS": str(request.jobs)} if request.jobs else {})
        try:
            steps = engine.build(
                context,
                tag=image,
                secrets=secrets,
                arguments=arguments,
                no_cache=request.no_cache,
                log=log,
                on_step=on_step,
            )
        except BuildError as error:
            title = titles.get(error.step.number, "a step") if error.step else "the Dockerfile"
            raise EnvbuilderError(
                f"building {environment.id} failed in '{title}':\n" + "\n".join(f"    {line}" for line in error.lines),
                hint="; ".join(filter(None, (error.hint, f"the whole log: {log}"))),
            ) from error
    found = engine.image(image)
    assert found is not None  # noqa: S101  the engine has just tagged it
    told = {step.number: step for step in steps}
    named = tuple((title, told.get(number)) for number, title in titles.items())
    return Built(
        environment.id, image, found.id, found.size, time.monotonic() - started, named, tuple(sources.values()), log
    )


def step_titles(plan: Plan) -> dict[int, str]:
    """The instructions of the final stage by number; the first is FROM."""
    before = [layer.title for layer in plan.layers if layer.only_in_images]
    after = [layer.title for layer in plan.layers if not layer.only_in_images]
    return dict(enumerate((*before, "tools", *after), 2))


def _check_disk(environment: Environment, engine: Engine) -> None:
    free, needed = engine.free_bytes(), environment.hardware.disk_gb
    if free is not None and free < needed * 10**9:
        raise EnvbuilderError(
            f"a build of {environment.id} needs about {needed} GB; {free / 10**9:.1f} GB are free at the engine's root",
            hint="docker system prune, or an engine with its root elsewhere",
        )


def _base_image(matrix: Matrix, environment: Environment, engine: Engine, talk: Callable[[str], None]) -> str:
    """The row's base image; where no registry answers, one made here, if the hardware knows how."""
    wanted = make_plan(matrix, environment).base_image
    if engine.image(wanted) is not None:
        return wanted
    talk(f"pulling {wanted}")
    if engine.pull(wanted):
        return wanted
    local = environment.hardware.local_base
    if local is None or local.python != environment.version("python"):
        raise unreachable(wanted)
    how = "using the equal one made here" if engine.image(base_name(local)) else "making an equal one here"
    talk(f"{wanted} cannot be pulled; {how} from the packages of Debian {local.suite}")
    return make_base(engine, local)


def _context(folder: Path, plan: Plan, sources: dict[str, Source]) -> Path:
    (folder / "sources").mkdir(parents=True)
    (folder / "Dockerfile").write_text(render_dockerfile(plan), encoding="utf-8")
    if plan.lock is not None:
        (folder / f"{plan.environment}.txt").write_text(plan.lock, encoding="utf-8")
    for source in sources.values():
        shutil.copyfile(source.archive, folder / "sources" / source.archive.name)
    return folder


def _secrets(folder: Path, network: Network) -> dict[str, Path]:
    """Files outside the context, readable by this user alone, and gone with the build."""
    secret = folder / "network"
    secret.touch(mode=0o600)
    secret.write_text(network.secret(), encoding="utf-8")
    secrets = {"network": secret}
    if network.ca_bundle:
        bundle = folder / "ca"
        bundle.write_text(
            certificates(network.ca_bundle.read_text(encoding="utf-8", errors="replace")), encoding="ascii"
        )
        if bundle.stat().st_size > _SECRET_LIMIT:
            raise EnvbuilderError(
                f"the certificates of {network.ca_bundle} are more than a build secret may hold (500 KiB)",
                hint="give --ca-bundle a file with fewer of them: the public ones and those that the network adds",
            )
        secrets["ca"] = bundle
    return secrets


def certificates(bundle: str) -> str:
    """The certificates of a bundle, each once and without the prose that often makes up half of it."""
    return "\n".join(dict.fromkeys(_CERTIFICATE.findall(bundle))) + "\n"
