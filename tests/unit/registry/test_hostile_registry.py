"""A registry with false, invalid or endless answers: each is a clear error."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from envbuilder.environment import Catalog, Filters
from envbuilder.errors import EnvbuilderError, NetworkError, NoMatchError
from envbuilder.files import digest_of
from envbuilder.matrix import load
from envbuilder.registry import client, transport
from envbuilder.registry.answers import AnswerError, document
from envbuilder.registry.client import INDEX_TYPES, MANIFEST_TYPES, Registry
from envbuilder.registry.credentials import Credentials
from envbuilder.registry.images import there
from envbuilder.registry.published import look_up
from envbuilder.registry.pull import RegistryOptions
from envbuilder.registry.reference import Reference
from tests.conftest import A3_SGLANG, run
from tests.helpers.web_server import Handler, Server, reply, serving

Answers = dict[str, tuple[str, bytes]]
CONFIG = json.dumps({"architecture": "amd64", "config": {"Labels": {"a": "b"}}}).encode()
IMAGE = {
    "schemaVersion": 2,
    "config": {"digest": digest_of(CONFIG), "size": len(CONFIG)},
    "layers": [{"digest": "sha256:" + "0" * 64, "size": 5}],
}

LISTED = {"digest": "sha256:" + "1" * 64, "size": 5}


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
    with lying(answers) as host, pytest.raises(AnswerError):
        look_up(Registry(host, back_off=0), Reference.parse(f"{host}/x:t"), "x86_64")


def test_a_configuration_of_another_digest_is_refused() -> None:
    with pytest.raises(NetworkError, match="has another digest"):
        found_in(IMAGE, config=CONFIG + b" ")


@pytest.mark.parametrize("listed", [[], None, [{**LISTED, "platform": None}], [LISTED], [{**LISTED, "platform": {}}]])
def test_an_empty_index_has_no_image(listed: object) -> None:
    with pytest.raises(NoMatchError, match=r"has no image for x86_64; it has: none"):
        found_in({"manifests": listed}, kind=INDEX_TYPES[0])


WRONG: dict[str, list[object]] = {
    "platform": [5, {"architecture": 7}],
    "size": [None, "5", 5.0, True, -1, 2**63, 10**4000, []],
    "digest": [None, 5, "sha256:", "../x", f"sha256:{'g' * 64}", ["sha256"]],
    "annotations": [5, ["a"], {"a": 1}, {"a": None}],
}


@pytest.mark.parametrize(
    "listed",
    [5, [5], [{}], {"a": 1}, *([{**LISTED, key: wrong}] for key, values in WRONG.items() for wrong in values)],
)
def test_an_invalid_index_is_a_clear_error(listed: object) -> None:
    for whole, kind in (({"manifests": listed}, INDEX_TYPES[0]), ({**IMAGE, "layers": listed}, MANIFEST_TYPES[0])):
        with pytest.raises(AnswerError):
            found_in(whole, kind=kind)


def test_a_document_that_is_an_index_and_an_image_is_refused() -> None:
    with pytest.raises(AnswerError, match="manifests does not belong there"):
        found_in({**IMAGE, "manifests": []})
    with pytest.raises(AnswerError, match="config does not belong there"):
        found_in({**IMAGE, "manifests": []}, kind=INDEX_TYPES[0])


@pytest.mark.parametrize(
    "content",
    [
        b"[" * 10**6, b'{"a":' * 10**5, b'{"a":' * 100 + b"1" + b"}" * 100, b'{"a": ' + b"9" * 5000 + b"}",
        b'{"a": NaN}', b'{"a": 1e999}', b'{"a": 1, "a": 2}', rb'{"a": "\ud800"}', rb'{"\ud800": "a"}', b'{"a": "\xff"}',
        b"\xef\xbb\xbf{}", '{"a": "b"}'.encode("utf-16"), b'{"a": "b"} {}',
    ],
)  # fmt: skip
def test_a_document_that_programs_read_differently_is_refused(content: bytes) -> None:
    with pytest.raises(AnswerError, match="the answer of the registry for x is invalid: it is not JSON"):
        document(content, "x")


@pytest.mark.parametrize("status", [204, 304, 307, 400, 405, 410, 418, 451, 501])
def test_an_answer_that_refuses_is_not_read_as_empty(status: int) -> None:
    def answer(handler: Handler, number: int) -> None:
        reply(handler, 200 if handler.path == "/v2/" else status, "{}", MANIFEST_TYPES[0])

    with serving(answer) as server:
        asked = Registry(server.host, back_off=0)
        for ask in (
            lambda: asked.manifest("x", "t"), lambda: asked.find("x", "t"), lambda: asked.tags("x"),
            lambda: asked.blob("x", digest_of(b"{}")), lambda: asked.referrers("x", digest_of(b"")),
        ):  # fmt: skip
            with pytest.raises(NetworkError, match=f"{server.host} does not give .*: {status} "):
                ask()


@pytest.mark.parametrize("content", [b"<html>", b"[]", b'"text"'])
def test_invalid_lists_are_a_clear_error(content: bytes) -> None:
    with lying({"x/tags/list?n=100": ("application/json", content), "x/referrers/d": ("a/b", content)}) as host:
        asked = Registry(host, back_off=0)
        with pytest.raises(NetworkError, match="is not"):
            asked.tags("x")
        with pytest.raises(NetworkError, match="is not"):
            asked.referrers("x", "d")


@pytest.mark.parametrize("listed", [5, {"a": 1}, [5, "text", None]])
def test_invalid_referrers_are_a_clear_error(listed: object) -> None:
    content = json.dumps({"manifests": listed}).encode()
    with lying({"x/referrers/d": ("a/b", content)}) as host, pytest.raises(AnswerError, match="manifests"):
        Registry(host, back_off=0).referrers("x", "d")


@pytest.mark.parametrize("listed", [5, {"a": 1}, [5], [None], [["a"]], ["a b"], ["a" * 129], ["a\n"], "text"])
def test_invalid_tags_are_a_clear_error(listed: object) -> None:
    content = json.dumps({"tags": listed}).encode()
    with lying({"x/tags/list?n=100": ("a/b", content)}) as host, pytest.raises(AnswerError, match="x/tags is invalid"):
        Registry(host, back_off=0).tags("x")


def test_a_repository_without_tags() -> None:
    with lying({"x/tags/list?n=100": ("application/json", b'{"name": "x", "tags": null}')}) as host:
        assert Registry(host, back_off=0).tags("x") == []


@contextmanager
def listing(page: str, following: str) -> Iterator[Server]:
    """Serve a registry that has nothing but tags, with a link from each page to the `following` one."""

    def answer(handler: Handler, number: int) -> None:
        path = handler.path.removeprefix("/v2").partition("?")[0]
        if path.endswith("/tags/list"):
            link = {"Link": f'</v2{path}?{following.format(number=number)}>; rel="next"'}
            reply(handler, 200, page.format(number=number), "application/json", **link)
        else:
            reply(handler, 200 if path == "/" else 404)

    with serving(answer) as server:
        yield server


ENDLESS = [('{{"tags": ["a"]}}', "n=100"), ('{{"tags": ["a{number}"]}}', "last={number}"), ("{{}}", "last={number}")]


@pytest.mark.parametrize(("page", "following"), ENDLESS)
def test_pages_without_an_end_are_given_up(page: str, following: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "_MOST_PAGES", 50)
    with listing(page, following) as server:
        with pytest.raises(NetworkError, match="without an end"):
            Registry(server.host, back_off=0).tags("x")
        assert server.requests <= 51


def test_more_tags_than_any_repository_has_are_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "_MOST_TAGS", 20)
    with listing('{{"tags": ["a", "b", "c"]}}', "last={number}") as server:
        with pytest.raises(NetworkError, match="without an end"):
            Registry(server.host, back_off=0).tags("x")
        assert server.requests <= 9


def test_slow_pages_without_an_end_are_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "_LONGEST_LIST", 0)
    with listing("{{}}", "last={number}") as server, pytest.raises(NetworkError, match="without an end"):
        Registry(server.host, back_off=0).tags("x")


def test_commands_give_up_pages_without_an_end(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(client, "_MOST_PAGES", 20)
    with listing("{{}}", "last={number}") as server:
        place = f"{server.host}/x"
        result = run("pull", A3_SGLANG, "--registry", place, "--save", str(tmp_path / "image.tar"))
        with pytest.raises(NetworkError, match="without an end"):
            list(there(Catalog(load()).select([A3_SGLANG], Filters()), RegistryOptions(place)))
    assert result.returncode == 7 and "lists the tags of x/verl without an end" in result.stderr, result.stderr
    assert "hint: 20 pages were read; --registry names another registry" in result.stderr


@pytest.mark.parametrize(
    "header", [("Link", "<" * 60_000), ("WWW-Authenticate", f"Bearer {'a' * 60_000}")]
)  # fmt: skip
def test_long_headers_are_read_quickly(header: tuple[str, str]) -> None:
    def answer(handler: Handler, number: int) -> None:
        status = 401 if header[0] == "WWW-Authenticate" and handler.path != "/v2/" else 200
        reply(handler, status, '{"tags": ["a"]}', "application/json", **{header[0]: header[1]})

    began = time.monotonic()
    with serving(answer) as server, suppress(NetworkError):
        Registry(server.host, back_off=0).tags("x")
    assert time.monotonic() - began < 2


@pytest.mark.parametrize("place", ["http://[/", "http://x:99999999/", f"http://{'a' * 300}/", "//", "http://%zz/"])
def test_an_invalid_redirect_is_a_clear_error(place: str) -> None:
    def answer(handler: Handler, number: int) -> None:
        reply(handler, 200) if handler.path == "/v2/" else reply(handler, 307, Location=place)

    with serving(answer) as server:
        asked = Registry(server.host, back_off=0)
        for ask in (lambda: asked.tags("x"), lambda: asked.blob("x", digest_of(b"")), lambda: asked.put_blob("x", b"")):
            with pytest.raises(NetworkError):
                ask()


@pytest.mark.parametrize("length", ["5x", "9" * 5000, "-1", "", "１"])
def test_an_invalid_length_is_no_length(length: str) -> None:
    def answer(handler: Handler, number: int) -> None:
        if handler.path == "/v2/":
            reply(handler, 200)
            return
        handler.wfile.write(f"HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n".encode() + CONFIG)
        handler.close_connection = True

    with serving(answer) as server:
        assert Registry(server.host, back_off=0).blob("x", digest_of(CONFIG)) == CONFIG


@pytest.mark.parametrize("place", ["http://[/x", "http://host", "?a=b"])
def test_an_upload_without_a_place_is_refused(place: str) -> None:
    def answer(handler: Handler, number: int) -> None:
        status = {"HEAD": 404, "POST": 202}.get(handler.command, 200)
        reply(handler, status, Location=place)

    with serving(answer) as server, pytest.raises(NetworkError, match="refuses an upload"):
        Registry(server.host, back_off=0).put_blob("x", b"content")


def test_a_refused_manifest_with_an_invalid_charset_is_a_clear_error() -> None:
    def answer(handler: Handler, number: int) -> None:
        reply(handler, 200 if handler.path == "/v2/" else 400, b"\xff\x80", "text/plain; charset=idna")

    with serving(answer) as server, pytest.raises(NetworkError, match="refuses the manifest"):
        Registry(server.host, back_off=0).put_manifest("x", "t", b"{}", MANIFEST_TYPES[0])


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
    monkeypatch.setattr(transport, "_MOST", 2**20)
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
