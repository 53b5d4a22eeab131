"""Shows what a build would do, before hours are spent on it."""

from __future__ import annotations

from collections.abc import Iterator

from envbuilder.cli.console import Console
from envbuilder.environment import Environment
from envbuilder.environment.locks import UNHASHED
from envbuilder.errors import counted
from envbuilder.plan import Plan


def show_plan(console: Console, environment: Environment, plan: Plan, registry: str) -> None:
    console.heading(environment.id)
    for title, text in _lines(environment, plan, registry):
        console.entry(title, text, indent=2)
    console.talk()
    console.talk(f"`envbuilder render {environment.id}` prints the Dockerfile; without --dry-run it is built")


def _lines(environment: Environment, plan: Plan, registry: str) -> Iterator[tuple[str, str]]:
    yield "image", environment.image_name(registry)
    yield "upon", plan.base_image
    yield "installs", _packages(environment)
    compiled = [stage.layers[-1].title for stage in plan.wheel_stages]
    yield "compiles", "; ".join(compiled) if compiled else "nothing"
    if plan.left_out:
        yield "leaves out", "; ".join(f"{item.title} ({item.reason})" for item in plan.left_out)
    if plan.offline:
        yield "network", "none: everything comes from the bundle"
    yield "disk", f"{environment.disk_gb} GB while it is built"
    yield "time", _time(environment)
    yield "proves", "installed files, imports, and a training run that has to learn; --no-validate skips it"


def _packages(environment: Environment) -> str:
    lock = environment.lock
    if lock is None:
        return "the newest versions that the row allows, as it has no lock"
    unhashed = [item.name for item in lock.parts[UNHASHED]]
    packages = counted(len(lock.packages), "package")
    if unhashed:
        return f"{packages}, locked with hashes, but for {', '.join(unhashed)}"
    return f"{packages}, locked with hashes"


def _time(environment: Environment) -> str:
    runs = [item for item in environment.evidence if item.level == "built" and item.seconds is not None]
    if not runs:
        return "not measured for this environment"
    last = runs[-1]
    return f"{last.seconds} s on {last.machine}, {last.size_gb} GB; less where wheels and layers are kept"
