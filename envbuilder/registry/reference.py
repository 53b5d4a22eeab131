"""Parses names of images as docker does."""

from __future__ import annotations

import re
from typing import NamedTuple

from envbuilder.errors import UsageError
from envbuilder.language import tr

_HUB, _HUB_API = "docker.io", "registry-1.docker.io"
_REPOSITORY = re.compile(r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*)*")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


class Reference(NamedTuple):
    """`registry/repository:tag@digest`; a digest wins over a tag."""

    registry: str
    repository: str
    tag: str | None = None
    digest: str | None = None

    @classmethod
    def parse(cls, text: str) -> Reference:
        rest, _, digest = text.partition("@")
        first, slash, path = rest.partition("/")
        # the first part is a host if it looks like one; all other names are on Docker Hub
        if not slash or not ("." in first or ":" in first or first == "localhost"):
            first, path = _HUB, rest if slash else f"library/{rest}"
        repository, _, tag = path.partition(":")
        found = cls(first, repository, tag or None, digest or None)
        wrong = (
            _REPOSITORY.fullmatch(repository) is None
            or (tag and _TAG.fullmatch(tag) is None)
            or (digest and _DIGEST.fullmatch(digest) is None)
        )
        if wrong:
            raise UsageError(
                tr("'{text}' is not the name of an image", text=text),
                hint=tr("registry/repository:tag, or @sha256:..."),
            )
        return found

    @property
    def api(self) -> str:
        """Return the host of the registry's API."""
        return _HUB_API if self.registry == _HUB else self.registry

    @property
    def wanted(self) -> str:
        """Return the digest to request from the registry, or else the tag."""
        return self.digest or self.tag or "latest"

    @property
    def name(self) -> str:
        """Return the name without tag and digest."""
        return f"{self.registry}/{self.repository}"

    def in_mirror(self, mirror: str) -> Reference:
        """Return the name of the same image in a mirror."""
        return Reference.parse(f"{mirror.rstrip('/')}/{self.repository}:{self.tag}")

    def __str__(self) -> str:
        return self.name + (f":{self.tag}" if self.tag else "") + (f"@{self.digest}" if self.digest else "")
