"""A package index on this machine that has the wheels of a folder."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import unquote

from envbuilder.files import sha256_of
from tests.helpers.web_server import Handler, reply, serving


@contextmanager
def serving_wheels(folder: Path) -> Iterator[str]:
    """Serve the wheels, also those that are added later, and yield the address of the index."""

    def answer(handler: Handler, number: int) -> None:
        *_, name, last = unquote(handler.path).split("/")
        if last:
            reply(handler, 200, (folder / last).read_bytes())
            return
        found = [path for path in sorted(folder.glob("*.whl")) if _name(path.name.partition("-")[0]) == name]
        links = (f'<a href="/files/{path.name}#sha256={sha256_of(path)}">{path.name}</a>' for path in found)
        reply(handler, 200 if found else 404, "\n".join(links).encode(), "text/html")

    with serving(answer) as server:
        yield f"http://{server.host}/simple/"


def _name(text: str) -> str:
    return re.sub(r"[-_.]+", "-", text).lower()
