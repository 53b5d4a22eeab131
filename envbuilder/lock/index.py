"""Asks a package index (PEP 503 or 691, HTML or JSON) which files it has."""

from __future__ import annotations

import hashlib
import html.parser
import json
import os
import re
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote, urljoin, urlsplit

import requests
from packaging.utils import InvalidSdistFilename, InvalidWheelFilename, parse_sdist_filename, parse_wheel_filename

from envbuilder import network, paths, versions
from envbuilder.errors import NetworkError, UsageError
from envbuilder.files import replacing
from envbuilder.matrix.model import Severity

_ACCEPT = "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.1"
_ATTEMPTS, _TIMEOUT, _FRESH_SECONDS = 5, 30, 600
_TRANSIENT = {429, 500, 502, 503, 504}


class IndexFile(NamedTuple):
    """One file of a distribution."""

    name: str
    version: str
    is_wheel: bool
    yanked: str | None = None
    url: str = ""
    sha256: str = ""

    def fits(self, python: str, arch: str) -> bool:
        """Whether this wheel installs on Linux with that Python and machine."""
        if not self.is_wheel:
            return False
        compact = python.replace(".", "")
        for tag in parse_wheel_filename(self.name)[3]:
            interpreter = tag.interpreter in {f"cp{compact}", f"py{compact[0]}", f"py{compact}"} or (
                tag.abi == "abi3"
                and re.fullmatch(r"cp3\d+", tag.interpreter)
                and int(tag.interpreter[3:]) <= int(compact[1:])
            )
            platform = tag.platform == "any" or (tag.platform.endswith(f"_{arch}") and "linux" in tag.platform)
            if interpreter and platform and "musl" not in tag.platform:
                return True
        return False


class Index:
    """An index with a cache of its pages. Proxies and certificates come from the usual variables."""

    def __init__(
        self, url: str, *, ca_bundle: Path | None = None, cache: Path | None = None, back_off: float = 0.5
    ) -> None:
        self.url = url.rstrip("/") + "/"
        self._back_off = back_off
        self._cache = cache
        self.ca_bundle = ca_bundle
        self._local = threading.local()
        self._pages: dict[str, list[IndexFile]] = {}

    def beside(self, url: str) -> Index:
        """Return another index that is reached with the same certificates and cache."""
        return Index(url, ca_bundle=self.ca_bundle, cache=self._cache)

    @property
    def shown(self) -> str:
        """The address without the credentials it may hold."""
        parts = urlsplit(self.url)
        return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()

    def files(self, distribution: str) -> list[IndexFile]:
        """Every file of a distribution; none where the index does not know it."""
        name = re.sub(r"[-_.]+", "-", distribution).lower()
        if name not in self._pages:
            address = urljoin(self.url, f"{name}/")
            self._pages[name] = list(_parse(self._page(address), address))
        return self._pages[name]

    def versions(self, distribution: str) -> list[str]:
        return sorted({file.version for file in self.files(distribution)}, key=versions.key)

    def judge(self, distribution: str, version: str, python: str, arch: str) -> Iterator[tuple[Severity, str]]:
        """What stands against installing one version, worst first."""
        own = [file for file in self.files(distribution) if versions.key(file.version) == versions.key(version)]
        fitting = [file for file in own if file.fits(python, arch)]
        if not own:
            near = ", ".join(self.versions(distribution)[-3:]) or "nothing of that name"
            yield "error", f"{self.shown} has no {version}; it has {near}"
        elif not fitting and all(file.is_wheel for file in own):
            yield "error", f"no wheel of {version} for Python {python} on {arch}; there are: {_kinds(own)}"
        elif not fitting:
            yield (
                "warning",
                f"only a source archive of {version} fits Python {python} on {arch}; it is built while installing",
            )
        for reason in {file.yanked for file in fitting or own if file.yanked is not None}:
            yield "warning", f"{version} was yanked from {self.shown}: {reason or 'no reason given'}"

    def read(self, file: IndexFile) -> bytes:
        """The content of a file, which must have the hash that the index states."""
        content = self._get(file.url).content
        if file.sha256 and hashlib.sha256(content).hexdigest() != file.sha256:
            raise NetworkError(f"{file.name} from {self.shown} is not the file that the index describes")
        return content

    def _page(self, address: str) -> str:
        stored = self._cache / f"{hashlib.sha256(address.encode()).hexdigest()}.txt" if self._cache else None
        # a cache that is not there, or not ours, is in nobody's way
        with suppress(OSError):
            if stored and time.time() - stored.stat().st_mtime < _FRESH_SECONDS:
                return stored.read_text(encoding="utf-8")
        text = self._get(address, missing_is_empty=True).text
        with suppress(OSError):
            if stored:
                stored.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                with replacing(stored) as unfinished:
                    unfinished.write_text(text, encoding="utf-8")
        return text

    def _get(self, address: str, *, missing_is_empty: bool = False) -> requests.Response:
        shown = f"{self.shown}{address.removeprefix(self.url)}" if address.startswith(self.url) else address
        trouble = "no answer"
        for attempt in range(_ATTEMPTS):
            if attempt:
                time.sleep(self._back_off * 2 ** (attempt - 1))
            try:
                # the bundle with every request: a variable of the environment would win over what a session says
                bundle = str(self.ca_bundle) if self.ca_bundle else None
                answer = self._session().get(address, headers={"Accept": _ACCEPT}, timeout=_TIMEOUT, verify=bundle)
            except requests.exceptions.SSLError as error:
                hint = "give the certificates with --ca-bundle or REQUESTS_CA_BUNDLE"
                raise NetworkError(f"{shown} has a certificate that is not trusted here", hint=hint) from error
            except requests.RequestException as error:
                trouble = type(error).__name__
                continue
            if answer.status_code == requests.codes.not_found and missing_is_empty:
                answer._content = b""
                return answer
            if answer.status_code in {401, 403}:
                hint = "put the credentials into the address, or into ~/.netrc"
                raise NetworkError(f"{shown} refuses us ({answer.status_code})", hint=hint)
            if answer.ok:
                return answer
            trouble = f"status {answer.status_code}"
            if answer.status_code not in _TRANSIENT:
                break
        raise NetworkError(
            f"{shown} cannot be read: {trouble}", hint="check the network, --index-url and the proxy variables"
        )

    def _session(self) -> requests.Session:
        if not hasattr(self._local, "session"):
            self._local.session = requests.Session()
        session: requests.Session = self._local.session
        return session


def _kinds(files: list[IndexFile]) -> str:
    tags = {f"{tag.interpreter}-{tag.platform}" for file in files for tag in parse_wheel_filename(file.name)[3]}
    ordered = sorted(tags)
    return ", ".join(ordered[:4]) + (", ..." if len(ordered) > 4 else "")


def _parse(page: str, address: str) -> Iterator[IndexFile]:
    if page.lstrip().startswith("{"):
        entries = [
            (item["filename"], item.get("yanked"), item["url"], item.get("hashes", {}).get("sha256", ""))
            for item in json.loads(page).get("files", [])
        ]
    else:
        anchors = _Anchors()
        anchors.feed(page)
        entries = anchors.found
    for name, yanked, url, sha256 in entries:
        reason = None if yanked in (None, False) else yanked if isinstance(yanked, str) else ""
        try:
            if name.endswith(".whl"):
                version = str(parse_wheel_filename(name)[1])
            elif name.endswith((".tar.gz", ".zip")):
                version = str(parse_sdist_filename(name)[1])
            else:
                continue
        except (InvalidWheelFilename, InvalidSdistFilename):
            continue  # an index keeps what was uploaded before names had rules
        yield IndexFile(name, version, name.endswith(".whl"), reason, urljoin(address, url), sha256)


class _Anchors(html.parser.HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, Any, str, str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        link = values.get("href")
        if tag == "a" and link:
            url, _, fragment = link.partition("#")
            sha256 = fragment.removeprefix("sha256=") if fragment.startswith("sha256=") else ""
            yanked = (values["data-yanked"] or "") if "data-yanked" in values else None
            self.found.append((unquote(urlsplit(url).path).rpartition("/")[2], yanked, url, sha256))


def default_index(variables: Mapping[str, str] = os.environ) -> str:
    """The index that pip and uv would use here."""
    configured = variables.get("ENVBUILDER_INDEX_URL") or network.configured_index(variables)
    if configured:
        return configured
    try:
        from pip._internal.models.index import PyPI
    except ImportError:
        raise UsageError("which package index to ask is not known here", hint="give --index-url") from None
    return str(PyPI.simple_url)


def cache_folder() -> Path:
    return paths.cache_folder() / "index"
