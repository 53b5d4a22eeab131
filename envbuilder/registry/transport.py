"""The way into a registry: the address, retries, and the token or password that it wants."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from envbuilder.errors import NetworkError
from envbuilder.registry.credentials import Credentials

if TYPE_CHECKING:
    from requests import Response

ATTEMPTS = 5
_CONNECT_SECONDS, _READ_SECONDS = 10, 60
_LONGEST_PAUSE = 30.0
_AGAIN = {408, 429, 500, 502, 503, 504}
_NO_ENTRY = {401, 403}
_CHALLENGE = re.compile(r'(\w+)="([^"]*)"')


class Door:
    """A loopback address may speak plain HTTP, as with docker."""

    def __init__(
        self, host: str, ca_bundle: Path | None, credentials: Credentials | None, pause: Callable[[float], None]
    ) -> None:
        from envbuilder.registry.session import OwnSession

        self.host = host
        self._session = OwnSession()
        # with every request: a variable of the environment would win over what a session says
        self._verify: str | None = str(ca_bundle) if ca_bundle else None
        self._credentials = credentials
        self._pause = pause
        self._base: str | None = None
        # by scope; a registry that wants a password itself gets it with every request
        self._tokens: dict[str, str] = {}
        self._basic = False

    def ask(
        self, method: str, path: str, repository: str, *, push: bool = False, headers: Mapping[str, str] | None = None,
        **more: Any,
    ) -> Response:  # fmt: skip
        """An answer that is one: after retries, and with the token or password that it wants."""
        scope = f"repository:{repository}:pull{',push' if push else ''}"
        answer = self._tried(method, path, self._headers(scope, headers), more)
        if answer.status_code == 401:
            # the token has expired, or there was none
            self._tokens.pop(scope, None)
            self._enter(answer.headers.get("WWW-Authenticate", ""), scope)
            answer = self._tried(method, path, self._headers(scope, headers), more)
        if answer.status_code in _NO_ENTRY:
            raise self._refused(repository)
        return answer

    def _headers(self, scope: str, headers: Mapping[str, str] | None) -> dict[str, str]:
        found = dict(headers or {})
        if scope in self._tokens:
            found["Authorization"] = f"Bearer {self._tokens[scope]}"
        return found

    def _tried(self, method: str, path: str, headers: Mapping[str, str], more: Mapping[str, Any]) -> Response:
        import requests

        trouble = ""
        for attempt in range(ATTEMPTS):
            try:
                answer = self._session.request(
                    method, f"{self._address()}/v2/{path}", headers=headers, auth=self._auth(),
                    timeout=(_CONNECT_SECONDS, _READ_SECONDS), verify=self._verify, **more,
                )  # fmt: skip
            except requests.exceptions.SSLError as error:
                raise NetworkError(
                    f"{self.host} is not who it should be: {_short(error)}", hint="--ca-bundle names more certificates"
                ) from error
            except requests.RequestException as error:
                trouble, wait = _short(error), None
            else:
                if answer.status_code not in _AGAIN:
                    return answer
                trouble, wait = f"{answer.status_code} {answer.reason}", answer.headers.get("Retry-After")
            if attempt + 1 < ATTEMPTS:
                self._pause(pause_of(attempt, wait))
        raise NetworkError(
            f"{self.host} does not answer: {trouble}", hint="try again later, or give --mirror another one"
        )

    def _address(self) -> str:
        """Plain HTTP only to ourselves, and only where it is answered."""
        if self._base is None:
            ours = self.host.partition(":")[0] in {"localhost", "127.0.0.1"}
            self._base = f"{'http' if ours and self._answers_plainly() else 'https'}://{self.host}"
        return self._base

    def _answers_plainly(self) -> bool:
        import requests

        try:
            answer = self._session.get(f"http://{self.host}/v2/", timeout=_CONNECT_SECONDS, allow_redirects=False)
        except requests.RequestException:
            return False
        # a server of TLS sends those elsewhere who do not speak it, or calls it a bad request
        return answer.status_code not in range(300, 401)

    def _auth(self) -> tuple[str, str] | None:
        if self._basic and self._credentials is not None:
            return self._credentials.user, self._credentials.password
        return None

    def _enter(self, challenge: str, scope: str) -> None:
        kind, _, rest = challenge.partition(" ")
        if kind.lower() == "basic":
            self._basic = self._credentials is not None
        elif kind.lower() == "bearer":
            self._tokens[scope] = self._token(dict(_CHALLENGE.findall(rest)), scope)

    def _token(self, challenge: Mapping[str, str], scope: str) -> str:
        import requests

        given = self._credentials
        asked = {"service": challenge.get("service", ""), "scope": challenge.get("scope") or scope}
        seconds = (_CONNECT_SECONDS, _READ_SECONDS)
        try:
            if given is not None and given.refresh_token:
                form = {
                    **asked,
                    "grant_type": "refresh_token",
                    "refresh_token": given.refresh_token,
                    "client_id": "envbuilder",
                }
                answer = self._session.post(challenge["realm"], data=form, timeout=seconds, verify=self._verify)
            else:
                auth = (given.user, given.password) if given else None
                answer = self._session.get(
                    challenge["realm"], params=asked, auth=auth, timeout=seconds, verify=self._verify
                )
        except (KeyError, requests.RequestException) as error:
            raise NetworkError(f"{self.host} names no place that gives tokens: {error}") from error
        if answer.status_code != 200:
            raise self._refused(scope)
        found = answer.json()
        return str(found.get("token") or found.get("access_token") or "")

    def _refused(self, what: str) -> NetworkError:
        who = (
            f"the password of '{self._credentials.user}' is not accepted"
            if self._credentials
            else "it wants a password"
        )
        return NetworkError(f"{self.host} does not let us at {what}: {who}", hint=f"docker login {self.host}")


def pause_of(attempt: int, wanted: str | None = None) -> float:
    if wanted is not None and wanted.isdecimal():
        return min(float(wanted), _LONGEST_PAUSE)
    return min(0.5 * 2.0**attempt, _LONGEST_PAUSE)


def _short(error: Exception) -> str:
    return str(error).splitlines()[0][:200] if str(error) else type(error).__name__
