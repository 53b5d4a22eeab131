"""Servers that stand between a build and the outside: a proxy that wants a password, a mirror, a registry."""

from __future__ import annotations

import base64
import http.server
import json
import select
import shutil
import socket
import socketserver
import subprocess
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest


def gateway() -> str:
    """The address under which a container on the engine's default network sees this machine."""
    shown = subprocess.run(["docker", "network", "inspect", "bridge"], capture_output=True, text=True, check=True)
    address: str = json.loads(shown.stdout)[0]["IPAM"]["Config"][0]["Gateway"]
    return address


@contextmanager
def served(handler: type[http.server.BaseHTTPRequestHandler]) -> Iterator[int]:
    class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
        daemon_threads = True

    server = Server(("", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def proxy(user: str, password: str) -> Iterator[tuple[int, list[str]]]:
    """A proxy that lets nobody through without these credentials; gives its port and what it was asked for."""
    wanted = "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()
    seen: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *args: object) -> None:
            pass

        def _allowed(self) -> bool:
            if self.headers.get("Proxy-Authorization") == wanted:
                seen.append(self.path)
                return True
            self.send_response(407)
            self.send_header("Proxy-Authenticate", 'Basic realm="x"')
            self.send_header("Content-Length", "0")
            self.end_headers()
            return False

        def do_CONNECT(self) -> None:
            if not self._allowed():
                return
            host, _, port = self.path.rpartition(":")
            with socket.create_connection((host, int(port)), timeout=60) as outside:
                self.send_response(200)
                self.end_headers()
                _pump(self.connection, outside)
            self.close_connection = True

        def do_GET(self) -> None:
            if self._allowed():
                _forward(self, self.path)

    with served(Handler) as port:
        yield port, seen


def _pump(one: socket.socket, two: socket.socket) -> None:
    while ready := select.select([one, two], [], [], 120)[0]:
        for end in ready:
            data = end.recv(65536)
            if not data:
                return
            (two if end is one else one).sendall(data)


@contextmanager
def mirror(upstream: str) -> Iterator[tuple[int, list[str]]]:
    """The same files under an address of our own."""
    seen: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def log_message(self, *args: object) -> None:
            pass

        def do_GET(self) -> None:
            seen.append(self.path)
            _forward(self, upstream + self.path)

    with served(Handler) as port:
        yield port, seen


def _forward(handler: http.server.BaseHTTPRequestHandler, address: str) -> None:
    assert urlsplit(address).scheme in {"http", "https"}
    try:
        with urllib.request.urlopen(address, timeout=60) as answer:  # noqa: S310
            body, code = answer.read(), answer.status
    except urllib.error.HTTPError as error:
        body, code = b"", error.code
    handler.send_response(code)
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)


@contextmanager
def registry(folder: Path) -> Iterator[str]:
    """Debian's docker-registry on a loopback port, which engines trust without TLS."""
    program = shutil.which("docker-registry")
    if program is None:
        pytest.skip("needs docker-registry: run `make test`, or apt-get install docker-registry")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    config = folder / "registry.yml"
    config.write_text(
        f"version: 0.1\nlog: {{level: error}}\nstorage: {{filesystem: {{rootdirectory: {folder / 'registry'}}}}}\n"
        f"http: {{addr: {address}}}\n"
    )
    process = subprocess.Popen([program, "serve", str(config)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(100):
            try:
                urllib.request.urlopen(f"http://{address}/v2/", timeout=5).close()
                break
            except OSError:
                time.sleep(0.1)
        yield address
    finally:
        process.terminate()
        process.wait()
