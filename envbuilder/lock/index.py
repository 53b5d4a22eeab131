"""A client of package indexes (PEP 503 or 691, HTML or JSON): which files they have, and which can be installed."""

from __future__ import annotations

import hashlib
import html.parser
import json
import os
import re
import sys
import threading
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from functools import cache, cached_property
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote, urljoin, urlsplit

import requests
from packaging.tags import Tag, compatible_tags, cpython_tags
from packaging.utils import InvalidSdistFilename, InvalidWheelFilename, parse_sdist_filename, parse_wheel_filename

from envbuilder import http, network, paths, versions
from envbuilder.errors import EnvbuilderError, HostError, NetworkError, UsageError
from envbuilder.files import replacing
from envbuilder.language import english, tr
from envbuilder.matrix.model import Severity
from envbuilder.process import run, undisturbed

_ACCEPT = "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.1"
_TIMEOUT, _FRESH_SECONDS = 30, 600
_MISSING, _REFUSED = 404, {401, 403}
# the glibc of Ubuntu 22.04, the oldest of the base images
GLIBC = (2, 35)
_LEGACY_TAGS = {17: "manylinux2014", 12: "manylinux2010", 5: "manylinux1"}
# one field of a page, which has several names in the standards
_METADATA_KEYS = ("core-metadata", "dist-info-metadata", "data-dist-info-metadata")
_INDEX_LINE = "--index-url "


class IndexFile(NamedTuple):
    """One file of a distribution."""

    name: str
    version: str
    is_wheel: bool
    yanked: str | None = None
    url: str = ""
    sha256: str = ""
    # whether the index has its metadata as a separate file (PEP 658)
    has_metadata: bool = False
    # in bytes, if the index states it, which pages in HTML cannot
    size: int | None = None
    # the day of its upload, if the index states it
    uploaded: str = ""

    def fits(self, python: str, arch: str) -> bool:
        """Return whether this is a wheel that installs with that CPython on Linux with the oldest supported glibc."""
        return self.is_wheel and not _tags(python, arch).isdisjoint(parse_wheel_filename(self.name)[3])


class Index:
    """A package index and a cache of its pages. Proxies and certificates come from the usual variables.

    A `url` of None means the index of this machine, which is looked up when it is first needed.
    """

    def __init__(
        self, url: str | None, *, ca_bundle: Path | None = None, cache: Path | None = None, back_off: float = 0.5
    ) -> None:
        self._given = url
        self._back_off = back_off
        self._cache = cache
        self.ca_bundle = ca_bundle
        self._local = threading.local()
        self._pages: dict[str, list[IndexFile]] = {}

    def beside(self, url: str) -> Index:
        """Return another index with the same certificates and cache."""
        return Index(url, ca_bundle=self.ca_bundle, cache=self._cache)

    @cached_property
    def url(self) -> str:
        return (self._given or default_index()).rstrip("/") + "/"

    @property
    def shown(self) -> str:
        """Return the address without credentials."""
        return http.without_credentials(self.url)

    def files(self, distribution: str) -> list[IndexFile]:
        """Return all files of a distribution; empty if the index does not have it."""
        name = re.sub(r"[-_.]+", "-", distribution).lower()
        if name not in self._pages:
            address = urljoin(self.url, f"{name}/")
            self._pages[name] = list(_parse(self._page(address), address))
        return self._pages[name]

    def source_archive(self, distribution: str, version: str) -> str | None:
        """Return the hash of the source archive of a version, or None if the index has none."""
        files = (file for file in reversed(self.files(distribution)) if not file.is_wheel and file.sha256)
        return next((file.sha256 for file in files if versions.key(file.version) == versions.key(version)), None)

    def versions(self, distribution: str) -> list[str]:
        """Return the versions of a distribution, the oldest first."""
        return sorted({file.version for file in self.files(distribution)}, key=versions.key)

    def days(self, distribution: str) -> dict[str, str]:
        """Return the versions of a distribution with the day of their first file; empty if the index states none."""
        found: dict[str, str] = {}
        for file in self.files(distribution):
            if file.uploaded:
                found[file.version] = min(file.uploaded, found.get(file.version, file.uploaded))
        if found:
            return found
        # pages in HTML have no dates; the older interface of an index, beside its pages, has
        name = re.sub(r"[-_.]+", "-", distribution).lower()
        return _older_days(self._page(urljoin(self.url, f"../pypi/{name}/json")))

    def judge(self, distribution: str, version: str, python: str, arch: str) -> Iterator[tuple[Severity, str]]:
        """Yield the reasons against installing a version, the worst first."""
        own = [file for file in self.files(distribution) if versions.key(file.version) == versions.key(version)]
        fitting = [file for file in own if file.fits(python, arch)]
        named = {"index": self.shown, "version": version, "python": python, "arch": arch}
        if not own:
            near = ", ".join(self.versions(distribution)[-3:]) or tr("nothing of that name")
            yield "error", tr("{index} has no {version}; it has {near}", near=near, **named)
        elif not fitting and all(file.is_wheel for file in own):
            named["kinds"] = _kinds(own)
            yield "error", tr("no wheel of {version} for Python {python} on {arch}; the index has: {kinds}", **named)
        elif not fitting:
            message = tr(
                "only a source archive of {version} fits Python {python} on {arch}; it is built during installation",
                **named,
            )
            yield "warning", message
        for reason in {file.yanked or tr("no reason given") for file in fitting or own if file.yanked is not None}:
            yield "warning", tr("{version} was yanked from {index}: {reason}", reason=reason, **named)

    def read(self, file: IndexFile) -> bytes:
        """Return the content of a file, which must have the hash that the index states."""
        content = self._get(file.url, of_file=True).content
        if file.sha256 and hashlib.sha256(content).hexdigest() != file.sha256:
            raise NetworkError(
                tr("{file} from {index} does not have the hash that the index states", file=file.name, index=self.shown)
            )
        return content

    def size(self, file: IndexFile) -> int | None:
        """Return the size of a file as the index or its server states it, or None if neither does."""
        if file.size is not None:
            return file.size
        with suppress(requests.RequestException, ValueError, KeyError):
            answer = self._session().head(file.url, timeout=_TIMEOUT, allow_redirects=True)
            return int(answer.headers["Content-Length"]) if answer.ok else None
        return None

    def metadata(self, file: IndexFile) -> bytes:
        """Return the metadata of a file, if `has_metadata` is set."""
        return self._get(f"{file.url}.metadata").content

    def _page(self, address: str) -> str:
        stored = self._cache / f"{hashlib.sha256(address.encode()).hexdigest()}.txt" if self._cache else None
        # a cache that cannot be used is ignored
        with suppress(OSError):
            if stored and 0 <= time.time() - stored.stat().st_mtime < _FRESH_SECONDS:
                return stored.read_text(encoding="utf-8")
        answer = self._get(address, {_MISSING})
        text = "" if answer.status_code == _MISSING else answer.text
        with suppress(OSError):
            if stored:
                stored.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                with replacing(stored) as unfinished:
                    unfinished.write_text(text, encoding="utf-8")
        return text

    def _get(self, address: str, accepted: Collection[int] = (), *, of_file: bool = False) -> requests.Response:
        """Return the response if it is a success or has one of the accepted statuses, otherwise raise NetworkError."""
        hint = tr("check the network, --index-url and the proxy variables")
        try:
            answer = self._session(of_file=of_file).get(address, headers={"Accept": _ACCEPT}, timeout=_TIMEOUT)
        except requests.RequestException as error:
            raise http.network_error(error, address, hint=hint) from error
        if answer.ok or answer.status_code in accepted:
            return answer
        named = {"address": http.without_credentials(address), "status": answer.status_code}
        if answer.status_code in _REFUSED:
            hint = tr("add the credentials to the address or to ~/.netrc")
            raise NetworkError(english("{address} refuses access: status {status}", **named), hint=hint)
        raise NetworkError(english("{address} cannot be read: status {status}", **named), hint=hint)

    def _session(self, *, of_file: bool = False) -> http.Session:
        """Return a session of this thread, as those of requests are not thread-safe; that for files reads more."""
        name, most = ("files", http.MOST_OF_A_FILE) if of_file else ("pages", None)
        if not hasattr(self._local, name):
            made = http.Session(self.ca_bundle, netrc=True, back_off=self._back_off, most=most)
            setattr(self._local, name, made)
        session: http.Session = getattr(self._local, name)
        return session


@cache
def _tags(python: str, arch: str) -> frozenset[Tag]:
    """Return the tags of the wheels that a CPython installs on Linux with the oldest supported glibc."""
    version = [int(part) for part in python.split(".")[:2]]
    interpreter = "cp" + "".join(map(str, version))
    platforms = list(_platforms(arch))
    # the ABI is given, as the default is that of the running Python
    return frozenset(
        [*cpython_tags(version, [interpreter], platforms), *compatible_tags(version, interpreter, platforms)]
    )


def _platforms(arch: str) -> Iterator[str]:
    major, newest = GLIBC
    # manylinux began with glibc 2.5 for x86_64; other architectures were added with 2.17
    oldest = 5 if arch == "x86_64" else 17
    for minor in range(newest, oldest - 1, -1):
        yield f"manylinux_{major}_{minor}_{arch}"
        if minor in _LEGACY_TAGS:
            yield f"{_LEGACY_TAGS[minor]}_{arch}"
    yield f"linux_{arch}"


def _kinds(files: list[IndexFile]) -> str:
    tags = sorted({f"{tag.interpreter}-{tag.platform}" for file in files for tag in parse_wheel_filename(file.name)[3]})
    return ", ".join(tags[:4]) + (", ..." if len(tags) > 4 else "")


def _parse(page: str, address: str) -> Iterator[IndexFile]:
    if page.lstrip().startswith("{"):
        entries = [
            (
                item["filename"],
                item.get("yanked"),
                item["url"],
                item.get("hashes", {}).get("sha256", ""),
                any(item.get(key) for key in _METADATA_KEYS),
                item.get("size"),
                (item.get("upload-time") or "")[:10],
            )
            for item in json.loads(page).get("files", [])
        ]
    else:
        anchors = _Anchors()
        anchors.feed(page)
        entries = anchors.found
    for name, yanked, url, sha256, has_metadata, size, day in entries:
        reason = None if yanked in (None, False) else yanked if isinstance(yanked, str) else ""
        try:
            if name.endswith(".whl"):
                version = str(parse_wheel_filename(name)[1])
            elif name.endswith((".tar.gz", ".zip")):
                version = str(parse_sdist_filename(name)[1])
            else:
                continue
        except (InvalidWheelFilename, InvalidSdistFilename):
            continue  # an index has files that are older than the rules of their names
        address_ = urljoin(address, url)
        yield IndexFile(name, version, name.endswith(".whl"), reason, address_, sha256, has_metadata, size, day)


def _older_days(page: str) -> dict[str, str]:
    """Return the versions in an answer of the older interface with the day of their first file."""
    try:
        files = {version: files for version, files in json.loads(page)["releases"].items() if files}
        return {version: min(item["upload_time"][:10] for item in items) for version, items in files.items()}
    except (ValueError, KeyError, TypeError, AttributeError):
        return {}


class _Anchors(html.parser.HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, Any, str, str, bool, None, str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        link = values.get("href")
        if tag == "a" and link:
            url, _, fragment = link.partition("#")
            sha256 = fragment.removeprefix("sha256=") if fragment.startswith("sha256=") else ""
            yanked = (values["data-yanked"] or "") if "data-yanked" in values else None
            has_metadata = any(f"data-{key}" in values for key in _METADATA_KEYS)
            name = unquote(urlsplit(url).path).rpartition("/")[2]
            self.found.append((name, yanked, url, sha256, has_metadata, None, ""))


def default_index(variables: Mapping[str, str] = os.environ) -> str:
    """Return the index that pip and uv use on this machine: the configured one, or else the default of uv."""
    configured = variables.get("ENVBUILDER_INDEX_URL") or network.configured_index(variables)
    found = configured or _default_of_uv()
    if not found:
        raise UsageError(tr("no package index is configured for pip or uv"), hint=tr("give --index-url"))
    return found


def _default_of_uv() -> str | None:
    """Return the index that uv uses without configuration; uv writes it at the top of an empty lock."""
    command = [uv_program(), "pip", "compile", "-", "--emit-index-url", "--offline", "--no-header", "--no-config"]
    try:
        lines = run([*command, "--no-cache", "--python", sys.executable], variables=undisturbed()).text.splitlines()
    except EnvbuilderError:
        return None
    return next((line.removeprefix(_INDEX_LINE) for line in lines if line.startswith(_INDEX_LINE)), None)


@cache
def uv_program() -> str:
    """Return the path of uv. Call this once before starting threads: the search is not thread-safe."""
    try:
        from uv import find_uv_bin

        return str(find_uv_bin())
    except (ImportError, FileNotFoundError) as error:
        raise HostError(
            tr("uv, which makes the locks, is not installed"), hint=tr("install {name} again", name=paths.DISTRIBUTION)
        ) from error


def cache_folder() -> Path:
    return paths.cache_folder() / "index"
