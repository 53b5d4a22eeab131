"""envbuilder push"""

from __future__ import annotations

from pathlib import Path

import click

from envbuilder.cli import options
from envbuilder.cli.arguments import Dimensions, MatrixFolder, Talk
from envbuilder.cli.json import document
from envbuilder.cli.project_argument import project_here
from envbuilder.environment.coordinates import USUAL_REGISTRY
from envbuilder.errors import UsageError
from envbuilder.language import tr


@options.command("push")
@click.argument("identifiers", metavar="[ID]...", nargs=-1, shell_complete=options.complete_identifier)
@options.registry_of("Prefix of image names in the registry.", required=True)
@options.option(
    "--local", default=USUAL_REGISTRY, show_default=True, metavar="PREFIX",
    help="Prefix of image names in the engine, if not that of the registry.",
)  # fmt: skip
@options.option("--candidate", is_flag=True, help="Push an image that was not proven, under a name that marks it.")
@options.option("--replace", is_flag=True, help="Replace a tag that has other content.")
@options.option("--index", is_flag=True, help="Then publish one name for all architectures of each row.")
@options.option("--zstd", is_flag=True, help="Also publish layers that zstd has compressed.")
@options.sign_key
@options.ca_bundle
@options.as_json
@options.matrices
@options.talk
def command(
    identifiers: tuple[str, ...], registry: str, local: str, candidate: bool, replace: bool, index: bool, zstd: bool,
    sign_key: Path | None, ca_bundle: Path | None, json_: bool, matrices: MatrixFolder, talk: Talk,
) -> None:  # fmt: skip
    """Publish images, with their validation and their bill of materials.

    A tag that has other content is not changed without --replace. The password of a key is asked for, or taken from
    ENVBUILDER_KEY_PASSWORD or COSIGN_PASSWORD.

    --zstd also publishes smaller layers, which `pull` takes where the engine can read them (docker 23 and later,
    podman).
    """
    from envbuilder.cli.passwords import private_key
    from envbuilder.cli.progress import shown
    from envbuilder.docker.engine import Docker
    from envbuilder.registry.pull import RegistryOptions
    from envbuilder.registry.push import push, push_index

    console, catalog = talk.console, matrices.catalog(everything=True)
    if not identifiers and project_here() is None:
        raise UsageError(tr("no environment is named"), hint=tr("give an identifier or a glob; a project needs none"))
    server, docker = RegistryOptions(registry, (), ca_bundle), Docker()
    key = private_key(sign_key) if sign_key else None
    results = []
    for environment in Dimensions().selected(catalog, identifiers, talk):
        with shown(console) as progress:
            pushed = push(
                environment, server, docker, progress, candidate=candidate, replace=replace, local=local, zstd=zstd,
                key=key,
            )  # fmt: skip
        results.append(pushed)
        how = tr("already in the registry") if pushed.there else tr("pushed")
        along = tr(" and ").join(map(tr, pushed.attachments))
        console.talk(tr("{how}, with {attachments}", how=how, attachments=along) if along else how)
        if not json_:
            console.out(f"{pushed.image}@{pushed.digest}")
        if index:
            name, arches = push_index(environment, server, replace=replace, key=key)
            console.talk(f"{name}: {', '.join(arches)}")
    if json_:
        keys = ("image", "digest", "there", "attachments")
        console.data(document(pushed=[{key: getattr(item, key) for key in keys} for item in results]))
