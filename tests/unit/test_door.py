"""What a registry learns of us: the token or password that is meant for it, and nothing from ~/.netrc."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from envbuilder.registry.credentials import Credentials
from envbuilder.registry.transport import Door


class Registry(http.server.BaseHTTPRequestHandler):
    """Wants a token, and sends on to a storage elsewhere; collects what it is told with every request."""

    told: list[tuple[str, str | None]]

    def log_message(self, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        path, said = self.path.partition("?")[0], self.headers.get("Authorization")
        self.told.append((path, said))
        port = self.headers["Host"].rpartition(":")[2]
        if path == "/v2/secret/blob" and said != "Bearer T":
            self._reply(401, {"WWW-Authenticate": f'Bearer realm="http://127.0.0.1:{port}/token"'})
        elif path == "/v2/secret/blob":
            # another name of the same machine is another host
            self._reply(307, {"Location": f"http://localhost:{port}/storage"})
        else:
            self._reply(200, {}, b'{"token": "T"}')

    def _reply(self, status: int, headers: dict[str, str], body: bytes = b"") -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, list[tuple[str, str | None]]]]:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login other password hush\ndefault login any password hush\n")
    monkeypatch.setenv("NETRC", str(netrc))
    monkeypatch.setenv("no_proxy", "127.0.0.1,localhost")
    told: list[tuple[str, str | None]] = []
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (Registry,), {"told": told}))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"127.0.0.1:{server.server_address[1]}", told
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize(
    ("credentials", "asked_with"), [(None, None), (Credentials("me", "x"), "Basic bWU6eA==")]
)  # fmt: skip
def test_netrc_is_for_other_programs(
    registry: tuple[str, list[tuple[str, str | None]]], credentials: Credentials | None, asked_with: str | None
) -> None:
    host, told = registry
    answer = Door(host, None, credentials, lambda _: None).ask("GET", "secret/blob", "secret")
    assert answer.status_code == 200
    assert told == [
        ("/v2/", None),
        ("/v2/secret/blob", None),
        ("/token", asked_with),
        ("/v2/secret/blob", "Bearer T"),
        ("/storage", None),
    ]
