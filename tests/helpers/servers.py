"""Servers that a build meets: a proxy with a password, a mirror, a registry, and a registry with faults."""

from __future__ import annotations

import base64
import http.server
import json
import select
import shutil
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.helpers.waiting import wait_until
from tests.helpers.web_server import Handler, Quiet, running, serving
from tests.integration.conftest import BASE


def gateway() -> str:
    """Return the address under which a container on the engine's default network sees this machine.

    The address is read in a container, because a new engine does not report the gateway of its bridge.
    """
    words = ["docker", "run", "--rm", BASE, "cat", "/proc/net/route"]
    shown = subprocess.run(words, capture_output=True, text=True, check=True)
    columns = (line.split() for line in shown.stdout.splitlines()[1:])
    # the default route has the destination 0; the kernel writes addresses as numbers, lowest byte first
    (address,) = (gateway for _, destination, gateway, *_ in columns if int(destination, 16) == 0)
    return socket.inet_ntoa(bytes.fromhex(address)[::-1])


@contextmanager
def served(handler: type[Handler]) -> Iterator[int]:
    """Serve on every address of this machine, which containers reach; yield the port."""
    server = http.server.ThreadingHTTPServer(("", 0), handler)
    with running(server):
        yield server.server_address[1]


@contextmanager
def proxy(user: str, password: str) -> Iterator[tuple[int, list[str]]]:
    """Serve a proxy that refuses requests without these credentials; yield its port and the requests."""
    wanted = "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()
    seen: list[str] = []

    class Proxy(Quiet):
        protocol_version = "HTTP/1.1"

        def _allowed(self) -> bool:
            if self.headers.get("Proxy-Authorization") == wanted:
                seen.append(self.path)
                return True
            self.send_response(407)
            self.send_header("Proxy-Authenticate", 'Basic realm="x"')
            self.send_header("Content-Length", "0")
            self.end_headers()
            return False

        def do_CONNECT(self) -> None:  # noqa: N802
            if not self._allowed():
                return
            host, _, port = self.path.rpartition(":")
            with socket.create_connection((host, int(port)), timeout=60) as outside:
                self.send_response(200)
                self.end_headers()
                _pump(self.connection, outside)
            self.close_connection = True

        def do_GET(self) -> None:  # noqa: N802
            if self._allowed():
                _forward(self, self.path)

    with served(Proxy) as port:
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
    """Serve the same files under an address of this machine."""
    seen: list[str] = []

    def answer(handler: Handler, _: int) -> None:
        seen.append(handler.path)
        _forward(handler, upstream + handler.path)

    with serving(answer, host="") as server:
        yield server.server_address[1], seen


def _forward(handler: Handler, address: str) -> None:
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


@dataclass(frozen=True)
class Secured:
    """A registry that uses TLS with its own CA and accepts one user."""

    address: str
    ca_bundle: Path
    user: str = "ann"
    password: str = "se:cret"  # noqa: S105


@contextmanager
def registry(folder: Path) -> Iterator[str]:
    """Debian's docker-registry on a loopback port, which engines trust without TLS."""
    with _docker_registry(folder, "") as address:
        yield address


@contextmanager
def secured_registry(folder: Path) -> Iterator[Secured]:
    import bcrypt
    import trustme

    authority = trustme.CA()
    server = authority.issue_cert("127.0.0.1", "localhost")
    bundle, certificate, key, users = (folder / name for name in ("ca.pem", "server.pem", "server.key", "users"))
    authority.cert_pem.write_to_path(str(bundle))
    server.private_key_pem.write_to_path(str(key))
    for number, part in enumerate(server.cert_chain_pems):
        part.write_to_path(str(certificate), append=number > 0)
    found = Secured("", bundle)
    users.write_text(f"{found.user}:{bcrypt.hashpw(found.password.encode(), bcrypt.gensalt(4)).decode()}\n")
    more = f", tls: {{certificate: {certificate}, key: {key}}}}}\nauth: {{htpasswd: {{realm: test, path: {users}}}"
    with _docker_registry(folder, more) as address:
        yield replace(found, address=address)


@contextmanager
def _docker_registry(folder: Path, more: str) -> Iterator[str]:
    program = shutil.which("docker-registry")
    if program is None:
        pytest.skip("needs docker-registry: run `make test`, or apt-get install docker-registry")
    port = _free_port()
    config = folder / "registry.yml"
    config.write_text(
        f"version: 0.1\nlog: {{level: error}}\nstorage: {{filesystem: {{rootdirectory: {folder / 'registry'}}}, delete: {{enabled: true}}}}\n"
        f"http: {{addr: 127.0.0.1:{port}{more}}}\n"
    )
    with _running([program, "serve", str(config)], port):
        yield f"127.0.0.1:{port}"


@contextmanager
def git_server(folder: Path) -> Iterator[int]:
    """Serve the repositories in a folder with git's own server; yield its port."""
    programs = subprocess.run(["git", "--exec-path"], capture_output=True, text=True, check=True).stdout.strip()
    port = _free_port()
    with _running([f"{programs}/git-daemon", "--export-all", f"--base-path={folder}", f"--port={port}"], port):
        yield port


@contextmanager
def _running(command: Sequence[str], port: int) -> Iterator[None]:
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: _answers(port), lambda: f"{command[0]} does not start", process=process)
        yield
    finally:
        process.terminate()
        process.wait()


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    return port


def _answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
    except OSError:
        return False
    return True


@dataclass
class Faults:
    """The faults of the way to a registry: a test sets them while it runs, and they are counted."""

    port: int = 0
    # how many more requests get this answer
    unavailable: int = 0
    # how many more blobs are cut in the middle
    cuts: int = 0
    # every blob, or every manifest, comes with one byte changed
    changed_blobs: bool = False
    changed_manifests: bool = False
    # every blob comes in forty pieces, with a pause after each
    trickle: bool = False
    # how many more requests are refused because of an expired token
    expired: int = 0
    # lists of tags come in pages of this many; the registry itself sends whole lists
    page: int = 0
    seen: list[str] = field(default_factory=list)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"


class _Answer(NamedTuple):
    """An answer of the registry. Of an answer to HEAD, only the `length` of the content is known."""

    code: int
    headers: dict[str, str]
    content: bytes
    length: int


@contextmanager
def faulty(upstream: str) -> Iterator[Faults]:
    """Serve between a client and a registry without TLS."""
    found = Faults()

    class Faulty(_FaultyHandler):
        behind = upstream
        faults = found

    with served(Faulty) as port:
        found.port = port
        yield found


class _FaultyHandler(Quiet):
    """Forwards requests to the registry behind it; a fault answers in its place, or changes the answer."""

    protocol_version = "HTTP/1.1"
    behind: str
    faults: Faults

    def _serve(self) -> None:
        faults = self.faults
        faults.seen.append(f"{self.command} {self.path} {self.headers.get('Range', '')}".strip())
        if faults.unavailable:
            faults.unavailable -= 1
            self._answer(503, headers={"Retry-After": "0"})
        elif self.path.startswith("/token"):
            self._answer(200, b'{"token": "fresh"}')
        elif faults.expired and self.path != "/v2/":
            faults.expired -= 1
            realm = f'Bearer realm="http://{faults.address}/token",service="x"'
            self._answer(401, headers={"WWW-Authenticate": realm})
        else:
            self._forward()

    do_GET = do_HEAD = do_PUT = do_POST = do_PATCH = _serve  # noqa: N815

    def _answer(self, code: int, body: bytes = b"", headers: Mapping[str, str] | None = None) -> None:
        self._send_head(code, headers or {}, len(body))
        if self.command != "HEAD":
            self.wfile.write(body)

    def _send_head(self, code: int, headers: Mapping[str, str], length: int) -> None:
        self.send_response(code)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(length))
        self.end_headers()

    def _forward(self) -> None:
        answer = self._fetched()
        if self.faults.page and "/tags/list" in self.path and answer.code == 200:
            answer = _paged(answer, self.path, self.faults.page)
        content = _changed(answer.content) if self._is_changed and answer.code < 300 else answer.content
        self._send_head(answer.code, answer.headers, answer.length if self.command == "HEAD" else len(content))
        if self.command == "HEAD":
            return
        if self.command == "GET" and self._is_blob and self.faults.cuts and len(content) > 1:
            self.faults.cuts -= 1
            self._send_half(content)
        else:
            self._send_pieces(content, 40 if self._is_blob and self.faults.trickle else 1)

    def _fetched(self) -> _Answer:
        """Return the registry's answer to the request without its credentials; its own address becomes this one."""
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length) if length else None
        kept = {name: value for name, value in self.headers.items() if name.lower() not in {"host", "authorization"}}
        request = urllib.request.Request(
            f"http://{self.behind}{self.path}", data=body, headers=kept, method=self.command
        )
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310
                content, code, headers = answer.read(), answer.status, dict(answer.headers)
        except urllib.error.HTTPError as error:
            content, code, headers = error.read(), error.code, dict(error.headers)
        length = int(headers.pop("Content-Length", len(content)))
        headers.pop("Transfer-Encoding", None)
        if "Location" in headers:
            headers["Location"] = headers["Location"].replace(self.behind, self.faults.address)
        return _Answer(code, headers, content, length)

    @property
    def _is_blob(self) -> bool:
        return "/blobs/sha256:" in self.path

    @property
    def _is_changed(self) -> bool:
        blob = self._is_blob and self.faults.changed_blobs
        manifest = "/manifests/" in self.path and self.faults.changed_manifests
        return self.command == "GET" and (blob or manifest)

    def _send_half(self, content: bytes) -> None:
        self.wfile.write(content[: len(content) // 2])
        self.wfile.flush()
        self.connection.shutdown(socket.SHUT_RDWR)
        self.close_connection = True

    def _send_pieces(self, content: bytes, pieces: int) -> None:
        step = len(content) // pieces + 1
        for start in range(0, len(content), step):
            self.wfile.write(content[start : start + step])
            self.wfile.flush()
            time.sleep(0.05 if pieces > 1 else 0)


def _changed(content: bytes) -> bytes:
    return content[:-2] + bytes([content[-2] ^ 1]) + content[-1:]


def _paged(answer: _Answer, path: str, page: int) -> _Answer:
    """Return the page of a list of tags that `path` requests, with a link to the next one."""
    asked = urlsplit(path)
    last = parse_qs(asked.query).get("last", [""])[0]
    tags = [tag for tag in sorted(json.loads(answer.content)["tags"]) if tag > last]
    content = json.dumps({"tags": tags[:page]}).encode()
    headers = answer.headers
    if len(tags) > page:
        headers = {**headers, "Link": f'<{asked.path}?n={page}&last={tags[page - 1]}>; rel="next"'}
    return answer._replace(headers=headers, content=content, length=len(content))
