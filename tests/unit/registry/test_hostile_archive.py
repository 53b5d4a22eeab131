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
from envbuilder.registry.archive import Archived, verify
from envbuilder.registry.client import INDEX_TYPES, MANIFEST_TYPES

NAME = "registry.example/toy:v1"
CONFIG, LAYER = b'{"architecture": "amd64"}', b"a layer"
MANIFEST = json.dumps(
    {
        "schemaVersion": 2,
        "config": {"digest": digest_of(CONFIG), "size": len(CONFIG)},
        "layers": [{"digest": digest_of(LAYER), "size": len(LAYER)}],
    }
).encode()
REF = "org.opencontainers.image.ref.name"
Entries = dict[str, bytes | tarfile.TarInfo]


def path(content: bytes) -> str:
    return "blobs/sha256/" + digest_of(content).partition(":")[2]


def honest() -> Entries:
    annotations = {"io.containerd.image.name": NAME, "org.opencontainers.image.ref.name": "v1"}
    described = {"mediaType": MANIFEST_TYPES[1], "digest": digest_of(MANIFEST), "size": len(MANIFEST)}
    index = {"schemaVersion": 2, "manifests": [{**described, "annotations": annotations}]}
    docker = [{"Config": path(CONFIG), "RepoTags": [NAME], "Layers": [path(LAYER)]}]
    return {
        "oci-layout": b"{}",
        path(MANIFEST): MANIFEST,
        path(CONFIG): CONFIG,
        path(LAYER): LAYER,
        "index.json": json.dumps(index).encode(),
        "manifest.json": json.dumps(docker).encode(),
    }


def written(file: Path, entries: Entries, form: int = tarfile.USTAR_FORMAT) -> Path:
    with tarfile.open(file, "w", format=form) as tar:
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


def str_of(entries: Entries, name: str) -> str:
    content = entries[name]
    assert isinstance(content, bytes)
    return content.decode()


def test_an_honest_file(tmp_path: Path) -> None:
    for form in (tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT):
        found = verify(written(tmp_path / "x.tar", honest(), form))
        assert found == Archived(NAME, digest_of(MANIFEST), digest_of(CONFIG), [])


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
    "one name more for podman": in_document(
        "index.json", lambda index: index["manifests"][0]["annotations"].update({REF: "docker.io/library/debian:12"})
    ),
    "another form for containerd": in_document(
        "index.json", lambda index: index["manifests"][0].update(mediaType=INDEX_TYPES[0])
    ),
    # Go reads it as Config, and Python does not
    "a key in another case": lambda all_: all_.update(
        {"manifest.json": json.dumps([{**json.loads(str_of(all_, "manifest.json"))[0], "config": "evil"}]).encode()}
    ),
    "a key twice": lambda all_: all_.update(
        {"manifest.json": str_of(all_, "manifest.json").replace('"Config"', '"config": "evil", "Config"').encode()}
    ),
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


# --- archives that programs read in different ways -------------------------------------------------------


def evil() -> Entries:
    """Return the files of another image under the same name."""
    config = b'{"architecture": "amd64", "evil": true}'
    docker = [{"Config": "evil.json", "RepoTags": [NAME, "debian:12"], "Layers": [path(LAYER)]}]
    return {"manifest.json": json.dumps(docker).encode(), "evil.json": config, path(LAYER): LAYER}


def entry(name: str, content: bytes, kind: bytes = tarfile.REGTYPE, prefix: str = "") -> bytes:
    """Return an entry of an archive; `prefix` is in the field of ustar for it, whatever the format."""
    made = tarfile.TarInfo(name)
    made.type, made.size = kind, len(content)
    block = bytearray(made.tobuf(tarfile.GNU_FORMAT if prefix else tarfile.USTAR_FORMAT))
    block[345 : 345 + len(prefix)] = prefix.encode()
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block) + content + bytes(-len(content) % 512)


def pax(keywords: dict[str, str], kind: bytes) -> bytes:
    made = tarfile.TarInfo.create_pax_global_header(keywords)
    return made[:156] + kind + made[157:] if kind == tarfile.XGLTYPE else entry("x", made[512:].rstrip(b"\0"), kind)


def renamed(shown: str, real: str, content: bytes) -> bytes:
    """Return an entry that Python reads under the first name, and Go under the second."""
    return pax({"path": shown}, tarfile.XGLTYPE) + entry(real, content)


def files(entries: Entries) -> dict[str, bytes]:
    return {name: content for name, content in entries.items() if isinstance(content, bytes)}


def disguised() -> bytes:
    """Return an archive that is honest for Python, and the other image for docker."""
    hidden = b"".join(renamed("oci-layout", name, content) for name, content in files(evil()).items())
    shown = b"".join(
        renamed(name, f"unused-{at}", content) for at, (name, content) in enumerate(files(honest()).items())
    )
    return hidden + shown


def whole(entries: Entries) -> bytes:
    return b"".join(entry(name, content) for name, content in files(entries).items())


TWO_WAYS: dict[str, Callable[[], bytes]] = {
    "a global header": disguised,
    "an empty global header": lambda: pax({"comment": "x"}, tarfile.XGLTYPE) + whole(honest()),
    "a header with another name": lambda: (
        pax({"path": "oci-layout"}, tarfile.XHDTYPE) + entry("manifest.json", b"[]") + whole(honest())
    ),
    "a long name": lambda: entry("././@LongLink", b"index.json\0", tarfile.GNUTYPE_LONGNAME) + whole(honest()),
    "a name in two parts": lambda: whole(
        {name: content for name, content in honest().items() if name != "oci-layout"}
    ) + entry("oci-layout", b"{}", prefix="x"),
    "a file twice": lambda: entry("manifest.json", b"[]") + whole(honest()),
    "a file after the end": lambda: whole(honest()) + bytes(512) + entry("manifest.json", b"[]"),
    "a file of less than nothing": lambda: (
        entry("oci-layout", b"").replace(b"00000000000\0" + b"00000000000\0", b"\xff" * 12 + b"00000000000\0") + whole(honest())
    ),
    "a contiguous file": lambda: entry("oci-layout", b"{}", tarfile.CONTTYPE) + whole(honest()),
}  # fmt: skip


@pytest.mark.parametrize("way", TWO_WAYS)
def test_a_file_that_docker_reads_in_another_way_is_refused(tmp_path: Path, way: str) -> None:
    file = tmp_path / "x.tar"
    file.write_bytes(whole(honest()) + bytes(10240))
    assert verify(file).name == NAME, "this way to write it is honest"
    file.write_bytes(TWO_WAYS[way]() + bytes(10240))
    with pytest.raises(EnvbuilderError, match="is not an archive of an image"):
        verify(file)


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
