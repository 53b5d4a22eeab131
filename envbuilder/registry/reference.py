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
_HOST = re.compile(r"(?:[a-z0-9]+(?:[.-]+[a-z0-9]+)*|\[[0-9a-f:.]+\])(?::[0-9]+)?")


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
        if not slash or not _is_host(first):
            first, path = _HUB, rest if slash else f"library/{rest}"
        repository, _, tag = path.partition(":")
        found = cls(first, repository, tag or None, digest or None)
        wrong = (
            _REPOSITORY.fullmatch(repository) is None
            or (tag and not is_tag(tag))
            or (digest and _DIGEST.fullmatch(digest) is None)
        )
        if wrong and digest and not digest.startswith("sha256:"):
            # what is before the last @ may be a user and a password
            host = text.rpartition("@")[2]
            raise UsageError(
                tr("the name of an image or mirror at {host} has a user or a password in it", host=host),
                hint=f"docker login {host.partition('/')[0]}",
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

    def is_below(self, prefix: str) -> bool:
        """Return whether the name begins with a prefix (see `prefix_of`), which ends where a part of the name ends."""
        name = str(self._replace(digest=None)).lower()
        return not prefix or name == prefix or name.startswith((f"{prefix}/", f"{prefix}:" if "/" in prefix else "/"))

    def __str__(self) -> str:
        return self.name + (f":{self.tag}" if self.tag else "") + (f"@{self.digest}" if self.digest else "")


def prefix_of(text: str) -> str:
    """Return the beginning of names of images as these names have it: in lower case, with the host of Docker Hub."""
    given = text.lower().removesuffix("/")
    host, slash, rest = given.partition("/")
    if given and not _is_host(host):
        host, slash, rest = _HUB, "/", given
    path, _, tag = rest.partition(":")
    wrong = (
        _HOST.fullmatch(host) is None or (slash and _REPOSITORY.fullmatch(path) is None) or (tag and not is_tag(tag))
    )
    if text and wrong:
        raise UsageError(
            tr("no name of an image begins with '{text}'", text=text),
            hint=tr("for example registry.example.com/team, without https://"),
        )
    return f"{host}{slash}{rest}"


def _is_host(part: str) -> bool:
    """Return whether the first part of a name is a host; all other names are on Docker Hub."""
    return "." in part or ":" in part or part == "localhost"


def is_tag(text: str) -> bool:
    return _TAG.fullmatch(text) is not None
