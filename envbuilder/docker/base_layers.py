"""Makes an image of the lowest layers of another one: those of its base image, which need not be in the engine."""

from __future__ import annotations

import hashlib
import io
import json
import re
import tarfile
import tempfile
import uuid
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import IO, Any

from envbuilder.docker.engine import Docker, ImageConfiguration
from envbuilder.docker.saved import saved
from envbuilder.errors import EnvbuilderError

# instructions that make no layer; the old builder of docker writes them after `#(nop)`
_WITHOUT_LAYER = re.compile(
    r"(?:.*#\(nop\)\s+)?(?:ARG|CMD|ENTRYPOINT|ENV|EXPOSE|HEALTHCHECK|LABEL|MAINTAINER|ONBUILD|SHELL|STOPSIGNAL|USER|VOLUME)\b"
)


def base_layers(image: ImageConfiguration, folder: str) -> tuple[str, ...]:
    """Return the digests of the layers below the first step of a build, which makes this folder; none if it is unknown.

    An engine does not say which steps of the history have made a layer, but it knows the size of each.
    """
    first = [at for at, (step, _) in enumerate(image.history) if re.fullmatch(rf"(?:.*\s)?WORKDIR {folder}/?", step)]
    if not first:
        return ()
    above = [step for step, size in image.history[: first[-1] + 1] if size or not _WITHOUT_LAYER.match(step)]
    return image.layers[: -len(above)]


def chain(layers: Sequence[str]) -> str:
    """Return the digest of all these layers, as engines name them."""
    found = layers[0]
    for layer in layers[1:]:
        found = f"sha256:{hashlib.sha256(f'{found} {layer}'.encode()).hexdigest()}"
    return found


@contextmanager
def lowest_layers(docker: Docker, image: str, count: int) -> Iterator[str]:
    """Make an image of the lowest layers, and remove it afterwards. It has no name, and no layer of its own."""
    made = _load(docker, image, count)
    try:
        yield made
    finally:
        with suppress(EnvbuilderError):
            docker.remove(made)


def _load(docker: Docker, image: str, count: int) -> str:
    described = _description(docker.configuration(image), count)
    with tempfile.TemporaryFile() as file:
        _write(file, described, [None] * count)
        # an engine that has the layers does not ask for their content
        with suppress(EnvbuilderError):
            return docker.load_unnamed(file)
    with tempfile.TemporaryFile() as file, saved(docker, image) as content, ExitStack() as stack:
        parts = zip(range(count), content.layers(), strict=False)
        _write(file, described, [stack.enter_context(_kept(layer)) for _, layer in parts])
        return docker.load_unnamed(file)


@contextmanager
def _kept(layer: IO[bytes]) -> Iterator[IO[bytes]]:
    """Copy a layer, which can be read only until the next one."""
    with tempfile.TemporaryFile() as file:
        while part := layer.read(1 << 20):
            file.write(part)
        file.seek(0)
        yield file


def _description(image: ImageConfiguration, count: int) -> dict[str, Any]:
    path = [item for item in image.settings.get("Env") or () if item.startswith("PATH=")]
    return {
        "architecture": image.arch,
        "os": "linux",
        # another image for each reader, as one may remove its own while another reads
        "config": {"Env": path, "Labels": {"envbuilder.reader": uuid.uuid4().hex}},
        "rootfs": {"type": "layers", "diff_ids": list(image.layers[:count])},
    }


def _write(file: IO[bytes], described: dict[str, Any], layers: Sequence[IO[bytes] | None]) -> None:
    names = [f"{number}.tar" for number in range(len(layers))]
    manifest = [{"Config": "config.json", "RepoTags": None, "Layers": names}]
    with tarfile.open(fileobj=file, mode="w") as archive:
        for name, layer in zip(names, layers, strict=True):
            if layer is not None:
                _add(archive, name, layer)
        _add(archive, "config.json", io.BytesIO(json.dumps(described).encode()))
        _add(archive, "manifest.json", io.BytesIO(json.dumps(manifest).encode()))
    file.seek(0)


def _add(archive: tarfile.TarFile, name: str, content: IO[bytes]) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = content.seek(0, io.SEEK_END)
    content.seek(0)
    archive.addfile(entry, content)
