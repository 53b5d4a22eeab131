"""A registry that answers a push with another image: a signature is only for what was sent."""

from __future__ import annotations

import io
import json
import tarfile
from contextlib import suppress
from pathlib import Path
from typing import IO, cast

import pytest

from envbuilder.cli.console import Console
from envbuilder.cli.progress import Lines
from envbuilder.docker.engine import Docker, Image
from envbuilder.environment import Environment
from envbuilder.environment.image_names import ENVIRONMENT
from envbuilder.errors import EnvbuilderError
from envbuilder.files import add_file, digest_of
from envbuilder.matrix import Matrix
from envbuilder.registry.client import Registry
from envbuilder.registry.pull import RegistryOptions
from envbuilder.registry.push import push, push_index
from envbuilder.registry.reference import Reference
from envbuilder.registry.signatures import sign
from envbuilder.signing.keys import PrivateKey, make_keys, read_private
from tests.conftest import A2_VLLM, environment
from tests.helpers.registry_in_memory import CONFIG, in_memory, published


@pytest.fixture
def row(matrix: Matrix, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Environment:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return environment(matrix, A2_VLLM)


@pytest.fixture
def key(tmp_path: Path) -> PrivateKey:
    (tmp_path / "team.key").write_bytes(make_keys(b"x")[0])
    return read_private(tmp_path / "team.key", b"x")


class Engine:
    """An engine with one image of one layer."""

    def __init__(self, row: Environment) -> None:
        self._labels = {ENVIRONMENT: row.id}

    def image(self, name: str) -> Image:
        return Image(digest_of(b"ours"), name, 1, "aarch64", self._labels, "2026-01-01T00:00:00Z")

    def read(self, name: str, path: str) -> bytes:
        raise AssertionError("the image has no bill")

    def save(self, name: str) -> IO[bytes]:
        layer = io.BytesIO()
        with tarfile.open(fileobj=layer, mode="w") as tar:
            add_file(tar, "etc/ours", b"ours")
        file = io.BytesIO()
        with tarfile.open(fileobj=file, mode="w") as tar:
            add_file(tar, "manifest.json", json.dumps([{"Config": "config", "Layers": ["layer"]}]).encode())
            add_file(tar, "config", json.dumps(CONFIG).encode())
            add_file(tar, "layer", layer.getvalue())
        file.seek(0)
        return file


def options(host: str) -> RegistryOptions:
    """Return options whose registry is asked again without a pause."""
    found = RegistryOptions(host)
    found._known[host] = Registry(host, back_off=0)
    return found


def pushed(row: Environment, host: str, key: PrivateKey, *, replace: bool = False) -> str:
    return push(
        row, options(host), cast(Docker, Engine(row)), Lines(Console(-2)),
        candidate=False, replace=replace, local=host, key=key,
    ).digest  # fmt: skip


@pytest.mark.parametrize("again", [False, True])
def test_only_what_was_sent_is_signed(row: Environment, key: PrivateKey, *, again: bool) -> None:
    """Whichever of its answers the registry changes."""
    with in_memory() as (host, store):
        ours = pushed(row, host, key)
        usual = store.asked
    assert store.signed == {ours}
    for at in range(1, usual + 1):
        with in_memory() as (host, store):
            store.evil = published(host, "evil", author="evil")
            if again:
                pushed(row, host, key)
            store.at = store.asked + at
            # or it is noticed
            with suppress(EnvbuilderError):
                pushed(row, host, key, replace=True)
            assert store.signed <= {ours}, at


def index_tag(row: Environment, host: str) -> str:
    return row.image_name(host).rpartition(":")[2].removesuffix(f"-{row.coordinates.arch}")


def test_only_the_index_that_was_sent_is_signed(row: Environment, key: PrivateKey) -> None:
    with in_memory() as (host, store):
        ours = pushed(row, host, key)
        store.evil = published(host, "evil", author="evil")
        before = store.asked
        push_index(row, options(host), replace=False, key=key)
        asked, index = store.asked - before, digest_of(store.manifests[index_tag(row, host)][1])
    assert store.signed == {ours, index}
    for at in range(1, asked + 1):
        with in_memory() as (host, store):
            pushed(row, host, key)
            store.evil = published(host, "evil", author="evil")
            store.at = store.asked + at
            with suppress(EnvbuilderError):
                push_index(row, options(host), replace=True, key=key)
            assert digest_of(store.evil) not in store.signed, at
            for digest in store.signed - {ours}:
                listed = json.loads(store.manifests[digest][1])["manifests"]
                assert [item["digest"] for item in listed] == [ours], at


def test_an_index_names_only_images_that_the_key_has_signed(row: Environment, key: PrivateKey) -> None:
    """The signature of an index covers every image in it."""
    with in_memory() as (host, store):
        ours = pushed(row, host, key)
        name = Reference.parse(row.image_name(host))
        other = "x86_64"
        tag = f"{index_tag(row, host)}-{other}"
        theirs = digest_of(published(host, tag, author="theirs", architecture="amd64"))
        with pytest.raises(EnvbuilderError, match="has no signature"):
            push_index(row, options(host), replace=False, key=key)
        assert index_tag(row, host) not in store.manifests and store.signed == {ours}
        # as the machine of the other architecture does
        registry = Registry(host, back_off=0)
        sign(registry, name._replace(tag=tag), registry.manifest("verl", tag), key)
        assert push_index(row, options(host), replace=False, key=key)[1] == ["aarch64", other]
    index = store.manifests[index_tag(row, host)][1]
    assert [item["digest"] for item in json.loads(index)["manifests"]] == [ours, theirs]
    assert store.signed == {ours, theirs, digest_of(index)}
