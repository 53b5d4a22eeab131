"""envbuilder choose"""

from __future__ import annotations

import os
import platform
import shlex
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
    # over SSH, only a browser in the terminal could open, which does not show the page
    if _is_remote() or not webbrowser.open(address):
        copy = shlex.join(["scp", f"{_host()}:{file}", "."])
        talk.console.talk(tr("no browser was found: on your computer, run `{command}` and open the copy", command=copy))


def _is_remote() -> bool:
    return "SSH_CONNECTION" in os.environ and not {"DISPLAY", "WAYLAND_DISPLAY", "BROWSER"} & os.environ.keys()


def _host() -> str:
    """Return the address of this machine that the client of SSH has used, or its name."""
    # address and port of the client, then those of this machine
    server = os.environ.get("SSH_CONNECTION", "").split()[2:3]
    return server[0] if server else platform.node()
