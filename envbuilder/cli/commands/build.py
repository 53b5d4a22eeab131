"""envbuilder build"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from envbuilder import evidence, host, resources
from envbuilder.cli import options
from envbuilder.describe import document
from envbuilder.plan import make_plan
from envbuilder.render import render_dockerfile
from envbuilder.resolve import resolve
from envbuilder.select import Filters, pick, select
from envbuilder.write import write_text

if TYPE_CHECKING:
    from envbuilder.matrix import Matrix
    from envbuilder.pipeline import Built, Request
    from envbuilder.select import Coordinates


@click.command("build")
@options.identifiers
@options.dimensions
@options.option("--dry-run", is_flag=True, help="Judge and render; needs no engine.")
@options.option(
    "--source",
    type=click.Choice(["auto", "git", "sdist"]),
    default="auto",
    show_default=True,
    help="Repositories, source archives of the package index, or what is reachable.",
)
@options.option(
    "--git-mirror", metavar="DIR|URL", help="Bare repositories in a folder, or an address in place of the git host."
)
@options.option("--base-image", metavar="IMAGE", help="Another base image.")
@options.option(
    "--registry", default="envbuilder", show_default=True, metavar="PREFIX", help="What image names begin with."
)
@options.option("--pip-index", metavar="URL", help="Package index to use in the build.")
@options.option("--proxy", metavar="URL", help="Proxy to use in the build.")
@options.option(
    "--network-settings",
    type=click.Choice(["host", "none"]),
    default="host",
    show_default=True,
    help="Whether the build gets this host's certificates, proxies and package index.",
)
@options.option("--no-cache", is_flag=True, help="Build every layer anew.")
@options.option("--jobs", type=click.IntRange(1, 256), help="Compilers at once.")
@options.option("--record", is_flag=True, help="Write into the row's evidence that it was built.")
@options.option("--report", type=click.Path(path_type=Path, dir_okay=False), help="Write a JSON report here.")
@options.index
@options.matrices
@options.talking
def command(identifiers: tuple[str, ...], dry_run: bool, report: Path | None, **given: Any) -> None:
    """An image of an environment, from its lock and its sources, on the docker engine that is there.

    Without --arch a rehearsal takes the architecture of this machine.
    """
    from envbuilder.pipeline import judge

    console, matrix = options.console_of(given), options.matrix_of(given, everything=True)
    chosen = _chosen(matrix, identifiers, options.filters_of(given))
    environments = [resolve(matrix, item) for item in chosen]
    for environment in environments:
        for finding in judge(matrix, environment):
            console.talk(f"{console.style(f'warning[{finding.code}]', 'warning')} {finding.message}", 1)
    if dry_run:
        for environment in environments:
            console.out(render_dockerfile(make_plan(matrix, environment)))
        return
    from envbuilder.backends.engine import Engine
    from envbuilder.pipeline import build

    engine, request = Engine(), _request(given)
    results = []
    for environment in environments:
        console.talk(f"building {environment.id}")
        results.append(build(matrix, environment, request, engine, console.talk))
        _summary(console, results[-1])
        if given["record"]:
            folder = given["matrices"] or resources.matrices()
            evidence.record(folder, environment.id, matrix.evidence.get(environment.id), "built")
    if report is not None:
        write_text(report, json.dumps(document(builds=[item.report() for item in results]), indent=2) + "\n")


def _chosen(matrix: Matrix, identifiers: tuple[str, ...], filters: Filters) -> list[Coordinates]:
    if identifiers:
        return select(matrix, identifiers, filters)
    default = pick(matrix, None, filters)
    if filters.arch is None and matrix.hardware[default.hardware].rehearsal:
        return [pick(matrix, None, filters._replace(arch=host.arch()))]
    return [default]


def _request(given: dict[str, Any]) -> Request:
    from envbuilder.pipeline import Request
    from envbuilder.sources import Origin

    network = host.network() if given["network_settings"] == "host" else host.Network()
    if given["ca_bundle"]:
        network = network._replace(ca_bundle=given["ca_bundle"])
    if given["pip_index"]:
        network = network._replace(index_url=given["pip_index"])
    if given["proxy"]:
        network = network._replace(proxies={"http_proxy": given["proxy"], "https_proxy": given["proxy"]})
    return Request(
        origin=Origin(given["source"], options.index_of(given), given["git_mirror"]),
        network=network,
        registry=given["registry"],
        base_image=given["base_image"],
        no_cache=given["no_cache"],
        jobs=given["jobs"],
    )


def _summary(console: Any, built: Built) -> None:
    console.out(built.image)
    console.talk(f"{built.id[:19]}, {built.size / 10**9:.2f} GB, {built.seconds:.0f} s; log: {built.log}")
    console.talk(f"try it: docker run --rm -it {built.image}")
