"""Publishes an image of the engine in a form that depends only on its content, so that every engine gets one digest.

Layers are rewritten (see `layers`). The configuration contains what a container needs, one date, and no labels of the
proof, which was made on this machine.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import zlib
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from io import RawIOBase
from pathlib import Path
from typing import IO, Any, NamedTuple

from envbuilder.docker.engine import Docker
from envbuilder.docker.saved import saved
from envbuilder.environment.image_names import OF_THE_PROOF
from envbuilder.errors import EnvbuilderError, HostError
from envbuilder.files import digest_of, digest_of_file
from envbuilder.language import tr
from envbuilder.progress import Progress
from envbuilder.registry.client import Manifest, Registry
from envbuilder.registry.layers import LayerWriter
from envbuilder.registry.reference import Reference

_SETTINGS = (
    "User", "ExposedPorts", "Env", "Entrypoint", "Cmd", "Volumes", "WorkingDir", "Labels", "StopSignal", "Healthcheck",
    "Shell",
)  # fmt: skip
# half the time of the usual level, and 3 % larger
_GZIP_LEVEL = 4
_GZIP_PART, _GZIP_PARTS_AT_ONCE = 2**22, 64
# as fast as gzip compresses
_ZSTD_LEVEL = 12


class Publication(NamedTuple):
    """The parts of an image for a registry: the manifest, the configuration, and the files of layers by digest."""

    manifest: Manifest
    config: bytes
    layers: Mapping[str, Path]


class Form(NamedTuple):
    """How layers are compressed: the ending of the image's tag, the media types of its parts, and the compressor."""

    ending: str
    manifest: str
    config: str
    layer: str
    compressed: Callable[[Path], AbstractContextManager[IO[bytes]]]

    def of(self, reference: Reference) -> Reference:
        """Return the name of an image with layers of this form."""
        return reference._replace(tag=f"{reference.tag}{self.ending}")


def prepare(docker: Docker, image: str, created: str, form: Form, folder: Path, progress: Progress) -> Publication:
    """Write the parts of an image of the engine into a folder, ready for publication; `created` becomes its date."""
    layers: list[dict[str, Any]] = []
    files: dict[str, Path] = {}
    diff_ids: list[str] = []
    with saved(docker, image) as content:
        writer = LayerWriter()
        titles = [digest[7:19] for digest in content.layer_digests]
        progress.expect(titles)
        for title, layer in zip(titles, content.layers(), strict=True):
            progress.started(title)
            path = folder / str(len(layers))
            with form.compressed(path) as stream:
                plain = _Hashed(stream)
                writer.write(layer, plain)  # type: ignore[arg-type]
            diff_ids.append(plain.digest)
            with path.open("rb") as file:
                digest = digest_of_file(file)
            files[digest], size = path, path.stat().st_size
            layers.append({"mediaType": form.layer, "digest": digest, "size": size})
            progress.ended(title, f"{size / 10**6:.0f} MB")
        config = _configuration(json.loads(content.config), diff_ids, created)
    described = {"mediaType": form.config, "digest": digest_of(config), "size": len(config)}
    document = {"schemaVersion": 2, "mediaType": form.manifest, "config": described, "layers": layers}
    manifest = json.dumps(document, sort_keys=True).encode()
    return Publication(Manifest(digest_of(manifest), form.manifest, manifest), config, files)


def upload(publication: Publication, registry: Registry, target: Reference) -> None:
    for digest, path in publication.layers.items():
        with path.open("rb") as file:
            registry.upload(target.repository, digest, file)
    registry.put_blob(target.repository, publication.config)
    manifest = publication.manifest
    registry.put_manifest(target.repository, target.wanted, manifest.content, manifest.media_type)


def _configuration(found: Mapping[str, Any], diff_ids: list[str], created: str) -> bytes:
    """Return the configuration with what a container needs, and without the engine's own notes."""
    settings = {key: value for key, value in found["config"].items() if key in _SETTINGS and value}
    settings["Labels"] = {key: value for key, value in settings.get("Labels", {}).items() if key not in OF_THE_PROOF}
    steps = [item.get("created_by", "") for item in found.get("history", ()) if not item.get("empty_layer")]
    document = {
        "architecture": found["architecture"],
        "os": found["os"],
        "created": created,
        "config": settings,
        "rootfs": {"type": "layers", "diff_ids": diff_ids},
        "history": [{"created": created, "created_by": step} for step in steps] if len(steps) == len(diff_ids) else [],
    }
    return json.dumps(document, sort_keys=True).encode()


class _Hashed(RawIOBase):
    """A file that is only written to, with the digest of what was written."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._digest = hashlib.sha256()

    def write(self, data: bytes) -> int:  # type: ignore[override]
        self._digest.update(data)
        return self._file.write(data)

    @property
    def digest(self) -> str:
        return f"sha256:{self._digest.hexdigest()}"


class _Gzip(RawIOBase):
    """Compresses parts of a file in parallel; together they are one gzip file, the same on any number of cores."""

    def __init__(self, file: IO[bytes], pool: Executor) -> None:
        self._file, self._pool = file, pool
        self._part = bytearray()
        self._parts: deque[Future[bytes]] = deque()

    def write(self, data: bytes) -> int:  # type: ignore[override]
        self._part += data
        if len(self._part) >= _GZIP_PART:
            self._compress()
        while len(self._parts) > _GZIP_PARTS_AT_ONCE:
            self._file.write(self._parts.popleft().result())
        return len(data)

    def finish(self) -> None:
        self._compress()
        for part in self._parts:
            self._file.write(part.result())

    def _compress(self) -> None:
        self._parts.append(self._pool.submit(_member, bytes(self._part)))
        self._part.clear()


def _member(data: bytes) -> bytes:
    """Return data as a member of a gzip file; the header that zlib writes has no time."""
    compressor = zlib.compressobj(_GZIP_LEVEL, zlib.DEFLATED, 16 + zlib.MAX_WBITS)
    return compressor.compress(data) + compressor.flush()


@contextmanager
def _gzipped(path: Path) -> Iterator[IO[bytes]]:
    with path.open("wb") as file, ThreadPoolExecutor() as pool:
        stream = _Gzip(file, pool)
        yield stream  # type: ignore[misc]
        stream.finish()


@contextmanager
def _with_zstd(path: Path) -> Iterator[IO[bytes]]:
    if shutil.which("zstd") is None:
        raise HostError(
            tr("the command zstd is not installed"), hint=tr("install the package zstd, or leave out --zstd")
        )
    command = ["zstd", "--quiet", "--threads=0", f"-{_ZSTD_LEVEL}", "-o", str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as process:  # noqa: S603
        assert process.stdin is not None  # noqa: S101
        yield process.stdin
        process.stdin.close()
    if process.returncode != 0:
        raise EnvbuilderError(tr("zstd ended with exit code {code}", code=process.returncode))


_DOCKER, _OCI = "application/vnd.docker", "application/vnd.oci.image"
# the form of docker push, which every engine and registry reads
GZIP = Form(
    ending="",
    manifest=f"{_DOCKER}.distribution.manifest.v2+json",
    config=f"{_DOCKER}.container.image.v1+json",
    layer=f"{_DOCKER}.image.rootfs.diff.tar.gzip",
    compressed=_gzipped,
)
# its layers are smaller and unpacked faster; engines before docker 23 cannot read them, so they have a tag of their own
ZSTD = Form(
    ending="-zstd",
    manifest=f"{_OCI}.manifest.v1+json",
    config=f"{_OCI}.config.v1+json",
    layer=f"{_OCI}.layer.v1.tar+zstd",
    compressed=_with_zstd,
)
