"""envbuilder push"""

from __future__ import annotations

from typing import Any

import click

from envbuilder.cli import arguments, options
from envbuilder.cli.json import document
from envbuilder.environment.resolve import resolve
from envbuilder.environment.select import select


@click.command("push")
@click.argument("identifiers", metavar="ID...", nargs=-1, required=True, shell_complete=options.complete_identifier)
@options.option("--registry", required=True, metavar="PREFIX", help="Where to, as what image names there begin with.")
@options.option(
    "--local", default="envbuilder", show_default=True, metavar="PREFIX", help="What image names here begin with."
)
@options.option("--candidate", is_flag=True, help="What has not been proven, under a name that says so.")
@options.option("--replace", is_flag=True, help="Even over a tag that has other content.")
@options.option("--index", is_flag=True, help="Then give all architectures of each row one name.")
@options.ca_bundle
@options.as_json
@options.matrices
@options.talking
def command(identifiers: tuple[str, ...], candidate: bool, replace: bool, index: bool, **given: Any) -> None:
    """Publishes images, with their validation and their bill of materials beside them.

    A tag that has other content is left as it is.
    """
    from envbuilder.docker.engine import Engine
    from envbuilder.registry.pull import Source
    from envbuilder.registry.push import push, push_index

    console, matrix = arguments.console_of(given), arguments.matrix_of(given, everything=True)
    source, engine = Source(given["registry"], (), given["ca_bundle"]), Engine()
    results = []
    for item in select(matrix, identifiers):
        environment = resolve(matrix, item)
        pushed = push(matrix, environment, source, engine, candidate=candidate, replace=replace, local=given["local"])
        results.append(pushed)
        along = f", with {' and '.join(pushed.attachments)}" if pushed.attachments else ""
        console.talk(f"{'already there' if pushed.there else 'pushed'}{along}")
        if not given["json_"]:
            console.out(f"{pushed.image}@{pushed.digest}")
        if index:
            name, arches = push_index(matrix, environment, source, replace=replace)
            console.talk(f"{name}: {', '.join(arches)}")
    if given["json_"]:
        keys = ("image", "digest", "there", "attachments")
        console.data(document(pushed=[{key: getattr(item, key) for key in keys} for item in results]))
