"""What single layers do: how each project is built, what the lock installs, what is removed, what may disagree."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from envbuilder.lock.uv import locked_versions
from envbuilder.matrix import Matrix, load
from envbuilder.plan import lock_part
from envbuilder.render import render_dockerfile
from tests.conftest import A3_SGLANG, BOX16_VLLM, OPENRLHF, PODC_VLLM, Edit
from tests.unit.rendered import dockerfile, in_order, plan, run_of

BOX16_SGLANG = (
    "verl-v0.6.0-sglang-atlas-200t-a2-box16-x86_64"  # needs an index that is not reachable everywhere: no lock
)


def test_cann_is_sourced_where_something_is_compiled(matrix: Matrix) -> None:
    run = run_of(dockerfile(matrix, PODC_VLLM), "vllm-ascend with custom kernels")
    in_order(
        run,
        "779eebb8021ede2a4434769ffd84e426c4d29fbb" if "779eebb" in run else "c69ceaca1ecc6b7546b4235465fa1d0d90d902af",
        ". /usr/local/Ascend/ascend-toolkit/set_env.sh",
        ". /usr/local/Ascend/nnal/atb/set_env.sh",
        "export LD_LIBRARY_PATH=/usr/local/Ascend/ascend-toolkit/latest/aarch64-linux/devlib",
        "export COMPILE_CUSTOM_KERNELS=1",
        "export SOC_VERSION=ascend910b1",
        '--no-deps --no-build-isolation --wheel-dir "$ENVBUILDER_WHEELS"/wheels-vllm_ascend .',
    )


@pytest.mark.parametrize(
    ("identifier", "path"), [(PODC_VLLM, "requirements-build.txt"), (OPENRLHF, "requirements/build.txt")]
)
def test_the_build_requirements_of_each_vllm(matrix: Matrix, identifier: str, path: str) -> None:
    run = run_of(dockerfile(matrix, identifier), "vLLM without device code")
    assert f" {path} > build-requirements.txt" in run
    assert "-e '^torch([^A-Za-z0-9_.-]|$)'" in run, "its torch is not the row's"
    assert "export VLLM_TARGET_DEVICE=empty" in run


def test_the_filter_of_build_requirements_drops_torch_alone(matrix: Matrix, tmp_path: Path) -> None:
    run = run_of(dockerfile(matrix, OPENRLHF), "vLLM without device code")
    command = re.search(r"grep -vE .* > build-requirements.txt", run)
    assert command
    (tmp_path / "requirements").mkdir()
    (tmp_path / "requirements/build.txt").write_text(
        "cmake>=3.26\ntorch==2.6.0\ntorch\ntorchvision==0.21\ntorch-npu\nwheel\n"
    )
    subprocess.run(["bash", "-c", command[0]], cwd=tmp_path, check=True)
    assert (tmp_path / "build-requirements.txt").read_text().split() == [
        "cmake>=3.26",
        "torchvision==0.21",
        "torch-npu",
        "wheel",
    ]


def test_kernels_off_means_unset_for_plugins_that_test_for_being_set(matrix: Matrix) -> None:
    old = run_of(dockerfile(matrix, "verl-v0.5.0-vllm-cpu-aarch64"), "vllm-ascend without custom kernels")
    assert "COMPILE_CUSTOM_KERNELS" not in old
    new = run_of(dockerfile(matrix, "openrlhf-v0.7.5-vllm-cpu-aarch64"), "vllm-ascend without custom kernels")
    assert "export COMPILE_CUSTOM_KERNELS=0" in new


def test_old_plugins_get_an_old_pybind11(matrix: Matrix) -> None:
    assert "pybind11==2.13.6" in str(plan(matrix, PODC_VLLM).lock)
    assert "pybind11==2.13.6" in dockerfile(matrix, BOX16_VLLM), "not locked, so the Dockerfile has the pins"
    assert "pybind11==2" not in str(plan(matrix, A3_SGLANG).lock)


def test_sglang_is_built_as_the_document_says(matrix: Matrix) -> None:
    text = dockerfile(matrix, A3_SGLANG)
    in_order(
        run_of(text, "SGLang"),
        "a4a3d8239365d2fc16e2dc707605373ea3f35ded",
        "mv python/pyproject_other.toml python/pyproject.toml",
        "'./python[srt_npu]'",
    )
    saver = run_of(text, "memory saver of sgl-kernel-npu")
    in_order(
        saver,
        "41ba5d7401ab7789d182dae5fe3cda92335e95e7",
        "bash build.sh -a memory-saver",
        '--find-links output --wheel-dir "$ENVBUILDER_WHEELS"/wheels-sgl_kernel_npu torch_memory_saver',
    )
    assert "Ascend910" not in saver, "the memory saver takes no SOC name"
    assert "bash build.sh -a kernels Ascend910_9382" in text


def test_kernels_are_built_with_the_headers_of_the_architecture(matrix: Matrix) -> None:
    """build.sh of sgl-kernel-npu 2026.01.21 has `aarch64-linux/include` in it, for where nothing else is said."""
    text = dockerfile(matrix, "verl-v0.7.1-sglang-atlas-200t-a2-box16-x86_64")
    include = "export ASCEND_INCLUDE_DIR=/usr/local/Ascend/ascend-toolkit/latest/x86_64-linux/include"
    in_order(run_of(text, "kernels of sgl-kernel-npu"), include, "bash build.sh -a kernels")
    in_order(run_of(text, "deep_ep, A2 variant"), include, "bash build.sh -a deepep2")


def test_deep_ep_by_family_and_release(matrix: Matrix, edit: Edit) -> None:
    a3, a2 = plan(matrix, A3_SGLANG), plan(matrix, "verl-v0.6.0-sglang-atlas-900-a2-podc-aarch64")
    assert "deep_ep, A3 variant" in [layer.title for layer in a3.layers]
    assert [item.title for item in a2.left_out] == ["deep_ep, A2 variant"]
    assert "20250926 has no deepep_a2" in a2.left_out[0].reason
    newer = edit("frameworks/verl/v0.6.0.yaml", "version: '20250926'", "version: 2026.02.01")
    text = dockerfile(load(newer), "verl-v0.6.0-sglang-atlas-900-a2-podc-aarch64")
    assert "bash build.sh -a deepep2" in run_of(text, "deep_ep, A2 variant")


def test_the_patch_comments_out_its_line_or_fails(matrix: Matrix, tmp_path: Path) -> None:
    run = run_of(dockerfile(matrix, OPENRLHF), "vllm-ascend with custom kernels")
    command = re.search(r"LINE=.*?mv replaced \S+", run, re.DOTALL)
    assert command
    source = tmp_path / "vllm_ascend/platform.py"
    source.parent.mkdir()
    line = 'os.environ["RAY_EXPERIMENTAL_NOSET_ASCEND_RT_VISIBLE_DEVICES"] = "1"'
    source.write_text(f"import os\n{line}\nx = 1\n")
    subprocess.run(["bash", "-c", command[0]], cwd=tmp_path, check=True)
    assert source.read_text() == f"import os\n# {line}\nx = 1\n"
    again = subprocess.run(["bash", "-c", command[0]], cwd=tmp_path, check=False)
    assert again.returncode != 0, "a patch that changes nothing must not pass"
    assert source.read_text() == f"import os\n# {line}\nx = 1\n"


def test_the_patch_belongs_to_openrlhf_alone(matrix: Matrix) -> None:
    assert "LINE=" in dockerfile(matrix, "openrlhf-v0.6.2-vllm-atlas-800t-a2-aarch64")
    assert "LINE=" not in dockerfile(matrix, PODC_VLLM)


def test_openrlhf_installs_for_the_npu_with_ring_attention(matrix: Matrix) -> None:
    text = dockerfile(matrix, OPENRLHF)
    assert "export TARGET_DEVICE=NPU" in run_of(text, "OpenRLHF")
    assert "dd912ad843b274098b084f69047d33d39d9cb1f6" in run_of(text, "ring-attention-ascend")
    assert "ring-attention-ascend" not in dockerfile(matrix, "openrlhf-v0.6.2-vllm-atlas-800t-a2-aarch64")


def test_what_is_removed_stays_removed_and_triton_ascend_comes_last(matrix: Matrix) -> None:
    unlocked = run_of(dockerfile(matrix, BOX16_SGLANG), "consistency")
    in_order(
        unlocked,
        "uninstall timm torchvision triton triton-ascend",
        "torch==2.6.0+cpu torch-npu==2.6.0 triton-ascend==3.2.0rc4",
    )


def test_a_locked_build_fails_when_a_removed_package_is_there(matrix: Matrix, tmp_path: Path) -> None:
    """The real command, with a uv that says what is installed."""
    run = run_of(dockerfile(matrix, A3_SGLANG), "consistency")
    command = "uv pip freeze" + run.split("uv pip freeze", 1)[1].split(" && \\\n    (uv pip check", 1)[0]

    def passes(installed: str) -> bool:
        (tmp_path / "uv").write_text(f"#!/bin/sh\ncat <<END\n{installed}\nEND\n")
        (tmp_path / "uv").chmod(0o755)
        path = {"PATH": f"{tmp_path}:/usr/bin:/bin", "ENVBUILDER_HOME": str(tmp_path)}
        return subprocess.run(["bash", "-o", "pipefail", "-c", command], env=path, check=False).returncode == 0

    assert passes("torch==2.6.0\ntriton-ascend==3.2.0rc4\ntimm-extra==1")
    assert not passes("torch==2.6.0\ntriton==3.2.0")
    assert not passes("Timm==1.0")


def test_removed_packages_are_not_asked_for(matrix: Matrix) -> None:
    wheels = run_of(dockerfile(matrix, BOX16_SGLANG), "wheels")
    for name in ("timm", "torchvision"):
        assert name not in wheels
        assert f"\n{name}==" not in str(plan(matrix, A3_SGLANG).lock)


def test_the_lock_is_installed_by_hash_in_parts(matrix: Matrix, tmp_path: Path) -> None:
    planned = plan(matrix, A3_SGLANG)
    text = render_dockerfile(planned)
    parts = {"build packages": "build", "large wheels": "large", "settled wheels": "settled", "wheels": "pins"}
    for title, part in parts.items():
        run = run_of(text, title)
        assert f"from=lock,source=/lock/{part}.txt,target=/run/envbuilder/{part}.txt" in run
        assert "--no-deps --require-hashes" in run
    assert planned.lock is not None
    (tmp_path / "whole.txt").write_text(planned.lock)
    split = text.split("\nRUN NAMES=", 1)[1].split("\n\n", 1)[0]
    subprocess.run(["bash", "-c", f"NAMES={split}"], cwd=tmp_path, check=True)
    found = {name: re.findall(r"^(\S+)==", (tmp_path / f"{name}.txt").read_text(), re.M) for name in parts.values()}
    assert {"torch", "torch-npu", "setuptools", "typing-extensions"} <= set(found["build"])
    assert "triton-ascend" not in found["build"]
    assert set(found["large"]) == {*found["build"], "triton-ascend"}
    assert set(found["pins"]) == {"ray", "tensordict", "transformers"}
    installed = [*found["large"], *found["settled"], *found["pins"]]
    assert sorted(installed) == sorted(locked_versions(planned.lock)), "every package, and each once"
    for step in planned.split:
        part = str(step.values["part"])
        assert lock_part(planned.lock, step) == (tmp_path / part).read_text(), "the shell and Python read a lock alike"


def test_a_changed_small_pin_leaves_the_layer_of_the_large_ones_alone(matrix: Matrix, edit: Edit) -> None:
    folder = edit("frameworks/verl/v0.6.0.yaml", "version: 4.56.1", "version: 4.56.0")
    before, after = (run_of(dockerfile(item, A3_SGLANG), "large wheels") for item in (matrix, load(folder)))
    assert before == after


def test_pip_check_allows_exactly_the_expected_conflicts(matrix: Matrix, tmp_path: Path) -> None:
    """The real command, on what uv prints."""
    run = run_of(dockerfile(matrix, A3_SGLANG), "consistency")
    command = "(uv pip check" + run.split("(uv pip check", 1)[1]

    def passes(complaints: str, code: int = 1) -> bool:
        (tmp_path / "uv").write_text(f"#!/bin/sh\ncat <<'END'\n{complaints}\nEND\nexit {code}\n")
        (tmp_path / "uv").chmod(0o755)
        variables = {"ENVBUILDER_HOME": str(tmp_path), "PATH": f"{tmp_path}:/usr/bin:/bin"}
        return subprocess.run(["bash", "-o", "pipefail", "-c", command], env=variables, check=False).returncode == 0

    timm = "The package `sglang` requires `timm==1.0.16`, but it's not installed"
    assert passes("All installed packages are compatible", 0)
    assert passes(timm)
    assert passes("The package `verl` requires `transformers==4.52.4`, but `4.56.1` is installed")
    assert not passes("The package `verl` requires `ray==2.46.0`, but `2.50.0` is installed")
    assert not passes("The package `verl` requires `peft`, but it's not installed")
    assert not passes("The package `sglang` requires `timm-extra`, but it's not installed")
    assert not passes(f"{timm}\nThe package `foo` requires `bar`, but it's not installed")
    assert not passes("error: something else went wrong", 2)


def test_a_wheel_that_lies_about_its_platform_is_expected(matrix: Matrix) -> None:
    expected = "-e '^The package .openrlhf. was built for a different platform'"
    assert expected in run_of(dockerfile(matrix, OPENRLHF), "consistency")
    assert "different platform" not in dockerfile(matrix, PODC_VLLM)
