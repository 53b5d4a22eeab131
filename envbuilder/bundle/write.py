"""Writes a bundle, whole or not at all."""

from __future__ import annotations

import hashlib
import json
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from envbuilder.bundle.read import BASE_IMAGE, CHECKSUM, DEBS, DESCRIPTION, SCHEMA_VERSION, WHEELS
from envbuilder.bundle.system import BuildBase
from envbuilder.environment import Environment
from envbuilder.environment.locks import LockedPackage
from envbuilder.errors import EnvbuilderError, NetworkError, UsageError
from envbuilder.files import add_file, add_stream, digest_of_file, replacing
from envbuilder.language import counted, tr
from envbuilder.lock.index import Index, IndexFile
from envbuilder.network import OFFLINE, UV_CONFIG, UV_WITHOUT_INDEX, offline_network
from envbuilder.plan import Plan, SourceArchive
from envbuilder.progress import Progress
from envbuilder.render import build_context, render_script

_TITLE = "wheels"


def write_bundle(
    plan: Plan, sources: Mapping[str, SourceArchive], indexes: Sequence[Index], output: Path, base: BuildBase | None,
    progress: Progress,
) -> int:  # fmt: skip
    """Write a bundle, whole or not at all, and return its size in bytes."""
    output = check_output(output)
    digests: dict[str, str] = {}
    with replacing(output) as unfinished, tarfile.open(unfinished, "w") as tar:
        for name, content in _contents(plan, sources, indexes, progress):
            digests[name] = hashlib.sha256(content).hexdigest()
            add_file(tar, name, content)
        if base is not None:
            for package in base.packages:
                name = f"{DEBS}/{package.name}"
                with package.open("rb") as file:
                    digests[name] = _add_stream(tar, name, file)
            digests[BASE_IMAGE] = _add_stream(tar, BASE_IMAGE, base.image)
        described = json.dumps(_description(plan, sources, digests, base), indent=2).encode()
        add_file(tar, DESCRIPTION, described)
        add_file(tar, CHECKSUM, hashlib.sha256(described).hexdigest().encode())
    return output.stat().st_size


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


def _contents(
    plan: Plan, sources: Mapping[str, SourceArchive], indexes: Sequence[Index], progress: Progress
) -> Iterator[tuple[str, bytes]]:
    assert plan.lock is not None  # noqa: S101
    # for a site without envbuilder: the script, or the Dockerfile with its secret
    yield "install.sh", render_script(plan).encode()
    for path, text in build_context(plan).items():
        yield path, text.encode()
    yield "network.sh", offline_network().secrets()["network"].encode()
    yield f"{OFFLINE}/{UV_CONFIG}", UV_WITHOUT_INDEX.encode()
    for source in sources.values():
        yield f"sources/{source.archive.name}", source.archive.read_bytes()
    wanted = plan.lock.packages
    progress.expect([_TITLE])
    progress.started(_TITLE)
    for number, package in enumerate(wanted, 1):
        title = f"{package.name} {package.version}"
        progress.said(_TITLE, tr("{number} of {total}: {title}", number=number, total=len(wanted), title=title))
        for index, file in _files(package, indexes):
            yield f"{WHEELS}/{file.name}", index.read(file)
    for tool in plan.tools:
        name, _, version = tool.partition("==")
        file = _wheel_of(name, version, plan, indexes[0])
        yield f"{WHEELS}/{file.name}", indexes[0].read(file)
    progress.ended(_TITLE, counted(len(wanted), "package"))


def _files(package: LockedPackage, indexes: Sequence[Index]) -> Iterator[tuple[Index, IndexFile]]:
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
                yield index, file
    if missing == set(package.hashes):
        shown = ", ".join(index.shown for index in indexes)
        raise NetworkError(
            tr(
                "no index has {package} {version} as it was locked; searched: {indexes}",
                package=name,
                version=version,
                indexes=shown,
            )
        )


def _wheel_of(name: str, version: str, plan: Plan, index: Index) -> IndexFile:
    """Return the first wheel of a tool that fits the plan."""
    for file in index.files(name):
        if file.version == version and file.fits(plan.python, plan.arch):
            return file
    raise NetworkError(
        tr("{index} has no {name} {version} for {arch}", index=index.shown, name=name, version=version, arch=plan.arch)
    )


def _description(
    plan: Plan, sources: Mapping[str, SourceArchive], digests: Mapping[str, str], base: BuildBase | None
) -> dict[str, Any]:
    return {
        "schema_version": SCHEMA_VERSION,
        "environment": plan.environment,
        "lock": plan.lock.digest if plan.lock else "",
        "sources": [{**item._asdict(), "archive": f"sources/{item.archive.name}"} for item in sources.values()],
        "base_image": base.name if base else None,
        "files": dict(digests),
    }


def _add_stream(tar: tarfile.TarFile, name: str, file: IO[bytes]) -> str:
    """Add an open file and return its digest."""
    add_stream(tar, name, file)
    file.seek(0)
    return digest_of_file(file).partition(":")[2]
