"""Everything that a site without a network needs of an environment, in one file that is checked before it is used.

A tar file: `bundle.json` names the environment, its sources and the digest of every other file; wheels by the lock,
sources at their commits, the Dockerfile, the script and, where it is asked for, the base image.
"""

from __future__ import annotations

import hashlib
import json
import tarfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from envbuilder.errors import EnvbuilderError, NetworkError
from envbuilder.index import Index, IndexFile
from envbuilder.lock import locked_files
from envbuilder.plan import Plan, Source
from envbuilder.registry.archive import add_file
from envbuilder.registry.client import digest_of_file
from envbuilder.render import render_dockerfile, render_script

_DESCRIPTION = "bundle.json"
_SCHEMA_VERSION = 1


@dataclass(frozen=True)
class Bundle:
    """A bundle that was unpacked, every byte compared."""

    folder: Path
    environment: str
    lock: str
    sources: Mapping[str, Source]

    @property
    def wheels(self) -> Path:
        return self.folder / "wheels"

    @property
    def base_image(self) -> Path | None:
        found = self.folder / "base-image.tar"
        return found if found.is_file() else None

    def variables(self) -> dict[str, str]:
        """Installers take from here, and from nowhere else."""
        place = str(self.wheels)
        return {
            "UV_NO_INDEX": "1", "UV_FIND_LINKS": place, "UV_OFFLINE": "1", "PIP_NO_INDEX": "1",
            "PIP_FIND_LINKS": place, "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        }  # fmt: skip


# --- making one ------------------------------------------------------------------------------------------


def write_bundle(
    plan: Plan, sources: Mapping[str, Source], indexes: Sequence[Index], output: Path, base_image: IO[bytes] | None,
    talk: Callable[[str], None],
) -> int:  # fmt: skip
    """Writes the whole file or none; its size."""
    if plan.lock is None:
        raise EnvbuilderError(f"{plan.environment} has no lock, so nothing says what belongs in a bundle")
    output.parent.mkdir(parents=True, exist_ok=True)
    unfinished = output.with_name(f"{output.name}.partial")
    digests: dict[str, str] = {}
    try:
        with tarfile.open(unfinished, "w") as tar:
            for name, content in _contents(plan, sources, indexes, talk):
                digests[name] = hashlib.sha256(content).hexdigest()
                add_file(tar, name, content)
            if base_image is not None:
                digests["base-image.tar"] = _add_stream(tar, "base-image.tar", base_image)
            add_file(tar, _DESCRIPTION, json.dumps(_description(plan, sources, digests), indent=2).encode())
        unfinished.replace(output)
    finally:
        unfinished.unlink(missing_ok=True)
    return output.stat().st_size


def _contents(
    plan: Plan, sources: Mapping[str, Source], indexes: Sequence[Index], talk: Callable[[str], None]
) -> Iterator[tuple[str, bytes]]:
    assert plan.lock is not None  # noqa: S101
    yield "lock.txt", plan.lock.encode()
    yield "Dockerfile", render_dockerfile(plan).encode()
    yield "install.sh", render_script(plan).encode()
    for source in sources.values():
        yield f"sources/{source.archive.name}", source.archive.read_bytes()
    wanted = locked_files(plan.lock)
    for number, (name, version, hashes) in enumerate(wanted, 1):
        talk(f"{number} of {len(wanted)}: {name} {version}")
        for index, file in _files(name, version, hashes, indexes):
            yield f"wheels/{file.name}", index.read(file)
    for tool in plan.tools:
        name, _, version = tool.partition("==")
        yield from _tool(name, version, plan, indexes)


def _files(
    name: str, version: str, hashes: Sequence[str], indexes: Sequence[Index]
) -> Iterator[tuple[Index, IndexFile]]:
    """Those that the lock names, from whichever index has them."""
    missing = set(hashes)
    for index in indexes:
        for file in index.files(name):
            if file.sha256 in missing:
                missing.remove(file.sha256)
                yield index, file
    if missing == set(hashes):
        shown = ", ".join(index.shown for index in indexes)
        raise NetworkError(f"{name} {version} of the lock is on none of: {shown}")


def _tool(name: str, version: str, plan: Plan, indexes: Sequence[Index]) -> Iterator[tuple[str, bytes]]:
    arch = plan.environment.rpartition("-")[2]
    fitting = [file for file in indexes[0].files(name) if file.version == version and file.fits(plan.python, arch)]
    if not fitting:
        raise NetworkError(f"{indexes[0].shown} has no {name} {version} for {arch}")
    yield f"wheels/{fitting[0].name}", indexes[0].read(fitting[0])


def _description(plan: Plan, sources: Mapping[str, Source], digests: Mapping[str, str]) -> dict[str, Any]:
    return {
        "schema_version": _SCHEMA_VERSION,
        "environment": plan.environment,
        "sources": [{**item._asdict(), "archive": f"sources/{item.archive.name}"} for item in sources.values()],
        "files": dict(digests),
    }


def _add_stream(tar: tarfile.TarFile, name: str, file: IO[bytes]) -> str:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = file.seek(0, 2), 0o644
    file.seek(0)
    tar.addfile(entry, file)
    file.seek(0)
    return digest_of_file(file).partition(":")[2]


# --- using one -------------------------------------------------------------------------------------------


def open_bundle(file: Path, folder: Path) -> Bundle:
    """Unpacks a bundle, and refuses it where a byte of it is not what was written."""
    try:
        with tarfile.open(file) as tar:
            names = tar.getnames()
            description = json.loads(_member(tar, _DESCRIPTION).read())
            expected: dict[str, str] = description["files"]
            if sorted(names) != sorted([*expected, _DESCRIPTION]):
                raise EnvbuilderError(f"{file} is not what its description says", hint="copy it again")
            for name, digest in expected.items():
                _unpack(tar, name, digest, folder, file)
        sources = {item["component"]: _source(item, folder) for item in description["sources"]}
        lock = (folder / "lock.txt").read_text(encoding="utf-8")
        return Bundle(folder, str(description["environment"]), lock, sources)
    except (OSError, tarfile.TarError, ValueError, LookupError, TypeError) as error:
        raise EnvbuilderError(f"{file} is not a bundle: {error}", hint="envbuilder bundle writes one") from error


def _member(tar: tarfile.TarFile, name: str) -> IO[bytes]:
    found = tar.extractfile(name)
    if found is None:
        raise LookupError(f"{name} is no file")
    return found


def _unpack(tar: tarfile.TarFile, name: str, digest: str, folder: Path, file: Path) -> None:
    place = (folder / name).resolve()
    if not place.is_relative_to(folder.resolve()):
        raise EnvbuilderError(f"{file} has a file outside of itself: {name}")
    place.parent.mkdir(parents=True, exist_ok=True)
    found = hashlib.sha256()
    content = _member(tar, name)
    with place.open("wb") as target:
        while part := content.read(2**20):
            found.update(part)
            target.write(part)
    if found.hexdigest() != digest:
        raise EnvbuilderError(f"{file} was changed: {name} is not what was bundled", hint="copy it again")


def _source(item: Mapping[str, Any], folder: Path) -> Source:
    return Source(
        component=item["component"], kind=item["kind"], reference=item["reference"], archive=folder / item["archive"],
        sha256=item["sha256"], strip=int(item["strip"]), into=item["into"],
    )  # fmt: skip
