"""envbuilder choose"""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlencode

from envbuilder import paths
from envbuilder.cli import options
from envbuilder.cli.arguments import Dimensions, MatrixFolder, Talk
from envbuilder.files import write_text
from envbuilder.language import tr


@options.command("choose")
@options.dimensions
@options.option("-o", "--output", type=options.OUTPUT_FILE, help="Write the page to this file, and open nothing.")
@options.matrices
@options.talk
def command(dimensions: Dimensions, output: Path | None, matrices: MatrixFolder, talk: Talk) -> None:
    """Open a page in the browser to choose an environment with buttons, and to copy its commands.

    The page is one file that needs no network. The options preselect an environment.
    """
    import webbrowser

    from envbuilder.chooser import chooser

    catalog = matrices.catalog(everything=True)
    chosen = dimensions.environment(catalog, None, talk) if dimensions.given else None
    file = output or paths.state_folder() / "chooser.html"
    write_text(file, chooser(catalog))
    if output is not None:
        talk.console.out(str(output))
        return
    address = file.as_uri() + (f"#{urlencode({'id': chosen.id})}" if chosen else "")
    talk.console.out(address)
    if not webbrowser.open(address):
        talk.console.talk(tr("no browser was found: open the address above"))
