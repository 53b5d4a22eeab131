"""The base image of a build: one of the right architecture, from the engine or its registry."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast
from unittest.mock import Mock

import pytest

from envbuilder.build.gather import gather
from envbuilder.build.options import BuildOptions
from envbuilder.docker.engine import Docker, Image
from envbuilder.environment import Environment
from envbuilder.errors import NetworkError
from envbuilder.inputs.base_image import BaseImageOptions, base_image
from envbuilder.inputs.kept_wheels import WheelCache
from envbuilder.inputs.source_archives import SourceOptions
from envbuilder.lock.index import Index
from envbuilder.matrix import Matrix, load
from envbuilder.network import Network
from tests.conftest import A2_VLLM, Edit, environment

NAME = "quay.example/cann:8"


class Store:
    """A docker engine and its registry; each has the image for an architecture, or no image (None)."""

    arch = "aarch64"

    def __init__(self, local: str | None, remote: str | None) -> None:
        self.local, self.remote = local, remote
        self.pulled: list[Any] = []

    def runs(self, arch: str) -> bool:
        return arch == self.arch

    platform = Docker.platform

    def image(self, name: str) -> Image | None:
        return Image("sha256:1", name, 1, self.local, {}, "") if self.local and name == NAME else None

    def pull(self, name: str, platform: str | None) -> str | None:
        self.pulled.append(platform)
        self.local = self.remote or self.local
        return None if self.remote else "no route"


def pulled_platforms(matrix: Matrix, local: str | None, remote: str | None) -> list[Any]:
    store = Store(local, remote)
    found = base_image(environment(matrix, A2_VLLM), BaseImageOptions(NAME), cast(Docker, store), print)
    assert found == NAME
    return store.pulled


def test_an_image_is_pulled_only_if_the_engine_has_none_that_fits(matrix: Matrix) -> None:
    assert pulled_platforms(matrix, "aarch64", None) == []
    assert pulled_platforms(matrix, None, "aarch64") == [None]
    # one name is used for the images of both architectures
    assert pulled_platforms(matrix, "x86_64", "aarch64") == ["linux/arm64"]


@pytest.mark.parametrize(
    ("local", "remote", "words"), [("x86_64", None, "no route"), (None, "x86_64", "is for x86_64")]
)
def test_another_architecture_is_refused(matrix: Matrix, local: str | None, remote: str | None, words: str) -> None:
    with pytest.raises(NetworkError, match=words):
        pulled_platforms(matrix, local, remote)


def test_no_image_is_made_for_a_remote_engine_of_another_architecture(
    matrix: Matrix, monkeypatch: pytest.MonkeyPatch
) -> None:
    """mmdebstrap runs programs of the new system on this host, not on that of the engine."""
    monkeypatch.setattr("envbuilder.platforms.arch", lambda: "x86_64")
    monkeypatch.setattr("envbuilder.inputs.debian_base.emulator", lambda _: None)
    cpu = environment(matrix, "verl-v0.5.0-vllm-cpu-aarch64")
    with pytest.raises(NetworkError, match="no route"):
        base_image(cpu, BaseImageOptions(), cast(Docker, Store(None, None)), print)


def hint_of_a_build(row: Environment, tmp_path: Path, options: BaseImageOptions) -> str:
    """Return the hint of a build whose base image is in no registry within reach."""
    sources = SourceOptions("auto", Index("http://127.0.0.1:9/simple"))
    how = BuildOptions(sources, Network(), WheelCache(tmp_path), options)
    with pytest.raises(NetworkError, match="no route") as raised:
        gather(row, how, cast(Docker, Store(None, None)), Mock(), tmp_path)
    return str(raised.value.hint)


def test_a_build_without_its_registry_names_the_rehearsal(matrix: Matrix, tmp_path: Path) -> None:
    row = environment(matrix, A2_VLLM)
    hint = hint_of_a_build(row, tmp_path, BaseImageOptions())
    assert hint.startswith("with --rehearse it is built and proven on a stand-in of CANN") and "--base-image" in hint
    # who names an image wants that one
    assert "--rehearse" not in hint_of_a_build(row, tmp_path, BaseImageOptions(NAME))


class Tagged(Store):
    """An engine and a registry that know an image by any name; the engine has these."""

    def __init__(self, *local: str) -> None:
        super().__init__(None, None)
        self.names = {*local}

    def image(self, name: str) -> Image | None:
        return Image("sha256:1", name, 1, "aarch64", {}, "") if name in self.names else None

    def pull(self, name: str, platform: str | None) -> str | None:
        self.pulled.append(name)
        self.names.add(name)
        return None


def test_a_base_image_is_pulled_by_its_digest(edit: Edit) -> None:
    """Whoever owns a tag can give it another image."""
    tag, digest = "8.1.rc1-910b-ubuntu22.04-py3.10", f"sha256:{'a' * 64}"
    new = f"base: {{digests: {{{tag}: '{digest}'}}, image: quay.io/ascend/cann"
    row = environment(load(edit("hardware/a2.yaml", "base: {image: quay.io/ascend/cann", new)), A2_VLLM)
    pinned, said = f"quay.io/ascend/cann@{digest}", list[str]()
    engine = Tagged()
    assert base_image(row, BaseImageOptions(), cast(Docker, engine), said.append) == pinned
    assert engine.pulled == [pinned]
    mirrored = BaseImageOptions(registry_mirror="mirror.example")
    assert base_image(row, mirrored, cast(Docker, Tagged()), said.append) == f"mirror.example/ascend/cann@{digest}"
    # the user has loaded it: an engine knows the digest only of what it has pulled
    loaded = Tagged(f"quay.io/ascend/cann:{tag}")
    assert base_image(row, BaseImageOptions(), cast(Docker, loaded), said.append) == f"quay.io/ascend/cann:{tag}"
    assert loaded.pulled == [] and "its digest is not known" in said[-1]
