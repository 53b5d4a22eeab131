"""envbuilder images"""

from __future__ import annotations

import re
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from envbuilder.cli import options
from envbuilder.cli.arguments import Dimensions, MatrixFolder, Talk
from envbuilder.cli.console import Console, one_line
from envbuilder.cli.json import document
from envbuilder.errors import UsageError
from envbuilder.language import counted, tr

if TYPE_CHECKING:
    from envbuilder.environment import Catalog
    from envbuilder.registry.images import Found


@options.command("images")
@options.identifiers
@options.filters
@options.registry_of("List images of a registry too; the prefix of image names in it.")
@options.option("--prune", is_flag=True, help="List the images that are no longer needed, without removing them.")
@options.option("--force", is_flag=True, help="With --prune: remove them.")
@options.option("--verify", is_flag=True, help="Show which key of --verify-key has signed each image of the registry.")
@options.verify_keys
@options.ca_bundle
@options.as_json
@options.matrices
@options.talk
def command(
    identifiers: tuple[str, ...], dimensions: Dimensions, registry: str | None, prune: bool, force: bool,
    verify: bool, verify_keys: tuple[str, ...], ca_bundle: Path | None, json_: bool, matrices: MatrixFolder, talk: Talk,
) -> None:  # fmt: skip
    """List images of environments: their names, sizes and ages, and how far they were proven."""
    from envbuilder.cli.passwords import trusted
    from envbuilder.docker.engine import Docker
    from envbuilder.registry.images import here, there
    from envbuilder.registry.pull import RegistryOptions

    console, catalog = talk.console, matrices.catalog(everything=True)
    if prune:
        _prune(console, catalog, force=force)
        return
    if verify and not (verify_keys and registry):
        raise UsageError(tr("--verify needs keys and a registry"), hint="--verify-key FILE --registry PREFIX")
    chosen = catalog.select(identifiers, dimensions.filters)
    found = here(Docker(), chosen)
    if registry is not None:
        trust = trusted(verify_keys if verify else ())
        found += there(chosen, RegistryOptions(registry, (), ca_bundle, trust))
    if json_:
        console.data(document(images=[asdict(item) for item in found]))
        return
    if not found:
        console.talk(tr("no images found; envbuilder build or envbuilder pull gets one"))
    groups: dict[tuple[str, str], list[Found]] = {}
    for item in found:
        groups.setdefault((item.where, item.image.rpartition(":")[0]), []).append(item)
    environment = tr("environment")
    for (where, repository), items in groups.items():
        console.heading(f"{repository} ({tr(where)})" if repository else tr(where))
        header = [tr("tag"), tr("size"), tr("proven"), tr("age"), environment, tr("digest")]
        rows = [_row(item) for item in items]
        if verify and where != "here":
            header.append(tr("signed by"))
            rows = [(*_row(item), item.signed or tr("none of the keys")) for item in items]
        console.table(header, rows, spare=(environment,))
    if found:
        total = f"{sum(item.size for item in found) / 10**9:.2f} GB"
        images = counted(len(found), "image")
        console.talk(tr("{images}, {total}; layers that they share are counted for each", images=images, total=total))


def _row(item: Found) -> tuple[str, ...]:
    tag, digest = item.image.rpartition(":")[2], item.digest[7:19]
    return tag, f"{item.size / 10**9:.2f} GB", item.proven or "-", _age(item.created), item.environment, digest


def _age(created: str) -> str:
    """Return the age of an image by docker's time; a year before 2000 means that the age is unknown."""
    from datetime import datetime, timezone

    # Python 3.10 cannot parse a fraction of nine digits, or a Z
    match = re.match(r"(\d+-\d+-\d+T\d+:\d+:\d+)(?:\.\d+)?([+-]\d+:\d+)?", created)
    try:
        then = datetime.fromisoformat(match[1] + (match[2] or "+00:00") if match else "")
    except ValueError:
        return "-"
    days = (datetime.now(timezone.utc) - then).days
    # the clock of the machine that built the image may be a little ahead
    if then.year < 2000 or days < -1:
        return "-"
    return tr("{number} d", number=days) if days > 0 else tr("today")


def _prune(console: Console, catalog: Catalog, *, force: bool) -> None:
    from envbuilder.docker.engine import Docker
    from envbuilder.registry.images import unneeded

    docker = Docker()
    found = list(unneeded(catalog, docker))
    for item, reason in found:
        console.out(f"{item.name or item.id[7:19]}  {item.size / 10**9:.2f} GB  {one_line(reason)}")
        if force:
            docker.remove(item.name or item.id)
    images = counted(len(found), "image")
    console.talk(
        tr("{images} removed" if force else "{images} would be removed; --prune --force removes them", images=images)
    )
