"""The session against a server on loopback: its retries and pauses, the certificates it trusts, its messages."""

from __future__ import annotations

import http.server
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest
import requests
import trustme

from envbuilder.http import ATTEMPTS, TRANSIENT, Session, network_error
from tests.helpers.web_server import Server, cut, reply, serving


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("no_proxy", "127.0.0.1,localhost")
    with serving(lambda handler, _: reply(handler, 200, "fine")) as running:
        yield running


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return the pauses between attempts, which the test skips."""
    made: list[float] = []
    monkeypatch.setattr(time, "sleep", made.append)
    return made


def session(ca_bundle: Path | None = None, *, netrc: bool = False) -> Session:
    return Session(ca_bundle, netrc=netrc, back_off=0.001)


def shown(error: requests.RequestException) -> str:
    return network_error(error, "fallback", hint="").message


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT"])
@pytest.mark.parametrize("status", sorted(TRANSIENT))
def test_a_transient_status_is_retried_and_then_returned(server: Server, method: str, status: int) -> None:
    server.answer = lambda handler, count: reply(handler, status if count < ATTEMPTS else 200)
    assert session().request(method, server.url, data=b"content").status_code == 200
    server.answer = lambda handler, _: reply(handler, status)
    server.requests = 0
    assert session().request(method, server.url, data=b"content").status_code == status
    assert server.requests == ATTEMPTS == 5


@pytest.mark.parametrize("status", [400, 401, 403, 404, 418, 501])
def test_another_status_is_returned_at_once(server: Server, status: int) -> None:
    server.answer = lambda handler, _: reply(handler, status)
    assert session().get(server.url).status_code == status
    assert server.requests == 1


@pytest.mark.parametrize(
    ("back_off", "retry_after", "expected"),
    [
        (0.5, None, [0.5, 1, 2, 4]),
        (10, None, [10, 20, 30, 30]),
        (0.5, "3", [3, 3, 3, 3]),
        (0.5, "3600", [30, 30, 30, 30]),
        (0.5, "Fri, 31 Dec 2999 23:59:59 GMT", [30, 30, 30, 30]),
        (0.5, "later", [0.5, 1, 2, 4]),
    ],
)
def test_the_pauses(
    server: Server, pauses: list[float], back_off: float, retry_after: str | None, expected: list[float]
) -> None:
    headers = {"Retry_After": retry_after} if retry_after else {}
    server.answer = lambda handler, _: reply(handler, 503, **headers)
    assert Session(netrc=False, back_off=back_off).get(server.url).status_code == 503
    assert pauses == expected


def test_a_refused_connection_is_retried(pauses: list[float]) -> None:
    with pytest.raises(requests.ConnectionError) as caught:
        Session(netrc=False).get("http://127.0.0.1:9/")
    assert pauses == [0.5, 1, 2, 4]
    assert shown(caught.value) == "127.0.0.1:9 does not answer: Connection refused"


def test_a_connection_without_an_answer_is_retried(server: Server) -> None:
    server.answer = lambda handler, count: None if count < ATTEMPTS else reply(handler, 200, "fine")
    assert session().post(server.url, data=b"content").text == "fine"


def test_an_answer_that_breaks_off_is_retried(server: Server) -> None:
    server.answer = lambda handler, count: cut(handler) if count < ATTEMPTS else reply(handler, 200, "fine")
    assert session().get(server.url).text == "fine"
    server.answer = lambda handler, _: cut(handler)
    server.requests = 0
    with pytest.raises(requests.RequestException) as caught:
        session().get(server.url)
    assert server.requests == ATTEMPTS
    assert "does not answer: " in shown(caught.value)


def test_a_streamed_answer_is_left_to_the_caller(server: Server) -> None:
    server.answer = lambda handler, _: cut(handler)
    with session().get(server.url, stream=True) as answer:
        assert answer.raw.read(6) == b"<html>"
    assert server.requests == 1


def test_a_session_of_one_attempt_does_not_retry(server: Server, pauses: list[float]) -> None:
    server.answer = lambda handler, _: reply(handler, 503)
    assert Session(netrc=False, attempts=1).get(server.url).status_code == 503
    server.answer = lambda handler, _: cut(handler)
    with pytest.raises(requests.RequestException):
        Session(netrc=False, attempts=1).get(server.url)
    assert (server.requests, pauses) == (2, [])


@pytest.mark.parametrize("variable", ["REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"])
def test_a_given_bundle_wins_over_variables(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pauses: list[float], variable: str
) -> None:
    server.secure(tmp_path / "trusted")
    trustme.CA().cert_pem.write_to_path(str(tmp_path / "another"))
    monkeypatch.delenv("REQUESTS_CA_BUNDLE", raising=False)
    monkeypatch.setenv(variable, str(tmp_path / "another"))
    assert session(tmp_path / "trusted").get(server.url).text == "fine"
    with pytest.raises(requests.exceptions.SSLError) as caught:
        session().get(server.url)
    assert pauses == [], "a certificate that is not trusted is not retried"
    found = network_error(caught.value, "fallback", hint="")
    assert found.message == f"the TLS certificate of {server.host} is not trusted"
    assert found.exit_code == 7 and "--ca-bundle" in str(found.hint)


@pytest.mark.parametrize(
    ("validity", "shown_as"),
    [({"not_after": datetime(2020, 1, 1)}, "has expired"), ({"not_before": datetime(2080, 1, 1)}, "is not yet valid")],
)
def test_a_certificate_of_another_time_names_the_clock(
    server: Server, tmp_path: Path, pauses: list[float], validity: dict[str, datetime], shown_as: str
) -> None:
    server.secure(
        tmp_path / "trusted", **{"not_before": datetime(2019, 1, 1), "not_after": datetime(2090, 1, 1)} | validity
    )
    with pytest.raises(requests.exceptions.SSLError) as caught:
        session(tmp_path / "trusted").get(server.url)
    found = network_error(caught.value, "fallback", hint="")
    assert found.message == f"the TLS certificate of {server.host} {shown_as}"
    assert f"the clock of this machine shows {time.strftime('%Y-')}" in str(found.hint)


def test_a_certificate_for_another_name_is_not_trusted(server: Server, tmp_path: Path, pauses: list[float]) -> None:
    server.secure(tmp_path / "trusted")
    address = server.url.replace("127.0.0.1", "localhost")
    with pytest.raises(requests.exceptions.SSLError) as caught:
        session(tmp_path / "trusted").get(address)
    assert shown(caught.value) == f"the TLS certificate of localhost:{server.server_address[1]} is not trusted"
    assert pauses == []


def test_the_host_that_a_redirect_leads_to_is_named(server: Server) -> None:
    server.answer = lambda handler, _: reply(handler, 302, Location="http://user:secret@127.0.0.1:9/")
    with pytest.raises(requests.RequestException) as caught:
        session().get(server.url)
    assert shown(caught.value) == "127.0.0.1:9 does not answer: Connection refused"


def test_a_name_without_an_address_is_named_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(requests.RequestException) as caught:
        session().get("http://nowhere.invalid/simple/")
    assert shown(caught.value) == "the DNS lookup of nowhere.invalid failed; proxy: none"


def test_a_server_without_tls_is_named_as_such(server: Server) -> None:
    with pytest.raises(requests.RequestException) as caught:
        session().get(server.url.replace("http:", "https:"))
    assert shown(caught.value).startswith(f"the TLS connection to {server.host} fails: ")


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_proxy_that_does_not_answer_is_named_as_such(monkeypatch: pytest.MonkeyPatch, scheme: str) -> None:
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(f"{scheme}_proxy", "http://user:secret@127.0.0.1:9")
    with pytest.raises(requests.RequestException) as caught:
        session().get(f"{scheme}://index.example/")
    assert shown(caught.value) == "the proxy for index.example does not answer: Connection refused"


@pytest.mark.parametrize("address", ["ftp://user:secret@index.example/", "user:secret@index.example/"])
def test_credentials_are_not_shown(address: str) -> None:
    with pytest.raises(requests.RequestException) as caught:
        session().get(address)
    found = network_error(caught.value, address, hint="").message
    assert found.startswith("index.example") and "does not answer" in found
    assert "secret" not in found


@pytest.mark.parametrize("netrc", [True, False])
def test_netrc_is_used_only_where_that_is_allowed(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, netrc: bool
) -> None:
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login me password x\nmachine localhost login me password y\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    seen: list[str | None] = []

    def redirect(handler: http.server.BaseHTTPRequestHandler, count: int) -> None:
        seen.append(handler.headers.get("Authorization"))
        elsewhere = f"http://localhost:{server.server_address[1]}/"
        reply(handler, 302, Location=elsewhere) if count % 2 else reply(handler, 200)

    server.answer = redirect
    session(netrc=netrc).get(server.url)
    assert seen == (["Basic bWU6eA==", "Basic bWU6eQ=="] if netrc else [None, None])
    seen.clear()
    session(netrc=False).get(server.url, auth=("other", "z"))
    assert seen == ["Basic b3RoZXI6eg==", None], "another host does not get the credentials"
