"""Requests to a registry: its address, and the token or password that it requires."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import requests

from envbuilder import http
from envbuilder.errors import NetworkError
from envbuilder.language import tr
from envbuilder.registry.answers import HINT, AnswerError, answer_of
from envbuilder.registry.credentials import Credentials

_CONNECT_SECONDS, _READ_SECONDS = 10, 60
_TIMEOUT = (_CONNECT_SECONDS, _READ_SECONDS)
_REFUSED = {401, 403}
# without the boundary, a long word takes quadratic time
_CHALLENGE = re.compile(r'\b(\w+)="([^"]*)"')
_TOKEN = re.compile(r"[!-~]+")
_LOCAL = {"localhost", "127.0.0.1"}
# registries take manifests of 4 MB at most
_MOST = 2**23


class Transport:
    """Sends requests to one registry. A loopback address may speak plain HTTP, as with docker."""

    def __init__(self, host: str, ca_bundle: Path | None, credentials: Credentials | None, back_off: float) -> None:
        self.host = host
        # a registry gets docker's credentials, not those of netrc
        session = partial(http.Session, ca_bundle, netrc=False, back_off=back_off)
        self._session = session(most=_MOST, follows=http.stays_encrypted)
        # content is compared with its digest, so it may come from anywhere
        self._storage = session()
        # a redirect may take the password along
        self._issuer = session(most=_MOST, follows=http.stays_there)
        self._credentials = credentials
        self._scheme: str | None = None
        # by scope
        self._tokens: dict[str, str] = {}
        # whether the registry wants the password itself, with every request
        self._basic = False

    def ask(
        self, method: str, path: str, repository: str, *, push: bool = False, headers: Mapping[str, str] | None = None,
        stream: bool = False, **more: Any,
    ) -> requests.Response:  # fmt: skip
        """Return the answer to a request, which is repeated with the token or password if the registry requires one."""
        scope = f"repository:{repository}:pull{',push' if push else ''}"
        # never another host, whatever the path is
        address = f"{self._base()}{'' if path.startswith('/') else '/v2/'}{path}"
        send = partial(self._send, self._storage if stream else self._session, method, address, stream=stream)
        answer = send(headers=self._headers(scope, headers), **more)
        # the password is for the registry, and not for a server that it leads to
        if answer.status_code == 401 and http.stays_there(answer.url, address):
            # the token has expired, or none was sent
            self._tokens.pop(scope, None)
            self._authenticate(answer.headers.get("WWW-Authenticate", ""), scope)
            if hasattr(more.get("data"), "seek"):
                more["data"].seek(0)  # the first request has read the file
            answer = send(headers=self._headers(scope, headers), **more)
        if answer.status_code in _REFUSED:
            raise self._refused(repository)
        return answer

    def _headers(self, scope: str, headers: Mapping[str, str] | None) -> dict[str, str]:
        found = dict(headers or {})
        if self._basic and self._credentials is not None:
            found["Authorization"] = self._credentials.basic
        elif scope in self._tokens:
            found["Authorization"] = f"Bearer {self._tokens[scope]}"
        return found

    def _send(self, session: http.Session, method: str, address: str, **settings: Any) -> requests.Response:
        try:
            answer = session.request(method, address, **{"timeout": _TIMEOUT, **settings})
        except requests.RequestException as error:
            raise http.network_error(error, address, hint=tr(HINT)) from error
        if answer.status_code in http.TRANSIENT:
            host, reason = urlsplit(answer.url).netloc, f"{answer.status_code} {answer.reason}"
            raise NetworkError(tr("{host} does not answer: {reason}", host=host, reason=reason), hint=tr(HINT))
        return answer

    def _base(self) -> str:
        """Return the registry's URL: plain HTTP only on this machine, and only if the registry answers to it."""
        if self._scheme is None:
            local = self.host.partition(":")[0] in _LOCAL
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

    def _authenticate(self, challenge: str, scope: str) -> None:
        """Prepare the password or the token that a registry requires."""
        kind, _, rest = challenge.partition(" ")
        if kind.lower() == "basic":
            self._basic = self._credentials is not None
        elif kind.lower() == "bearer":
            self._tokens[scope] = self._token(dict(_CHALLENGE.findall(rest)), scope)

    def _token(self, challenge: Mapping[str, str], scope: str) -> str:
        credentials, issuer = self._credentials, self._issuer_in(challenge)
        query = {"service": challenge.get("service", ""), "scope": challenge.get("scope") or scope}
        if credentials is not None and credentials.refresh_token:
            form = {
                **query,
                "grant_type": "refresh_token",
                "refresh_token": credentials.refresh_token,
                "client_id": "envbuilder",
            }
            answer = self._send(self._issuer, "POST", issuer, data=form)
        else:
            headers = {"Authorization": credentials.basic} if credentials else {}
            answer = self._send(self._issuer, "GET", issuer, params=query, headers=headers)
        if answer.status_code != 200:
            raise self._refused(scope)
        found = answer_of(answer.content, scope)
        token = found.text("token", "") or found.text("access_token", "")
        if _TOKEN.fullmatch(token) is None:
            raise AnswerError(scope, tr("it has no token"))
        return token

    def _issuer_in(self, challenge: Mapping[str, str]) -> str:
        """Return the address of the server that issues tokens; it must use TLS, except on this machine."""
        realm = challenge.get("realm")
        if not realm:
            raise NetworkError(
                tr("{host} asks for a token and does not name the server that issues it", host=self.host)
            )
        try:
            # programs differ in how they read an invalid address, so this is the one that is used
            address = str(requests.Request("GET", realm).prepare().url)
            parts = urlsplit(address)
        except (requests.RequestException, ValueError) as error:
            raise AnswerError(self.host, tr("the server that issues tokens has no valid address")) from error
        if parts.scheme != "https" and not (self._scheme == parts.scheme == "http" and parts.hostname in _LOCAL):
            raise NetworkError(
                tr(
                    "{host} wants the password and the token sent in clear, to {address}",
                    host=self.host,
                    address=http.origin(address),
                ),
                hint=tr("who runs {host} has to give that server an address with https", host=self.host),
            )
        return address

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
