"""Every row of the source documents is in the matrices, with the documented versions and those that work."""

from __future__ import annotations

import pytest

from envbuilder.environment import Filters, resolve
from envbuilder.environment.coordinates import environments
from envbuilder.environment.image_names import upstream_images
from envbuilder.environment.select import pick, select
from envbuilder.matrix import Matrix
from tests.conftest import A3_SGLANG, OPENRLHF, environment

A2, A3 = (("atlas-800t-a2", "atlas-200t-a2-box16", "atlas-900-a2-podc"), ("atlas-800t-a3",))
COMMON_073 = {
    "python": "3.10",
    "cann": "8.1.RC1",
    "hdk": "25.0.RC1",
    "torch": "2.5.1",
    "torch_npu": "2.5.1",
    "vllm": "v0.7.3",
    "transformers": "4.52.4",
}

ROWS = {
    # verl, 2025-05-24
    "verl-v0.4.0-vllm": (A2[:2], {**COMMON_073, "vllm_ascend": "v0.7.3"}),
    # verl, 2025-07-02
    "verl-v0.4.1-vllm": (A2[1:], {**COMMON_073, "vllm_ascend": "v0.7.3.post1", "torchvision": "0.20.1"}),
    "verl-v0.5.0-vllm": (A2[1:], {**COMMON_073, "vllm_ascend": "v0.7.3.post1", "torchvision": "0.20.1", "tensordict": "0.8.3"}),
    # verl with sglang, 2025-09-29; the document says 2.6.0 and awaits the build for its CANN
    "verl-v0.6.0-sglang": (
        (*A2[1:], *A3),
        {"python": "3.11", "cann": "8.3.RC1", "hdk": "25.3.RC1", "torch": "2.6.0", "torch_npu": "2.6.0.post3", "transformers": "4.56.1",
         "sglang": "v0.5.3rc0", "sgl_kernel_npu": "20250926", "triton_ascend": "3.2.0rc4"},
    ),
    # OpenRLHF
    "openrlhf-v0.7.5-vllm": (
        A2[:1],
        {"cann": "8.1.RC1", "hdk": "25.0.RC1.1", "torch": "2.5.1", "torch_npu": "2.5.1", "vllm": "v0.8.5.post1", "vllm_ascend": "v0.8.5rc1",
         "ring_attention_ascend": "0.0.2"},
    ),
    "openrlhf-v0.6.2-vllm": (
        A2[:1],
        {"cann": "8.1.RC1", "hdk": "25.0.RC1.1", "torch": "2.5.1", "torch_npu": "2.5.1", "vllm": "v0.7.3", "vllm_ascend": "v0.7.3"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("row", ROWS)
def test_the_rows(matrix: Matrix, row: str) -> None:
    products, pins = ROWS[row]
    framework, branch, engine = row.split("-")
    for name in products:
        resolved = resolve(matrix, pick(matrix, filters=Filters(framework, branch, engine, name)))
        assert {pin: resolved.version(pin) for pin in pins} == pins
        assert all(pin.source for pin in resolved.pins.values())
    found = select(matrix, filters=Filters(framework, branch, engine, "cpu"))
    assert {item.arch for item in found} == {"aarch64", "x86_64"}


# verl-project/verl@1dda039b9:docker/ascend/supported_tags.md, images of releases
PUBLISHED = {
    "verl-v0.8.0-vllm": [
        "v0.8.0-cann9.0.0-torch_npu2.9.0.post2-{chip}-ubuntu22.04-py3.11-vllm",
        "verl-9.0.0-{chip}-ubuntu22.04-py3.11-v0.8.0",
    ],
    "verl-v0.7.1-vllm": ["verl-8.5.0-{chip}-ubuntu22.04-py3.11-v0.7.1"],
    "verl-v0.7.0-vllm": ["verl-8.3.rc1-{chip}-ubuntu22.04-py3.11-v0.7.0"],
    "verl-v0.6.1-vllm": ["verl-8.2.rc1-{chip}-ubuntu22.04-py3.11-v0.6.1"],
}


def test_every_published_image_belongs_to_its_row(matrix: Matrix) -> None:
    rows = [resolve(matrix, item) for item in environments(matrix) if item.hardware != "cpu"]
    for row in rows:
        tags = PUBLISHED.get(f"verl-{row.branch.name}-{row.engine.name}", []) if row.framework.name == "verl" else []
        if not row.hardware.has_npus:
            continue
        chip = {"a2": "910b", "a3": "a3", "a5": "950"}[row.hardware.family]
        tags = [] if chip == "950" else tags
        names = [item.name for item in upstream_images(row) if item.is_of_row]
        assert sorted(names) == sorted(f"quay.io/ascend/verl:{tag.format(chip=chip)}" for tag in tags), row.id


def test_an_image_that_is_not_of_the_row_says_how_it_differs(matrix: Matrix) -> None:
    nearest = upstream_images(environment(matrix, "verl-v0.8.0-sglang-a3-aarch64"))[0]
    assert nearest.name == "quay.io/ascend/verl:latest-sglang-a3-ubuntu" and not nearest.is_of_row
    assert nearest.differences == ("verl of its development branch, not v0.8.0",)


@pytest.mark.parametrize(
    ("identifier", "pin", "documented"),
    [
        ("verl-v0.4.0-vllm-a2-aarch64", "torch_npu", "2.5.1rc1"),
        ("verl-v0.4.0-vllm-a2-aarch64", "transformers", ">=4.52.0"),
        ("verl-v0.4.0-vllm-a2-aarch64", "tensordict", "<=0.6.2"),
        ("verl-v0.4.1-vllm-a2-aarch64", "tensordict", "0.8.3 on ARM"),
        ("verl-v0.5.0-vllm-a2-aarch64", "torch_npu", "2.5.1.RC1"),
        (A3_SGLANG, "sglang", "unpinned"),
        (A3_SGLANG, "triton_ascend", "3.2.0 in the table, 3.2.0.dev20250925 of a test index in the command"),
    ],
)
def test_documented_versions_are_kept(matrix: Matrix, identifier: str, pin: str, documented: str) -> None:
    found = environment(matrix, identifier).pins[pin]
    assert found.documented == documented
    assert found.because or pin == "transformers"


def test_torchvision_on_x86_64_is_the_cpu_build(matrix: Matrix) -> None:
    assert environment(matrix, "verl-v0.4.1-vllm-a2-x86_64").pins["torchvision"].full == "0.20.1+cpu"


def test_notes_of_the_first_verl_document(matrix: Matrix) -> None:
    branch = matrix.branch("verl", "v0.4.0")
    sources = [issue.source for issue in branch.known_issues]
    assert "https://github.com/vllm-project/vllm-ascend/issues/809" in sources
    assert "https://github.com/vllm-project/vllm-ascend/issues/825" in sources
    assert set(branch.support.unsupported_packages) == {"flash_attn", "liger_kernel"}
    assert {item.name: item.devices for item in branch.support.algorithms} == {"SFT": ("1", "8"), "GRPO": ("2", "8")}


def test_thresholds_and_history(matrix: Matrix) -> None:
    verl, openrlhf = matrix.frameworks["verl"], matrix.frameworks["openrlhf"]
    assert verl.thresholds and openrlhf.thresholds
    assert (verl.thresholds.loss_percent, verl.thresholds.reward_percent) == ("2", "4")
    assert (openrlhf.thresholds.loss_percent, openrlhf.thresholds.reward_percent) == ("2", "2")
    assert dict(verl.history[0].documented) == {
        "transformers": "4.49.0",
        "torch_npu": "2.5.1.rc1",
        "cann": "8.1.RC1 (not released then)",
    }


def test_notes_of_the_sglang_document(matrix: Matrix) -> None:
    resolved = environment(matrix, A3_SGLANG)
    assert set(resolved.lists["remove"].values) == {"torchvision", "timm", "triton"}
    assert any("run_qwen3_8b_grpo_sglang_1k_spmd_npu.sh" in (issue.workaround or "") for issue in resolved.known_issues)
    assert "multimodal models" in resolved.branch.support.unsupported_features


@pytest.mark.parametrize(
    ("branch", "unsupported"),
    [
        ("v0.7.5", {"AutoTP", "Hybrid Engine", "PyTorch Compile", "bitsandbytes"}),
        ("v0.6.2", {"Ring Attention", "Hybrid Engine", "PyTorch Compile", "bitsandbytes"}),
    ],
)
def test_notes_of_the_openrlhf_document(matrix: Matrix, branch: str, unsupported: set[str]) -> None:
    found = matrix.branch("openrlhf", branch)
    assert set(found.support.unsupported_features) == unsupported
    assert set(found.support.unsupported_packages) == {"flash_attn", "ring_flash_attn", "bitsandbytes"}
    assert any(issue.patch and issue.patch.file == "vllm_ascend/platform.py" for issue in found.known_issues)
    assert any("--adam_offload" in issue.what for issue in found.known_issues)


def test_the_algorithm_table_of_openrlhf(matrix: Matrix) -> None:
    algorithms = matrix.branch("openrlhf", "v0.7.5").support.algorithms
    assert {item.name: (item.status, item.error_percent) for item in algorithms} == {
        "SFT": ("supported", "0.19"),
        "DPO": ("supported", "1.81"),
        "KTO": ("supported", "0.37"),
        "RM": ("supported", "0.85"),
        "PRM": ("supported", "1.61"),
        "PPO": ("testing", None),
        "REINFORCE++": ("supported", "1.94"),
        "REINFORCE++ (vLLM V1 engine)": ("supported", "1.99"),
        "REINFORCE++ (Ring Attention)": ("to-be-optimized", "4.95"),
        "GRPO": ("supported", "0.61"),
        "GRPO (vLLM V1 engine)": ("supported", "1.10"),
    }
    assert all(item.source.startswith("https://github.com/OpenRLHF/OpenRLHF/pull/605") for item in algorithms)
    sft = next(item for item in algorithms if item.name == "SFT")
    assert dict(sft.measured_on) == {"torch": "2.3.1", "torch_npu": "2.3.1.post2", "cann": "8.0.RC3"}


def test_the_v1_engine_is_opt_in(matrix: Matrix) -> None:
    issue = next(issue for issue in environment(matrix, OPENRLHF).known_issues if issue.variables)
    assert issue.opt_in
    assert {name: setting.value for name, setting in issue.variables.items()} == {"VLLM_USE_V1": "1"}


@pytest.mark.parametrize(
    ("branch", "name", "value"), [("v0.6.1", "VLLM_USE_V1", "1"), ("v0.7.0", "VLLM_ASCEND_ENABLE_NZ", "0")]
)
def test_variables_that_a_plugin_needs_without_being_documented_are_set(
    matrix: Matrix, branch: str, name: str, value: str
) -> None:
    """They are set only for NPUs: a CPU environment has no plugin."""
    for hardware, expected in (("a3", value), ("a2", value), ("cpu", None)):
        found = environment(matrix, f"verl-{branch}-vllm-{hardware}-aarch64").variables.get(name)
        assert (found.value if found else None) == expected
