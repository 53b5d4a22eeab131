"""Image files with false contents: what an engine would load must be what the file declares."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from envbuilder.docker.engine import Docker
from envbuilder.errors import EnvbuilderError
from envbuilder.files import digest_of
from envbuilder.registry.archive import verify

NAME = "registry.example/toy:v1"
CONFIG, LAYER = b'{"architecture": "amd64"}', b"a layer"
MANIFEST = json.dumps(
    {
        "schemaVersion": 2,
        "config": {"digest": digest_of(CONFIG), "size": len(CONFIG)},
        "layers": [{"digest": digest_of(LAYER), "size": len(LAYER)}],
    }
).encode()
Entries = dict[str, bytes | tarfile.TarInfo]


def path(content: bytes) -> str:
    return "blobs/sha256/" + digest_of(content).partition(":")[2]


def honest() -> Entries:
    index = {"manifests": [{"digest": digest_of(MANIFEST), "annotations": {"io.containerd.image.name": NAME}}]}
    docker = [{"Config": path(CONFIG), "RepoTags": [NAME], "Layers": [path(LAYER)]}]
    return {
        "oci-layout": b"{}",
        path(MANIFEST): MANIFEST,
        path(CONFIG): CONFIG,
        path(LAYER): LAYER,
        "index.json": json.dumps(index).encode(),
        "manifest.json": json.dumps(docker).encode(),
    }


def written(file: Path, entries: Entries) -> Path:
    with tarfile.open(file, "w") as tar:
        for name, content in entries.items():
            entry = content if isinstance(content, tarfile.TarInfo) else tarfile.TarInfo(name)
            if isinstance(content, bytes):
                entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content) if isinstance(content, bytes) else None)
    return file


def special(name: str, kind: bytes, target: str = "") -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname = kind, target
    return entry


def in_document(name: str, change: Callable[[Any], object]) -> Callable[[Entries], object]:
    def changed(entries: Entries) -> None:
        content = entries[name]
        assert isinstance(content, bytes)
        document = json.loads(content)
        change(document)
        entries[name] = json.dumps(document).encode()

    return changed


def test_an_honest_file(tmp_path: Path) -> None:
    assert verify(written(tmp_path / "x.tar", honest())) == (NAME, digest_of(MANIFEST))


LIES: dict[str, Callable[[Entries], object]] = {
    "a path that leads out": lambda all_: all_.update({"../../evil": b"x"}),
    "an absolute path": lambda all_: all_.update({"/etc/evil": b"x"}),
    "one file more": lambda all_: all_.update({"repositories": b'{"debian": {"12": "x"}}'}),
    "one blob more": lambda all_: all_.update({path(b"more"): b"more"}),
    "a link": lambda all_: all_.update({path(b"l"): special(path(b"l"), tarfile.SYMTYPE, "/etc/passwd")}),
    "a hard link": lambda all_: all_.update({path(b"l"): special(path(b"l"), tarfile.LNKTYPE, "/etc/passwd")}),
    "a device": lambda all_: all_.update({path(b"d"): special(path(b"d"), tarfile.CHRTYPE)}),
    "a pipe in place of a document": lambda all_: all_.update({"oci-layout": special("oci-layout", tarfile.FIFOTYPE)}),
    "a link in place of the index": lambda all_: all_.update(
        {"index.json": special("index.json", tarfile.SYMTYPE, "manifest.json")}
    ),
    "a missing layer": lambda all_: all_.pop(path(LAYER)),
    "a changed layer": lambda all_: all_.update({path(LAYER): b"b layer"}),
    "another name for docker": in_document("manifest.json", lambda items: items[0].update(RepoTags=["debian:12"])),
    "one name more for docker": in_document("manifest.json", lambda items: items[0]["RepoTags"].append("debian:12")),
    "one image more for docker": in_document("manifest.json", lambda items: items.append(items[0])),
    "another layer for docker": in_document("manifest.json", lambda items: items[0].update(Layers=[path(CONFIG)])),
    "one image more for containerd": in_document("index.json", lambda index: index["manifests"].append({})),
    "another digest": in_document("index.json", lambda index: index["manifests"][0].update(digest="sha256:../../x")),
    "no annotations": in_document("index.json", lambda index: index["manifests"][0].pop("annotations")),
    "no list": in_document("index.json", lambda index: index.update(manifests=5)),
    "no document": lambda all_: all_.update({"index.json": b"[" * 100_000}),
    "no text": lambda all_: all_.update({"index.json": b"\xff\xfe"}),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_file_with_anything_else_is_refused(tmp_path: Path, lie: str) -> None:
    entries = honest()
    LIES[lie](entries)
    with pytest.raises(EnvbuilderError, match=r"is not an archive of an image|was changed"):
        verify(written(tmp_path / "x.tar", entries))
    assert [item.name for item in tmp_path.iterdir()] == ["x.tar"]


@pytest.mark.parametrize("name", ["one name more for docker", "another name for docker"])
def test_an_engine_gets_no_file_with_images_of_other_names(tmp_path: Path, name: str) -> None:
    """The base image in a bundle is a file of docker's, which a name can be added to."""
    entries = honest()
    LIES[name](entries)
    engine = object.__new__(Docker)
    with pytest.raises(EnvbuilderError, match=r"would replace other images than registry\.example/toy:v1: debian:12"):
        engine.load(written(tmp_path / "x.tar", entries), NAME)
    (tmp_path / "x.tar").write_bytes(b"text")
    with pytest.raises(EnvbuilderError, match="is not an archive of images"):
        engine.load(tmp_path / "x.tar", NAME)
