"""Requests to a registry: its address, and the token or password that it requires."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urljoin, urlsplit

import requests

from envbuilder import http
from envbuilder.errors import NetworkError
from envbuilder.language import tr
from envbuilder.registry.credentials import Credentials

_CONNECT_SECONDS, _READ_SECONDS = 10, 60
_TIMEOUT = (_CONNECT_SECONDS, _READ_SECONDS)
_REFUSED = {401, 403}
_CHALLENGE = re.compile(r'(\w+)="([^"]*)"')
HINT = "try again later, or name a mirror with --mirror"


class Transport:
    """Sends requests to one registry. A loopback address may speak plain HTTP, as with docker."""

    def __init__(self, host: str, ca_bundle: Path | None, credentials: Credentials | None, back_off: float) -> None:
        self.host = host
        # a registry gets docker's credentials, not those of netrc
        self._session = http.Session(ca_bundle, netrc=False, back_off=back_off)
        self._credentials = credentials
        self._scheme: str | None = None
        # by scope
        self._tokens: dict[str, str] = {}
        # whether the registry wants the password itself, with every request
        self._basic = False

    def ask(
        self, method: str, path: str, repository: str, *, push: bool = False, headers: Mapping[str, str] | None = None,
        **more: Any,
    ) -> requests.Response:  # fmt: skip
        """Return the answer to a request, which is repeated with the token or password if the registry requires one."""
        scope = f"repository:{repository}:pull{',push' if push else ''}"
        address = urljoin(f"{self._base()}/v2/", path)
        answer = self._send(method, address, headers=self._headers(scope, headers), auth=self._auth(), **more)
        if answer.status_code == 401:
            # the token has expired, or none was sent
            self._tokens.pop(scope, None)
            self._authenticate(answer.headers.get("WWW-Authenticate", ""), scope)
            if hasattr(more.get("data"), "seek"):
                more["data"].seek(0)  # the first request has read the file
            answer = self._send(method, address, headers=self._headers(scope, headers), auth=self._auth(), **more)
        if answer.status_code in _REFUSED:
            raise self._refused(repository)
        return answer

    def _headers(self, scope: str, headers: Mapping[str, str] | None) -> dict[str, str]:
        found = dict(headers or {})
        if scope in self._tokens:
            found["Authorization"] = f"Bearer {self._tokens[scope]}"
        return found

    def _send(self, method: str, address: str, **settings: Any) -> requests.Response:
        try:
            answer = self._session.request(method, address, **{"timeout": _TIMEOUT, **settings})
        except requests.RequestException as error:
            raise http.network_error(error, address, hint=tr(HINT)) from error
        if answer.status_code in http.TRANSIENT:
            host, reason = urlsplit(answer.url).netloc, f"{answer.status_code} {answer.reason}"
            raise NetworkError(tr("{host} does not answer: {reason}", host=host, reason=reason), hint=tr(HINT))
        return answer

    def _base(self) -> str:
        """Return the registry's URL: plain HTTP only on this machine, and only if the registry answers to it."""
        if self._scheme is None:
            local = self.host.partition(":")[0] in {"localhost", "127.0.0.1"}
            self._scheme = "http" if local and self._answers_plainly() else "https"
        return f"{self._scheme}://{self.host}"

    def _answers_plainly(self) -> bool:
        # one attempt: a server that speaks TLS may close such a connection each time
        with http.Session(netrc=False, attempts=1) as session:
            try:
                answer = session.get(f"http://{self.host}/v2/", timeout=_CONNECT_SECONDS, allow_redirects=False)
            except requests.RequestException:
                return False
        # a server that speaks TLS redirects plain HTTP, or refuses it as a bad request
        return answer.status_code not in range(300, 401)

    def _auth(self) -> tuple[str, str] | None:
        if self._basic and self._credentials is not None:
            return self._credentials.user, self._credentials.password
        return None

    def _authenticate(self, challenge: str, scope: str) -> None:
        """Prepare the password or the token that a registry requires."""
        kind, _, rest = challenge.partition(" ")
        if kind.lower() == "basic":
            self._basic = self._credentials is not None
        elif kind.lower() == "bearer":
            self._tokens[scope] = self._token(dict(_CHALLENGE.findall(rest)), scope)

    def _token(self, challenge: Mapping[str, str], scope: str) -> str:
        credentials, realm = self._credentials, challenge.get("realm")
        if not realm:
            raise NetworkError(
                tr("{host} asks for a token and does not name the server that issues it", host=self.host)
            )
        query = {"service": challenge.get("service", ""), "scope": challenge.get("scope") or scope}
        if credentials is not None and credentials.refresh_token:
            form = {
                **query,
                "grant_type": "refresh_token",
                "refresh_token": credentials.refresh_token,
                "client_id": "envbuilder",
            }
            answer = self._send("POST", realm, data=form)
        else:
            auth = (credentials.user, credentials.password) if credentials else None
            answer = self._send("GET", realm, params=query, auth=auth)
        if answer.status_code != 200:
            raise self._refused(scope)
        found = parsed(answer.content, scope)
        return str(found.get("token") or found.get("access_token") or "")

    def _refused(self, what: str) -> NetworkError:
        reason = (
            tr("the password of '{user}' is not accepted", user=self._credentials.user)
            if self._credentials
            else tr("a password is required")
        )
        return NetworkError(
            tr("{host} refuses access to {what}: {reason}", host=self.host, what=what, reason=reason),
            hint=f"docker login {self.host}",
        )


def parsed(content: bytes, name: str) -> dict[str, Any]:
    """Return the document in an answer of a registry for a name."""
    try:
        found = json.loads(content)
    except ValueError as error:
        raise NetworkError(tr("the answer of the registry for {name} is not JSON", name=name), hint=tr(HINT)) from error
    if not isinstance(found, dict):
        raise NetworkError(tr("the answer of the registry for {name} is not a document", name=name), hint=tr(HINT))
    return found
