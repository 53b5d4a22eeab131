"""envbuilder bake"""

from __future__ import annotations

from pathlib import Path

from envbuilder.cli import options
from envbuilder.cli.arguments import Dimensions, MatrixFolder, Talk, warn_unlocked
from envbuilder.cli.project_argument import refuse_project
from envbuilder.language import counted, tr


@options.command("bake")
@options.identifiers
@options.dimensions
@options.option("--all", "all_", is_flag=True, help="Write every environment that the dimension options allow.")
@options.option("-o", "--output", type=options.FOLDER, required=True, help="Folder to write.")
@options.option(
    "--secret", "secrets", multiple=True, metavar="id=NAME,src=FILE",
    help="Secret for buildx: `network`, a shell file of settings, or `ca`, a bundle of certificates.",
)  # fmt: skip
@options.registry
@options.matrices
@options.talk
def command(
    identifiers: tuple[str, ...], dimensions: Dimensions, all_: bool, output: Path, secrets: tuple[str, ...],
    registry: str, matrices: MatrixFolder, talk: Talk,
) -> None:  # fmt: skip
    """Write a folder for `docker buildx bake`, to build any set of environments on the builders of buildx.

    Its images are candidates, as nothing has proven them; `envbuilder validate IMAGE --name` proves one in the engine
    and gives it its name.
    """
    from envbuilder.environment.image_names import candidate_name
    from envbuilder.files import write_text
    from envbuilder.plan import make_plan
    from envbuilder.platforms import PLATFORMS
    from envbuilder.render.bake import BAKE_FILE, BakeTarget, bake_files

    catalog = matrices.catalog(everything=True)
    if identifiers or all_:
        chosen = catalog.select(identifiers, dimensions.filters)
        warn_unlocked(talk.console, chosen)
    else:
        chosen = [dimensions.environment(catalog, None, talk)]
        refuse_project(chosen[0], "bake")
    targets = [
        BakeTarget(make_plan(item), candidate_name(item.image_name(registry)), PLATFORMS[item.coordinates.arch])
        for item in chosen
    ]
    for name, text in bake_files(targets, secrets).items():
        write_text(output / name, text)
    talk.console.out(str(output / BAKE_FILE))
    fields = {"targets": counted(len(targets), "target"), "file": BAKE_FILE, "folder": output}
    talk.console.talk(tr("{targets}: docker buildx bake --file {file}, in {folder}", **fields))
    talk.console.talk(
        tr("the images are unproven candidates: `envbuilder validate IMAGE --name` proves one and gives it its name")
    )
