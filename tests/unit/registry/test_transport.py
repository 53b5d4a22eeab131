"""Requests to a registry: the credentials that it gets, and the failures of the server that issues its tokens."""

from __future__ import annotations

import time
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import pytest

from envbuilder.errors import NetworkError
from envbuilder.registry.credentials import Credentials
from envbuilder.registry.transport import Transport
from tests.helpers.web_server import Handler, reply, serving

Requests = list[tuple[str, str | None]]


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, Requests]]:
    """Serve a registry that requires a token and redirects to another host; yield the credentials of each request."""
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login other password hush\ndefault login any password hush\n")
    monkeypatch.setenv("NETRC", str(netrc))
    monkeypatch.setenv("no_proxy", "127.0.0.1,localhost")
    seen: Requests = []

    def answer(handler: Handler, _: int) -> None:
        path, sent = handler.path.partition("?")[0], handler.headers.get("Authorization")
        seen.append((path, sent))
        port = handler.headers["Host"].rpartition(":")[2]
        if path == "/v2/secret/blob" and sent != "Bearer T":
            reply(handler, 401, WWW_Authenticate=f'Bearer realm="http://127.0.0.1:{port}/token"')
        elif path == "/v2/secret/blob":
            # another name of the same machine is another host
            reply(handler, 307, Location=f"http://localhost:{port}/storage")
        else:
            reply(handler, 200, '{"token": "T"}')

    with serving(answer) as server:
        yield server.host, seen


@pytest.mark.parametrize(
    ("credentials", "asked_with"), [(None, None), (Credentials("me", "x"), "Basic bWU6eA==")]
)  # fmt: skip
def test_credentials_of_netrc_are_not_sent(
    registry: tuple[str, Requests], credentials: Credentials | None, asked_with: str | None
) -> None:
    host, seen = registry
    answer = Transport(host, None, credentials, 0.001).ask("GET", "secret/blob", "secret")
    assert answer.status_code == 200
    assert seen == [
        ("/v2/", None),
        ("/v2/secret/blob", None),
        ("/token", asked_with),
        ("/v2/secret/blob", "Bearer T"),
        ("/storage", None),
    ]


def test_a_local_registry_with_tls_is_recognized_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(time, "sleep", pauses.append)
    with serving(lambda handler, _: reply(handler, 200, "fine")) as server:
        server.secure(tmp_path / "ca")
        answer = Transport(server.host, tmp_path / "ca", None, 0.5).ask("GET", "toy/tags/list", "toy")
    assert answer.text == "fine"
    assert pauses == []


@pytest.mark.parametrize(
    ("challenge", "status", "text"),
    [
        ('Bearer realm="http://{host}/token"', 503, "{host} does not answer: 503 Service Unavailable"),
        ('Bearer realm="http://{host}/token"', 403, "{host} refuses access to repository:toy:pull: a password is required"),
        ('Bearer realm="http://127.0.0.1:9/"', 200, "127.0.0.1:9 does not answer: Connection refused"),
        ('Bearer service="x"', 200, "{host} asks for a token and does not name the server that issues it"),
        ('Bearer realm="http://[/"', 200, "the answer of the registry for {host} is invalid: the server that issues tokens has no valid address"),
        ('Bearer realm="token"', 200, "the answer of the registry for {host} is invalid: the server that issues tokens has no valid address"),
        ('Bearer realm="ftp://127.0.0.1/"', 200, "{host} wants the password and the token sent in clear, to ftp://127.0.0.1"),
        ('Bearer realm="http://evil.example\\@127.0.0.1/"', 200, "{host} wants the password and the token sent in clear, to http://evil.example"),
        ("Negotiate", 200, "{host} refuses access to toy: a password is required"),
    ],
)  # fmt: skip
def test_a_token_that_is_not_issued(challenge: str, status: int, text: str) -> None:
    def answer(handler: Handler, _: int) -> None:
        if handler.path.startswith("/token"):
            reply(handler, status)
        elif handler.path == "/v2/":
            reply(handler, 200)
        else:
            reply(handler, 401, WWW_Authenticate=challenge.format(host=handler.headers["Host"]))

    with serving(answer) as server, pytest.raises(NetworkError) as caught:
        Transport(server.host, None, None, 0.001).ask("GET", "toy/tags/list", "toy")
    assert caught.value.message == text.format(host=server.host)


@pytest.mark.parametrize(
    "text",
    [
        "<html>", '["T"]', "{}", '{"token": null}', '{"token": ""}', '{"token": 5}', '{"token": ["T"]}', "[" * 100_000,
        r'{"token": "a\nb"}', r'{"token": "\ud800"}', '{"token": "密"}', '{"access_token": {"a": 1}}',
    ],
)  # fmt: skip
def test_an_answer_that_contains_no_token(text: str) -> None:
    def answer(handler: Handler, _: int) -> None:
        if handler.path.startswith("/token"):
            reply(handler, 200, text)
        elif handler.path == "/v2/":
            reply(handler, 200)
        else:
            realm = f"http://{handler.headers['Host']}/token"
            reply(handler, 401, WWW_Authenticate=f'Bearer realm="{realm}"')

    with (
        serving(answer) as server,
        pytest.raises(NetworkError, match="the answer of the registry for repository:toy:pull is invalid"),
    ):
        Transport(server.host, None, None, 0.001).ask("GET", "toy/tags/list", "toy")


def test_a_file_is_sent_whole_after_its_token_has_expired() -> None:
    sent: list[bytes] = []

    def answer(handler: Handler, _: int) -> None:
        if handler.command == "PUT":
            sent.append(handler.rfile.read(int(handler.headers["Content-Length"])))
            del handler.headers["Content-Length"]
        if handler.path.startswith("/token"):
            reply(handler, 200, '{"token": "T"}')
        elif handler.path == "/v2/" or handler.headers["Authorization"]:
            reply(handler, 200)
        else:
            realm = f"http://{handler.headers['Host']}/token"
            reply(handler, 401, WWW_Authenticate=f'Bearer realm="{realm}"')

    with serving(answer) as server:
        Transport(server.host, None, None, 0.001).ask("PUT", "toy/blobs/x", "toy", data=BytesIO(b"layer"), push=True)
    assert sent == [b"layer", b"layer"]
