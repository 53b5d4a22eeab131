"""The cascade: precedence of layers, lists, conditions, and the trail of a value."""

from __future__ import annotations

import pytest

from envbuilder.environment import resolve
from envbuilder.environment.cascade import value_named
from envbuilder.environment.coordinates import environments
from envbuilder.environment.select import pick
from envbuilder.errors import NoMatchError, UsageError
from envbuilder.matrix import Matrix, load
from tests.conftest import A2_VLLM, A2_X86, A3_SGLANG, OPENRLHF, Edit, environment


def test_every_environment_resolves(matrix: Matrix) -> None:
    for coordinates in environments(matrix):
        assert resolve(matrix, coordinates).pins


def test_a_trail_has_file_line_and_layers(matrix: Matrix) -> None:
    cpu = environment(matrix, "verl-v0.5.0-vllm-cpu-aarch64")
    trail = value_named(cpu, "python").trail
    assert [(step.layer, step.text) for step in trail] == [("row v0.5.0 vllm", "3.10"), ("hardware cpu", "3.11")]
    lines = matrix.files["hardware/cpu.yaml"].path.read_text().splitlines()
    assert "version: '3.11'" in lines[trail[-1].where.line - 1]
    assert cpu.pins["python"].documented == "3.10", "it shows the version of the row's document"


def test_a_trail_is_found_by_any_spelling_of_the_name(matrix: Matrix) -> None:
    assert value_named(environment(matrix, A3_SGLANG), "Torch-NPU") == value_named(
        environment(matrix, A3_SGLANG), "torch_npu"
    )
    with pytest.raises(NoMatchError) as caught:
        value_named(environment(matrix, A3_SGLANG), "tensorflow")
    assert "torch_npu" in str(caught.value.hint)


def test_an_override_wins_where_its_condition_holds(matrix: Matrix) -> None:
    assert environment(matrix, "verl-v0.4.1-vllm-a2-aarch64").pins["tensordict"].version == "0.8.3"
    assert environment(matrix, A2_X86).pins["tensordict"].version == "0.6.2"


def test_the_command_line_wins(matrix: Matrix) -> None:
    changed = resolve(matrix, pick(matrix, A2_VLLM), {"torch": "2.6.0"})
    assert changed.pins["torch"].version == "2.6.0"
    assert changed.pins["torch"].trail[-1].layer == "command line"
    with pytest.raises(UsageError, match="has no pin 'tensorflow'"):
        resolve(matrix, pick(matrix, A2_VLLM), {"tensorflow": "2"})


def test_local_versions_depend_on_the_architecture(matrix: Matrix) -> None:
    assert environment(matrix, A2_X86).pins["torch"].full == "2.5.1+cpu"
    assert environment(matrix, A2_VLLM).pins["torch"].full == "2.5.1"
    assert environment(matrix, A2_X86).pins["torch_npu"].full == "2.5.1", (
        "only the packages that the architecture lists have one"
    )


def test_lists_replace_unless_they_append(edit: Edit) -> None:
    row = "frameworks/verl/v0.5.0.yaml"
    folder = edit(row, "    hardware: [a2", "    system_packages: {append: [vim]}\n    hardware: [a2")
    assert environment(load(folder), A2_VLLM).lists["system_packages"].values[-2:] == ("numactl", "vim")
    folder = edit(row, "system_packages: {append: [vim]}", "system_packages: [vim]")
    changed = environment(load(folder), A2_VLLM)
    assert changed.lists["system_packages"].values == ("vim",)
    assert [step.text[0] for step in value_named(changed, "system_packages").trail] == ["=", "+", "="]


def test_an_opt_in_workaround_is_shown_but_not_set(matrix: Matrix) -> None:
    v1 = environment(matrix, OPENRLHF)
    assert any("VLLM_USE_V1" in issue.variables for issue in v1.known_issues)
    assert "VLLM_USE_V1" not in v1.variables


def test_a_workaround_that_is_not_opt_in_is_set(edit: Edit) -> None:
    folder = edit("frameworks/openrlhf/v0.7.5.yaml", "    opt_in: true\n", "")
    assert environment(load(folder), OPENRLHF).variables["VLLM_USE_V1"].value == "1"


def test_a_known_issue_of_other_versions_is_not_shown(edit: Edit) -> None:
    folder = edit("frameworks/openrlhf/v0.7.5.yaml", "vllm_ascend: ==0.8.5rc1", "vllm_ascend: '>0.8.5rc1'")
    assert not any("VLLM_USE_V1" in issue.variables for issue in environment(load(folder), OPENRLHF).known_issues)
