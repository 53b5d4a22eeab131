"""Shows what a build would do, without building."""

from __future__ import annotations

from collections.abc import Iterator

from envbuilder.cli.console import Console
from envbuilder.environment import Environment
from envbuilder.environment.locks import UNHASHED
from envbuilder.language import counted, tr
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


def _lines(environment: Environment, plan: Plan, registry: str) -> Iterator[tuple[str, str]]:
    yield tr("image"), environment.image_name(registry)
    yield tr("base image"), plan.base_image
    yield tr("installs"), _packages(environment)
    compiled = [stage.layers[-1].title for stage in plan.wheel_stages]
    yield tr("compiles"), "; ".join(compiled) if compiled else tr("nothing")
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
    runs = [item for item in environment.evidence if item.level == "built" and item.seconds is not None]
    if not runs:
        return tr("not measured for this environment")
    last = {"seconds": runs[-1].seconds, "machine": runs[-1].machine, "size": runs[-1].size_gb}
    return tr("{seconds} s on {machine}, {size} GB; less where wheels and layers are kept", **last)
