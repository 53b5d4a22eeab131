"""Plans and rendered text: what must be there, in which order, and that nothing gets in unquoted."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import pytest

from envbuilder.errors import MatrixError
from envbuilder.lock import locked_versions
from envbuilder.matrix import Matrix, load
from envbuilder.plan import Layer, Plan, Step, lock_part, make_plan
from envbuilder.render import render_dockerfile, render_script
from envbuilder.render.text import body, comment, word
from envbuilder.resolve import resolve
from envbuilder.select import environments, pick
from tests.conftest import A3_SGLANG, BOX16_VLLM, OPENRLHF, PODC_VLLM, Edit, environment

BOX16_SGLANG = (
    "verl-v0.6.0-sglang-atlas-200t-a2-box16-x86_64"  # needs an index that is not reachable everywhere: no lock
)


def plan(matrix: Matrix, identifier: str) -> Plan:
    return make_plan(matrix, environment(matrix, identifier))


def dockerfile(matrix: Matrix, identifier: str) -> str:
    return render_dockerfile(plan(matrix, identifier))


def run_of(text: str, title: str) -> str:
    """The RUN instruction under a layer's comment."""
    return text.split(f"\n# {title}\n", 1)[1].split("\n\n", 1)[0]


def in_order(text: str, *parts: str) -> None:
    at = -1
    for part in parts:
        found = text.find(part, at + 1)
        assert found > at, f"{part!r} is missing or comes too early"
        at = found


def test_layers_stand_in_the_order_of_change(matrix: Matrix) -> None:
    titles = [layer.title for layer in plan(matrix, A3_SGLANG).layers]
    assert titles == [
        "tools", "downloads", "system packages", "build packages", "build packages of SGLang", "SGLang", "memory saver of sgl-kernel-npu", "kernels of sgl-kernel-npu",
        "deep_ep, A3 variant", "large wheels", "settled wheels", "source builds", "verl", "wheels", "consistency", "shell",
    ]  # fmt: skip


def test_what_is_built_from_source_depends_only_on_what_the_build_needs(matrix: Matrix) -> None:
    planned = plan(matrix, A3_SGLANG)
    assert [stage.name for stage in planned.wheel_stages] == [
        "wheels-sglang", "wheels-sgl_kernel_npu", "wheels-sgl_kernel_npu-2", "wheels-sgl_kernel_npu-3",
    ]  # fmt: skip
    few, *others = planned.wheel_stages
    assert [item.name for item in planned.lineage(few)] == ["tools", "system", few.name], "no torch for plain Python"
    for stage in others:
        assert [item.name for item in planned.lineage(stage)] == ["tools", "system", "build", stage.name]
    text = render_dockerfile(planned)
    assert "COPY --from=wheels-sgl_kernel_npu-3 /run/envbuilder/wheels/ /\n" in text


def test_kept_wheels_take_the_place_of_the_stage_that_makes_them(matrix: Matrix) -> None:
    planned = plan(matrix, A3_SGLANG)
    names = [stage.name for stage in planned.wheel_stages]
    some = render_dockerfile(planned.keeping(names[:1]))
    in_order(
        some,
        "FROM system AS build\n",
        "FROM scratch AS wheels-sglang\nCOPY wheels/wheels-sglang/ ",
        "build.sh -a kernels",
    )
    assert "pyproject_other" not in some
    everything = render_dockerfile(planned.keeping(names))
    assert "AS build\n" not in everything
    assert "build.sh" not in everything
    assert run_of(everything, "source builds") == run_of(render_dockerfile(planned), "source builds")


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


def test_a_build_has_no_npu_to_load(matrix: Matrix) -> None:
    text = dockerfile(matrix, A3_SGLANG)
    assert " TORCH_DEVICE_BACKEND_AUTOLOAD=0\n" in text
    assert "ENV TORCH_DEVICE_BACKEND_AUTOLOAD" not in text, "the image itself must load its NPU"


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


def test_deep_ep_by_family_and_release(matrix: Matrix, edit: Edit) -> None:
    a3, a2 = plan(matrix, A3_SGLANG), plan(matrix, "verl-v0.6.0-sglang-atlas-900-a2-podc-aarch64")
    assert "deep_ep, A3 variant" in [layer.title for layer in a3.layers]
    assert [item.title for item in a2.left_out] == ["deep_ep, A2 variant"]
    assert "20250926 has no deepep_a2" in a2.left_out[0].reason
    newer = edit("frameworks/verl/v0.6.0.yaml", "version: '20250926'", "version: 2026.02.01")
    text = dockerfile(load(newer), "verl-v0.6.0-sglang-atlas-900-a2-podc-aarch64")
    assert "bash build.sh -a deepep2" in run_of(text, "deep_ep, A2 variant")


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


def test_every_source_is_fetched_by_full_commit(matrix: Matrix) -> None:
    for coordinates in environments(matrix):
        text = render_dockerfile(make_plan(matrix, resolve(matrix, coordinates)))
        fetches = re.findall(r"git fetch --quiet --depth 1 (\S+) (\S+) &&", text)
        assert fetches
        assert all(re.fullmatch(r"[0-9a-f]{40}", commit) for _, commit in fetches)
        assert "git clone" not in text


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


def test_a_rehearsal_leaves_out_what_needs_cann_and_says_so(matrix: Matrix) -> None:
    rehearsal = plan(matrix, "verl-v0.6.0-sglang-cpu-aarch64")
    assert [item.title for item in rehearsal.left_out] == [
        "memory saver of sgl-kernel-npu",
        "kernels of sgl-kernel-npu",
    ]
    text = render_dockerfile(rehearsal)
    assert "Ascend/ascend-toolkit" not in text
    assert "# left out: memory saver of sgl-kernel-npu: needs cann" in text
    assert 'ENV TORCH_DEVICE_BACKEND_AUTOLOAD="0"' in text
    assert 'BASE_IMAGE="docker.io/library/python:3.11-slim-bookworm"' in text


def test_two_hardware_of_one_row_differ_only_in_data(matrix: Matrix, monkeypatch: pytest.MonkeyPatch) -> None:
    # one of them cannot be locked everywhere, so compare them without locks
    monkeypatch.setattr(Matrix, "lock_text", lambda *_: None)
    one, two = (
        dockerfile(matrix, f"verl-v0.5.0-vllm-{name}").splitlines()
        for name in ("atlas-900-a2-podc-aarch64", "atlas-200t-a2-box16-x86_64")
    )
    data = r"atlas-[0-9a-z_-]+|aarch64|x86_64|Atlas [0-9A-Za-z ]+|\+cpu| --extra-index-url \S+|[0-9a-f]{64}"
    # a requirement that holds on one machine alone is data too
    requirement = r" {6}'?[A-Za-z0-9_.-]+(\[[a-z,]+\])?([=<>!~].*)?( \\| && \\)"
    left, right = (
        [re.sub(data, "", line).split() for line in text if not re.fullmatch(requirement, line)] for text in (one, two)
    )
    assert left == right


def test_rendered_text_is_straight_line(matrix: Matrix) -> None:
    for coordinates in environments(matrix):
        planned = make_plan(matrix, resolve(matrix, coordinates))
        for text in (render_dockerfile(planned), render_script(planned)):
            code = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith(("#", "--hash")))
            code = re.sub(r"'[^']*'", "", code)
            assert not re.search(r"(^|[;&|(\s])(if|case|while|until|for) ", code), coordinates.id


def test_rendering_is_a_function_of_the_plan(matrix: Matrix) -> None:
    assert dockerfile(matrix, A3_SGLANG) == dockerfile(matrix, A3_SGLANG)


@pytest.mark.parametrize("identifier", [A3_SGLANG, BOX16_VLLM, OPENRLHF, "verl-v0.6.0-sglang-cpu-aarch64"])
def test_the_script_does_the_same_as_the_dockerfile(matrix: Matrix, identifier: str) -> None:
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


# --- nothing gets in unquoted ----------------------------------------------------------------------------

NASTY = [
    "; rm -rf /", "$(touch pwned)", "`touch pwned`", "a && touch pwned", "a || b", "| tee pwned", "> pwned", "'; touch pwned; '",
    '"; touch pwned; "', "\\", "a\\", "$HOME", "${BASE_IMAGE}", "a b", "*", "~", "#", "--option", "\\'", "RUN touch pwned", "FROM scratch",
    "<<EOF", "%s", "!x", "{a,b}", "a=b", "中文", "-e", "",
]  # fmt: skip


@pytest.mark.parametrize("value", NASTY)
def test_a_value_is_one_shell_word(value: str) -> None:
    layer = Layer(
        "t",
        (
            Step(
                "build-script",
                {"into": "x", "command": ("printf", "%s", value), "output": value, "wheels": (value,)},
            ),
        ),
    )
    command, install = str(body(layer)).split(" && \\\n    ")
    printed = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    assert printed.stdout == value
    assert shlex.split(install)[-5:] == ["--find-links", value, "--wheel-dir", "$ENVBUILDER_WHEELS/x", value]


@pytest.mark.parametrize("value", NASTY)
def test_a_value_is_one_dockerfile_word(value: str) -> None:
    quoted = word(value)
    assert re.fullmatch(r'"(?:[^"\\$]|\\["\\$])*"', quoted), quoted
    assert "\n" not in quoted


@pytest.mark.parametrize("value", ["a\nRUN touch pwned", "a\rb", "a\x0bb", "a\u2028RUN x", "a\x85b", "# escape=`"])
def test_prose_stays_behind_its_hash(value: str) -> None:
    assert len(comment(value).splitlines()) == 1


FIELDS = [
    ("hardware/atlas-800t-a3.yaml", "title: Atlas 800T A3"),
    ("hardware/atlas-800t-a3.yaml", "image: quay.io/ascend/cann"),
    ("hardware/atlas-800t-a3.yaml", "sgl_kernel_npu: Ascend910_9382"),
    ("frameworks/verl/v0.6.0.yaml", "title: verl v0.6.0"),
    ("frameworks/verl/v0.6.0.yaml", "value: '1'"),
    ("frameworks/verl/v0.6.0.yaml", "version: 4.56.1"),
    ("frameworks/verl/v0.6.0.yaml", "version: '3.11'"),
    ("engines/sglang.yaml", "title: SGLang\n"),
    ("engines/sglang.yaml", "output: output"),
    ("engines/sglang.yaml", "by: '${build.sglang.pyproject}'"),
    ("engines/sglang.yaml", "[build-essential, ca-certificates"),
    ("engines/sglang.yaml", "remove: [torchvision"),
    ("engines/sglang.yaml", "module: deep_ep_cpp"),
    ("compat/sglang.yaml", "repository: https://github.com/sgl-project/sglang.git"),
    ("compat/cann.yaml", "nnal_set_env: /usr/local/Ascend/nnal/atb/set_env.sh"),
    ("matrix.yaml", "uv: {version: 0.13.7"),
]
STRUCTURE = re.compile(
    r"^(ARG|FROM|SHELL|RUN|ENV|LABEL|CMD|COPY|ADD|USER|ENTRYPOINT|ONBUILD|WORKDIR|EXPOSE|VOLUME|HEALTHCHECK|STOPSIGNAL)\b",
    re.M,
)


@pytest.mark.parametrize(("file", "field"), FIELDS, ids=[f"{file}-{field[:12]}" for file, field in FIELDS])
def test_no_yaml_value_changes_the_structure(file: str, field: str, edit: Edit, matrix: Matrix) -> None:
    """Refused when loading, or quoted: instructions and their number of commands stay what they are."""
    expected = _structure(dockerfile(matrix, A3_SGLANG))
    key, colon, old = field.partition(":")
    for value in [
        "a\nRUN touch pwned\n",
        "x\u2028RUN y",
        "$(touch pwned)",
        '"; touch pwned; "',
        "' && touch pwned && '",
        "a \\",
        "# x",
        "<<EOF",
    ]:
        escaped = (
            '"'
            + value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\u2028", "\\u2028")
            + '"'
        )
        if "[" in field:
            new = field.split("[")[0] + "[" + escaped
        elif "{" in old:
            new = field.replace("0.13.7", escaped)
        else:
            new = f"{key}{colon} {escaped}" + ("\n" if field.endswith("\n") else "")
        folder = _whole_copy(edit, field, new) if file == "matrix.yaml" else edit(file, field, new)
        try:
            changed = load(folder)
            text = render_dockerfile(make_plan(changed, resolve(changed, pick(changed, A3_SGLANG))))
        except MatrixError as error:
            assert error.problems[0].where.line >= 1
        else:
            assert _structure(text) == expected, (value, text)
        finally:
            (folder / file).unlink()


def _structure(text: str) -> list[str]:
    return STRUCTURE.findall(text)


def _whole_copy(edit: Edit, old: str, new: str) -> Path:
    from envbuilder import resources

    folder = edit("matrix.yaml", old, new)
    for path in resources.matrices().rglob("*.yaml"):
        target = folder / path.relative_to(resources.matrices())
        if not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(path.read_bytes())
    return folder


def test_a_bare_value_is_refused_outside_steps(matrix: Matrix) -> None:
    from envbuilder.render.text import _environment

    with pytest.raises(TypeError, match="without being quoted"):
        _environment("outer").from_string("RUN {{ value }}").render(value="x")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"file": "a", "by": ("b",)}, "'by' is a list, not a text"),
        ({"file": "a"}, "needs the parameter 'by'"),
        ({"file": "a", "by": "b", "mode": "0644"}, "'mode' is no parameter of it"),
    ],
)
def test_a_step_is_filled_as_its_template_declares(values: dict[str, str], message: str) -> None:
    with pytest.raises(MatrixError, match=re.escape(message)):
        body(Layer("t", (Step("replace-file", values),)))


def test_a_step_that_does_not_exist() -> None:
    with pytest.raises(MatrixError, match="there is no step 'teleport'"):
        body(Layer("t", (Step("teleport", {}),)))
