"""A rehearsal of an NPU image: the same Dockerfile on a stand-in of CANN, marked, and only for a proof."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from envbuilder import process
from envbuilder.environment import Catalog, Environment, image_names
from envbuilder.environment.image_names import refuse_rehearsal
from envbuilder.errors import EnvbuilderError, HostError
from envbuilder.launch.container import ContainerOptions
from envbuilder.launch.prepare import needs_for
from envbuilder.machine.chips import family_of
from envbuilder.machine.npu_smi import read
from envbuilder.matrix import Matrix
from envbuilder.plan import make_plan
from envbuilder.render import build_context
from envbuilder.stand_in import spec_of
from tests.conftest import A2_VLLM, A3_SGLANG, environment, run


def npu_rows(matrix: Matrix) -> list[Environment]:
    return [item for item in Catalog(matrix).environments if item.hardware.has_npus]


def blocks(text: str) -> dict[str, str]:
    """Return the parts of a Dockerfile by their titles."""
    found = re.split(r"\n\n(?=# )", text)
    return {part.partition("\n")[0]: part for part in found}


def layers_of(row: Environment) -> tuple[set[str], set[str]]:
    """Return the titles of the layers that need the vendor's compiler, and of their replacements."""
    specs = (*row.engine.layers, *row.framework.layers)
    compiled = {f"# {item.title}" for item in specs if "kernel-compiler" in item.needs}
    return compiled, {f"# {item.title}" for item in specs if f"# {next(iter(item.instead_of), '')}" in compiled}


def test_the_dockerfile_differs_from_the_row_only_in_the_marked_layers(matrix: Matrix) -> None:
    rows = npu_rows(matrix)
    assert rows
    for row in rows:
        real, rehearsed = (build_context(make_plan(item)) for item in (row, row.rehearsed()))
        changed = {path for path in real.keys() | rehearsed.keys() if real.get(path) != rehearsed.get(path)}
        # what no index within reach has is left out, and then missing on purpose
        lacking = {"checks/expected-conflicts"} if row.rehearsed().out_of_reach else set()
        assert changed == {"Dockerfile"} | lacking, row.id
        compiled, instead = layers_of(row)
        before, after = blocks(real["Dockerfile"]), blocks(rehearsed["Dockerfile"])
        assert before.keys() - after.keys() <= compiled | ({"# wheels without a hash"} if lacking else set()), row.id
        assert after.keys() - before.keys() <= instead, row.id
        assert before.keys() & compiled, row.id
        for title in before.keys() & after.keys():
            assert unmarked(before[title]) == unmarked(after[title]), f"{row.id}: {title}"


def unmarked(block: str) -> str:
    """Return a part of a Dockerfile without the names of marked layers: stages, links, the mark of a rehearsal."""
    marks = re.compile(
        rf"COPY --from=wheels-|FROM .* AS wheels-|# left out: |.*{image_names.REHEARSAL}|.*ln -sf deep_ep|.*get_path.*platlib"
    )
    kept = [line.removesuffix(" && \\").removesuffix(" \\") for line in block.splitlines() if not marks.match(line)]
    return "\n".join(kept)


def test_what_is_left_out_is_listed_with_the_reason(matrix: Matrix) -> None:
    left_out = {item.title: item.reason for item in make_plan(environment(matrix, A3_SGLANG).rehearsed()).left_out}
    assert left_out["kernels of sgl-kernel-npu"] == (
        "needs kernel-compiler, which a stand-in of CANN for Atlas A3 does not provide"
    )


def test_the_name_and_the_label_mark_a_rehearsal(matrix: Matrix) -> None:
    row = environment(matrix, A3_SGLANG)
    assert row.rehearsed().image_name("x") == f"{row.image_name('x')}-rehearsal"
    assert image_names.REHEARSAL not in make_plan(row).labels
    assert make_plan(row.rehearsed()).labels[image_names.REHEARSAL] == "a stand-in of CANN for Atlas A3"


def test_a_rehearsal_is_refused_with_the_reason(matrix: Matrix) -> None:
    row = environment(matrix, A3_SGLANG).rehearsed()
    labels = make_plan(row).labels
    with pytest.raises(HostError, match=r"is a rehearsal on a stand-in of CANN .*, and cannot be published"):
        refuse_rehearsal("x", labels, pulled=False)
    refuse_rehearsal("x", {image_names.ENVIRONMENT: row.id}, pulled=False)
    with pytest.raises(HostError, match="cannot use NPUs"):
        needs_for(row, None, ContainerOptions())


def test_push_and_rehearse_exclude_each_other() -> None:
    result = run("build", A3_SGLANG, "--rehearse", "--push")
    assert result.returncode == 2
    assert "a rehearsal cannot be pushed" in result.stderr


def test_the_stand_in_has_the_paths_and_chips_of_the_row(matrix: Matrix) -> None:
    spec = spec_of(environment(matrix, A3_SGLANG))
    assert (spec.soc, spec.devices, spec.memory_gib) == ("Ascend910_9391", 16, 64)
    assert spec.cann == "8.3.RC1"
    assert spec.set_env == "/usr/local/Ascend/ascend-toolkit/set_env.sh"
    assert spec.root == "/usr/local/Ascend"
    assert spec_of(environment(matrix, A2_VLLM), devices=2).devices == 2
    with pytest.raises(EnvbuilderError, match="which a stand-in of CANN needs"):
        spec_of(environment(matrix, "verl-v0.6.0-sglang-cpu-aarch64"))


def test_npu_smi_of_the_stand_in_is_read_as_the_hardware(matrix: Matrix, tmp_path: Path) -> None:
    for row in npu_rows(matrix):
        hardware = row.hardware
        program = tmp_path / "npu-smi"
        program.write_text(spec_of(row, hook="/hook").npu_smi, encoding="utf-8")
        program.chmod(0o755)
        found = read(process.run([str(program), "info"]).text)
        assert row.stand_in is not None
        assert (found.driver_version, len(found.devices)) == (row.stand_in.driver, hardware.devices)
        assert len({item.npu for item in found.devices}) == hardware.devices // hardware.devices_per_card
        families = {family_of(row.chips, item.name or "") for item in found.devices}
        assert families == {hardware.family}
        board = process.run([str(program), "info", "-t", "board", "-i", "0", "-c", "0"]).text
        names = dict(line.strip().split(" : ") for line in board.splitlines())
        said = "_".join(filter(None, (names.get("Chip Type", "") + names["Chip Name"], names.get("NPU Name"))))
        assert said.lower() in row.chip_family.soc_names
        assert not process.run([str(program), "set"]).ok


def test_a_row_without_npus_has_the_chips_of_the_stand_in(matrix: Matrix) -> None:
    """A row that cannot train on a CPU trains on the stand-in, with the plugin of the engine and no setting for a CPU."""
    row = environment(matrix, "openrlhf-v0.7.5-vllm-cpu-aarch64")
    rehearsed = row.rehearsed()
    assert spec_of(rehearsed).soc == "Ascend910B1" and rehearsed.hardware.family == "a2"
    assert row.variables and not rehearsed.variables, "torch loads torch_npu there"
    titles = {layer.title for layer in make_plan(rehearsed).layers}
    assert "vLLM without device code" in titles and "vLLM compiled for the CPU" not in titles
    assert rehearsed.id == row.id and rehearsed.lock == row.lock
