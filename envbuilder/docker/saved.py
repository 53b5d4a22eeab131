"""Reads an image that the engine has saved: its configuration and its layers."""

from __future__ import annotations

import gzip
import json
import shutil
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

from envbuilder.docker.engine import Docker

_GZIP = b"\x1f\x8b"


class SavedImage:
    """The content of an image; it can be read while the block of `saved` runs."""

    def __init__(self, archive: tarfile.TarFile) -> None:
        self._archive = archive
        (self._parts,) = json.load(self._member("manifest.json"))
        self.config = self._member(self._parts["Config"]).read()

    @property
    def layer_digests(self) -> list[str]:
        found: list[str] = json.loads(self.config)["rootfs"]["diff_ids"]
        return found

    def layers(self) -> Iterator[IO[bytes]]:
        """Yield the layers, the lowest first, as seekable archives that are not compressed."""
        for name in self._parts["Layers"]:
            content = self._member(name)
            # an engine that stores images as it pulled them saves compressed layers
            is_packed = content.read(2) == _GZIP
            content.seek(0)
            if not is_packed:
                yield content
                continue
            with gzip.GzipFile(fileobj=content) as packed, tempfile.TemporaryFile() as unpacked:
                shutil.copyfileobj(packed, unpacked)
                unpacked.seek(0)
                yield unpacked

    def _member(self, name: str) -> IO[bytes]:
        found = self._archive.extractfile(name)
        assert found is not None, name  # noqa: S101  the engine has written it
        return found


@contextmanager
def saved(docker: Docker, name: str) -> Iterator[SavedImage]:
    with docker.save(name) as file, tarfile.open(fileobj=file) as archive:
        yield SavedImage(archive)
