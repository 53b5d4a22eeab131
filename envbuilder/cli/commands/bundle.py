"""envbuilder bundle"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from envbuilder.cli import meaning, options
from envbuilder.plan import make_plan

if TYPE_CHECKING:
    from envbuilder.bundle import Ground
    from envbuilder.plan import Plan
    from envbuilder.resolve import Environment
    from envbuilder.watching import Progress


@click.command("bundle")
@options.identifier()
@options.dimensions
@options.option(
    "-o", "--output", type=click.Path(path_type=Path, dir_okay=False), required=True, help="The file to write."
)
@options.option(
    "--for-build", is_flag=True,
    help="What `build --offline` needs too, by the docker engine: the base image and packages of its distribution.",
)  # fmt: skip
@options.reaching
@options.sources
@options.index
@options.matrices
@options.talking
def command(identifier: str | None, output: Path, for_build: bool, **given: Any) -> None:
    """Everything that a site without a network needs of an environment, in one file, for `--offline`.

    Wheels by the lock, sources at their commits, the Dockerfile and the script, each with its digest.
    """
    from envbuilder.bundle import check_output, require_lock, write_bundle
    from envbuilder.packages import packages_of
    from envbuilder.progress import shown
    from envbuilder.sources import obtain_all

    console, matrix = meaning.console_of(given), meaning.matrix_of(given, everything=True)
    environment = meaning.environment_of(matrix, identifier, given)
    check_output(output)
    with shown(console) as progress, ExitStack() as stack:
        needed = make_plan(matrix, environment)
        require_lock(needed)
        sources = obtain_all(matrix, environment, needed.components, meaning.origin_of(given), progress.say)
        plan = make_plan(matrix, environment, sources)
        own = meaning.index_of(given)
        indexes = [own, *(meaning.other_index(given, url) for url in packages_of(matrix, environment).extra_indexes)]
        ground = stack.enter_context(_ground(environment, plan, given, progress)) if for_build else None
        size = write_bundle(plan, sources, indexes, output, ground, progress)
    console.talk(f"{environment.id}: {size / 10**9:.2f} GB")
    console.out(str(output))


@contextmanager
def _ground(environment: Environment, plan: Plan, given: dict[str, Any], progress: Progress) -> Iterator[Ground]:
    from envbuilder.backends.engine import Engine
    from envbuilder.base import base_image, platform_of
    from envbuilder.bundle import gather

    engine = Engine()
    engine.require_buildkit()
    base = base_image(plan.base_image, environment, meaning.base_of(given), engine, progress.say)
    progress.say(f"gathering {base} and the packages of its distribution")
    secrets = meaning.network_of(given).secrets()
    with gather(plan, base, secrets, engine, platform_of(environment, engine)) as ground:
        yield ground
