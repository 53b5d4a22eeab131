"""envbuilder hardware"""

from __future__ import annotations

from envbuilder.cli import options
from envbuilder.cli.arguments import MatrixFolder, Talk
from envbuilder.cli.json import document
from envbuilder.language import tr


@options.command("hardware")
@options.as_json
@options.matrices
@options.talk
def command(json_: bool, matrices: MatrixFolder, talk: Talk) -> None:
    """List the servers that --hw takes: families of chips, their other names, and products."""
    console, catalog = talk.console, matrices.catalog()
    if json_:
        found = {
            name: {
                "title": item.title,
                "names": list(item.aliases),
                "arches": list(item.arches),
                "devices": item.devices,
                "products": {key: product.title for key, product in item.products.items()},
            }
            for name, item in catalog.hardware.items()
        }
        console.data(document(hardware=found))
        return
    rows: list[tuple[str, ...]] = []
    for name, item in catalog.hardware.items():
        names = ", ".join((name, *item.aliases))
        rows.append((names, item.title, tr(" or ").join(item.arches), str(item.devices or "-")))
        for key, product in item.products.items():
            arches = tr(" or ").join(product.arches or item.arches)
            rows.append((f"  {key}", product.title, arches, str(product.devices or item.devices or "-")))
    machine = tr("MACHINE")
    console.table(("--HW", machine, tr("PROCESSOR"), tr("NPUS")), rows, spare=(machine,))
    console.talk(tr("all products of a family have the same environments: `envbuilder list --hw NAME`"))
