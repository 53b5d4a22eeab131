"""Single layers: builds of each project, installation of the lock, removed packages, expected conflicts."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from envbuilder import paths
from envbuilder.check import check_environment
from envbuilder.environment import Catalog
from envbuilder.environment.coordinates import Filters
from envbuilder.environment.locks import HASHED
from envbuilder.matrix import Matrix, load
from envbuilder.plan import Layer, Plan, Step, make_plan
from envbuilder.render import render_dockerfile
from envbuilder.render.text import body
from tests.conftest import A2_VLLM, A2_X86, A3_SGLANG, OPENRLHF, Edit, environment
from tests.helpers.rendered import dockerfile, in_order, plan, run_of

UNLOCKED = "verl-v99.0.0-sglang-a2-x86_64"


def locked(matrix: Matrix, identifier: str) -> dict[str, str]:
    lock = plan(matrix, identifier).lock
    assert lock is not None
    return lock.versions


def test_cann_is_sourced_where_something_is_compiled(matrix: Matrix) -> None:
    planned = plan(matrix, A2_VLLM)
    run = run_of(render_dockerfile(planned), "vllm-ascend with custom kernels")
    in_order(
        run,
        "--mount=type=bind,source=toolkit.sh,target=toolkit.sh",
        "c69ceaca1ecc6b7546b4235465fa1d0d90d902af",
        ". ../../toolkit.sh",
        "export COMPILE_CUSTOM_KERNELS=1 ",
        "export SOC_VERSION=ascend910b1 ",
        "--no-deps --no-build-isolation",
        "--wheel-dir ../../wheels/wheels-vllm_ascend .",
    )
    in_order(
        planned.files["toolkit.sh"],
        "source /usr/local/Ascend/ascend-toolkit/set_env.sh &&\n",
        "source /usr/local/Ascend/nnal/atb/set_env.sh &&\n",
        "export LD_LIBRARY_PATH=/usr/local/Ascend/ascend-toolkit/latest/runtime/lib64/stub:",
        "export LD_LIBRARY_PATH=/usr/local/Ascend/ascend-toolkit/latest/aarch64-linux/devlib:",
    )


def test_a_toolkit_that_is_missing_fails_the_build(matrix: Matrix, tmp_path: Path) -> None:
    """Each line depends on the one before it, as `source` alone does not fail a script."""
    script = tmp_path / "toolkit.sh"
    script.write_text(plan(matrix, A2_VLLM).files["toolkit.sh"])
    done = subprocess.run(["bash", "-c", f". {script} && echo built"], capture_output=True, text=True, check=False)
    assert done.returncode != 0 and "built" not in done.stdout


@pytest.mark.parametrize(
    ("identifier", "path"), [(A2_VLLM, "requirements-build.txt"), (OPENRLHF, "requirements/build.txt")]
)
def test_the_build_requirements_of_each_vllm(matrix: Matrix, identifier: str, path: str) -> None:
    run = run_of(dockerfile(matrix, identifier), "vLLM without device code")
    assert f" {path} > build-requirements.txt" in run
    assert "-e '^torch([^A-Za-z0-9_.-]|$)'" in run, "vLLM requires another torch than the row"
    assert "export VLLM_TARGET_DEVICE=empty" in run


def test_the_filter_of_build_requirements_drops_only_torch(matrix: Matrix, tmp_path: Path) -> None:
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


def test_kernels_are_turned_off_by_an_unset_variable_for_old_plugins(matrix: Matrix) -> None:
    old = run_of(dockerfile(matrix, "verl-v0.5.0-vllm-cpu-aarch64"), "vllm-ascend without custom kernels")
    assert "COMPILE_CUSTOM_KERNELS" not in old
    new = run_of(dockerfile(matrix, "openrlhf-v0.7.5-vllm-cpu-aarch64"), "vllm-ascend without custom kernels")
    assert "export COMPILE_CUSTOM_KERNELS=0" in new


def test_old_plugins_get_an_old_pybind11(matrix: Matrix) -> None:
    assert locked(matrix, A2_VLLM)["pybind11"] == "2.13.6"
    unlocked = plan(matrix, A2_X86)
    assert "pybind11==2.13.6\n" in unlocked.files["requirements/build.txt"], "without a lock the pins are installed"
    assert not locked(matrix, A3_SGLANG).get("pybind11", "").startswith("2.")


def test_sglang_is_built_as_documented(matrix: Matrix) -> None:
    text = dockerfile(matrix, A3_SGLANG)
    in_order(
        run_of(text, "SGLang"),
        "86a32bb5cd50ae1f06fddea9db2633f2f469482e",
        "cp python/pyproject_other.toml python/pyproject.toml",
        "'./python[srt_npu]'",
    )
    assert "41ba5d7401ab7789d182dae5fe3cda92335e95e7" in run_of(text, "source of sgl-kernel-npu")
    saver = run_of(text, "memory saver of sgl-kernel-npu")
    in_order(
        saver,
        "cd src/sgl_kernel_npu",
        "bash build.sh -a memory-saver",
        "--find-links output",
        "--wheel-dir ../../wheels/wheels-sgl_kernel_npu torch_memory_saver",
    )
    assert "Ascend910" not in saver, "the memory saver takes no SOC name"
    assert "bash build.sh -a kernels Ascend910_9382" in text


def test_kernels_are_built_with_the_headers_of_the_architecture(matrix: Matrix) -> None:
    """build.sh of sgl-kernel-npu 2026.01.21 uses `aarch64-linux/include` by default."""
    planned = plan(matrix, "verl-v0.7.1-sglang-a2-x86_64")
    include = "export ASCEND_INCLUDE_DIR=/usr/local/Ascend/ascend-toolkit/latest/x86_64-linux/include\n"
    assert include in planned.files["toolkit.sh"]
    text = render_dockerfile(planned)
    in_order(run_of(text, "kernels of sgl-kernel-npu"), ". ../../toolkit.sh", "bash build.sh -a kernels")
    in_order(run_of(text, "deep_ep, A2 variant"), ". ../../toolkit.sh", "bash build.sh -a deepep2")


def test_deep_ep_by_family_and_release(matrix: Matrix, edit: Edit) -> None:
    a3, a2 = plan(matrix, A3_SGLANG), plan(matrix, "verl-v0.6.0-sglang-a2-aarch64")
    assert "deep_ep, A3 variant" in [layer.title for layer in a3.layers]
    assert [item.title for item in a2.left_out] == ["deep_ep, A2 variant"]
    assert "20250926 has no deepep_a2" in a2.left_out[0].reason
    newer = edit("frameworks/verl/v0.6.0.yaml", "version: '20250926'", "version: 2026.02.01")
    text = dockerfile(load(newer), "verl-v0.6.0-sglang-a2-aarch64")
    assert "bash build.sh -a deepep2" in run_of(text, "deep_ep, A2 variant")


def test_the_patch_comments_out_its_line_and_fails_without_it(matrix: Matrix, tmp_path: Path) -> None:
    run = run_of(dockerfile(matrix, OPENRLHF), "vllm-ascend with custom kernels")
    command = "grep" + run.split("    grep", 1)[1].split(" && \\\n    .", 1)[0]
    source = tmp_path / "vllm_ascend/platform.py"
    source.parent.mkdir()
    line = 'os.environ["RAY_EXPERIMENTAL_NOSET_ASCEND_RT_VISIBLE_DEVICES"] = "1"'
    source.write_text(f"import os\n{line}\nx = 1\n")
    subprocess.run(["bash", "-c", command], cwd=tmp_path, check=True)
    assert source.read_text() == f"import os\n# {line}\nx = 1\n"
    source.write_text("import os\n")
    again = subprocess.run(["bash", "-c", command], cwd=tmp_path, check=False)
    assert again.returncode != 0, "a patch that changes nothing must not pass"


def test_the_patch_is_only_for_openrlhf(matrix: Matrix) -> None:
    patched = "vllm_ascend/platform.py"
    assert patched in dockerfile(matrix, "openrlhf-v0.6.2-vllm-a2-aarch64")
    assert patched not in dockerfile(matrix, A2_VLLM)


@pytest.mark.parametrize(
    ("text", "by"),
    [
        ("x = 1", "x = 2"),
        ("a || b && c", "a & b | \\1 \\n"),
        ("if (a[0].*) \\", "if (b) \\"),
        ("^.$*[]\\", "&&"),
        ('it\'s "$HOME" `id` $(id)', 'it isn\'t "$PATH" ${x}'),
        ("-e --option", "--other"),
        ("#if defined(A) || (B && !C) || \\", "#if defined(A) || \\"),
        ("a/b,c@d~e%f|g", "!/,@~%|&"),
        ("line", "# line"),
        ("\\d+(x?){2}", "\\\\&\\&"),
    ],
)
def test_replaced_text_is_literal(text: str, by: str, tmp_path: Path) -> None:
    """Special characters of grep, sed and bash have no effect, and a missing text fails the build."""
    command = str(body(Layer("t", (Step("replace-text", {"file": "file", "text": text, "by": by}),))))
    file = tmp_path / "file"
    file.write_text(f"before\n  {text} after\nx{text}\nlast")
    subprocess.run(["bash", "-o", "pipefail", "-c", command], cwd=tmp_path, check=True)
    assert file.read_text() == f"before\n  {by} after\nx{by}\nlast"
    file.write_text("another text\n")
    assert subprocess.run(["bash", "-o", "pipefail", "-c", command], cwd=tmp_path, check=False).returncode != 0
    assert file.read_text() == "another text\n"


def test_openrlhf_installs_for_the_npu_with_ring_attention(matrix: Matrix) -> None:
    text = dockerfile(matrix, OPENRLHF)
    assert "export TARGET_DEVICE=NPU" in run_of(text, "OpenRLHF")
    assert "dd912ad843b274098b084f69047d33d39d9cb1f6" in run_of(text, "ring-attention-ascend")
    assert "ring-attention-ascend" not in dockerfile(matrix, "openrlhf-v0.6.2-vllm-a2-aarch64")


def without_lock(folder: Path, branch: str) -> Matrix:
    """Return matrices with a branch under a new name, which has no lock yet."""
    place = folder / "frameworks" / "verl" / "v99.0.0.yaml"
    place.parent.mkdir(parents=True)
    shutil.copy(paths.matrices() / "frameworks" / "verl" / f"{branch}.yaml", place)
    return load(folder)


def test_packages_are_removed_before_triton_ascend_is_installed(tmp_path: Path) -> None:
    unlocked = run_of(dockerfile(without_lock(tmp_path, "v0.6.0"), UNLOCKED), "consistency")
    in_order(
        unlocked,
        "uninstall timm torchvision triton triton-ascend",
        "torch==2.6.0+cpu &&",
        "torch-npu==2.6.0.post3 triton-ascend==3.2.0rc4",
    )


def lay_out(planned: Plan, folder: Path) -> None:
    for name, text in planned.files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)


def passes_in(folder: Path, command: str) -> bool:
    """Return whether a command of a layer succeeds in a folder, which also has the uv that it calls."""
    shell = ["bash", "-o", "pipefail", "-c", command]
    return subprocess.run(shell, cwd=folder, env={"PATH": f"{folder}:/usr/bin:/bin"}, check=False).returncode == 0


def test_a_locked_build_fails_when_a_removed_package_is_installed(matrix: Matrix, tmp_path: Path) -> None:
    """Run the real command with a uv that lists given packages."""
    planned = plan(matrix, A3_SGLANG)
    run = run_of(render_dockerfile(planned), "consistency")
    lay_out(planned, tmp_path)
    command = "uv pip freeze" + run.split("uv pip freeze", 1)[1].split(" && \\\n    rm installed.txt", 1)[0]

    def passes(installed: str) -> bool:
        (tmp_path / "uv").write_text(f"#!/bin/sh\ncat <<END\n{installed}\nEND\n")
        (tmp_path / "uv").chmod(0o755)
        return passes_in(tmp_path, command)

    assert passes("torch==2.6.0\ntriton-ascend==3.2.0rc4\ntimm-extra==1")
    assert not passes("torch==2.6.0\ntriton==3.2.0")
    assert not passes("Timm==1.0")


def test_removed_packages_are_not_required(matrix: Matrix, tmp_path: Path) -> None:
    unlocked = plan(without_lock(tmp_path, "v0.6.0"), UNLOCKED)
    for name in ("timm", "torchvision"):
        assert name not in locked(matrix, A3_SGLANG)
        for file in ("torch", "build", "large", "pins"):
            assert not re.search(rf"^{name}\b", unlocked.files[f"requirements/{file}.txt"], re.M)


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_without_a_lock_every_requirements_file_is_read(tmp_path: Path, engine: str) -> None:
    matrix = without_lock(tmp_path, "v0.8.0")
    for hardware in ("cpu", "a3"):
        planned = plan(matrix, f"verl-v99.0.0-{engine}-{hardware}-aarch64")
        read = {file for stage in planned.stages for layer in stage.layers for file in layer.reads}
        assert {file for file in planned.files if file.startswith("requirements/")} <= read


def test_the_lock_is_installed_by_hash_in_parts(matrix: Matrix) -> None:
    planned = plan(matrix, A3_SGLANG)
    text = render_dockerfile(planned)
    parts = {
        "torch": "torch",
        "build packages": "build",
        "other large wheels": "large",
        "settled wheels": "settled",
        "pins": "pins",
    }
    for title, name in parts.items():
        run = run_of(text, title)
        assert f"--mount=type=bind,source=locks/{name}.txt,target=locks/{name}.txt" in run
        assert f"uv pip install --no-deps --require-hashes --requirement locks/{name}.txt" in run
    found = {part: re.findall(r"^(\S+)==", planned.files[f"locks/{part}.txt"], re.M) for part in HASHED}
    assert found["torch"] == ["torch", "torch-npu"], "its layer stays where a small package moves"
    assert {"setuptools", "typing-extensions"} <= set(found["build"])
    assert found["large"] == ["triton-ascend"]
    assert set(found["pins"]) == {"ray", "tensordict", "transformers"}
    installed = [name for part in found.values() for name in part]
    assert sorted(installed) == sorted(locked(matrix, A3_SGLANG)), "every package exactly once"
    for part in HASHED:
        hashed = re.findall(r"^\S+== ?\S+ \\\n    --hash=sha256:[0-9a-f]{64}", planned.files[f"locks/{part}.txt"], re.M)
        assert len(hashed) == len(found[part]), "no package without a hash"


def test_build_packages_of_one_stage_are_those_of_the_lock(matrix: Matrix) -> None:
    planned = plan(matrix, A3_SGLANG)
    few = "locks/wheels-sglang.txt"
    run = run_of(render_dockerfile(planned), "build packages of SGLang")
    assert f"--mount=type=bind,source={few},target={few}" in run and f"--require-hashes --requirement {few}" in run
    build = planned.files["locks/build.txt"] + planned.files["locks/settled.txt"]
    packages = re.findall(r"^\S+==.*\n(?:    --hash.*\n)+", planned.files[few], re.M)
    assert packages and "".join(packages) == planned.files[few]
    assert all(package in build for package in packages), "the same versions and hashes"
    assert "torch==" not in planned.files[few]


def test_a_small_pin_does_not_change_the_layer_of_large_wheels(matrix: Matrix, edit: Edit) -> None:
    folder = edit("frameworks/verl/v0.6.0.yaml", "version: 4.56.1", "version: 4.56.0")
    before, after = (run_of(dockerfile(item, A3_SGLANG), "torch") for item in (matrix, load(folder)))
    assert before == after


def test_pip_check_allows_exactly_the_expected_conflicts(matrix: Matrix, tmp_path: Path) -> None:
    """Run the real command with a uv that prints given conflicts."""
    planned = plan(matrix, A3_SGLANG)
    lay_out(planned, tmp_path)
    command = "(uv pip check" + body(planned.layers[-1]).split("(uv pip check", 1)[1]

    def passes(conflicts: str, code: int = 1) -> bool:
        (tmp_path / "uv").write_text(f"#!/bin/sh\ncat <<'END'\n{conflicts}\nEND\nexit {code}\n")
        (tmp_path / "uv").chmod(0o755)
        return passes_in(tmp_path, command)

    timm = "The package `sglang` requires `timm==1.0.16`, but it's not installed"
    assert passes("All installed packages are compatible", 0)
    assert passes(timm)
    assert passes("The package `verl` requires `transformers==4.52.4`, but `4.56.1` is installed")
    assert not passes("The package `verl` requires `ray==2.46.0`, but `2.50.0` is installed")
    assert not passes("The package `verl` requires `peft`, but it's not installed")
    assert not passes("The package `sglang` requires `timm-extra`, but it's not installed")
    assert not passes(f"{timm}\nThe package `foo` requires `bar`, but it's not installed")
    assert not passes("error: something else went wrong", 2)


def test_a_wheel_tagged_with_a_wrong_platform_is_expected(matrix: Matrix) -> None:
    expected = "^The package .openrlhf. was built for a different platform"
    assert expected in plan(matrix, OPENRLHF).expected_conflicts
    assert not any("different platform" in pattern for pattern in plan(matrix, A2_VLLM).expected_conflicts)


def test_a_release_without_a_commit_comes_as_a_hashed_archive(matrix: Matrix) -> None:
    planned = plan(matrix, "verl-v0.9.1-vllm-a3-aarch64")
    run = run_of(render_dockerfile(planned), "verl")
    assert "git" not in run
    assert re.search(r"pip download --quiet [^&]*--require-hashes [^&]*--requirement archives/verl.txt", run)
    release = matrix.components["verl"].release("v0.9.1")
    assert release is not None and release.commit is None
    assert planned.files["archives/verl.txt"] == f"verl==0.9.1 --hash=sha256:{release.archive}\n"


def test_a_wheel_without_a_hash_is_installed_behind_all_others(matrix: Matrix) -> None:
    text = render_dockerfile(plan(matrix, "verl-v0.9.1-vllm-a3-aarch64"))
    run = run_of(text, "wheels without a hash")
    assert re.search(r"--default-index \S+ triton-ascend==3\.2\.2$", run) and "--extra-index-url" not in run
    assert text.index("# pins") < text.index("# wheels without a hash") < text.index("# consistency")


def test_a_rehearsal_leaves_out_wheels_that_no_reachable_index_has(matrix: Matrix) -> None:
    row = environment(matrix, "verl-v0.9.1-vllm-a3-aarch64").rehearsed()
    planned = make_plan(row)
    assert "triton-ascend 3.2.2" in {item.title for item in planned.left_out}
    assert "wheels without a hash" not in render_dockerfile(planned)
    assert any("triton[-_.]ascend" in pattern and "not installed" in pattern for pattern in planned.expected_conflicts)


def test_openeuler_has_packages_and_folders_of_its_own(matrix: Matrix) -> None:
    (row,) = Catalog(matrix).select(["verl-v0.9.1-vllm-a3-aarch64"], Filters(os="openeuler"))
    planned = make_plan(row)
    run = run_of(render_dockerfile(planned), "system packages")
    assert "apt" not in run and "dnf install" in run
    assert {"gcc-c++", "numactl-devel", "jemalloc"} <= set(run.split()) and "build-essential" not in run
    assert "/usr/lib64/libjemalloc.so.2" in planned.files["setup.sh"]
    assert row.base_image.endswith("-a3-openeuler24.03-py3.12") and "-openeuler24.03-" in row.image_name("x")
    usual = environment(matrix, row.id)
    assert row.lock == usual.lock and row.image_name("x") != usual.image_name("x")


def test_every_row_for_npus_has_an_image_with_openeuler(matrix: Matrix) -> None:
    rows = Catalog(matrix).select((), Filters(os="openeuler"))
    assert {row.coordinates.hardware for row in rows} == {"a2", "a3", "a5"}
    for row in rows:
        assert not [item for item in check_environment(row) if item.severity == "error"], row.id


def test_a_rehearsal_of_openeuler_is_built_on_debian(matrix: Matrix) -> None:
    (row,) = Catalog(matrix).select(["verl-v0.9.1-vllm-a3-aarch64"], Filters(os="openeuler"))
    planned = make_plan(row.rehearsed())
    assert "apt-get" in run_of(render_dockerfile(planned), "system packages")
    [reason] = [item.reason for item in planned.left_out if item.title == "system packages of openEuler 24.03"]
    assert reason == "a stand-in of CANN is built on Debian"
