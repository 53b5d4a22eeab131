"""What is read of a machine, and the environments that it can run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from envbuilder.environment import Catalog, Filters
from envbuilder.environment.select import pick
from envbuilder.machine import containers
from envbuilder.machine.chips import family_of, family_of_tag, family_on_bus
from envbuilder.machine.fit import fits, hardware_here, judge
from envbuilder.machine.machine import Machine, look
from envbuilder.machine.vendor import admits, values
from envbuilder.matrix import Matrix
from tests.conftest import A3_SGLANG, environment
from tests.helpers.fake_host import fake_host, npu_smi_output


@pytest.fixture
def server(tmp_path: Path) -> Machine:
    return look(fake_host(tmp_path), npu_smi_output())


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("910B1", "a2"), ("910B2C", "a2"), ("910B4-1", "a2"), ("Ascend910B3", "a2"), ("Ascend 910B3", "a2"),
        ("Ascend910", "a3"), ("910C1", "a3"),
        ("910A", "910"), ("910ProB", "910"), ("910B", "910"), ("Ascend910B", "910"),
        ("310P3", "310p"), ("310B4", "310"), ("Ascend950PR", "a5"), ("950DT", "a5"),
        ("xxx", None), ("910", None),
    ],
)  # fmt: skip
def test_chips_have_families(matrix: Matrix, name: str, family: str | None) -> None:
    assert family_of(matrix.chips, name) == family


def test_families_by_bus_and_by_tag(matrix: Matrix) -> None:
    assert family_on_bus(matrix.chips, ["d803", "d803"]) == "a3"
    assert family_on_bus(matrix.chips, ["d803", "d802"]) is None
    assert [family_of_tag(matrix.chips, tag) for tag in ("v0.9.1", "v0.11.0-a3", "8.3.rc1-910b-ubuntu22.04-py3.11")] == [
        "a2", "a3", "a2",
    ]  # fmt: skip
    assert family_of_tag(matrix.chips, "v0.11.0-310p-openeuler") == "310p"


@pytest.mark.parametrize(
    ("ranges", "version", "verdict"),
    [
        ("[7.0.0,7.1.99]", "7.1.0.11.220", True),
        ("[7.0.0,7.1.99]", "7.2.0", False),
        ("[23.0.rc3,23.0.rc3.],[23.0.0,23.0.0.]", "23.0.0.5", True),
        ("[23.0.rc3,23.0.rc3.],[23.0.0,23.0.0.]", "23.0.7", False),
        ("[V100R001C29],[V100R001C30]", "V100R001C30", True),
        ("all of them", "1.0", None),
        ("[24.0,24.0.],[24.1,24.1.]", "24.1.rc3", True),
        ("[24.0,24.0.],[24.1,24.1.]", "24.2.rc1", False),
    ],
)
def test_ranges_of_the_vendor(ranges: str, version: str, verdict: bool | None) -> None:
    assert admits(ranges, version) is verdict


def test_files_of_another_machine(server: Machine) -> None:
    assert (server.arch, server.os, server.kernel) == (
        "aarch64", "openEuler 22.03 (LTS-SP4)", "5.10.0-216.0.0.115.oe2203sp4.aarch64",
    )  # fmt: skip
    assert server.driver_version == "25.3.rc1" and server.firmware["version"] == "7.5.0.5.220"
    assert server.cards == list(range(8)) and "/dev/davinci_manager" in server.nodes
    assert server.pci == ("d802",) * 8
    toolkit = server.cann[0]
    assert (toolkit.package, toolkit.version, toolkit.inner) == ("toolkit", "8.3.RC1", "V100R001C23SPC001B235")
    assert toolkit.required_hal == "4.0.0"


def test_containers_that_hold_cards(monkeypatch: pytest.MonkeyPatch) -> None:
    inspected = [
        {"Name": "/one", "HostConfig": {"Devices": [{"PathOnHost": "/dev/davinci3"}, {"PathOnHost": "/dev/hisi_hdc"}]}},
        {"Name": "/two", "HostConfig": {}, "Config": {"Env": ["ASCEND_VISIBLE_DEVICES=0,5-6"]}},
        {"Name": "/none", "HostConfig": {"Devices": None}, "Config": {"Env": ["PATH=/bin"]}},
        {"Name": "/all", "HostConfig": {"Privileged": True}},
    ]
    answers = {
        "info": json.dumps({"ServerVersion": "26.1"}),
        "ps": "a b c",
        "inspect": json.dumps(inspected),
        "buildx": "",
    }
    monkeypatch.setattr(containers, "output_of", lambda command: (0, answers[command[1]]))
    found = containers.docker_of(Path("/"))
    assert found.holders == {"one": (3,), "two": (0, 5, 6)} and found.privileged == ("all",)
    # podman's own command describes itself in other words
    answers["info"] = json.dumps({"store": {"graphRoot": "/home/x/storage"}, "version": {"Version": "4.3.1"}})
    podman = containers.docker_of(Path("/"))
    assert (podman.version, podman.root, podman.trouble) == ("4.3.1 of podman", "/home/x/storage", None)
    assert podman.holders == found.holders


def test_environments_of_a_server(matrix: Matrix, server: Machine) -> None:
    found = fits(Catalog(matrix), server)
    best = found[0]
    assert best.fits and "-a2-" in best.environment and best.environment.endswith("aarch64")
    assert best.published and best.environment == pick(matrix, filters=Filters(hardware="a2", arch="aarch64")).id
    assert [item.fits for item in found] == sorted((item.fits for item in found), reverse=True), "those that fit first"
    a3 = next(item for item in found if item.environment == A3_SGLANG)
    assert not a3.fits and "those of this machine are Atlas A2" in a3.changes[0]
    alike = [item for item in matrix.hardware.values() if item.family == "a2" and item.devices == 8]
    assert hardware_here(Catalog(matrix), server) == [item.name for item in alike]


def test_a_driver_that_is_too_old_or_newer_than_all_known_ones(matrix: Matrix, tmp_path: Path) -> None:
    row = environment(matrix, A3_SGLANG)
    text = npu_smi_output("Ascend910", cards=16, driver="23.0.3")
    old = judge(row, look(fake_host(tmp_path / "old", cards=16, driver="23.0.3"), text))
    assert not old.fits and "23.0.3" in old.changes[0]
    new = judge(row, look(fake_host(tmp_path / "new", cards=16, driver="99.0.0"), text))
    assert new.fits and "99.0.0" in new.notes[0]


def test_values_of_files() -> None:
    assert values('Version=1.0\nVersion=2.0\n# no\nNAME="a b"\n') == {"version": "1.0", "name": "a b"}
