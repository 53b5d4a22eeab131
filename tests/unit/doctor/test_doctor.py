"""The checks of doctor, the command, and its findings in containers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from envbuilder import platforms
from envbuilder.check import Finding
from envbuilder.cli.arguments import Dimensions, Talk
from envbuilder.diagnose.judge import judge_packages
from envbuilder.doctor.checks import CHECKS, examine
from envbuilder.doctor.container_checks import examine_container
from envbuilder.doctor.fixes import script
from envbuilder.doctor.report import npu_data
from envbuilder.environment import Catalog
from envbuilder.errors import HostError
from envbuilder.machine import containers
from envbuilder.machine import machine as machines
from envbuilder.machine.containers import DockerState
from envbuilder.machine.machine import Machine, look
from envbuilder.matrix import Matrix
from tests.conftest import A3_SGLANG, run, succeeded
from tests.helpers.corpus import Sample, samples
from tests.helpers.fake_host import fake_host, npu_smi_output


@pytest.fixture
def server(tmp_path: Path) -> Machine:
    return look(fake_host(tmp_path), npu_smi_output())


def only(findings: list[Finding], code: str) -> list[Finding]:
    return [finding for finding in findings if finding.code == code]


# --- reading ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sample", samples("host"), ids=lambda sample: sample.name)
def test_real_files_of_hosts(sample: Sample, tmp_path: Path, matrix: Matrix) -> None:
    """Each file of the sample is written to its place on the host."""
    for part in sample.text.split("\ncat ")[1:]:
        name, _, text = part.partition("\n")
        path = tmp_path / name.strip().lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    found, truth = look(tmp_path, ""), sample.truth
    assert (found.driver["version"], found.driver["innerversion"]) == (truth["driver"], truth["driver_inner"])
    assert found.driver["ascendhal_version"] == truth["ascendhal"]
    assert found.driver["compatible_version_fw"] == truth["driver_accepts_firmware"]
    assert found.firmware["version"] == truth["firmware"]
    assert found.firmware["compatible_version_drv"] == truth["firmware_accepts_driver"]
    parts = {item.package: item for item in found.cann}
    assert (parts["toolkit"].version, parts["toolkit"].inner) == (truth["cann_toolkit"], truth["cann_inner"])
    assert (parts["nnae"].version, parts["nnae"].arch) == (truth["nnae"], truth["nnae_arch"])
    messages = " ".join(check.message for check in examine(Catalog(matrix), found) if check.severity == "warning")
    assert "is compatible with driver" in messages, "the firmware does not name this driver"


# --- checks ----------------------------------------------------------------------------------------------


def test_a_good_server(matrix: Matrix, server: Machine) -> None:
    checks = examine(Catalog(matrix), server)
    assert not [check for check in checks if check.severity == "error"]
    assert [check.message for check in checks if check.severity == "warning"] == [
        "numa-balancing is 1, and should be 0: pages that move between sockets make launches uneven"
    ]
    assert only(checks, "npu-smi")[0].message == "npu-smi shows 8 devices on 8 cards: 910B3"


@pytest.mark.parametrize(
    ("text", "name", "severity", "words"),
    [
        (npu_smi_output(health="Alarm"), "health", "warning", "NPU 0 chip 0 reports Alarm"),
        (npu_smi_output("910B"), "family", "error", "first generation"),
        (npu_smi_output("310P3"), "family", "error", "310P"),
        (
            "dcmi model initialized failed, because the device is used. ret is -8020",
            "npu-smi",
            "error",
            "held by another",
        ),
        ("something else went wrong", "npu-smi", "error", "shows no device: something else"),
        ("", "npu-smi", "error", "8 NPUs are on the PCI bus, and npu-smi is missing"),
        (
            npu_smi_output("Ascend910", cards=2).replace("| 1     1", "| 1     0"),
            "dies",
            "warning",
            "same physical number 0",
        ),
        (
            npu_smi_output(driver="24.1.rc3"),
            "driver",
            "warning",
            "version.info has driver 25.3.rc1, and npu-smi shows 24.1.rc3",
        ),
    ],
)
def test_the_output_of_npu_smi_is_checked(
    matrix: Matrix, tmp_path: Path, text: str, name: str, severity: str, words: str
) -> None:
    found = only(examine(Catalog(matrix), look(fake_host(tmp_path), text)), name)
    assert any(check.severity == severity and words in check.message and check.hint for check in found), found


@pytest.mark.parametrize(
    ("file", "old", "new", "name", "words"),
    [
        ("usr/local/Ascend/driver/version.info", "[7.0.0,7.7.99]", "[7.8.0,7.9.99]", "firmware", "driver 25.3.rc1 is compatible with"),
        ("usr/local/Ascend/firmware/version.info", "[25.0.0,25.9.99]", "[26.0.0]", "firmware", "firmware 7.5.0.5.220 is compatible"),
        ("usr/local/Ascend/driver/version.info", "=7.35.23", "=3.9", "ascendhal", "needs ascendhal 4.0.0"),
        (
            "usr/local/Ascend/ascend-toolkit/8.3.RC1/aarch64-linux/ascend_toolkit_install.info",
            "arch=aarch64", "arch=x86_64", "cann", "is for x86_64",
        ),
        ("proc/sys/vm/swappiness", "10", "60", "settings", "swappiness is 60, and should be at most 10"),
    ],
)  # fmt: skip
def test_files_that_contradict_each_other(
    matrix: Matrix, tmp_path: Path, file: str, old: str, new: str, name: str, words: str
) -> None:
    root = fake_host(tmp_path)
    text = (root / file).read_text()
    assert old in text
    (root / file).write_text(text.replace(old, new))
    found = only(examine(Catalog(matrix), look(root, npu_smi_output())), name)
    assert any(words in check.message and check.hint for check in found), found


def test_a_device_node_of_another_user(matrix: Matrix, server: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = {path: node._replace(uid=1000, gid=1000, mode=0o660) for path, node in server.nodes.items()}
    server.__dict__.update(nodes=nodes, is_here=True, user=(65534, frozenset({65534})))
    assert (
        "may not use /dev/davinci0 (owner 1000, mode 0660)"
        in only(examine(Catalog(matrix), server), "devices")[0].message
    )
    server.__dict__.update(user=(65534, frozenset({1000})))
    assert only(examine(Catalog(matrix), server), "devices")[0].severity == "ok"


def test_every_check_is_named_once() -> None:
    assert len({(group, name) for group, name, _ in CHECKS}) == len(CHECKS)


# --- the command ------------------------------------------------------------------------------------------


def test_the_command(tmp_path: Path) -> None:
    root = fake_host(tmp_path / "root")
    file = tmp_path / "npu-smi.txt"
    file.write_text(npu_smi_output())
    result = succeeded(
        run("doctor", "--root", str(root), "--npu-smi", str(file), "--json", "--report", str(tmp_path / "report"))
    )
    document = json.loads(result.stdout)
    assert set(document) == {"schema_version", "host", "npu", "checks", "environments"}
    assert set(document["npu"]["devices"][0]) >= {
        "npu", "chip", "phy_id", "name", "health", "memory_total_mb", "memory_kind",
    }  # fmt: skip
    assert document["npu"]["family"] == "a2" and document["npu"]["driver_version"] == "25.3.rc1"
    assert set(document["checks"][0]) == {"name", "group", "severity", "message", "remedy"}
    assert document["environments"][0]["fits"] is True
    text = (tmp_path / "report").read_text()
    assert "910B3" in text and "ascendhal_version=7.35.23" in text and "[ok] npu/npu-smi" in text
    shown = run("doctor", "--root", str(root), "--npu-smi", str(file))
    assert "8 devices on 8 cards" in shown.stdout and "environments for this machine" in shown.stdout


def test_an_environment_that_cannot_run_on_the_machine(tmp_path: Path) -> None:
    root = fake_host(tmp_path)
    (root / "npu-smi.txt").write_text(npu_smi_output())
    arguments = ("doctor", "--root", str(root), "--npu-smi", str(root / "npu-smi.txt"))
    result = run(*arguments, "--hw", "atlas-800t-a3", "--engine", "sglang")
    assert result.returncode == 5
    assert (
        "cannot run on this machine: it needs chips of Atlas A3" in result.stderr
        and "these can: verl-" in result.stderr
    )
    assert run(*arguments, "--hw", "atlas-900-a2-podc").returncode == 0
    assert run("doctor", "--npu-smi", str(root / "absent")).returncode == 2


def test_the_default_hardware_is_that_of_this_machine(
    matrix: Matrix, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def chosen(**options: Any) -> str:
        return Dimensions(**options).environment(Catalog(matrix), None, Talk(quiet=1)).id

    assert f"-cpu-{platforms.arch()}" in chosen(), "without NPUs it is the CPU environment"
    server = look(fake_host(tmp_path, cards=16), npu_smi_output("Ascend910", cards=16))
    monkeypatch.setattr(platforms, "npus", lambda: [Path("/dev/davinci0")])
    monkeypatch.setattr(platforms, "arch", lambda name="": name or "aarch64")
    monkeypatch.setattr(machines, "look", lambda: server)
    assert chosen(engine="sglang", branch="v0.6.0") == A3_SGLANG
    assert "-cpu-" in chosen(hw="cpu")
    assert chosen(hw="atlas-200t-a2-box16").endswith("-x86_64"), "hardware of another architecture may be selected"
    monkeypatch.setattr(machines, "look", lambda: look(tmp_path, npu_smi_output("910B")))
    with pytest.raises(HostError, match="this machine has NPUs that no row supports"):
        chosen()


def test_this_machine() -> None:
    found = json.loads(run("doctor", "--json").stdout)
    assert found["host"]["arch"] == platforms.arch() and found["host"]["memory_gb"] > 0
    assert any(item["fits"] and item["cpu_only"] for item in found["environments"])


def test_a_table_without_memory_still_has_its_kind(matrix: Matrix, tmp_path: Path) -> None:
    text = "\n".join(line for line in npu_smi_output(cards=1).splitlines() if "0000:" not in line)
    device = npu_data(Catalog(matrix), look(tmp_path, text))["devices"][0]
    assert (device["memory_kind"], device["memory_total_mb"]) == ("hbm", None)


def test_no_engine_is_a_warning(matrix: Matrix, server: Machine) -> None:
    server.__dict__["docker"] = DockerState(trouble="no answer")
    assert "no docker engine answers: no answer" in only(examine(Catalog(matrix), server), "engine")[0].message


def test_doctor_ends_with_the_next_commands(tmp_path: Path) -> None:
    shown = run("doctor", DOCKER_HOST="unix:///nowhere").stdout
    *_, first, second, third, fourth = shown.splitlines()
    assert "\nnext\n  builds and containers need a docker engine" in shown
    assert first.startswith("  envbuilder show ") and second.endswith(" --dry-run")
    best = first.split()[-1]
    assert (third, fourth) == (f"  envbuilder build {best}", f"  envbuilder quickstart {best}")


def test_a_table_alone_is_of_another_machine(tmp_path: Path) -> None:
    """The architecture and engine of this host do not apply to it."""
    (tmp_path / "table").write_text(npu_smi_output("Ascend910"))
    shown = run("doctor", "--npu-smi", str(tmp_path / "table"), DOCKER_HOST="unix:///nowhere")
    assert "only the given table is read" in shown.stderr
    assert "the operating system is unknown" in shown.stdout and "no docker engine answers" not in shown.stdout
    assert "this machine is" not in shown.stdout, "of its architecture nothing is known"


# --- a container, and commands that help --------------------------------------------------------------------

MOUNTS = ["/usr/local/dcmi", "/usr/local/bin/npu-smi", "/usr/local/Ascend/driver", "/etc/ascend_install.info"]
NODES = ["/dev/davinci0", "/dev/davinci_manager", "/dev/devmm_svm", "/dev/hisi_hdc"]


@pytest.mark.parametrize(
    ("changed", "errors", "warnings"),
    [
        ({}, set(), set()),
        ({"nodes": []}, {"it was given no NPU"}, set()),
        ({"nodes": NODES[:2]}, {"it has no /dev/devmm_svm, /dev/hisi_hdc"}, set()),
        ({"mounts": MOUNTS[1:]}, set(), {"these files of the host are not mounted: /usr/local/dcmi"}),
        ({"shm": 64 * 2**20}, set(), {"its /dev/shm has 64 MB, and training needs 16g"}),
        ({"nodes": [], "privileged": True}, set(), set()),
        ({"nodes": [], "mounts": [], "env": ["ASCEND_VISIBLE_DEVICES=0"]}, set(), set()),
    ],
)
def test_what_a_container_lacks(
    matrix: Matrix, monkeypatch: pytest.MonkeyPatch, changed: dict[str, Any], errors: set[str], warnings: set[str]
) -> None:
    given = {"nodes": NODES, "mounts": MOUNTS, "shm": 2**34, "privileged": False, "env": [], **changed}
    described = {
        "HostConfig": {
            "Devices": [{"PathInContainer": path} for path in given["nodes"]],
            "ShmSize": given["shm"],
            "Privileged": given["privileged"],
        },
        "Mounts": [{"Destination": path} for path in given["mounts"]],
        "Config": {"Env": given["env"]},
    }
    monkeypatch.setattr(containers, "output_of", lambda command: (0, json.dumps([described])))
    found = examine_container(Catalog(matrix), "x")
    assert {item.message for item in found if item.severity == "error"} == errors
    assert {item.message for item in found if item.severity == "warning"} == warnings


def test_the_packages_of_a_machine(matrix: Matrix) -> None:
    assert judge_packages(Catalog(matrix), "torch==2.8.0\n") == [], "a machine without packages for NPUs"
    (found,) = judge_packages(Catalog(matrix), "torch==2.8.0\ntorch_npu==2.7.1\nvllm==0.11.0\n")
    assert (found.group, found.code, found.severity) == ("packages", "torch-overwritten", "error")
    (good,) = judge_packages(Catalog(matrix), "torch==2.7.1\ntorch_npu==2.7.1\n")
    assert (good.severity, good.message) == ("ok", "torch 2.7.1, torch_npu 2.7.1")


def test_commands_that_help() -> None:
    findings = [
        Finding("warning", "swappiness is 60", "`sysctl -w vm.swappiness=10`"),
        Finding("error", "numpy is 2", "`pip install 'numpy<2'`, after everything else"),
        Finding("error", "two toolkits", "source the set_env.sh of one of them only"),
        Finding("error", "NPU 0", "npu-smi info -t health of the card; reset or exchange it"),
        Finding("error", "npu-smi fails:\nrm -rf /\r\nrm -rf /home", "docker ps\nrm -rf /tmp"),
        Finding("error", "triton", "`pip uninstall -y triton triton-ascend`, then install triton-ascend last"),
        Finding("error", "old", "use other hardware"),
        Finding("ok", "fine", "docker ps"),
    ]
    lines = script(findings).splitlines()
    assert lines[0] == "#!/usr/bin/env bash"
    assert [line for line in lines if not line.startswith("#") and line] == [
        "sysctl -w vm.swappiness=10", "pip install 'numpy<2'", "pip uninstall -y triton triton-ascend",
    ]  # fmt: skip
    assert "# no command does it: use other hardware" in lines
    assert "# npu-smi fails: rm -rf / rm -rf /home" in lines and "# no command does it: docker ps rm -rf /tmp" in lines
    assert script([]).endswith("# nothing is wrong")


def test_options_that_contradict_each_other(tmp_path: Path) -> None:
    assert run("doctor", "--container", "x", "--root", str(tmp_path)).returncode == 2
    assert run("doctor", "--fix", "--json").returncode == 2
    shown = run("doctor", "--fix", DOCKER_HOST="unix:///nowhere").stdout
    assert "systemctl start docker" in shown.splitlines()
