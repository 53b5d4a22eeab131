"""Reads the data of one release from a package index: its Python range, its requirements, its source archive."""

from __future__ import annotations

import io
import re
import tarfile
import zlib

from packaging.metadata import RawMetadata, parse_email

from envbuilder import versions
from envbuilder.errors import NetworkError
from envbuilder.language import tr
from envbuilder.lock.index import Index, IndexFile
from envbuilder.matrix.model import Component
from envbuilder.matrix.scaffold import IndexRelease

_METADATA_FILE = re.compile(r"[^/]+/PKG-INFO")
_OF_AN_EXTRA = re.compile(r";.*\bextra\b")


def index_release(index: Index, component: Component, version: str) -> IndexRelease | None:
    """Return the data of a release from the index; None if the index does not have that version."""
    files = [item for item in index.files(component.index_name) if versions.same(item.version, version)]
    if not files:
        return None
    metadata = _metadata(index, files)
    return IndexRelease(
        source=f"pypi/{component.index_name}@{versions.public(version)}",
        archive=index.source_archive(component.index_name, version) if component.sdist else None,
        python=metadata.get("requires_python"),
        requires=tuple(line for line in metadata.get("requires_dist", ()) if not _OF_AN_EXTRA.search(line)),
    )


def _metadata(index: Index, files: list[IndexFile]) -> RawMetadata:
    """Return the metadata that the index has as a separate file, else that in the source archive, else none."""
    described = next((item for item in files if item.has_metadata), None)
    archive = next((item for item in files if item.name.endswith(".tar.gz")), None)
    content = index.metadata(described) if described else _of_archive(index, archive) if archive else b""
    return parse_email(content)[0]


def _of_archive(index: Index, file: IndexFile) -> bytes:
    try:
        with tarfile.open(fileobj=io.BytesIO(index.read(file))) as archive:
            for member in archive:
                if _METADATA_FILE.fullmatch(member.name) and (found := archive.extractfile(member)):
                    return found.read()
    except (tarfile.TarError, EOFError, OSError, zlib.error) as error:
        raise NetworkError(
            tr("{file} from {index} is not a source archive: {reason}", file=file.name, index=index.shown, reason=error)
        ) from error
    return b""
