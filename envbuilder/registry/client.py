"""The OCI distribution API: manifests, tags and blobs of a registry, by whatever way in it wants."""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Callable, Mapping
from io import BytesIO
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from envbuilder.errors import NetworkError, NoMatchError
from envbuilder.registry.credentials import Credentials, credentials_of

if TYPE_CHECKING:
    from requests import Response

INDEX_TYPES = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
)
MANIFEST_TYPES = (
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
_ATTEMPTS = 5
_CONNECT_SECONDS, _READ_SECONDS = 10, 60
_LONGEST_PAUSE = 30.0
# what is lost where a connection breaks
_CHUNK = 2**16
_PAGE = 100
_AGAIN = {408, 429, 500, 502, 503, 504}
_NO_ENTRY = {401, 403}
_CHALLENGE = re.compile(r'(\w+)="([^"]*)"')
_NEXT = re.compile(r'<([^>]+)>;\s*rel="?next"?')


class Manifest(NamedTuple):
    """What a registry has under a name, byte for byte, and the digest of that."""

    digest: str
    media_type: str
    content: bytes

    @property
    def document(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.content)
        return found

    @property
    def is_index(self) -> bool:
        return self.media_type in INDEX_TYPES


class Registry:
    """One registry, by its host. A loopback address may speak plain HTTP, as with docker."""

    def __init__(
        self, host: str, ca_bundle: Path | None = None, credentials: Credentials | None = None,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:  # fmt: skip
        import requests

        self.host = host
        self._session = requests.Session()
        # with every request: a variable of the environment would win over what a session says
        self._verify: str | None = str(ca_bundle) if ca_bundle else None
        self._credentials = credentials or credentials_of(host)
        self._pause = pause
        self._base: str | None = None
        # by scope; a registry that wants a password itself gets it with every request
        self._tokens: dict[str, str] = {}
        self._basic = False

    # --- reading -----------------------------------------------------------------------------------------

    def manifest(self, repository: str, wanted: str) -> Manifest:
        """By tag or digest. What was asked for by digest must be that."""
        accept = {"Accept": ", ".join((*INDEX_TYPES, *MANIFEST_TYPES))}
        answer = self._ask("GET", f"{repository}/manifests/{wanted}", repository, headers=accept)
        if answer.status_code == 404:
            raise NoMatchError(f"{self.host}/{repository} has no {wanted}")
        content = answer.content
        digest = _digest(content)
        told = wanted if wanted.startswith("sha256:") else answer.headers.get("Docker-Content-Digest", digest)
        if told != digest:
            raise _changed(f"{self.host}/{repository}@{told}", digest)
        media_type = answer.headers.get("Content-Type", "").partition(";")[0]
        return Manifest(digest, media_type, content)

    def tags(self, repository: str) -> list[str]:
        """All of them, however many pages that takes; none where there is no such repository."""
        found: list[str] = []
        path: str | None = f"{repository}/tags/list?n={_PAGE}"
        while path is not None:
            answer = self._ask("GET", path, repository)
            if answer.status_code == 404:
                return []
            found += answer.json().get("tags") or []
            more = _NEXT.search(answer.headers.get("Link", ""))
            path = more[1].partition("/v2/")[2] if more else None
        return sorted(found)

    def blob(self, repository: str, digest: str) -> bytes:
        """A small one; what is large goes into a file."""
        content = BytesIO()
        self.download(repository, digest, content)
        return content.getvalue()

    def download(self, repository: str, digest: str, file: IO[bytes]) -> None:
        """Read on from where a connection broke off, and compared with its digest at the end."""
        start = file.tell()
        for attempt in range(_ATTEMPTS):
            here = file.tell() - start
            headers = {"Range": f"bytes={here}-"} if here else {}
            answer = self._ask("GET", f"{repository}/blobs/{digest}", repository, headers=headers, stream=True)
            if answer.status_code == 404:
                raise NoMatchError(f"{self.host}/{repository} has no {digest}")
            if here and answer.status_code != 206:
                file.seek(start)  # it does not read on, so from the beginning
                file.truncate()
            if _drained(answer, file):
                break
            self._pause(_pause_of(attempt))
        else:
            raise NetworkError(
                f"{self.host} breaks off in the middle of {digest}", hint="try again, or another --mirror"
            )
        file.seek(start)
        found = digest_of(file)
        if found != digest:
            raise _changed(f"{self.host}/{repository}@{digest}", found)

    def referrers(self, repository: str, digest: str) -> list[dict[str, Any]]:
        """What was attached to an image: asked of the registry, or found under a tag where it does not know."""
        answer = self._ask("GET", f"{repository}/referrers/{digest}", repository)
        if answer.status_code == 404:
            try:
                content = self.manifest(repository, digest.replace(":", "-")).content
            except NoMatchError:
                return []
        else:
            content = answer.content
        found: list[dict[str, Any]] = json.loads(content).get("manifests") or []
        return found

    # --- writing -----------------------------------------------------------------------------------------

    def put_blob(self, repository: str, content: bytes) -> str:
        digest = _digest(content)
        if self._ask("HEAD", f"{repository}/blobs/{digest}", repository, push=True).status_code == 200:
            return digest
        begun = self._ask("POST", f"{repository}/blobs/uploads/", repository, push=True)
        place = str(begun.headers.get("Location", ""))
        if begun.status_code != 202 or not place:
            raise NetworkError(f"{self.host} takes no upload into {repository}: {begun.status_code}")
        # within the registry, as a path or with its host
        path = place.partition("/v2/")[2]
        path += ("&" if "?" in path else "?") + f"digest={digest}"
        done = self._ask(
            "PUT", path, repository, push=True, data=content, headers={"Content-Type": "application/octet-stream"}
        )
        if done.status_code != 201:
            raise NetworkError(f"{self.host} refuses {digest}: {done.status_code}")
        return digest

    def put_manifest(self, repository: str, name: str, content: bytes, media_type: str) -> str:
        return self._put(repository, name, content, media_type)[0]

    def put_attachment(self, repository: str, content: bytes, media_type: str) -> tuple[str, bool]:
        """Its digest, and whether the registry has understood that it is one."""
        return self._put(repository, _digest(content), content, media_type)

    def _put(self, repository: str, name: str, content: bytes, media_type: str) -> tuple[str, bool]:
        done = self._ask(
            "PUT", f"{repository}/manifests/{name}", repository, push=True, data=content,
            headers={"Content-Type": media_type},
        )  # fmt: skip
        if done.status_code not in {200, 201, 202}:
            raise NetworkError(f"{self.host}/{repository}:{name} is refused: {done.status_code} {done.text[:200]}")
        return _digest(content), "OCI-Subject" in done.headers

    # --- how it is asked ---------------------------------------------------------------------------------

    def _ask(
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
        for attempt in range(_ATTEMPTS):
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
            if attempt + 1 < _ATTEMPTS:
                self._pause(_pause_of(attempt, wait))
        raise NetworkError(
            f"{self.host} does not answer: {trouble}", hint="try again later, or give --mirror another one"
        )

    def _address(self) -> str:
        """Plain HTTP only to ourselves, and only where TLS is not spoken."""
        import requests

        if self._base is None:
            self._base = f"https://{self.host}"
            if self.host.partition(":")[0] in {"localhost", "127.0.0.1"}:
                try:
                    self._session.get(f"{self._base}/v2/", timeout=_CONNECT_SECONDS, verify=self._verify)
                except requests.exceptions.SSLError as error:
                    if "CERTIFICATE_VERIFY_FAILED" not in str(error):
                        self._base = f"http://{self.host}"
                except requests.RequestException:
                    self._base = f"http://{self.host}"
        return self._base

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


def _drained(answer: Response, file: IO[bytes]) -> bool:
    """Whether everything arrived that was announced."""
    import requests

    announced, before = answer.headers.get("Content-Length"), file.tell()
    try:
        for part in answer.iter_content(_CHUNK):
            file.write(part)
    except requests.RequestException:
        return False
    return announced is None or file.tell() - before >= int(announced)


def digest_of(file: IO[bytes]) -> str:
    """Of everything from here on."""
    found = hashlib.sha256()
    while part := file.read(2**20):
        found.update(part)
    return f"sha256:{found.hexdigest()}"


def _pause_of(attempt: int, wanted: str | None = None) -> float:
    if wanted is not None and wanted.isdecimal():
        return min(float(wanted), _LONGEST_PAUSE)
    return min(0.5 * 2.0**attempt, _LONGEST_PAUSE)


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def _changed(name: str, found: str) -> NetworkError:
    return NetworkError(
        f"{name} is not what it says: its content is {found}", hint="something on the way changes it; nothing was kept"
    )


def _short(error: Exception) -> str:
    return str(error).splitlines()[0][:200] if str(error) else type(error).__name__
