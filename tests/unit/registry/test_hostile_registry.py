"""A registry with false, invalid or endless answers: each is a clear error."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from typing import Any

import pytest

from envbuilder import http
from envbuilder.errors import EnvbuilderError, NetworkError
from envbuilder.files import digest_of
from envbuilder.registry.client import INDEX_TYPES, MANIFEST_TYPES, Registry
from envbuilder.registry.credentials import Credentials
from envbuilder.registry.published import look_up
from envbuilder.registry.reference import Reference
from tests.helpers.web_server import Handler, reply, serving

Answers = dict[str, tuple[str, bytes]]
CONFIG = json.dumps({"architecture": "amd64", "config": {"Labels": {"a": "b"}}}).encode()
IMAGE = {
    "schemaVersion": 2,
    "config": {"digest": digest_of(CONFIG), "size": len(CONFIG)},
    "layers": [{"digest": "sha256:" + "0" * 64, "size": 5}],
}


@contextmanager
def lying(answers: Answers) -> Iterator[str]:
    """Serve a registry with these answers, each with its type, by their paths; all others are 404."""

    def answer(handler: Handler, number: int) -> None:
        kind, content = answers.get(handler.path.removeprefix("/v2/"), ("", b""))
        if handler.path == "/v2/":
            reply(handler, 200)
        elif kind:
            reply(handler, 200, content, kind)
        else:
            reply(handler, 404)

    with serving(answer) as server:
        yield server.host


def found_in(document: object, config: bytes = CONFIG, kind: str = MANIFEST_TYPES[0]) -> Any:
    """Look up an image with this manifest and configuration."""
    content = document if isinstance(document, bytes) else json.dumps(document).encode()
    answers = {"x/manifests/t": (kind, content), f"x/blobs/{digest_of(CONFIG)}": ("application/json", config)}
    with lying(answers) as host:
        return look_up(Registry(host, back_off=0), Reference.parse(f"{host}/x:t"), "x86_64")


def test_an_honest_registry() -> None:
    found = found_in(IMAGE)
    assert (found.arch, found.labels, found.size) == ("x86_64", {"a": "b"}, 5)


@pytest.mark.parametrize(
    "document",
    [
        b"<html>", b"\xff\xfe", b"", [], "text", 5, None, {}, {"config": 5}, {"config": {"digest": 7}, "layers": []},
        {**IMAGE, "layers": 5}, {**IMAGE, "layers": [5]}, {**IMAGE, "layers": [{"digest": "x"}]},
        {**IMAGE, "layers": [{"size": "many"}]}, {**IMAGE, "config": {"digest": "../../etc/passwd"}},
    ],
)  # fmt: skip
def test_an_invalid_manifest_is_a_clear_error(document: object) -> None:
    with pytest.raises(EnvbuilderError) as raised:
        found_in(document)
    assert raised.value.exit_code in {4, 7}


@pytest.mark.parametrize("config", [b"[]", b"{", b"null", b'{"config": 5}', b'{"config": {"Labels": [1]}}'])
def test_an_invalid_configuration_is_a_clear_error(config: bytes) -> None:
    document = {**IMAGE, "config": {"digest": digest_of(config), "size": len(config)}}
    answers = {
        "x/manifests/t": (MANIFEST_TYPES[0], json.dumps(document).encode()),
        f"x/blobs/{digest_of(config)}": ("application/json", config),
    }
    with lying(answers) as host, pytest.raises(NetworkError, match="is not an image"):
        look_up(Registry(host, back_off=0), Reference.parse(f"{host}/x:t"), "x86_64")


def test_a_configuration_of_another_digest_is_refused() -> None:
    with pytest.raises(NetworkError, match="has another digest"):
        found_in(IMAGE, config=CONFIG + b" ")


@pytest.mark.parametrize("listed", [5, [5], [{}], [{"platform": None}], [{"platform": {"architecture": 7}}]])
def test_an_empty_index_has_no_image(listed: object) -> None:
    with pytest.raises(EnvbuilderError, match=r"has no image for x86_64"):
        found_in({"manifests": listed}, kind=INDEX_TYPES[0])


@pytest.mark.parametrize("content", [b"<html>", b"[]", b'"text"'])
def test_invalid_lists_are_a_clear_error(content: bytes) -> None:
    with lying({"x/tags/list?n=100": ("application/json", content), "x/referrers/d": ("a/b", content)}) as host:
        asked = Registry(host, back_off=0)
        with pytest.raises(NetworkError, match="is no"):
            asked.tags("x")
        with pytest.raises(NetworkError, match="is no"):
            asked.referrers("x", "d")


@pytest.mark.parametrize("listed", [5, {"a": 1}, [5, "text", None]])
def test_invalid_referrers_are_left_out(listed: object) -> None:
    with lying({"x/referrers/d": ("application/json", json.dumps({"manifests": listed}).encode())}) as host:
        assert Registry(host, back_off=0).referrers("x", "d") == []


def test_pages_that_link_to_each_other_end() -> None:
    def answer(handler: Handler, number: int) -> None:
        link = {"Link": '</v2/x/tags/list?n=100>; rel="next"'} if "tags" in handler.path else {}
        reply(handler, 200, '{"tags": ["a"]}', "application/json", **link)

    with serving(answer) as server, pytest.raises(NetworkError, match="without an end"):
        Registry(server.host, back_off=0).tags("x")


def endless(handler: Handler, number: int) -> None:
    if handler.path == "/v2/":
        reply(handler, 200)
        return
    handler.send_response(200)
    handler.send_header("Content-Type", MANIFEST_TYPES[0])
    handler.end_headers()
    try:
        while True:
            handler.wfile.write(b"x" * 2**16)
    except OSError:
        pass  # the client has closed the connection


def test_an_answer_that_never_ends_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "_MOST", 2**20)
    with serving(endless) as server:
        asked = Registry(server.host, back_off=0)
        with pytest.raises(NetworkError, match="more than 1 MB"):
            asked.manifest("x", "t")
        with pytest.raises(NetworkError, match="more than 1 MB"):
            asked.tags("x")
        assert server.requests <= 4, "what never ends is not requested again"


def test_a_layer_that_never_ends_does_not_fill_the_disk() -> None:
    file = BytesIO()
    with serving(endless) as server, pytest.raises(NetworkError, match="sends more than the 100000 bytes"):
        Registry(server.host, back_off=0).download("x", "sha256:" + "0" * 64, file, 100_000)
    assert len(file.getvalue()) < 2**18


def test_a_password_is_not_sent_to_another_host() -> None:
    seen: list[str | None] = []

    def elsewhere(handler: Handler, number: int) -> None:
        seen.append(handler.headers.get("Authorization"))
        reply(handler, 200, CONFIG.decode())

    with serving(elsewhere) as other:

        def answer(handler: Handler, number: int) -> None:
            if handler.path == "/v2/":
                reply(handler, 200)
            elif handler.headers.get("Authorization") is None:
                reply(handler, 401, WWW_Authenticate='Basic realm="x"')
            else:
                # another name of this machine is another host
                reply(handler, 307, Location=f"http://localhost:{other.server_address[1]}/layer")

        with serving(answer) as server:
            credentials = Credentials(user="me", password="secret")  # noqa: S106
            asked = Registry(server.host, credentials=credentials, back_off=0)
            assert asked.blob("x", digest_of(CONFIG)) == CONFIG
    assert seen == [None]
