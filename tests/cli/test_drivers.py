"""Questions about the driver: what runs with one, which one an environment needs, and where that is stated."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from envbuilder.environment import Catalog
from envbuilder.environment.driver import DRIVER, TOOLKIT, least_driver, published_drivers
from envbuilder.matrix import Matrix
from tests.conftest import environment, run, succeeded
from tests.helpers.fake_host import fake_host

OLD = "24.1.0"
DEFAULT = "verl-v0.9.1-vllm-a2-aarch64"
SOURCE = "https://gitcode.com/cann/release-management/blob/master/9.1.0/release-notes.md"


@pytest.mark.parametrize("name", ["hdk", "driver"])
def test_what_goes_with_a_driver(name: str) -> None:
    shown = succeeded(run("compat", name, OLD)).stdout
    assert "works with      CANN 8.2.RC1\n" in shown and "runs            verl v0.6.1 vllm (a2, a3)\n" in shown
    (found,) = json.loads(run("compat", name, OLD, "--json").stdout)["releases"]
    assert found["stated_by"] == {"cann": ["8.2.RC1"]} and "verl-v0.6.1-vllm-a2-aarch64" in found["runs"]


def test_drivers_of_all_releases() -> None:
    lines = succeeded(run("compat", "driver")).stdout.splitlines()
    assert "  24.1.0      CANN 8.2.RC1; verl v0.6.1 vllm (a2, a3)" in lines


def test_a_driver_that_only_a_family_names() -> None:
    """The vendor publishes no full list, but 25.2.1 is of the family 25.2.X."""
    shown = " ".join(succeeded(run("compat", "driver", "25.2.1")).stdout.split())
    assert "9.1.0" in shown and "verl v0.9.1 vllm (a2, a3, a5)" in shown
    assert run("compat", "driver", "24.9.0").returncode == 4
    assert run("compat", "torch_npu", "2.8.7").returncode == 4


def test_list_with_a_driver(matrix: Matrix) -> None:
    listed = succeeded(run("list", "--with", f"driver={OLD}")).stdout.split()
    assert {item.rpartition("-")[0] for item in listed} == {"verl-v0.6.1-vllm-a2", "verl-v0.6.1-vllm-a3"}
    newer = succeeded(run("list", "--with", "driver=25.2", "--hw", "a2")).stdout.split()
    assert DEFAULT in newer and not [name for name in newer if "-cpu-" in name]
    assert environment(matrix, "verl-v0.7.0-vllm-a2-aarch64").id not in newer, "its CANN needs 25.3"
    none = run("list", "--with", "driver=1.0")
    assert (none.returncode, none.stdout) == (4, "") and "no environment runs with driver 1.0" in none.stderr


def test_the_least_driver_is_the_same_everywhere(matrix: Matrix, tmp_path: Path) -> None:
    least = environment(matrix, DEFAULT).least_driver
    assert least == ("25.2", SOURCE), "the notes of CANN 9.1.0 state 25.2.X; it was released with 26.0.RC1"
    table = run("list", DEFAULT, "--json").stdout
    assert json.loads(table)["environments"][0]["least_driver"] == "25.2"
    assert re.search(r"^  driver +25\.2 or later$", run("build", DEFAULT, "--dry-run").stdout, re.MULTILINE)
    assert f"\ndriver      25.2 or later\n            {SOURCE}\n" in run("show", DEFAULT).stdout
    readme = (Path(__file__).resolve().parents[2] / "README.md").read_text()
    (line,) = (line for line in readme.splitlines() if "| `envbuilder build --hw a2` |" in line)
    assert f"[25.2 or later]({SOURCE})" in line
    examined = run("doctor", "--root", str(fake_host(tmp_path, driver=OLD))).stdout
    assert "ok       driver 24.1.0" in examined
    assert f"driver 25.2 or later would allow verl v0.9.1, see {SOURCE}" in " ".join(examined.split())
    enough = run("doctor", "--root", str(fake_host(tmp_path / "new", driver="25.2.0"))).stdout
    assert "would allow" not in enough


def test_only_environments_with_a_toolkit_need_a_driver(matrix: Matrix) -> None:
    for item in Catalog(matrix).environments:
        assert (item.least_driver is None) == item.hardware.cpu_only, item.id


def test_the_source_of_a_least_driver_is_unambiguous(matrix: Matrix) -> None:
    for release in matrix.components[TOOLKIT].releases:
        if published_drivers(release):
            least = least_driver(release)
            assert least is not None and least.source in release.sources, release.version
            assert len(release.sources) == 1 or DRIVER in release.stated_in, release.version
