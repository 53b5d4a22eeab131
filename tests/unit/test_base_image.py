"""Which base image is taken: of the right architecture, wherever it is."""

from __future__ import annotations

from typing import Any, cast

import pytest

from envbuilder.docker.engine import Docker, Image
from envbuilder.errors import NetworkError
from envbuilder.inputs.base_image import BaseImageOptions, base_image
from envbuilder.matrix import Matrix
from tests.conftest import PODC_VLLM, environment

NAME = "quay.example/cann:8"


class Store:
    """An engine that has one image, and a registry behind it that has another."""

    arch = "aarch64"

    def __init__(self, here: str | None, there: str | None) -> None:
        self.here, self.there = here, there
        self.pulled: list[Any] = []

    def image(self, name: str) -> Image | None:
        return Image("sha256:1", name, 1, self.here, {}, "") if self.here and name == NAME else None

    def pull(self, name: str, platform: str | None) -> str | None:
        self.pulled.append(platform)
        self.here = self.there or self.here
        return None if self.there else "no route"


def taken(matrix: Matrix, here: str | None, there: str | None) -> list[Any]:
    store = Store(here, there)
    found = base_image(environment(matrix, PODC_VLLM), BaseImageOptions(NAME), cast(Docker, store), print)
    assert found == NAME
    return store.pulled


def test_what_is_here_is_taken_where_it_fits(matrix: Matrix) -> None:
    assert taken(matrix, "aarch64", None) == []
    assert taken(matrix, None, "aarch64") == [None]
    # the same name stands for both architectures
    assert taken(matrix, "x86_64", "aarch64") == ["linux/arm64"]


@pytest.mark.parametrize(("here", "there", "words"), [("x86_64", None, "no route"), (None, "x86_64", "is for x86_64")])
def test_another_architecture_is_refused(matrix: Matrix, here: str | None, there: str | None, words: str) -> None:
    with pytest.raises(NetworkError, match=words):
        taken(matrix, here, there)


def test_none_is_made_for_a_remote_engine_of_another_architecture(
    matrix: Matrix, monkeypatch: pytest.MonkeyPatch
) -> None:
    """debootstrap makes an image for this host, whatever the engine is."""
    monkeypatch.setattr("envbuilder.platforms.arch", lambda: "x86_64")
    rehearsal = environment(matrix, "verl-v0.5.0-vllm-cpu-aarch64")
    with pytest.raises(NetworkError, match="no route"):
        base_image(rehearsal, BaseImageOptions(), cast(Docker, Store(None, None)), print)
