"""All commands choose the same environment for a server, and none that its driver cannot run."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from envbuilder.environment import Catalog, Filters
from envbuilder.machine.fit import runs_with
from envbuilder.matrix import Matrix, evidence
from envbuilder.platforms import PLATFORMS
from tests.conftest import Edit, Result, environment, run, succeeded
from tests.helpers.fake_host import described_server

README = Path(__file__).resolve().parents[2] / "README.md"
OLD, NEW = "24.1.0", "26.0.rc1"
NEEDS_MORE = "verl-v0.9.1-vllm-a2-aarch64"


def on(machine: Path, *words: str) -> Result:
    return run(*words, ENVBUILDER_MACHINE=str(machine), DOCKER_HOST="tcp://127.0.0.1:9")


def first_word(machine: Path, *words: str) -> str:
    return succeeded(on(machine, *words)).stdout.split()[0]


def answers(machine: Path, hardware: str) -> dict[str, str]:
    """Return what each command chooses."""
    (best,) = set(re.findall(r"^  envbuilder build (\S+)$", on(machine, "doctor").stdout, re.MULTILINE))
    found = {"doctor": best}
    for options in ((), ("--hw", hardware)):
        found[f"build {options}"] = first_word(machine, "build", *options, "--dry-run")
        found[f"show {options}"] = first_word(machine, "show", *options)
        printed = json.loads(succeeded(on(machine, "quickstart", *options, "--json")).stdout)
        found[f"quickstart {options}"] = printed["environment"]
    return found


def test_old_driver(matrix: Matrix, tmp_path: Path) -> None:
    machine = described_server(tmp_path, OLD)
    found = answers(machine, "a2")
    found["product"] = first_word(machine, "build", "--hw", "Atlas 800T A2", "--dry-run")
    (chosen,) = set(found.values())
    assert chosen in succeeded(on(machine, "render", "--hw", "a2", "--format", "script")).stdout
    assert runs_with(environment(matrix, chosen), OLD)
    assert not runs_with(environment(matrix, NEEDS_MORE), OLD)
    told = on(machine, "quickstart", "--hw", "a2").stderr
    assert f"chose {chosen}: verl v0.9.1 needs driver 25.2 or later, and this machine has 24.1.0" in told
    # the page shows them in this order
    by_rank = sorted(Catalog(matrix).environments, key=lambda item: item.rank, reverse=True)
    assert next(item.id for item in by_rank if item.id.endswith("-a2-aarch64") and runs_with(item, OLD)) == chosen


@pytest.mark.parametrize(("chip", "hardware"), [("910B3", "a2"), ("Ascend910", "a3")])
def test_new_driver(matrix: Matrix, tmp_path: Path, chip: str, hardware: str) -> None:
    """With a driver that all rows run with, the choice is the default that the README states."""
    (chosen,) = set(answers(described_server(tmp_path, NEW, chip), hardware).values())
    catalog = Catalog(matrix)
    assert chosen == catalog.pick(None, Filters(hardware=hardware)).id
    row = environment(matrix, chosen)
    (line,) = (line for line in README.read_text().splitlines() if f"| `envbuilder build --hw {hardware}` |" in line)
    assert row.branch.title in line and f"{row.engine.engine} {row.version(row.engine.engine)}" in line


def test_least_driver_runs_the_default(matrix: Matrix, tmp_path: Path) -> None:
    """What doctor and the README state as the least driver is enough for the default."""
    least = environment(matrix, NEEDS_MORE).least_driver
    assert least is not None
    assert first_word(described_server(tmp_path, f"{least.version}.0"), "build", "--dry-run") == NEEDS_MORE


@pytest.mark.parametrize("words", [(NEEDS_MORE,), ("--branch", "v0.9.1"), ("verl-v0.9.1-*-a2-aarch64",)])
def test_build_asks_for_a_decision(tmp_path: Path, words: tuple[str, ...]) -> None:
    machine = described_server(tmp_path, OLD)
    asked = on(machine, "build", *words, "--dry-run")
    assert asked.returncode == 5 and not asked.stdout
    assert f"{NEEDS_MORE} cannot run on this machine: CANN 9.1.0 and" in asked.stderr
    assert "`envbuilder build verl-v0.6.1-vllm-a2-aarch64` runs here" in asked.stderr
    assert "driver 25.2 or later on this machine runs it" in asked.stderr
    assert "--for-another-machine builds it" in asked.stderr
    assert first_word(machine, "build", *words, "--for-another-machine", "--dry-run") == NEEDS_MORE
    rehearsed = ("--rehearse", "--dry-run", "--base-image", "python:3.12", "--git-mirror", str(tmp_path))
    assert on(machine, "build", NEEDS_MORE, *rehearsed).stdout.split()[0] == NEEDS_MORE, "it needs no driver"


def test_other_hardware_is_for_another_machine(matrix: Matrix, tmp_path: Path) -> None:
    machine = described_server(tmp_path, OLD)
    default = Catalog(matrix).pick(None, Filters(hardware="a3")).id
    assert first_word(machine, "build", "--hw", "a3", "--dry-run") == default
    assert first_word(machine, "build", "--hw", "a2", "--arch", "x86_64", "--dry-run").endswith("a2-x86_64")
    assert "-cpu-aarch64" in first_word(machine, "show", "--hw", "cpu"), "the processor is that of the machine"


def test_reading_commands_warn(tmp_path: Path) -> None:
    machine = described_server(tmp_path, OLD)
    for words in (["show"], ["quickstart"], ["render"]):
        shown = succeeded(on(machine, *words, "--branch", "v0.9.1"))
        assert f"warning[cann-hdk] {NEEDS_MORE} cannot run on this machine" in shown.stderr


def test_driver_older_than_all(tmp_path: Path) -> None:
    machine = described_server(tmp_path, "23.0.3")
    asked = on(machine, "build", "--hw", "a2", "--dry-run")
    assert asked.returncode == 5 and "runs here" not in asked.stderr
    assert "driver 25.2 or later on this machine runs it" in asked.stderr


def test_usual_engine_is_named(edit: Edit) -> None:
    """Without its proof the row with the usual engine is not the default, if there is one with another engine."""
    chosen = json.loads(run("show", "--hw", "a3", "--json").stdout)["environment"]
    usual = chosen["engine"]
    folder = edit(f"evidence/{chosen['framework']}/{chosen['branch']}.yaml", "environments:", "environments:")
    for arch in PLATFORMS:
        row = f"{chosen['framework']}/{chosen['branch']}/{usual}-a3-{arch}"
        evidence.record(folder, row, "resolved", alone=True)
    own = ("--matrices", str(folder))
    shown = run("show", "--hw", "a3", *own).stderr
    assert f"the usual engine is {usual}: --engine {usual} chooses {chosen['id']}, not proven" in shown
    assert "the usual engine" not in run("show", "--hw", "a3", "--engine", "sglang", *own).stderr
    assert "the usual engine" not in run("show", "--hw", "a2", *own).stderr
