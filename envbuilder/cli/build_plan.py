"""Shows what builds would do, without building."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from envbuilder.cli.console import Console
from envbuilder.environment import Environment
from envbuilder.environment.locks import UNHASHED
from envbuilder.language import counted, tr
from envbuilder.matrix.model import Evidence

if TYPE_CHECKING:
    from envbuilder.build.foresee import Foreseen
    from envbuilder.build.options import BuildOptions
    from envbuilder.plan import Plan


class Planned(NamedTuple):
    """What a build would take, and what it would do."""

    foreseen: Foreseen
    plan: Plan


def planned(environment: Environment, options: BuildOptions, say: Callable[[str], None]) -> Planned:
    from envbuilder.build.foresee import foresee

    foreseen = foresee(environment, options, say)
    return Planned(foreseen, _plan(foreseen.environment, options))


def show_plan(console: Console, planned: Planned, registry: str) -> None:
    environment = planned.foreseen.environment
    console.heading(environment.id)
    for title, text in _lines(planned, registry):
        console.entry(title, text, indent=2)
    console.talk()
    if planned.foreseen.error is not None:
        return
    console.talk(
        tr("without --dry-run it is built")
        if environment.on_stand_in
        else tr(
            "`envbuilder render {environment}` prints the Dockerfile; without --dry-run it is built",
            environment=environment.id,
        )
    )


def plan_data(planned: Planned, registry: str) -> dict[str, Any]:
    """Return the data of a dry run about an environment."""
    foreseen, plan = planned
    environment = foreseen.environment
    lock, last, least = environment.lock, _last_build(environment), environment.least_driver
    return {
        "environment": environment.id,
        "image": environment.image_name(registry),
        "base_image": foreseen.base_image,
        "driver": least.version if least else None,
        "rehearsal": environment.on_stand_in,
        "offline": bool(plan.offline),
        "packages": len(lock.packages) if lock else None,
        "unhashed": [item.name for item in lock.parts[UNHASHED]] if lock else [],
        "from_git": list(foreseen.repositories),
        "layers": [layer.title for layer in plan.layers],
        "compiles": _compiled(plan),
        "left_out": [asdict(item) for item in plan.left_out],
        "disk_gb": environment.disk_gb,
        "last_build": last
        and {"date": last.date, "seconds": last.seconds, "machine": last.machine, "size_gb": last.size_gb},
    }


def _plan(environment: Environment, options: BuildOptions) -> Plan:
    """Return the plan of the build; of a bundle only the description is read."""
    from envbuilder.plan import Inputs, make_plan

    if options.offline is None:
        return make_plan(environment)
    from envbuilder.bundle import as_bundled, bundle_of

    environment = as_bundled(environment, options.offline)
    bundle = bundle_of(environment, options.offline, Path(), options.keys, for_build=True, unpack=False)
    return make_plan(environment, Inputs(bundle.sources, offline=True))


def _lines(planned: Planned, registry: str) -> Iterator[tuple[str, str]]:
    foreseen, plan = planned
    environment = foreseen.environment
    yield tr("image"), environment.image_name(registry)
    yield tr("base image"), foreseen.base_image
    if (least := environment.least_driver) and not environment.on_stand_in:
        yield tr("driver"), tr("{version} or later", version=least.version)
    yield tr("installs"), _packages(environment)
    if foreseen.repositories:
        yield tr("from git"), _from_git(", ".join(foreseen.repositories), foreseen.git_mirror)
    yield tr("compiles"), "; ".join(_compiled(plan)) or tr("nothing")
    if plan.left_out:
        left_out = (tr("{title} ({reason})", title=item.title, reason=item.reason) for item in plan.left_out)
        yield tr("leaves out"), "; ".join(left_out)
    if plan.offline:
        yield tr("network"), tr("none: everything comes from the bundle")
    if not foreseen.has_engine:
        yield tr("engine"), tr("no docker engine answers, and a build needs one")
    yield tr("disk"), tr("{size} GB while it is built", size=environment.disk_gb)
    yield tr("time"), _time(environment)
    yield tr("will test"), tr("installed files, imports, and a training run that has to learn; --no-validate skips it")


def _from_git(sources: str, mirror: str | None) -> str:
    if mirror is not None:
        from envbuilder.http import without_credentials

        return tr("{sources}: from {mirror}", sources=sources, mirror=without_credentials(mirror))
    return tr("{sources}: in no package index; --git-mirror names a mirror", sources=sources)


def _packages(environment: Environment) -> str:
    lock = environment.lock
    if lock is None:
        return tr("the newest versions that the row allows, as it has no lock")
    unhashed = [item.name for item in lock.parts[UNHASHED]]
    packages = counted(len(lock.packages), "package")
    if unhashed:
        return tr("{packages}, locked with hashes, but for {names}", packages=packages, names=", ".join(unhashed))
    return tr("{packages}, locked with hashes", packages=packages)


def _time(environment: Environment) -> str:
    last = _last_build(environment)
    if last is None:
        return tr("not measured for this environment")
    fields = {"seconds": last.seconds, "machine": last.machine, "size": last.size_gb}
    return tr("{seconds} s on {machine}, {size} GB; less where wheels and layers are kept", **fields)


def _last_build(environment: Environment) -> Evidence | None:
    runs = [item for item in environment.evidence if item.level == "built" and item.seconds is not None]
    return runs[-1] if runs else None


def _compiled(plan: Plan) -> list[str]:
    return [stage.layers[-1].title for stage in plan.wheel_stages]
