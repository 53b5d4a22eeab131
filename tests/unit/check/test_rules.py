"""Every rule reports its mistake, and nothing on correct environments of the built-in matrices."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from envbuilder import paths
from envbuilder.check import DOCS, MATRIX_RULES, RULES, check_environment, check_matrix
from envbuilder.environment import resolve
from envbuilder.environment.locks import LockedPackage
from envbuilder.errors import MatrixError
from envbuilder.matrix import Matrix, load
from envbuilder.matrix.model import Severity
from envbuilder.plan import make_plan
from tests.conftest import A2_VLLM, A2_X86, A3_SGLANG, OPENRLHF, Edit, environment, findings
from tests.helpers.rendered import dockerfile

TWIN = "verl-v0.8.0-sglang-cuda-x86_64"
V050 = "frameworks/verl/v0.5.0.yaml"
V060 = "frameworks/verl/v0.6.0.yaml"
ORLHF = "frameworks/openrlhf/v0.7.5.yaml"

# (code, severity, environment, file, old, new, a part of the message or hint)
FIRES = [
    ("unknown-version", "error", A3_SGLANG, V060, "cann: {version: 8.3.RC1,", "cann: {version: 8.5.RC1,", "8.5.0"),
    ("unknown-version", "error", A2_VLLM, V050, "version: 2.5.1\n", "version: 2.5.2\n", "2.5.1"),
    ("unknown-version", "error", A2_VLLM, V050, "vllm_ascend: {version: v0.7.3.post1", "vllm_ascend: {version: v0.7.4", "v0.7.3"),
    ("unknown-version", "error", A3_SGLANG, V060, "version: '20250926'", "version: '20250927'", "20250926"),
    ("unknown-version", "warning", A2_VLLM, V050, "torchvision: {version: 0.20.1", "torchvision: {version: 0.20.7", "is not recorded"),
    ("unknown-pin", "error", A3_SGLANG, V060, "      tensordict: {version", "      tensordicts: {version", "did you mean 'tensordict'"),
    ("unknown-pin", "error", A2_VLLM, V050, "      ray: {version", "      torchnpu: {version: 2.5.1, source: document}\n      ray: {version", "did you mean 'torch_npu'"),
    ("unknown-pin", "error", A2_VLLM, V050, "      ray: {version", "      qqqq: {version: 2.5.1, source: document}\n      ray: {version", "add compat/qqqq.yaml"),
    ("image-family", "error", A3_SGLANG, "hardware/a3.yaml", "image_version}-a3-", "image_version}-910b-", "the base image of Atlas A3 is tagged 910b"),
    ("image-family", "error", A2_VLLM, "hardware/a2.yaml", "torch_npu}-910b-", "torch_npu}-a3-", "tagged 910b or a2"),
    ("cann-image-missing", "error", A2_VLLM, V050, "python: {version: '3.10'", "python: {version: '3.9'", "8.1.rc1-910b-ubuntu22.04-py3.10"),
    ("cann-image-missing", "error", A2_VLLM, V050, "cann: {version: 8.1.RC1", "cann: {version: 8.0.RC3", "no image of this release"),
    ("cann-hdk", "error", A3_SGLANG, V060, "hdk: {version: 25.3.RC1", "hdk: {version: 24.1.RC1", "paired with 25.3.RC1"),
    ("cann-hdk", "accepted", OPENRLHF, ORLHF, "title: OpenRLHF v0.7.5", "title: OpenRLHF v0.7.5", "not released together"),
    ("toolkit-driver", "error", "verl-v0.6.1-vllm-cuda-x86_64", "hardware/cuda.yaml", "version: '560'", "version: '520'", "paired with 560.X"),
    ("torch-npu-torch", "error", A3_SGLANG, V060, "torch: {version: 2.6.0", "torch: {version: 2.7.1", "made for PyTorch 2.6.0"),
    ("torch-npu-cann", "accepted", A3_SGLANG, V060, "version: 2.6.0.post3", "version: 2.6.0", "paired with 8.2.RC1"),
    ("torch-npu-cann", "error", A3_SGLANG, V060, "cann: {version: 8.3.RC1,", "cann: {version: 8.5.0,", "not published"),
    ("plugin-engine", "error", A2_VLLM, V050, "vllm: {version: v0.7.3,", "vllm: {version: v0.8.5.post1,", "made for vLLM v0.7.3"),
    ("plugin-engine", "accepted", A3_SGLANG, V060, "title: verl", "title: verl", "20250913"),
    ("plugin-cann", "error", A2_VLLM, V050, "cann: {version: 8.1.RC1", "cann: {version: 8.3.RC1", "published for CANN 8.1.RC1"),
    ("plugin-cann", "error", A3_SGLANG, V060, "cann: {version: 8.3.RC1,", "cann: {version: 8.1.RC1,", ">=8.2.RC1.alpha003"),
    ("plugin-pins", "error", A2_VLLM, V050, "version: 2.5.1\n", "version: 2.5.1rc1\n", "torch-npu==2.5.1"),
    ("plugin-pins", "error", A2_VLLM, "engines/vllm.yaml", "numpy: {version: 1.26.4", "numpy: {version: 2.1.0", "numpy<2.0.0"),
    ("engine-pins", "error", A2_VLLM, V050, "transformers: {version: 4.52.4, source: document}", "transformers: {version: 4.40.0, source: document}", "transformers>=4.48.2"),
    ("engine-pins", "accepted", A3_SGLANG, V060, "title: verl", "title: verl", "published with CANN 8.2.RC1"),
    ("cann-python-deps", "error", A3_SGLANG, V060, "      tensordict: {version", "      numpy: {version: 2.2.6, source: document}\n      tensordict: {version", "CANN 8.3.RC1 requires numpy>=1.19.2,<=1.24"),
    ("cann-python-deps", "accepted", A3_SGLANG, V060, "title: verl", "title: verl", "installs this one on CANN 8.2.RC1"),
    ("source-pins", "error", "verl-v0.8.0-vllm-a2-aarch64", "frameworks/verl/v0.8.0.yaml", "      mbridge: {version", "      numpy: {version: 1.26.4, source: document}\n      mbridge: {version", "MindSpeed 0.16.0.20260528 requires numpy<=1.26.0"),
    ("source-pins", "accepted", "verl-v0.8.0-vllm-a2-aarch64", "frameworks/verl/v0.8.0.yaml", "title: verl", "title: verl", "MindSpeed always for 1.26.0"),
    ("framework-pins", "error", A2_VLLM, V050, "ray: {version: 2.46.0", "ray: {version: 2.40.0", "ray==2.46.0"),
    ("framework-pins", "accepted", A3_SGLANG, V060, "title: verl", "title: verl", "the row says: sglang v0.5.3rc0 requires it"),
    ("torchvision-torch", "error", A2_VLLM, V050, "torchvision: {version: 0.20.1", "torchvision: {version: 0.21.0", "made for PyTorch 2.6.0"),
    ("triton-ascend-cann", "error", A3_SGLANG, V060, "version: 3.2.0rc4", "version: 3.2.0", "3.2.0rc4"),
    ("triton-ascend-cann", "accepted", A3_SGLANG, V060, "version: 3.2.0rc4", "version: 3.2.0rc2", "nothing is published"),
    ("triton-shadow", "error", A3_SGLANG, "engines/sglang.yaml", "remove: [torchvision, timm, triton]", "remove: [torchvision, timm]", "would overwrite"),
    ("triton-shadow", "error", A3_SGLANG, V060, "version: 3.2.0rc4", "version: 3.2.2", "needs triton, but this environment removes it"),
    ("python-range", "error", A3_SGLANG, V060, "python: {version: '3.11'", "python: {version: '3.12'", "needs Python"),
    ("soc-missing", "error", A2_VLLM, "hardware/a2.yaml", "soc: {vllm_ascend: ascend910b1, ", "soc: {", "vllm-ascend"),
    ("soc-family", "error", A3_SGLANG, "hardware/a3.yaml", "Ascend910_9382", "Ascend910B1", "does not belong to Atlas A3"),
    ("moving-ref", "error", A2_VLLM, "compat/verl.yaml", "  commit: 8fdc4d3f202f41461f4de9f42a637228e342668b\n", "", "a tag or branch can move"),
    ("unsupported-package", "error", A2_VLLM, V050, "      ray: {version", "      flash_attn: {version: 2.7.0, source: document}\n      ray: {version", "CUDA only"),
    ("unsupported-package", "error", A2_VLLM, "engines/vllm.yaml", "requirements: [setuptools,", "requirements: [cann, setuptools,", "placeholder"),
    ("expected-conflict", "info", OPENRLHF, ORLHF, "title: OpenRLHF", "title: OpenRLHF", "requires torch==2.6.0"),
    ("expected-conflict", "info", A3_SGLANG, V060, "title: verl", "title: verl", "timm==1.0.16, which this environment removes"),
    ("base-not-pinned", "info", A3_SGLANG, "hardware/a3.yaml", "title: Atlas A3", "title: Atlas A3", "the digest of quay.io/ascend/cann:8.3.rc1-a3-ubuntu22.04-py3.11 is not recorded"),
    ("evidence-missing", "info", A2_X86, "hardware/cpu.yaml", "title: CPU", "title: CPU", "no evidence is recorded for this environment"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("code", "severity", "identifier", "file", "old", "new", "text"),
    FIRES,
    ids=[f"{row[0]}-{n}" for n, row in enumerate(FIRES)],
)
def test_a_rule_finds_its_mistake(
    edit: Edit, code: str, severity: str, identifier: str, file: str, old: str, new: str, text: str
) -> None:
    matrix = load(edit(file, old, new), everything=True)
    found = [item for item in findings(matrix, identifier, code) if text in f"{item.message} {item.hint}"]
    assert found, [f"{item.severity}: {item.message} ({item.hint})" for item in findings(matrix, identifier, code)]
    assert {item.severity for item in found} == {severity}
    assert all(item.where and item.where.file and item.where.line >= 1 for item in found)


# an environment of the built-in matrices that the rule applies to and finds no mistake in
SILENT = {
    "unknown-version": A3_SGLANG,
    "unknown-pin": A3_SGLANG,
    "image-family": A3_SGLANG,
    "cann-image-missing": A3_SGLANG,
    "cann-hdk": A2_VLLM,
    "toolkit-driver": TWIN,
    "torch-npu-torch": A3_SGLANG,
    "torch-npu-cann": A2_VLLM,
    "plugin-engine": A2_VLLM,
    "plugin-cann": A2_VLLM,
    "plugin-pins": A2_VLLM,
    "engine-pins": A2_VLLM,
    # the first CANN without an upper bound on numpy is 9.0.0-beta.2
    "cann-python-deps": "verl-v0.9.1-vllm-a2-aarch64",
    "framework-pins": A2_VLLM,
    "source-pins": A3_SGLANG,
    "torchvision-torch": A2_VLLM,
    "triton-ascend-cann": A3_SGLANG,
    "triton-shadow": A3_SGLANG,
    "python-range": A3_SGLANG,
    "soc-missing": A3_SGLANG,
    "soc-family": A3_SGLANG,
    "moving-ref": A3_SGLANG,
    "unsupported-package": A3_SGLANG,
}


@pytest.mark.parametrize(("code", "identifier"), SILENT.items(), ids=list(SILENT))
def test_a_rule_finds_nothing_in_a_correct_row(matrix: Matrix, code: str, identifier: str) -> None:
    assert findings(matrix, identifier, code) == []


@pytest.mark.parametrize(
    ("identifier", "code"),
    [("verl-v0.8.0-vllm-a2-aarch64", "triton-ascend-cann"), ("verl-v0.9.1-vllm-a2-aarch64", "triton-ascend-cann")],
)
def test_a_pair_of_the_plugins_own_table_is_published(matrix: Matrix, identifier: str, code: str) -> None:
    """vllm-ascend's table of releases pairs triton-ascend 3.2.1 and 3.2.2 with CANN 9."""
    assert findings(matrix, identifier, code) == []


def test_a_recorded_digest_pins_the_base_image(edit: Edit) -> None:
    tag, digest = "8.3.rc1-a3-ubuntu22.04-py3.11", f"sha256:{'a' * 64}"
    new = f"base: {{digests: {{{tag}: '{digest}'}}, image: quay.io/ascend/cann"
    matrix = load(edit("hardware/a3.yaml", "base: {image: quay.io/ascend/cann", new), everything=True)
    assert findings(matrix, A3_SGLANG, "base-not-pinned") == []
    text = dockerfile(matrix, A3_SGLANG)
    assert f"\n# quay.io/ascend/cann:{tag}\nARG BASE_IMAGE=quay.io/ascend/cann@{digest}\n" in text
    with pytest.raises(MatrixError, match="64 hexadecimal digits"):
        load(edit("hardware/a3.yaml", f"'{digest}'", "sha256:short"))


def test_every_rule_is_tested_with_and_without_a_mistake() -> None:
    elsewhere = {
        "wheel-missing",
        "lock-stale",
        "lock-unhashed",
        "file-not-seen",
        "evidence-missing",
        "base-not-pinned",
        "shared-name",
        "packages-clash",
        "import-missing",
    }
    assert {row[0] for row in FIRES} | elsewhere == set(RULES)
    assert set(SILENT) | elsewhere | {"expected-conflict"} == set(RULES)
    assert set(MATRIX_RULES) == {"branch-name", "draft", "duplicate", "todo", "unused-hardware"}


def test_every_rule_is_documented() -> None:
    for code, doc in DOCS.items():
        assert doc.endswith("."), code


def test_a_metadata_requirement_that_holds_passes(matrix: Matrix) -> None:
    """vLLM 0.7.3 requires torch 2.5.1, which the row has; only its requirement of ray does not hold."""
    messages = [item.message for item in findings(matrix, A2_VLLM, "expected-conflict")]
    assert messages
    assert all("requires ray" in message for message in messages)


class _Index:
    """A package index that lacks the wheels of one distribution."""

    def __init__(self, lacks: str) -> None:
        self.lacks = lacks

    def judge(self, url: str | None, name: str, version: str, python: str, arch: str) -> Iterator[tuple[Severity, str]]:
        if name == self.lacks:
            yield "error", f"no wheel of {version} for Python {python} on {arch} at {url}"


def test_wheel_missing_needs_an_index(matrix: Matrix) -> None:
    def messages(identifier: str, lacks: str | None) -> list[str]:
        found = check_environment(environment(matrix, identifier), wheels=_Index(lacks) if lacks else None)
        return [item.message for item in found if item.code == "wheel-missing"]

    assert messages(A3_SGLANG, "tensordict") == [
        "tensordict 0.10.0: no wheel of 0.10.0 for Python 3.11 on aarch64 at None"
    ]
    assert messages(A2_X86, "torch") == [
        "PyTorch 2.5.1+cpu: no wheel of 2.5.1+cpu for Python 3.10 on x86_64 at https://download.pytorch.org/whl/cpu/"
    ]
    assert messages(A3_SGLANG, "nothing") == []
    assert messages(A3_SGLANG, None) == []
    assert messages(A3_SGLANG, "sglang") == [], "sglang is built from source, not downloaded"
    assert messages(A3_SGLANG, "timm") == [], "timm is removed"


def locked_with(edit: Edit, identifier: str, *packages: tuple[str, str]) -> Matrix:
    """Return the matrices with a lock that has only these packages."""
    folder = edit("hardware/cpu.yaml", "title: CPU", "title: CPU")
    lock = folder / "locks" / environment(load(), identifier).coordinates.folder / "settled.txt"
    lock.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(LockedPackage(name, version, ("a" * 64,)).text for name, version in packages)
    lock.write_text(text, encoding="utf-8")
    return load(folder, everything=True)


def test_shared_name(edit: Edit, matrix: Matrix) -> None:
    assert findings(matrix, A3_SGLANG, "shared-name") == []
    found = findings(locked_with(edit, A3_SGLANG, ("torch-memory-saver", "0.0.8")), A3_SGLANG, "shared-name")
    assert [item.severity for item in found] == ["error"]
    assert "memory saver of sgl-kernel-npu" in found[0].message


def test_packages_clash(edit: Edit, matrix: Matrix) -> None:
    """A known pair of packages clashes only if both are in the range."""
    assert findings(matrix, A2_VLLM, "packages-clash") == []
    for datasets, pyarrow, clashes in (("2.14.4", "21.0.0", 1), ("2.14.4", "20.0.0", 0), ("4.0.0", "21.0.0", 0)):
        locked = locked_with(edit, A2_VLLM, ("datasets", datasets), ("pyarrow", pyarrow))
        found = findings(locked, A2_VLLM, "packages-clash")
        assert [item.severity for item in found] == ["error"] * clashes
        assert all(item.message.startswith("datasets 2.14.4 and pyarrow 21.0.0 do not work together") for item in found)


def test_packages_clash_with_what_is_built_from_source(edit: Edit, matrix: Matrix) -> None:
    """A lock has no line for the engine; its version is that of the pin."""
    assert findings(matrix, A3_SGLANG, "packages-clash") == []
    (found,) = findings(locked_with(edit, A3_SGLANG, ("uvloop", "0.22.1")), A3_SGLANG, "packages-clash")
    assert found.message.startswith("sglang v0.5.3rc0 and uvloop 0.22.1 do not work together")


def test_a_candidate_is_reported_as_a_warning(edit: Edit) -> None:
    folder = edit("compat/torchvision.yaml", "- version: 0.20.1\n", "- version: 0.20.1\n  status: candidate\n")
    found = findings(load(folder, everything=True), A2_VLLM, "unknown-version")
    assert [item.severity for item in found] == ["warning"]


def test_lock_stale(edit: Edit, matrix: Matrix) -> None:
    folder = edit("hardware/cpu.yaml", "title: CPU", "title: The CPU")
    origin = folder / "locks" / environment(load(), A2_VLLM).coordinates.folder / "origin.txt"
    origin.parent.mkdir(parents=True)
    digest = environment(matrix, A2_VLLM).packages.digest
    origin.write_text(f"inputs: {digest}\n", encoding="utf-8")
    assert findings(load(folder, everything=True), A2_VLLM, "lock-stale") == []
    edit(V050, "ray: {version: 2.46.0", "ray: {version: 2.47.0")
    stale = findings(load(folder, everything=True), A2_VLLM, "lock-stale")
    assert [item.severity for item in stale] == ["error"]
    origin.write_text("resolver: uv\n", encoding="utf-8")
    assert findings(load(folder, everything=True), A2_VLLM, "lock-stale"), (
        "a lock without a digest of its inputs is stale"
    )


def test_evidence_silences_evidence_missing(edit: Edit) -> None:
    folder = edit("hardware/cpu.yaml", "title: CPU", "title: The CPU")
    file = folder / "evidence" / "verl" / "v0.6.0.yaml"
    file.parent.mkdir(parents=True)
    recorded = "[{level: built, date: 2026-01-01, machine: aarch64 without NPU}]"
    file.write_text(f"environments: {{sglang-a3-aarch64: {{evidence: {recorded}}}}}\n", encoding="utf-8")
    changed = load(folder, everything=True)
    assert findings(changed, A3_SGLANG, "evidence-missing") == []
    assert environment(changed, A3_SGLANG).evidence[0].level == "built"


@pytest.mark.parametrize(
    ("relative", "old", "new", "text"),
    [
        ("compat/torchvision.yaml", "- version: 0.20.1\n", "- version: 0.20.1\n- version: v0.20.1\n", "torchvision v0.20.1 is listed twice"),
        (V060, "[a2, ", "[a2, a2, ", "a2 in verl v0.6.0"),
    ],
)  # fmt: skip
def test_duplicate(edit: Edit, matrix: Matrix, relative: str, old: str, new: str, text: str) -> None:
    assert check_matrix(matrix) == []
    found = check_matrix(load(edit(relative, old, new), everything=True))
    assert [text in item.message for item in found] == [True]
    assert "first at" in str(found[0].hint)


def test_hardware_without_a_row_is_reported(edit: Edit) -> None:
    """Hardware of CPU environments belongs to every row without being listed."""
    file = "hardware/a3.yaml"
    folder = edit(file, "title: Atlas A3\nfamily: a3\naliases: [910c]", "title: Abacus\nfamily: a3")
    text = (folder / file).read_text(encoding="utf-8").partition("products:")[0]
    (folder / "hardware/abacus.yaml").write_text(text, encoding="utf-8")
    (folder / file).unlink()
    (found,) = check_matrix(load(folder, everything=True))
    assert (found.code, found.severity, found.components) == ("unused-hardware", "warning", ("abacus",))
    assert found.where is not None and found.where.file.endswith("hardware/abacus.yaml")
    edit("hardware/abacus.yaml", "title: Abacus\n", "title: Abacus\ncpu_only: true\n")
    assert check_matrix(load(folder, everything=True)) == []


def test_the_file_of_a_branch_bears_the_version_that_it_pins(edit: Edit, matrix: Matrix) -> None:
    assert not [item for item in check_matrix(matrix) if item.code == "branch-name"]
    folder = edit(V060, "verl: {version: v0.6.0", "verl: {version: v0.6.1")
    (found,) = [item for item in check_matrix(load(folder, everything=True)) if item.code == "branch-name"]
    assert found.severity == "error" and found.message == "verl/v0.6.0.yaml pins verl v0.6.1"
    assert found.where is not None and found.where.file.endswith(V060)


def test_a_component_that_is_built_needs_a_compat_table(tmp_path: Path) -> None:
    """The rule reports exactly the environments that `render` refuses."""
    shutil.copytree(paths.matrices(), tmp_path, dirs_exist_ok=True)
    for name in ("verl", "sgl_kernel_npu"):
        (tmp_path / f"compat/{name}.yaml").unlink()
    changed = load(tmp_path, everything=True)
    for identifier, expected in (
        (A3_SGLANG, {"verl", "sgl_kernel_npu"}),
        # the kernels of sgl_kernel_npu are left out, so none of it is built
        ("verl-v0.6.0-sglang-cpu-aarch64", {"verl"}),
        (OPENRLHF, set()),
    ):
        found = findings(changed, identifier, "moving-ref")
        assert {name for item in found for name in item.components} == expected
        assert all(item.severity == "error" and "repository" in item.message for item in found)
        if expected:
            with pytest.raises(MatrixError, match=r"has no (repository|commit) to build from"):
                make_plan(environment(changed, identifier))
        else:
            assert make_plan(environment(changed, identifier))


def test_a_layer_that_is_not_built_needs_no_soc_name(edit: Edit) -> None:
    edit("hardware/a2.yaml", "soc: {vllm_ascend: ascend910b1, ", "soc: {")
    layer = "component: vllm_ascend\n"
    folder = edit("engines/vllm.yaml", layer, f"{layer}    when: {{arch: [x86_64]}}\n", count=3)
    assert findings(load(folder, everything=True), A2_VLLM, "soc-missing") == []


def test_two_branches_of_one_version(edit: Edit, tmp_path: Path) -> None:
    folder = edit(V060, "title: verl v0.6.0", "title: verl 0.6")
    (folder / "frameworks/verl/v0.6.yaml").write_text((folder / V060).read_text(), encoding="utf-8")
    assert any("is listed twice" in item.message for item in check_matrix(load(folder, everything=True)))


def test_rules_about_cann_are_silent_without_it(matrix: Matrix) -> None:
    codes = {item.code for item in findings(matrix, "verl-v0.6.0-sglang-cpu-aarch64")}
    assert not codes & {
        "torch-npu-cann",
        "cann-hdk",
        "cann-image-missing",
        "plugin-cann",
        "triton-ascend-cann",
        "soc-missing",
    }


def test_the_cpu_index_is_only_for_x86_64(matrix: Matrix) -> None:
    assert set(environment(matrix, A2_X86).indexes.values()) == {"https://download.pytorch.org/whl/cpu/"}
    assert environment(matrix, A2_VLLM).indexes == {}


def test_reasons_of_the_row_do_not_accept_versions_of_the_command_line(matrix: Matrix) -> None:
    """The row has reasons for its own combination, not for one that a user tries."""
    tried = resolve(matrix, environment(matrix, A3_SGLANG).coordinates, {"torch_npu": "2.6.0"})
    found = [
        item for item in check_environment(tried) if "torch_npu" in item.components and item.code == "torch-npu-cann"
    ]
    assert found and {item.severity for item in found} <= {"warning", "error"}
