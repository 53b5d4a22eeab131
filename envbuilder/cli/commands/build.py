"""envbuilder build"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from envbuilder import paths, platforms
from envbuilder.cli import arguments, options
from envbuilder.cli.commands.validate import show, write_evidence
from envbuilder.cli.json import document
from envbuilder.environment.resolve import resolve
from envbuilder.environment.select import Filters, pick, select
from envbuilder.errors import UsageError
from envbuilder.files import write_text
from envbuilder.matrix import evidence
from envbuilder.plan import Plan, make_plan
from envbuilder.render import render_dockerfile

if TYPE_CHECKING:
    from envbuilder.build.pipeline import Built, Request
    from envbuilder.docker.engine import Engine
    from envbuilder.environment.resolve import Environment
    from envbuilder.environment.select import Coordinates
    from envbuilder.matrix import Matrix
    from envbuilder.validate import Wish


@click.command("build")
@options.identifiers
@options.dimensions
@options.option("--dry-run", is_flag=True, help="Judge and render; needs no engine.")
@options.sources
@options.registry
@options.option("--pip-index", metavar="URL", help="Package index to use in the build.")
@options.reaching
@options.offline
@options.option(
    "--platform", type=click.Choice(["linux/arm64", "linux/amd64"]), help="The same as --arch, as docker says it."
)
@options.option("--no-cache", is_flag=True, help="Build every layer and every wheel anew.")
@options.option(
    "--wheel-cache",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder of the wheels that were built from source; machines may share it.",
)
@options.option(
    "--jobs", type=click.IntRange(1, 256),
    help="Compilers at once, of builds that read MAX_JOBS; scripts that build kernels for NPUs may not.",
)  # fmt: skip
@options.option("--no-validate", is_flag=True, help="Give the image its name without proving it.")
@options.devices
@options.option("--push", is_flag=True, help="Push the image to the registry that its name begins with.")
@options.option("--record", is_flag=True, help="Write into the row's evidence that it was built.")
@options.option("--report", type=click.Path(path_type=Path, dir_okay=False), help="Write a JSON report here.")
@options.index
@options.matrices
@options.talking
def command(identifiers: tuple[str, ...], dry_run: bool, report: Path | None, **given: Any) -> None:
    """An image of an environment, from its lock and its sources, on the docker engine that is there.

    Without --arch a rehearsal takes the architecture of this machine.
    """
    from envbuilder.build.pipeline import judge

    console, matrix = arguments.console_of(given), arguments.matrix_of(given, everything=True)
    if given["offline"] is not None:
        identifiers = _of_bundle(identifiers, given)
    chosen = _chosen(matrix, identifiers, _filters(given))
    environments = [resolve(matrix, item) for item in chosen]
    for environment in environments:
        for finding in judge(matrix, environment):
            console.warn(finding.code, finding.message)
    if dry_run:
        for environment in environments:
            console.out(render_dockerfile(_planned(matrix, environment, given["offline"])))
        return
    from envbuilder.build.pipeline import build
    from envbuilder.cli.progress import shown
    from envbuilder.docker.engine import Engine

    engine = Engine()
    results = []
    for environment in environments:
        console.talk(f"building {environment.id}")
        with shown(console) as progress:
            built = build(matrix, environment, _request(given, environment, engine), engine, progress)
        results.append(built)
        _summary(console, built)
        if given["record"]:
            folder = given["matrices"] or paths.matrices()
            evidence.record(folder, environment.id, matrix.evidence.get(environment.id), "built")
            if built.proof is not None:
                write_evidence(folder, arguments.matrix_of(given, everything=True), built.proof)
        # after each, so that a failure later on does not lose it
        if report is not None:
            write_text(report, json.dumps(document(builds=[item.report() for item in results]), indent=2) + "\n")


def _planned(matrix: Matrix, environment: Environment, offline: Path | None) -> Plan:
    """What would be built, from a bundle too, of which only the description is read."""
    if offline is None:
        return make_plan(matrix, environment)
    from envbuilder.bundle import bundle_of

    bundle = bundle_of(matrix, environment, offline, Path(), for_build=True, unpack=False)
    return make_plan(matrix, environment, bundle.sources).cut_off()


def _of_bundle(identifiers: tuple[str, ...], given: dict[str, Any]) -> tuple[str, ...]:
    if len(identifiers) > 1:
        raise UsageError("a bundle holds one environment", hint="build them one at a time")
    meant = arguments.meant_offline(next(iter(identifiers), None), given)
    return (meant,) if meant else ()


def _filters(given: dict[str, Any]) -> Filters:
    from envbuilder.platforms import PLATFORMS

    filters = arguments.filters_of(given)
    arch = {platform: arch for arch, platform in PLATFORMS.items()}.get(given["platform"], filters.arch)
    if filters.arch not in {None, arch}:
        raise UsageError(f"--arch {filters.arch} and --platform {given['platform']} contradict each other")
    return filters._replace(arch=arch)


def _chosen(matrix: Matrix, identifiers: tuple[str, ...], filters: Filters) -> list[Coordinates]:
    if identifiers:
        # where nothing is left, this says what is in the way
        return select(matrix, identifiers, filters) or [pick(matrix, identifiers[0], filters)]
    default = pick(matrix, None, filters)
    if filters.arch is None and matrix.hardware[default.hardware].rehearsal:
        return [pick(matrix, None, filters._replace(arch=platforms.arch()))]
    return [default]


def _request(given: dict[str, Any], environment: Environment, engine: Engine) -> Request:
    from envbuilder.build.pipeline import Request
    from envbuilder.inputs.kept_wheels import WheelCache

    return Request(
        origin=arguments.origin_of(given) if given["offline"] is None else None,
        network=arguments.network_of(given),
        wheels=WheelCache(given["wheel_cache"] or paths.cache_folder() / "wheels"),
        registry=given["registry"],
        base=arguments.base_of(given),
        offline=given["offline"],
        no_cache=given["no_cache"],
        jobs=given["jobs"],
        push=given["push"],
        wish=None if given["no_validate"] else _wish(given, environment, engine),
    )


def _wish(given: dict[str, Any], environment: Environment, engine: Engine) -> Wish | None:
    """As far as this machine can go: what is built for another architecture does not run here."""
    if environment.coordinates.arch != engine.arch:
        return None
    return arguments.wish_of(given, environment)


def _summary(console: Any, built: Built) -> None:
    console.out(built.image)
    if built.proof is not None:
        show(console, built.proof)
    slowest = sorted(((step.seconds, title) for title, step in built.steps if step and not step.cached), reverse=True)
    console.talk(f"{built.digest or built.id}, {built.size / 10**9:.2f} GB, {built.seconds:.0f} s")
    if slowest:
        console.talk("longest: " + ", ".join(f"{title} {seconds:.0f} s" for seconds, title in slowest[:3]))
    kept = [name for name, how in built.wheels.items() if how == "kept"]
    if kept:
        console.talk(f"kept from an earlier build: {', '.join(kept)}")
    console.talk(f"log: {built.log}")
    console.talk(f"try it: docker run --rm -it {built.image}")
