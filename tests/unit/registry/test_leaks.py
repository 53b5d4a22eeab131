"""Registries that lead a password, a token or a manifest to a place that others can read or change."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple
from urllib.parse import parse_qs

import pytest

from envbuilder.errors import NetworkError, UsageError
from envbuilder.files import digest_of
from envbuilder.registry.client import MANIFEST_TYPES, Registry
from envbuilder.registry.credentials import Credentials
from envbuilder.registry.reference import Reference
from envbuilder.registry.transport import Transport
from tests.helpers.web_server import Handler, body_of, reply, serving

SECRET = "hush"  # noqa: S105
LOGIN = Credentials("me", SECRET)
REFRESH = Credentials("", "", SECRET)


class Places(NamedTuple):
    """A registry with TLS, another server without it, its CA, and what the other server has received."""

    host: str
    other: str
    ca_bundle: Path
    received: list[str]


@contextmanager
def places(folder: Path, answer: Callable[[Handler, Places], None], *, secure: bool = True) -> Iterator[Places]:
    received: list[str] = []

    def listen(handler: Handler, _: int) -> None:
        received.append(f"{handler.path} {handler.headers} {body_of(handler).decode()}")
        reply(handler, 200, json.dumps({"token": "T", "tags": ["evil"]}), MANIFEST_TYPES[0])

    with ExitStack() as stack:
        other = stack.enter_context(serving(listen))
        server = stack.enter_context(serving(lambda handler, _: answer(handler, found)))
        if secure:
            server.secure(folder / "ca")
        # another name of this machine is another host
        found = Places(server.host, other.host.replace("127.0.0.1", "localhost"), folder / "ca", received)
        yield found


def challenge(handler: Handler, realm: str) -> None:
    reply(handler, 401, WWW_Authenticate=f'Bearer realm="{realm}",service="x"')


@pytest.mark.parametrize("credentials", [LOGIN, REFRESH, None])
def test_a_registry_with_tls_cannot_name_an_issuer_without_it(tmp_path: Path, credentials: Credentials | None) -> None:
    with (
        places(tmp_path, lambda handler, at: challenge(handler, f"http://{at.other}/token")) as at,
        pytest.raises(NetworkError, match=r"the password and the token .* in clear"),
    ):
        Transport(at.host, at.ca_bundle, credentials, 0.001).ask("GET", "x/tags/list", "x")
    assert at.received == []


def test_a_registry_of_this_machine_cannot_name_an_issuer_without_tls_elsewhere(tmp_path: Path) -> None:
    def answer(handler: Handler, at: Places) -> None:
        reply(handler, 200) if handler.path == "/v2/" else challenge(handler, "http://issuer.invalid/token")

    with (
        places(tmp_path, answer, secure=False) as at,
        pytest.raises(NetworkError, match=r"to http://issuer\.invalid"),
    ):
        Transport(at.host, None, LOGIN, 0.001).ask("GET", "x/tags/list", "x")


@pytest.mark.parametrize("status", [302, 307, 308])
@pytest.mark.parametrize("credentials", [LOGIN, REFRESH])
def test_an_issuer_cannot_pass_a_password_on(tmp_path: Path, status: int, credentials: Credentials) -> None:
    def answer(handler: Handler, at: Places) -> None:
        if handler.path == "/v2/":
            reply(handler, 200)
        elif handler.path.startswith("/token"):
            reply(handler, status, Location=f"http://{at.other}/token")
        else:
            challenge(handler, f"http://{at.host}/token")

    with places(tmp_path, answer, secure=False) as at, pytest.raises(NetworkError, match="leads to http://localhost"):
        Transport(at.host, None, credentials, 0.001).ask("GET", "x/tags/list", "x")
    assert at.received == []


def test_an_issuer_may_have_its_token_in_another_folder(tmp_path: Path) -> None:
    def answer(handler: Handler, at: Places) -> None:
        if handler.path.startswith("/token?"):
            reply(handler, 307, Location="/token/")
        elif handler.path.startswith("/token/"):
            reply(handler, 200, '{"token": "T"}')
        elif handler.headers["Authorization"] == "Bearer T":
            reply(handler, 200, "fine")
        else:
            challenge(handler, f"https://{at.host}/token")

    with places(tmp_path, answer) as at:
        assert Transport(at.host, at.ca_bundle, LOGIN, 0.001).ask("GET", "x/tags/list", "x").text == "fine"


@pytest.mark.parametrize("scheme", ["http", "%68ttp", "HTTP", "//"])
def test_a_manifest_does_not_come_without_tls(tmp_path: Path, scheme: str) -> None:
    def answer(handler: Handler, at: Places) -> None:
        # a location without a scheme has that of the registry, and the other server has no TLS
        place = f"//{at.other}/m" if scheme == "//" else f"{scheme}://{at.other}/m"
        reply(handler, 307, Location=place)

    with places(tmp_path, answer) as at, pytest.raises(NetworkError):
        Registry(at.host, at.ca_bundle, back_off=0).manifest("x", "t")
    assert at.received == []


def test_content_with_a_digest_may_come_without_tls(tmp_path: Path) -> None:
    content = json.dumps({"token": "T", "tags": ["evil"]}).encode()

    def answer(handler: Handler, at: Places) -> None:
        reply(handler, 307, Location=f"http://{at.other}/storage")

    with places(tmp_path, answer) as at:
        asked = Registry(at.host, at.ca_bundle, LOGIN, back_off=0)
        assert asked.blob("x", digest_of(content)) == content
    assert SECRET not in "".join(at.received) and "Authorization" not in "".join(at.received)


def test_an_upload_does_not_leave_tls(tmp_path: Path) -> None:
    def answer(handler: Handler, at: Places) -> None:
        body_of(handler)
        status = {"HEAD": 404, "POST": 202, "PUT": 307}[handler.command]
        reply(handler, status, Location=f"http://{at.other}/x" if status == 307 else "/v2/x/blobs/uploads/1")

    with places(tmp_path, answer) as at, pytest.raises(NetworkError, match="leads to http://localhost"):
        Registry(at.host, at.ca_bundle, back_off=0).put_blob("x", b"private")
    assert at.received == []


def test_only_the_registry_itself_may_ask_for_the_password(tmp_path: Path) -> None:
    asked: list[str] = []

    def storage(handler: Handler, _: int) -> None:
        asked.append(str(handler.headers["Authorization"]))
        port = handler.headers["Host"].rpartition(":")[2]
        reply(handler, 401, WWW_Authenticate=f'Bearer realm="http://127.0.0.1:{port}/token"')

    with serving(storage) as server:
        port = server.server_address[1]

        def answer(handler: Handler, at: Places) -> None:
            if handler.path == "/v2/":
                reply(handler, 200)
            else:
                reply(handler, 307, Location=f"http://localhost:{port}/storage")

        with places(tmp_path, answer, secure=False) as at, pytest.raises(NetworkError, match="refuses access"):
            Registry(at.host, None, LOGIN, back_off=0).blob("x", digest_of(b""))
    assert asked == ["None"]


@pytest.mark.parametrize("place", ["https://{host}//{other}/upload", "//{other}/upload", "http://{other}/upload?a=b"])
def test_an_upload_goes_to_the_registry(tmp_path: Path, place: str) -> None:
    seen: list[str] = []

    def answer(handler: Handler, at: Places) -> None:
        body_of(handler)
        seen.append(f"{handler.command} {handler.path}")
        status = {"HEAD": 404, "POST": 202, "PUT": 201}.get(handler.command, 200)
        reply(handler, status, Location=place.format(host=at.host, other=at.other))

    with places(tmp_path, answer, secure=False) as at:
        Registry(at.host, None, LOGIN, back_off=0).put_blob("x", b"private")
    assert at.received == [] and seen[-1].startswith("PUT /")


@pytest.mark.parametrize("link", ["</v2/http://{other}/v2/x/tags/list>", "</v2///{other}/x>", "</v2/y/tags/list?n=1>"])
def test_pages_of_tags_come_from_the_registry(tmp_path: Path, link: str) -> None:
    def answer(handler: Handler, at: Places) -> None:
        following = {"Link": f'{link.format(other=at.other)}; rel="next"'}
        reply(handler, 200, '{"tags": ["a"]}', "application/json", **following)

    with places(tmp_path, answer, secure=False) as at, pytest.raises(NetworkError, match="tags"):
        Registry(at.host, None, LOGIN, back_off=0).tags("x")
    assert at.received == []


def test_a_password_has_any_letters(tmp_path: Path) -> None:
    sent: list[str] = []

    def answer(handler: Handler, at: Places) -> None:
        sent.append(str(handler.headers["Authorization"]))
        reply(handler, 401 if len(sent) == 1 else 200, WWW_Authenticate='Basic realm="x"')

    with places(tmp_path, answer) as at:
        Transport(at.host, at.ca_bundle, Credentials("王", "密码"), 0.001).ask("GET", "x/tags/list", "x")
    assert sent == ["None", "Basic 546LOuWvhueggQ=="]


@pytest.mark.parametrize(
    "mirror",
    ["me:hush@mirror.example/x", "https://me:hush@mirror.example", "me:sha@hush@mirror.example", "hush@mirror.example"],
)
def test_a_password_in_the_name_of_a_mirror_is_not_shown(mirror: str) -> None:
    with pytest.raises(UsageError) as raised:
        Reference("quay.io", "team/verl", "v1").in_mirror(mirror)
    shown = f"{raised.value.message} {raised.value.hint}"
    assert SECRET not in shown and "mirror.example" in shown and "docker login" in shown


def test_the_token_that_is_refreshed_is_sent_to_its_issuer(tmp_path: Path) -> None:
    forms: list[dict[str, list[str]]] = []

    def answer(handler: Handler, at: Places) -> None:
        if handler.path == "/token":
            forms.append(parse_qs(body_of(handler).decode()))
            reply(handler, 200, '{"access_token": "T"}')
        elif handler.headers["Authorization"] == "Bearer T":
            reply(handler, 200)
        else:
            challenge(handler, f"https://{at.host}/token")

    with places(tmp_path, answer) as at:
        Transport(at.host, at.ca_bundle, REFRESH, 0.001).ask("GET", "x/tags/list", "x")
    assert forms[0]["refresh_token"] == [SECRET]
