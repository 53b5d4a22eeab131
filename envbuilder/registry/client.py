"""The OCI distribution API: manifests, tags and blobs of a registry."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Collection
from contextlib import closing
from io import BytesIO
from pathlib import Path
from typing import IO, Any, NamedTuple
from urllib.parse import urlsplit

import requests

from envbuilder.errors import NetworkError, NoMatchError
from envbuilder.files import digest_of, digest_of_file
from envbuilder.language import tr
from envbuilder.registry.answers import HINT, Answer, AnswerError, Descriptor, answer_of, descriptor, document
from envbuilder.registry.credentials import Credentials, credentials_of
from envbuilder.registry.reference import is_tag
from envbuilder.registry.transport import Transport

INDEX_TYPES = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
)
MANIFEST_TYPES = (
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
# at most this much is lost if a connection breaks
_CHUNK = 2**16
# requests for one blob, each of which continues it
_DOWNLOAD_ATTEMPTS = 5
_AMEND_ATTEMPTS = 8
_PAGE = 100
# limits of a list of tags, which comes in pages; a repository of all environments has some hundreds
_MOST_PAGES, _MOST_TAGS, _LONGEST_LIST = 1000, 100_000, 300.0
# seconds to connect, and to wait for the answer
_UPLOAD_TIMEOUT = (10, 600)
# configurations, bills and reports have a few hundred kB
_LARGEST_BLOB = 2**26
# without the second excluded character, a long header takes quadratic time
_NEXT = re.compile(r'<([^<>]+)>;\s*rel="?next"?')
_NUMBER = re.compile(r"[0-9]{1,18}")


class Manifest(NamedTuple):
    """The bytes of a manifest as a registry has them, and their digest."""

    digest: str
    media_type: str
    content: bytes

    @property
    def document(self) -> dict[str, Any]:
        return document(self.content, self.digest)

    @property
    def config(self) -> Descriptor:
        """Return the configuration of an image."""
        return descriptor(self._part("manifests").part("config"))

    @property
    def layers(self) -> list[Descriptor]:
        """Return the layers of an image, or the documents of an attachment."""
        return [descriptor(item) for item in self._part("manifests").parts("layers")]

    @property
    def listed(self) -> list[Descriptor]:
        """Return the manifests that an index lists."""
        return [descriptor(item) for item in self._part("config", "layers").parts("manifests")]

    def _part(self, *foreign: str) -> Answer:
        """Return the document. One that is both an index and an image would be another thing to each program."""
        found = answer_of(self.content, self.digest)
        found.refuse(*foreign)
        return found

    @property
    def descriptor(self) -> dict[str, Any]:
        """Return how other documents refer to it."""
        return {"mediaType": self.media_type, "digest": self.digest, "size": len(self.content)}

    @property
    def is_index(self) -> bool:
        return self.media_type in INDEX_TYPES


class Registry:
    """One registry, by its host."""

    def __init__(
        self, host: str, ca_bundle: Path | None = None, credentials: Credentials | None = None,
        back_off: float = 0.5,
    ) -> None:  # fmt: skip
        self.host = host
        self._back_off = back_off
        self._ask = Transport(host, ca_bundle, credentials or credentials_of(host), back_off).ask

    def manifest(self, repository: str, wanted: str) -> Manifest:
        """Return the manifest with this tag or digest, whose content must have the digest requested or announced."""
        accept = {"Accept": ", ".join((*INDEX_TYPES, *MANIFEST_TYPES))}
        answer = self._ask("GET", f"{repository}/manifests/{wanted}", repository, headers=accept)
        self._require(answer, repository, wanted)
        content = answer.content
        digest = digest_of(content)
        known = wanted if wanted.startswith("sha256:") else answer.headers.get("Docker-Content-Digest", digest)
        if known != digest:
            raise _changed(f"{self.host}/{repository}@{known}", digest)
        media_type = answer.headers.get("Content-Type", "").partition(";")[0]
        return Manifest(digest, media_type, content)

    def find(self, repository: str, wanted: str) -> Manifest | None:
        """Return the manifest with this tag or digest, or None."""
        try:
            return self.manifest(repository, wanted)
        except NoMatchError:
            return None

    def tags(self, repository: str) -> list[str]:
        """Return the tags of a repository from all pages of the list; none if the repository does not exist."""
        found: list[str] = []
        path: str | None = f"{repository}/tags/list?n={_PAGE}"
        seen: set[str] = set()
        began = time.monotonic()
        while path is not None:
            seen.add(path)
            answer = self._ask("GET", path, repository)
            if answer.status_code == 404:
                return []
            self._require(answer, repository, tr("the tags"))
            found += _tags(answer.content, repository)
            path = _next_page(answer, repository)
            # pages that lead to each other, or always to a new one, would never end
            too_long = len(seen) >= _MOST_PAGES or time.monotonic() - began > _LONGEST_LIST
            if path in seen or len(found) > _MOST_TAGS or (path is not None and too_long):
                raise self._endless(repository, len(seen))
        return sorted(found)

    def blob(self, repository: str, digest: str, most: int = _LARGEST_BLOB) -> bytes:
        """Return the content of a small blob. A large one is downloaded into a file."""
        content = BytesIO()
        self.download(repository, digest, content, min(most, _LARGEST_BLOB))
        return content.getvalue()

    def download(
        self, repository: str, digest: str, file: IO[bytes], most: int,
        progress: Callable[[int], None] = lambda done: None,
    ) -> None:  # fmt: skip
        """Write a blob to a file and compare it with its digest. Where the connection breaks, the rest is requested.

        A registry that sends more than `most` bytes is refused: it would fill the disk.
        """
        start = file.tell()
        for attempt in range(_DOWNLOAD_ATTEMPTS):
            if attempt:
                time.sleep(self._back_off * 2 ** (attempt - 1))
            received = file.tell() - start
            headers = {"Range": f"bytes={received}-"} if received else {}
            answer = self._ask("GET", f"{repository}/blobs/{digest}", repository, headers=headers, stream=True)
            with closing(answer):
                self._require(answer, repository, digest, {200, 206})
                if received and answer.status_code != 206:
                    file.seek(start)  # the registry sends the whole blob again
                    file.truncate()
                if _copied(answer, file, start, most, progress):
                    break
            if file.tell() - start > most:
                raise NetworkError(
                    tr(
                        "{host} sends more than the {number} bytes that {digest} has",
                        host=self.host,
                        number=most,
                        digest=digest,
                    )
                )
        else:
            raise NetworkError(
                tr("{host} breaks the connection in the middle of {digest}", host=self.host, digest=digest),
                hint=tr(HINT),
            )
        file.seek(start)
        found = digest_of_file(file)
        if found != digest:
            raise _changed(f"{self.host}/{repository}@{digest}", found)

    def referrers(self, repository: str, digest: str) -> list[Descriptor]:
        """Return an image's attachments: from the API, or from the tag that replaces it."""
        answer = self._ask("GET", f"{repository}/referrers/{digest}", repository)
        if answer.status_code != 200:
            # registries without this API refuse the request in several ways
            index = self.find(repository, digest.replace(":", "-"))
            return index.listed if index else []
        return [descriptor(item) for item in answer_of(answer.content, digest).parts("manifests")]

    def put_blob(self, repository: str, content: bytes) -> str:
        """Upload a small blob unless the registry has it, and return its digest."""
        digest = digest_of(content)
        self.upload(repository, digest, content)
        return digest

    def upload(self, repository: str, digest: str, content: bytes | IO[bytes]) -> None:
        """Upload a blob with this digest, which the registry compares, unless the registry has it."""
        if self._ask("HEAD", f"{repository}/blobs/{digest}", repository, push=True).status_code == 200:
            return
        begun = self._ask("POST", f"{repository}/blobs/uploads/", repository, push=True)
        place = _place(begun)
        if begun.status_code != 202 or place is None:
            raise NetworkError(
                tr(
                    "{host} refuses an upload to {repository}: {status}",
                    host=self.host,
                    repository=repository,
                    status=begun.status_code,
                )
            )
        # the registry stores a large blob before it answers
        done = self._ask(
            "PUT", f"{place}digest={digest}", repository, push=True, data=content,
            headers={"Content-Type": "application/octet-stream"}, timeout=_UPLOAD_TIMEOUT,
        )  # fmt: skip
        if done.status_code != 201:
            raise NetworkError(
                tr("{host} refuses the blob {digest}: {status}", host=self.host, digest=digest, status=done.status_code)
            )

    def put_manifest(self, repository: str, name: str, content: bytes, media_type: str) -> str:
        """Upload a manifest under a tag or digest, and return its digest."""
        manifest = Manifest(digest_of(content), media_type, content)
        self._put(repository, name, manifest)
        return manifest.digest

    def amend(
        self, repository: str, tag: str, media_type: str, change: Callable[[dict[str, Any] | None], bytes | None]
    ) -> None:
        """Replace the document under a tag by the result of `change`, unless that is None.

        Registries have no conditional writes: this begins again if another machine has written meanwhile.
        """
        for attempt in range(_AMEND_ATTEMPTS):
            time.sleep(random.uniform(0, self._back_off * attempt))  # noqa: S311
            before = self.find(repository, tag)
            content = change(before.document if before else None)
            if content is None:
                return
            if self.find(repository, tag) == before:
                self.put_manifest(repository, tag, content, media_type)
                now = self.find(repository, tag)
                if now is not None and now.content == content:
                    return
        image = f"{self.host}/{repository}:{tag}"
        raise NetworkError(tr("{image} is changed by others all the time", image=image), hint=tr(HINT))

    def put_attachment(self, repository: str, attachment: Manifest) -> bool:
        """Upload the manifest of an attachment, and return whether the registry lists it as a referrer."""
        return "OCI-Subject" in self._put(repository, attachment.digest, attachment).headers

    def _put(self, repository: str, name: str, manifest: Manifest) -> requests.Response:
        done = self._ask(
            "PUT", f"{repository}/manifests/{name}", repository, push=True, data=manifest.content,
            headers={"Content-Type": manifest.media_type},
        )  # fmt: skip
        if done.status_code not in {200, 201, 202}:
            image, reason = f"{repository}:{name}", f"{done.status_code} {done.content[:200].decode(errors='replace')}"
            raise NetworkError(
                tr("{host} refuses the manifest {image}: {reason}", host=self.host, image=image, reason=reason)
            )
        return done

    def _require(
        self, answer: requests.Response, repository: str, name: str, expected: Collection[int] = (200,)
    ) -> None:  # fmt: skip
        """Refuse an answer without what was requested."""
        named = {"host": self.host, "repository": repository, "name": name}
        if answer.status_code == 404:
            raise NoMatchError(tr("{host}/{repository} has no {name}", **named))
        if answer.status_code not in expected:
            reason = f"{answer.status_code} {answer.reason}"
            raise NetworkError(
                tr("{host} does not give {name} of {repository}: {reason}", **named, reason=reason), hint=tr(HINT)
            )

    def _endless(self, repository: str, pages: int) -> NetworkError:
        return NetworkError(
            tr("{host} lists the tags of {repository} without an end", host=self.host, repository=repository),
            hint=tr("{number} pages were read; --registry names another registry", number=pages),
        )


def _copied(answer: requests.Response, file: IO[bytes], start: int, most: int, progress: Callable[[int], None]) -> bool:
    """Write an answer to the file, and return whether all of it, and at most `most` bytes, has arrived."""
    announced, before = answer.headers.get("Content-Length"), file.tell()
    try:
        for part in answer.iter_content(_CHUNK):
            file.write(part)
            progress(file.tell() - start)
            if file.tell() - start > most:
                return False
    except requests.RequestException:
        return False
    known = announced is not None and _NUMBER.fullmatch(announced) is not None
    return not known or file.tell() - before >= int(str(announced))


def _tags(content: bytes, repository: str) -> list[str]:
    name = f"{repository}/tags"
    found = answer_of(content, name).texts("tags")
    wrong = next((tag for tag in found if not is_tag(tag)), None)
    if wrong is not None:
        raise AnswerError(name, tr("{place} is not {wanted}", place=repr(wrong[:200]), wanted=tr("a tag")))
    return found


def _next_page(answer: requests.Response, repository: str) -> str | None:
    """Return the path of the next page, which must be one of the same list."""
    more = _NEXT.search(answer.headers.get("Link", ""))
    path = more[1].partition("/v2/")[2] if more else None
    if path is not None and not path.startswith(f"{repository}/tags/list?"):
        raise AnswerError(f"{repository}/tags", tr("the next page is not one of this list"))
    return path


def _place(answer: requests.Response) -> str | None:
    """Return the path of an upload, ready for one more parameter, or None. It is a path or a URL of the registry."""
    try:
        parts = urlsplit(answer.headers.get("Location", ""))
    except ValueError:
        return None
    return f"{parts.path}?{parts.query}{'&' if parts.query else ''}" if parts.path else None


def _changed(name: str, found: str) -> NetworkError:
    return NetworkError(
        tr("the content of {name} has another digest: {found}", name=name, found=found),
        hint=tr("a proxy or mirror changes it; nothing was kept"),
    )
