"""The differences between two environments."""

from __future__ import annotations

from envbuilder.matrix import Matrix
from envbuilder.plan import make_plan
from envbuilder.plan.diff import Change, compare
from tests.conftest import A2_VLLM, A3_SGLANG, environment


def changes(matrix: Matrix, before: str, after: str) -> list[Change]:
    old, new = (environment(matrix, name) for name in (before, after))
    return compare((old, make_plan(old)), (new, make_plan(new)))


def test_an_environment_does_not_differ_from_itself(matrix: Matrix) -> None:
    assert changes(matrix, A3_SGLANG, A3_SGLANG) == []


def test_an_upgrade(matrix: Matrix) -> None:
    found = changes(matrix, "verl-v0.4.1-vllm-a2-aarch64", A2_VLLM)
    assert Change("pins", "verl", "v0.4.1", "v0.5.0") in found
    assert {item.section for item in found} == {"pins", "lists", "steps"}, "only verl and what it requires differ"


def test_another_engine_changes_every_section(matrix: Matrix) -> None:
    found = changes(matrix, A2_VLLM, "verl-v0.6.0-sglang-a2-aarch64")
    assert {item.section for item in found} == {
        "pins",
        "variables",
        "lists",
        "paths",
        "layers",
        "steps",
        "known issues",
    }
    by_name = {item.name: item for item in found if item.section == "pins"}
    assert (by_name["vllm"].before, by_name["vllm"].after) == ("v0.7.3", None)
    assert (by_name["sglang"].before, by_name["sglang"].after) == (None, "v0.5.3rc0")


def test_a_layer_of_one_environment_only_is_one_line(matrix: Matrix) -> None:
    found = changes(matrix, A2_VLLM, A3_SGLANG)
    assert Change("layers", "SGLang", None, "yes") in found
    assert not [item for item in found if item.section == "steps" and item.name.startswith("SGLang")]


def test_a_diff_is_symmetric(matrix: Matrix) -> None:
    forward, backward = changes(matrix, A2_VLLM, A3_SGLANG), changes(matrix, A3_SGLANG, A2_VLLM)
    assert {(i.section, i.name, i.before, i.after) for i in forward} == {
        (i.section, i.name, i.after, i.before) for i in backward
    }
