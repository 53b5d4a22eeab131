"""Serves the resolver the names, hashes and requirements of wheels that are known without their index.

The wheels themselves are not served. A lock with a wrong hash cannot be installed, as every installer compares it.
"""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from urllib.parse import unquote

from envbuilder.matrix.model import KnownWheels
from envbuilder.requirements import normalize

_JSON = "application/vnd.pypi.simple.v1+json"
# without a time, uv treats a file as too new
_TIME = "2000-01-01T00:00:00Z"


@contextmanager
def served(wheels: Mapping[str, KnownWheels]) -> Iterator[dict[str, str]]:
    """Serve wheels on this machine, and yield the new address for the address of each of their indexes."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answer = _answer(wheels, unquote(self.path))
            self.send_response(200 if answer else 404)
            self.send_header("Content-Type", _JSON if answer and answer.startswith(b"{") else "text/plain")
            self.end_headers()
            self.wfile.write(answer or b"")

        def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002
            """Print nothing."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        address = f"http://127.0.0.1:{server.server_address[1]}/simple/"
        yield {item.index: address for item in wheels.values()}
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _answer(wheels: Mapping[str, KnownWheels], path: str) -> bytes | None:
    """Return a page of the index or the metadata of a wheel; None for anything else."""
    _, _, name, *rest = [*path.split("/"), "", ""]
    found = wheels.get(normalize(name))
    if found is None:
        return None
    if not any(rest):
        files = [
            {
                "filename": item.file,
                "url": f"/simple/{name}/{item.file}",
                "hashes": {"sha256": item.sha256},
                "core-metadata": True,
                "upload-time": _TIME,
            }
            for release in found.releases
            for item in release.files
        ]
        return json.dumps({"meta": {"api-version": "1.1"}, "name": name, "files": files}).encode()
    for release in found.releases:
        if any(f"{item.file}.metadata" == rest[0] for item in release.files):
            lines = ["Metadata-Version: 2.1", f"Name: {found.name}", f"Version: {release.version}"]
            return "\n".join([*lines, *(f"Requires-Dist: {item}" for item in release.requires), "", ""]).encode()
    return None
