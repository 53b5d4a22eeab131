"""Writes a bundle, whole or not at all."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, Any, NamedTuple

from envbuilder.bundle.read import (
    BASE_IMAGE,
    CHECKSUM,
    DEBS,
    DESCRIPTION,
    SCHEMA_VERSION,
    SETTINGS,
    SIGNATURE,
    WHEELS,
)
from envbuilder.bundle.system import BuildBase
from envbuilder.environment import Environment
from envbuilder.environment.additions import Additions
from envbuilder.environment.locks import LockedPackage
from envbuilder.errors import EnvbuilderError, NetworkError, UsageError
from envbuilder.files import add_file, add_stream, digest_of_file, replacing
from envbuilder.inputs.git_trees import Commits
from envbuilder.language import counted, tr
from envbuilder.lock.index import Index, IndexFile
from envbuilder.network import UV_WITHOUT_INDEX, offline_network
from envbuilder.plan import Plan, SourceArchive
from envbuilder.plan.plan import SOURCES
from envbuilder.progress import Progress
from envbuilder.render import build_context, render_script
from envbuilder.signing.keys import PrivateKey

_ASKED_AT_ONCE = 16
_INDEX, _WHEELS = "package index", "wheels"


def write_bundle(
    plan: Plan, sources: Sequence[ProvenSource], indexes: Sequence[Index], output: Path, base: BuildBase | None,
    progress: Progress, key: PrivateKey | None = None, additions: Additions | None = None,
    own: Sequence[ProvenSource] = (),
) -> int:  # fmt: skip
    """Write a bundle, whole or not at all, and return its size in bytes."""
    output = check_output(output)
    digests: dict[str, str] = {}
    wheels = list(_wheels(plan, additions.packages if additions else (), indexes, progress))
    every = [*sources, *own]
    progress.say(_size(wheels, every, base))
    with replacing(output) as unfinished, tarfile.open(unfinished, "w") as tar:
        for name, content in _contents(plan, every, wheels, progress):
            digests[name] = hashlib.sha256(content).hexdigest()
            add_file(tar, name, content)
        if base is not None:
            for package in base.packages:
                name = f"{DEBS}/{package.name}"
                with package.open("rb") as file:
                    digests[name] = _add_stream(tar, name, file)
            digests[BASE_IMAGE] = _add_stream(tar, BASE_IMAGE, base.image)
        described = json.dumps(_description(plan, additions, sources, own, digests, base), indent=2).encode()
        add_file(tar, DESCRIPTION, described)
        add_file(tar, CHECKSUM, hashlib.sha256(described).hexdigest().encode())
        if key is not None:
            # as `cosign verify-blob` reads it
            add_file(tar, SIGNATURE, base64.b64encode(key.sign(described)))
    return output.stat().st_size


class ProvenSource(NamedTuple):
    """A source with what proves it, if it is a commit and not a file with a hash in the lock."""

    archive: SourceArchive
    commits: Commits | None

    @property
    def place(self) -> str:
        return f"{SOURCES}/{self.archive.archive.name}"

    def as_data(self) -> dict[str, Any]:
        proof = {"commits": self.commits.as_data()} if self.commits else {}
        return {**self.archive._asdict(), "archive": self.place, **proof}


def check_output(output: Path) -> Path:
    """Return the absolute path of a bundle to write. Only a file may be replaced."""
    if str(output) == "-" or (output.exists() and not output.is_file()):
        raise UsageError(
            tr("a bundle is a file, and {output} is not one", output=output), hint=tr("name another path with -o")
        )
    return output.resolve()


def require_lock(environment: Environment) -> None:
    if environment.lock is None:
        raise EnvbuilderError(
            tr("{environment} has no lock, which lists what belongs in a bundle", environment=environment.id),
            hint=f"envbuilder lock {environment.id}",
        )


class _Wheel(NamedTuple):
    """A file of an index, to be downloaded."""

    origin: Index
    file: IndexFile


def _wheels(
    plan: Plan, added: Sequence[LockedPackage], indexes: Sequence[Index], progress: Progress
) -> Iterator[_Wheel]:
    """Yield what is downloaded. All of it is looked for first, so that the size is known, and what is missing."""
    assert plan.lock is not None  # noqa: S101
    wanted = (*plan.lock.packages, *added, *plan.tools)
    progress.expect([_INDEX, _WHEELS])
    progress.started(_INDEX)
    # uv may look for the address, and not in several threads
    addresses = ", ".join(index.shown for index in indexes)
    with ThreadPoolExecutor(_ASKED_AT_ONCE) as pool:
        found = pool.map(lambda package: list(_files(package, indexes, addresses)), wanted)
        for number, (package, files) in enumerate(zip(wanted, found, strict=True), 1):
            _count(progress, _INDEX, number, len(wanted), f"{package.name} {package.version}")
            yield from files
    progress.ended(_INDEX, counted(len(wanted), "package"))


def _count(progress: Progress, step: str, number: int, total: int, title: str) -> None:
    progress.said(step, tr("{number} of {total}: {title}", number=number, total=total, title=title))


def _size(wheels: Sequence[_Wheel], sources: Sequence[ProvenSource], base: BuildBase | None) -> str:
    """Return how much will be downloaded, and how large the bundle will be."""
    with ThreadPoolExecutor(_ASKED_AT_ONCE) as pool:
        sizes = list(pool.map(lambda item: item.origin.size(item.file), wheels))
    download = sum(size or 0 for size in sizes)
    files = [*(item.archive.archive for item in sources), *(base.packages if base else ())]
    total = download + sum(path.stat().st_size for path in files)
    if base is not None:
        total += base.image.seek(0, os.SEEK_END)
        base.image.seek(0)
    named = {"download": f"{download / 10**9:.2f}", "total": f"{total / 10**9:.2f}"}
    unknown = sizes.count(None)
    if unknown:
        files_ = counted(unknown, "file")
        return tr(
            "downloads more than {download} GB: the index does not state the size of {files}", **named, files=files_
        )
    return tr("downloads {download} GB; the bundle will have {total} GB", **named)


def _contents(
    plan: Plan, sources: Sequence[ProvenSource], wheels: Sequence[_Wheel], progress: Progress
) -> Iterator[tuple[str, bytes]]:
    # for a site without envbuilder: the script, or the Dockerfile with its secret
    yield "install.sh", render_script(plan).encode()
    for path, text in build_context(plan).items():
        yield path, text.encode()
    yield "network.sh", offline_network().secrets()["network"].encode()
    yield SETTINGS, UV_WITHOUT_INDEX.encode()
    for source in sources:
        yield source.place, source.archive.archive.read_bytes()
    progress.started(_WHEELS)
    for number, (origin, file) in enumerate(wheels, 1):
        _count(progress, _WHEELS, number, len(wheels), file.name)
        yield f"{WHEELS}/{file.name}", origin.read(file)
    progress.ended(_WHEELS, counted(len(wheels), "file"))


def _files(package: LockedPackage, indexes: Sequence[Index], addresses: str) -> Iterator[_Wheel]:
    """Yield the files that the lock allows, each with the index that has it."""
    name, version = package.name, package.version
    missing = set(package.hashes)
    if not missing:
        raise NetworkError(
            tr("the lock has no hash of {package} {version}, so it cannot be bundled", package=name, version=version),
            hint=tr("lock the row where its index can be reached"),
        )
    for index in indexes:
        for file in index.files(name):
            if file.sha256 in missing:
                missing.remove(file.sha256)
                yield _Wheel(index, file)
    if missing == set(package.hashes):
        raise NetworkError(
            tr(
                "no index has {package} {version} as it was locked; searched: {indexes}",
                package=name,
                version=version,
                indexes=addresses,
            )
        )


def _description(
    plan: Plan, additions: Additions | None, sources: Sequence[ProvenSource], own: Sequence[ProvenSource],
    digests: Mapping[str, str], base: BuildBase | None,
) -> dict[str, Any]:  # fmt: skip
    return {
        "schema_version": SCHEMA_VERSION,
        "environment": plan.environment,
        "lock": plan.lock.digest if plan.lock else "",
        **({"project": additions.lock_digest} if additions else {}),
        "sources": [item.as_data() for item in sources],
        "own_sources": [item.as_data() for item in own],
        "base_image": base.name if base else None,
        "files": dict(digests),
    }


def _add_stream(tar: tarfile.TarFile, name: str, file: IO[bytes]) -> str:
    """Add an open file and return its digest."""
    add_stream(tar, name, file)
    file.seek(0)
    return digest_of_file(file).partition(":")[2]
