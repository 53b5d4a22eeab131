"""The containers that envbuilder starts for its own use."""

from __future__ import annotations

import http.server
import io
import json
import tarfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from envbuilder.docker.engine import Docker


class FakeEngine(http.server.BaseHTTPRequestHandler):
    """Answers the requests of the SDK around a container, and collects those that create one."""

    made: list[dict[str, Any]]

    def log_message(self, *args: object) -> None:
        pass

    def _reply(self, status: int, body: bytes = b"{}", **headers: str) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def do_HEAD(self) -> None:
        self._reply(200, b"")

    def do_GET(self) -> None:
        if self.path.endswith("/version"):
            self._reply(200, b'{"ApiVersion": "1.41"}')
        elif "/archive" in self.path:
            content = io.BytesIO()
            with tarfile.open(fileobj=content, mode="w") as archive:
                archive.addfile(tarfile.TarInfo("file"))
            self._reply(200, content.getvalue(), X_Docker_Container_Path_Stat="e30=")
        else:
            self._reply(200, b'{"Id": "x"}')

    def do_POST(self) -> None:
        content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if "/containers/create" in self.path:
            self.made.append(json.loads(content))
        self._reply(201, b'{"Id": "x"}')

    def do_DELETE(self) -> None:
        self._reply(204, b"")


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[list[dict[str, Any]]]:
    """Return the containers that are created, for a user whose configuration has a proxy for containers."""
    proxies = {"default": {"httpProxy": "http://me:hush@proxy.example:1"}}
    (tmp_path / "config.json").write_text(json.dumps({"proxies": proxies}))
    collected: list[dict[str, Any]] = []
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (FakeEngine,), {"made": collected}))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    monkeypatch.setenv("DOCKER_HOST", f"tcp://127.0.0.1:{server.server_address[1]}")
    monkeypatch.delenv("DOCKER_TLS_VERIFY", raising=False)
    yield collected
    server.shutdown()
    server.server_close()


def test_the_proxy_of_a_user_is_not_passed_to_these_containers(made: list[dict[str, Any]]) -> None:
    engine = Docker()
    with engine.container("image"):
        pass
    engine.read("image", "/some/file")
    assert [item["Image"] for item in made] == ["image", "image"]
    assert "hush" not in json.dumps(made)
