"""Shows what a build would do, without building."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from envbuilder.cli.console import Console
from envbuilder.environment import Environment
from envbuilder.environment.locks import UNHASHED
from envbuilder.language import counted, tr
from envbuilder.matrix.model import Evidence
from envbuilder.plan import Plan


def show_plan(console: Console, environment: Environment, plan: Plan, registry: str) -> None:
    console.heading(environment.id)
    for title, text in _lines(environment, plan, registry):
        console.entry(title, text, indent=2)
    console.talk()
    console.talk(
        tr(
            "`envbuilder render {environment}` prints the Dockerfile; without --dry-run it is built",
            environment=environment.id,
        )
    )


def plan_data(environment: Environment, plan: Plan, registry: str) -> dict[str, Any]:
    """Return the data of a dry run about an environment."""
    lock, last = environment.lock, _last_build(environment)
    return {
        "environment": environment.id,
        "image": environment.image_name(registry),
        "base_image": plan.base_image,
        "rehearsal": environment.on_stand_in,
        "offline": bool(plan.offline),
        "packages": len(lock.packages) if lock else None,
        "unhashed": [item.name for item in lock.parts[UNHASHED]] if lock else [],
        "layers": [layer.title for layer in plan.layers],
        "compiles": _compiled(plan),
        "left_out": [asdict(item) for item in plan.left_out],
        "disk_gb": environment.disk_gb,
        "last_build": last
        and {"date": last.date, "seconds": last.seconds, "machine": last.machine, "size_gb": last.size_gb},
    }


def _lines(environment: Environment, plan: Plan, registry: str) -> Iterator[tuple[str, str]]:
    yield tr("image"), environment.image_name(registry)
    yield tr("base image"), plan.base_image
    yield tr("installs"), _packages(environment)
    yield tr("compiles"), "; ".join(_compiled(plan)) or tr("nothing")
    if plan.left_out:
        left_out = (tr("{title} ({reason})", title=item.title, reason=item.reason) for item in plan.left_out)
        yield tr("leaves out"), "; ".join(left_out)
    if plan.offline:
        yield tr("network"), tr("none: everything comes from the bundle")
    yield tr("disk"), tr("{size} GB while it is built", size=environment.disk_gb)
    yield tr("time"), _time(environment)
    yield tr("will test"), tr("installed files, imports, and a training run that has to learn; --no-validate skips it")


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
