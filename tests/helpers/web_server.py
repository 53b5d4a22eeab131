"""A server on loopback that answers as a test wants and counts the requests."""

from __future__ import annotations

import http.server
import socketserver
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import trustme

Handler = http.server.BaseHTTPRequestHandler


class Server(http.server.ThreadingHTTPServer):
    """Passes every request and its number to `answer`."""

    answer: Callable[[Handler, int], None]
    requests = 0
    scheme = "http"

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.server_address[1]}"

    @property
    def url(self) -> str:
        return f"{self.scheme}://{self.host}/simple/"

    def secure(self, ca_bundle: Path, not_before: datetime | None = None, not_after: datetime | None = None) -> None:
        """Speak TLS with a certificate of a new authority, which is written to `ca_bundle`."""
        authority = trustme.CA()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert("127.0.0.1", not_before=not_before, not_after=not_after).configure_cert(context)
        authority.cert_pem.write_to_path(str(ca_bundle))
        self.socket = context.wrap_socket(self.socket, server_side=True)
        self.scheme = "https"


class Quiet(http.server.BaseHTTPRequestHandler):
    """A handler that does not log its requests."""

    def log_message(self, *args: object) -> None:
        pass


class _Handler(Quiet):
    def _serve(self) -> None:
        assert isinstance(self.server, Server)
        self.server.requests += 1
        self.server.answer(self, self.server.requests)

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = _serve  # noqa: N815


@contextmanager
def running(server: socketserver.BaseServer) -> Iterator[None]:
    """Serve in a thread until the block ends."""
    # with the default of half a second, every test waits that long for the end of its server
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def serving(answer: Callable[[Handler, int], None], host: str = "127.0.0.1") -> Iterator[Server]:
    server = Server((host, 0), _Handler)
    server.answer = answer
    with running(server):
        yield server


def body_of(handler: Handler) -> bytes:
    """Read the body of a request, once."""
    length = int(handler.headers.get("Content-Length") or 0)
    del handler.headers["Content-Length"]
    return handler.rfile.read(length)


def reply(handler: Handler, status: int, body: str | bytes = "", kind: str = "text/html", **headers: str) -> None:
    content = body if isinstance(body, bytes) else body.encode()
    body_of(handler)
    handler.send_response(status)
    handler.send_header("Content-Type", kind)
    handler.send_header("Content-Length", str(len(content)))
    for name, value in headers.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.end_headers()
    if handler.command != "HEAD":
        handler.wfile.write(content)


@contextmanager
def files(contents: Mapping[str, str | bytes]) -> Iterator[Server]:
    """Serve these contents by their paths, and nothing else."""

    def answer(handler: Handler, _: int) -> None:
        found = contents.get(handler.path)
        kind = "application/vnd.pypi.simple.v1+json" if str(found).startswith("{") else "text/html"
        reply(handler, 404 if found is None else 200, found or "", kind)

    with serving(answer) as server:
        yield server


def cut(handler: Handler) -> None:
    """Send less than is announced."""
    handler.send_response(200)
    handler.send_header("Content-Length", "100000")
    handler.end_headers()
    handler.wfile.write(b"<html>")
