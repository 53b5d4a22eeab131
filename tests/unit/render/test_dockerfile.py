"""Stages and layers of a Dockerfile in their order, properties of all rendered texts, and the equivalent script."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from envbuilder.environment import resolve
from envbuilder.environment.coordinates import environments
from envbuilder.matrix import Matrix
from envbuilder.plan import make_plan
from envbuilder.plan.plan import SETUP
from envbuilder.render import build_steps, render_dockerfile, render_script
from envbuilder.render.text import body
from tests.conftest import A2_X86, A3_SGLANG, OPENRLHF
from tests.helpers.rendered import dockerfile, in_order, instructions, plan, run_of


def test_layers_are_ordered_by_how_often_they_change(matrix: Matrix) -> None:
    assert {stage.name: [layer.title for layer in stage.layers] for stage in plan(matrix, A3_SGLANG).stages} == {
        "system": ["tools", "system packages"],
        "torch": ["torch"],
        "build": ["build packages"],
        "source-sgl_kernel_npu": ["source of sgl-kernel-npu"],
        "wheels-sglang": ["build packages of SGLang", "SGLang"],
        "wheels-sgl_kernel_npu": ["memory saver of sgl-kernel-npu"],
        "wheels-sgl_kernel_npu-2": ["kernels of sgl-kernel-npu"],
        "wheels-sgl_kernel_npu-3": ["deep_ep, A3 variant"],
        "environment": [
            "other large wheels", "settled wheels", "source builds", "verl", "pins", "consistency",
        ],
    }  # fmt: skip


def test_a_stage_of_wheels_depends_only_on_what_its_build_needs(matrix: Matrix) -> None:
    planned = plan(matrix, A3_SGLANG)
    few, *others = planned.wheel_stages
    assert [item.name for item in planned.lineage(few)] == ["system", few.name], "no torch for plain Python"
    for stage in others:
        assert [item.name for item in planned.lineage(stage)] == [
            "system", "torch", "build", "source-sgl_kernel_npu", stage.name,
        ]  # fmt: skip
    assert "COPY --from=wheels-sgl_kernel_npu-3 /opt/envbuilder/wheels/ /\n" in render_dockerfile(planned)
    compiled = plan(matrix, "verl-v0.9.0-vllm-cpu-aarch64")
    (stage,) = (stage for stage in compiled.wheel_stages if stage.name == "wheels-vllm")
    assert [item.name for item in compiled.lineage(stage)] == ["system", "torch", stage.name]


def test_a_source_tree_is_fetched_once_for_all_its_builds(matrix: Matrix) -> None:
    text = dockerfile(matrix, A3_SGLANG)
    assert text.count("https://github.com/sgl-project/sgl-kernel-npu.git ") == 1
    assert text.count("FROM source-sgl_kernel_npu AS ") == 3


def test_every_package_is_in_one_file_of_the_lock(matrix: Matrix) -> None:
    for coordinates in environments(matrix):
        planned = make_plan(resolve(matrix, coordinates))
        own = [path for path in planned.files if re.fullmatch(r"locks/(torch|build|large|settled|pins)\.txt", path)]
        found = [name for path in own for name in re.findall(r"^(\S+)==", planned.files[path], re.M)]
        assert len(found) == len(set(found))
        shared = [path for path in planned.files if path.startswith("locks/wheels-")]
        assert not any(re.search(r"^torch(-npu)?==", planned.files[path], re.M) for path in shared)
        reads = [path for layer in planned.layers for path in layer.reads if path.startswith("locks/")]
        assert len(reads) == len(set(reads)), "one layer installs a file"


def test_every_compilation_reads_the_number_of_jobs(matrix: Matrix) -> None:
    planned = plan(matrix, A3_SGLANG)
    stages = re.split(r"^FROM ", render_dockerfile(planned), flags=re.M)
    reading = {text.split()[2] for text in stages if "\nARG MAX_JOBS\n" in text}
    assert reading == {stage.name for stage in planned.wheel_stages} != set()


def test_kept_wheels_replace_the_stage_that_builds_them(matrix: Matrix) -> None:
    planned = plan(matrix, A3_SGLANG)
    names = [stage.name for stage in planned.wheel_stages]
    some = render_dockerfile(planned, names[:1])
    in_order(
        some,
        "FROM build AS source-sgl_kernel_npu\n",
        "FROM scratch AS wheels-sglang\nCOPY wheels/wheels-sglang/ ",
        "build.sh -a kernels",
    )
    assert "pyproject_other" not in some
    everything = render_dockerfile(planned, names)
    assert "AS source-sgl_kernel_npu" not in everything
    assert "build.sh" not in everything
    assert run_of(everything, "source builds") == run_of(render_dockerfile(planned), "source builds")


@pytest.mark.parametrize("kept", [(), ("wheels-sglang",)])
def test_the_steps_of_buildkit_are_the_layers(matrix: Matrix, kept: tuple[str, ...]) -> None:
    """BuildKit numbers FROM (on an image alone), RUN, COPY and WORKDIR within each stage."""
    planned = plan(matrix, A3_SGLANG)
    found = {key: layer.title for key, layer in build_steps(planned, render_dockerfile(planned, kept)).items()}
    assert found["system", 3] == "tools" and found["system", 4] == "system packages"
    assert found["torch", 1] == "torch" and found["wheels-sgl_kernel_npu-2", 1] == "kernels of sgl-kernel-npu"
    assert found["environment", 6] == "consistency" and ("environment", 8) not in found
    assert (("wheels-sglang", 2) in found) is not bool(kept)


def test_a_build_does_not_load_the_npu_backend(matrix: Matrix) -> None:
    found = instructions(dockerfile(matrix, A3_SGLANG))
    setting = "TORCH_DEVICE_BACKEND_AUTOLOAD=0"
    first = next(number for number, line in enumerate(found) if line.startswith("RUN "))
    assert any(line.startswith("ARG ") and setting in line.split() for line in found[:first])
    parents = [line.split()[1] for line in found if line.startswith("FROM ")]
    assert parents.count("${BASE_IMAGE}") == 1, "every other stage inherits the arguments of the first"
    assert not any(setting in line for line in found if line.startswith("ENV ")), "the image must load the NPU backend"


def test_every_source_is_fetched_by_full_commit(matrix: Matrix) -> None:
    for coordinates in environments(matrix):
        environment = resolve(matrix, coordinates)
        planned = make_plan(environment)
        text = render_dockerfile(planned)
        releases = [environment.release(name) for name in planned.components]
        fetches = re.findall(r"git fetch --quiet --depth 1 \\\n +(\S+) (\S+) &&", text)
        assert bool(fetches) == any(release.kind == "git" for release in releases if release)
        assert all(re.fullmatch(r"[0-9a-f]{40}", commit) for _, commit in fetches)
        assert "git clone" not in text


def test_a_cpu_environment_lists_the_layers_that_it_leaves_out(matrix: Matrix) -> None:
    cpu = plan(matrix, "verl-v0.6.0-sglang-cpu-aarch64")
    assert [item.title for item in cpu.left_out] == ["memory saver of sgl-kernel-npu", "kernels of sgl-kernel-npu"]
    text = render_dockerfile(cpu)
    assert "Ascend/ascend-toolkit" not in text
    assert "# left out: memory saver of sgl-kernel-npu: needs cann" in text
    (variables,) = (line.split()[1:] for line in instructions(text) if line.startswith("ENV "))
    assert "TORCH_DEVICE_BACKEND_AUTOLOAD=0" in variables
    assert "ARG BASE_IMAGE=docker.io/library/python:3.11-slim-bookworm" in instructions(text)


def test_two_kinds_of_hardware_of_one_row_differ_only_in_data(matrix: Matrix, monkeypatch: pytest.MonkeyPatch) -> None:
    # one of them may have no lock, so both are compared without locks
    monkeypatch.setattr(Matrix, "lock_files", lambda *_: {})
    one, two = (plan(matrix, f"verl-v0.5.0-vllm-{name}") for name in ("a2-aarch64", "a2-x86_64"))
    # torch comes from an index of its own on one of them
    data = r"-a[23]-|aarch64|x86_64|Atlas [0-9A-Za-z ]+|UV_INDEX='' [^&]*&& | torch(vision)?==\S+|[0-9a-f]{64}"
    left, right = (re.sub(data, "", " ".join(instructions(render_dockerfile(item)))).split() for item in (one, two))
    assert left == right
    # the texts of files are data too: a requirement may be for one architecture only
    assert one.files.keys() == two.files.keys()


def test_rendered_texts_have_no_branches_or_loops(matrix: Matrix) -> None:
    for coordinates in environments(matrix):
        planned = make_plan(resolve(matrix, coordinates))
        script = re.sub(r"<<'END OF FILE'\n.*?^END OF FILE$", "", render_script(planned), flags=re.M | re.S)
        for text in (render_dockerfile(planned), script, planned.files.get(SETUP, "")):
            code = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith(("#", "--hash")))
            code = re.sub(r"'[^']*'", "", code)
            assert not re.search(r"(^|[;&|(\s])(if|case|while|until|for) ", code), coordinates.id


def test_rendering_is_reproducible(matrix: Matrix) -> None:
    assert dockerfile(matrix, A3_SGLANG) == dockerfile(matrix, A3_SGLANG)


@pytest.mark.parametrize("identifier", [A3_SGLANG, A2_X86, OPENRLHF, "verl-v0.6.0-sglang-cpu-aarch64"])
def test_the_script_has_the_commands_of_the_dockerfile(matrix: Matrix, identifier: str) -> None:
    planned = plan(matrix, identifier)
    script = render_script(planned)
    subprocess.run(["bash", "-n"], input=script, text=True, check=True)
    text = render_dockerfile(planned)
    for layer in planned.layers:
        if not layer.only_in_images:
            assert str(body(layer)) in script
            assert str(body(layer)) in text
    for name in planned.variables:
        assert f"export {name}=" in script


@pytest.mark.parametrize(
    "identifier", [A3_SGLANG, A2_X86, "verl-v0.9.0-vllm-a3-aarch64", "verl-v0.9.1-vllm-a3-aarch64"]
)
def test_the_script_writes_the_files_of_the_build_context(matrix: Matrix, identifier: str, tmp_path: Path) -> None:
    """Every byte counts: for grep, an empty line in a list of patterns matches everything."""
    planned = plan(matrix, identifier)
    command = "\n".join(re.findall(r"^mkdir -p .*?$|^cat > .*?^END OF FILE$", render_script(planned), re.M | re.S))
    subprocess.run(["bash", "-e", "-c", command], env={"PREFIX": str(tmp_path), "PATH": "/usr/bin:/bin"}, check=True)
    written = {str(path.relative_to(tmp_path)): path.read_text() for path in tmp_path.rglob("*") if path.is_file()}
    assert written == planned.files
