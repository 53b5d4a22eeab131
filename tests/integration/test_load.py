"""Loading image files into a real engine: it has what was verified, or what it had before."""

from __future__ import annotations

import io
import json
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from envbuilder import platforms
from envbuilder.cli.console import Console
from envbuilder.cli.progress import Lines
from envbuilder.docker.engine import Docker
from envbuilder.errors import EnvbuilderError
from envbuilder.files import add_file, digest_of
from envbuilder.platforms import PLATFORMS
from envbuilder.registry.archive import save, verify
from envbuilder.registry.client import MANIFEST_TYPES, Registry
from envbuilder.registry.published import look_up
from envbuilder.registry.reference import Reference
from envbuilder.registry.signatures import sign
from envbuilder.signing.keys import make_keys, read_private
from tests.conftest import succeeded
from tests.integration.conftest import docker, run

NAME = "load.example/team/tiny:v1"


@pytest.fixture
def name(engine: None) -> Iterator[str]:
    yield NAME
    subprocess.run(["docker", "image", "rm", NAME], capture_output=True, check=False)


def archive(address: str, folder: Path, text: str, key: Path | None = None) -> Path:
    """Publish an image of one file under the name, save it from its registry, and return the file."""
    registry, layer = Registry(address), io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as tar:
        add_file(tar, "text", text.encode())
    rootfs = {"type": "layers", "diff_ids": [digest_of(layer.getvalue())]}
    system, _, architecture = PLATFORMS[platforms.arch()].partition("/")
    config = json.dumps({"architecture": architecture, "os": system, "config": {}, "rootfs": rootfs}).encode()
    parts = {
        "config": ("application/vnd.oci.image.config.v1+json", config),
        "layer": ("application/vnd.oci.image.layer.v1.tar", layer.getvalue()),
    }
    described = {
        part: {"mediaType": kind, "digest": registry.put_blob("team/tiny", content), "size": len(content)}
        for part, (kind, content) in parts.items()
    }
    document = {"schemaVersion": 2, "mediaType": MANIFEST_TYPES[0], "config": described["config"]}
    content = json.dumps({**document, "layers": [described["layer"]]}).encode()
    registry.put_manifest("team/tiny", text, content, MANIFEST_TYPES[0])
    place = Reference.parse(f"{address}/team/tiny:{text}")
    image = look_up(registry, place, platforms.arch())
    if key is not None:
        sign(registry, Reference.parse(NAME)._replace(repository="team/tiny"), image.manifest, read_private(key, b""))
    file = folder / f"{text}.tar"
    save(registry, image, NAME, file, Lines(Console(-2)))
    return file


def id_of(name: str) -> str:
    return docker("image", "inspect", "--format", "{{.Id}}", name).strip()


def test_a_signed_file_is_loaded(name: str, there: str, tmp_path: Path) -> None:
    private, public = make_keys(b"")
    (tmp_path / "team.key").write_bytes(private)
    (tmp_path / "team.pub").write_bytes(public)
    file = archive(there, tmp_path, "signed", tmp_path / "team.key")
    result = succeeded(run("load", str(file), "--verify-key", f"load.example/team={tmp_path / 'team.pub'}"))
    assert f"signed as {name} by {tmp_path / 'team.pub'}" in result.stderr and result.stdout == f"{name}\n"
    assert id_of(name) in verify(file)[1:3]


@pytest.mark.parametrize("before", [True, False])
def test_an_image_with_another_id_is_removed_again(name: str, there: str, tmp_path: Path, *, before: bool) -> None:
    """As if the file were replaced between the verification and the load."""
    docker_, wanted = Docker(), archive(there, tmp_path, "wanted")
    if before:
        docker_.load(wanted, name)
    earlier = id_of(name) if before else None
    evil = archive(there, tmp_path, "evil")
    with pytest.raises(EnvbuilderError, match="and not as"):
        docker_.load(evil, name, {verify(wanted).id, verify(wanted).digest})
    found = docker_.image(name)
    assert (found.id if found else None) == earlier
    for lost in verify(evil)[1:3]:
        assert docker_.image(lost) is None
    docker_.load(wanted, name, {verify(wanted).id, verify(wanted).digest})
