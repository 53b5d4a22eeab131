"""The OCI distribution API: manifests, tags and blobs of a registry, by whatever way in it wants."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from envbuilder.errors import NetworkError, NoMatchError
from envbuilder.files import digest_of, digest_of_file
from envbuilder.registry.credentials import Credentials, credentials_of
from envbuilder.registry.transport import ATTEMPTS, Door, pause_of

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
# what is lost where a connection breaks
_CHUNK = 2**16
_PAGE = 100
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
    """One registry, by its host."""

    def __init__(
        self, host: str, ca_bundle: Path | None = None, credentials: Credentials | None = None,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:  # fmt: skip
        self.host = host
        self._pause = pause
        self._ask = Door(host, ca_bundle, credentials or credentials_of(host), pause).ask

    def manifest(self, repository: str, wanted: str) -> Manifest:
        """By tag or digest. What was asked for by digest must be that."""
        accept = {"Accept": ", ".join((*INDEX_TYPES, *MANIFEST_TYPES))}
        answer = self._ask("GET", f"{repository}/manifests/{wanted}", repository, headers=accept)
        if answer.status_code == 404:
            raise NoMatchError(f"{self.host}/{repository} has no {wanted}")
        content = answer.content
        digest = digest_of(content)
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

    def download(
        self, repository: str, digest: str, file: IO[bytes], told: Callable[[int], None] = lambda done: None
    ) -> None:
        """Read on from where a connection broke off, and compared with its digest at the end."""
        start = file.tell()
        for attempt in range(ATTEMPTS):
            here = file.tell() - start
            headers = {"Range": f"bytes={here}-"} if here else {}
            answer = self._ask("GET", f"{repository}/blobs/{digest}", repository, headers=headers, stream=True)
            if answer.status_code == 404:
                raise NoMatchError(f"{self.host}/{repository} has no {digest}")
            if here and answer.status_code != 206:
                file.seek(start)  # it does not read on, so from the beginning
                file.truncate()
            if _drained(answer, file, start, told):
                break
            self._pause(pause_of(attempt))
        else:
            raise NetworkError(
                f"{self.host} breaks off in the middle of {digest}", hint="try again, or another --mirror"
            )
        file.seek(start)
        found = digest_of_file(file)
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

    def put_blob(self, repository: str, content: bytes) -> str:
        digest = digest_of(content)
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
        return self._put(repository, digest_of(content), content, media_type)

    def _put(self, repository: str, name: str, content: bytes, media_type: str) -> tuple[str, bool]:
        done = self._ask(
            "PUT", f"{repository}/manifests/{name}", repository, push=True, data=content,
            headers={"Content-Type": media_type},
        )  # fmt: skip
        if done.status_code not in {200, 201, 202}:
            raise NetworkError(f"{self.host}/{repository}:{name} is refused: {done.status_code} {done.text[:200]}")
        return digest_of(content), "OCI-Subject" in done.headers


def _drained(answer: Response, file: IO[bytes], start: int, told: Callable[[int], None]) -> bool:
    """Whether everything arrived that was announced."""
    import requests

    announced, before = answer.headers.get("Content-Length"), file.tell()
    try:
        for part in answer.iter_content(_CHUNK):
            file.write(part)
            told(file.tell() - start)
    except requests.RequestException:
        return False
    return announced is None or file.tell() - before >= int(announced)


def _changed(name: str, found: str) -> NetworkError:
    return NetworkError(
        f"{name} is not what it says: its content is {found}", hint="something on the way changes it; nothing was kept"
    )
