"""Where the layers of a base image end, told from the history of an image."""

from __future__ import annotations

import hashlib

import pytest

from envbuilder.docker.base_layers import base_layers, chain
from envbuilder.docker.engine import ImageConfiguration

HOME = "/opt/envbuilder"
OURS = [
    ("LABEL a=b", 0), ("CMD [\"/bin/bash\"]", 0), ("COPY locks/ locks/ # buildkit", 9), ("RUN /bin/bash -c true # buildkit", 0),
    (f"WORKDIR {HOME}", 0), ("ARG BASH_ENV=/run/secrets/network", 0), ("SHELL [/bin/bash -o pipefail -c]", 0),
]  # fmt: skip
THEIRS = [('CMD ["/bin/sh"]', 0), ("RUN true", 0), ("ADD root.tar / # buildkit", 100)]
LAYERS = ("sha256:a", "sha256:b", "sha256:c", "sha256:d", "sha256:e")


def described(history: list[tuple[str, int]], layers: tuple[str, ...] = LAYERS) -> ImageConfiguration:
    return ImageConfiguration("amd64", {}, layers, tuple(history))


def test_the_layers_below_the_first_step_are_the_base_image() -> None:
    assert base_layers(described([*OURS, *THEIRS]), HOME) == ("sha256:a", "sha256:b")


@pytest.mark.parametrize(
    "step",
    [("/bin/sh -c touch /etc/x", 0), ("RUN touch /etc/x", 0), ("/bin/sh -c #(nop) COPY dir:1 in / ", 5), ("LABEL x", 5), ("", 0)],
)  # fmt: skip
def test_layers_above_are_never_the_base_image(step: tuple[str, int]) -> None:
    found = base_layers(
        described([("/bin/sh -c #(nop)  ENV a=b", 0), step, *OURS, *THEIRS], (*LAYERS, "sha256:f")), HOME
    )
    assert found == ("sha256:a", "sha256:b")


@pytest.mark.parametrize("history", [[], THEIRS, [("WORKDIR /elsewhere", 0)], [("WORKDIR /opt/envbuilder/x", 0)]])
def test_an_image_of_another_build_has_none(history: list[tuple[str, int]]) -> None:
    assert base_layers(described(history), HOME) == ()


def test_a_history_with_more_steps_than_layers_has_none() -> None:
    assert base_layers(described([*OURS, *THEIRS], LAYERS[:2]), HOME) == ()


def test_the_digest_of_a_chain_is_that_of_engines() -> None:
    pair = hashlib.sha256(b"sha256:a sha256:b").hexdigest()
    assert chain(("sha256:a",)) == "sha256:a" and chain(("sha256:a", "sha256:b")) == f"sha256:{pair}"
