"""The arguments of `docker run`, and its refusals, on hosts that are files in a folder."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from envbuilder.errors import HostError, UsageError
from envbuilder.launch.container import ContainerOptions, Launch, Needs, needs_elsewhere
from envbuilder.launch.docker import arguments
from envbuilder.launch.on_this_host import free_devices, misfit, needs_here
from envbuilder.launch.prepare import needs_for
from envbuilder.machine.containers import DockerState
from envbuilder.machine.machine import Machine, look
from envbuilder.matrix import Matrix
from tests.conftest import A2_VLLM, A3_SGLANG, environment
from tests.helpers.fake_host import fake_host, npu_smi_output

CPU = "verl-v0.6.0-sglang-cpu-aarch64"
MANAGERS = ("davinci_manager", "devmm_svm", "hisi_hdc")
HCCN = ("/usr/local/Ascend/driver/tools/hccn_tool", "/etc/hccn.conf")
ROUTES = "Iface\tDestination\tGateway\neth1\t0000A8C0\t00000000\nbond0\t00000000\t0100A8C0\n"
VENDOR_RUNTIME = '{"runtimes": {"ascend": {"path": "/x"}}}'
Host = Callable[..., Machine]


@pytest.fixture
def a2(tmp_path: Path) -> Host:
    return partial(host, tmp_path, "910B3", 8)


@pytest.fixture
def a3(tmp_path: Path) -> Host:
    return partial(host, tmp_path, "Ascend910", 16)


def host(root: Path, chip: str, cards: int, *without: str, daemon: str = "{}", more: str = "") -> Machine:
    fake_host(root, cards=cards)
    for path, text in {"etc/docker/daemon.json": daemon, "proc/net/route": ROUTES}.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    for path in without:
        (root / path.lstrip("/")).unlink()
    return look(root, npu_smi_output(chip, cards=cards) + more)


def started(matrix: Matrix, identifier: str, machine: Machine, **choices: Any) -> list[str]:
    """Return the arguments of `docker run`."""
    needs, _ = needs_here(environment(matrix, identifier), machine, ContainerOptions(**choices))
    what = Launch(image="some/image:1", arch="aarch64", needs=needs, title="x", command=("python", "train.py"))
    words = arguments(what)
    assert words[:4] == ["docker", "run", "--rm", "--init"]
    assert words[-3:] == ["some/image:1", "python", "train.py"]
    return words[4:-3]


def options(option: str, *values: str) -> list[str]:
    return [word for value in values for word in (option, value)]


def binds(*paths: str) -> list[str]:
    return options("--mount", *(f"type=bind,source={path},target={path},readonly" for path in paths))


DRIVER = (
    "/usr/local/dcmi",
    "/usr/local/bin/npu-smi",
    "/usr/local/Ascend/driver/lib64",
    "/usr/local/Ascend/driver/version.info",
    "/etc/ascend_install.info",
)
NODES = options("--device", *(f"/dev/{name}" for name in MANAGERS))
USUAL = ["--network", "host", "--shm-size", "16g"]
PORTS = ("HCCL_HOST_SOCKET_PORT_RANGE=60000-60050", "HCCL_NPU_SOCKET_PORT_RANGE=61000-61050")


# --- arguments -------------------------------------------------------------------------------------------


def test_all_devices_of_a_host(matrix: Matrix, a2: Host) -> None:
    assert started(matrix, A2_VLLM, a2()) == [
        *USUAL,
        *options("--device", *(f"/dev/davinci{number}" for number in range(8))),
        *NODES,
        *binds(*DRIVER),
        *options("--env", "HCCL_CONNECT_TIMEOUT=1500", "ASCEND_RT_VISIBLE_DEVICES=0,1,2,3,4,5,6,7"),
    ]


@pytest.mark.parametrize(
    ("asked", "devices"), [("2,3", (2, 3)), ("3,2,3", (2, 3)), ("5-7,1", (1, 5, 6, 7)), ("4", (4,))]
)
def test_some_devices_are_counted_from_zero_inside(
    matrix: Matrix, a2: Host, asked: str, devices: tuple[int, ...]
) -> None:
    inside = ",".join(map(str, range(len(devices))))
    assert started(matrix, A2_VLLM, a2(), devices=asked) == [
        *USUAL,
        *options("--device", *(f"/dev/davinci{number}" for number in devices)),
        *NODES,
        *binds(*DRIVER),
        *options("--env", "HCCL_CONNECT_TIMEOUT=1500", f"ASCEND_RT_VISIBLE_DEVICES={inside}"),
    ]


def test_the_runtime_of_the_vendor_gives_devices_and_driver(matrix: Matrix, a2: Host) -> None:
    """It does not mount the two files with the version of the driver."""
    machine = a2(daemon=VENDOR_RUNTIME)
    variables = ("HCCL_CONNECT_TIMEOUT=1500", "ASCEND_VISIBLE_DEVICES=2,3", "ASCEND_RT_VISIBLE_DEVICES=0,1")
    assert started(matrix, A2_VLLM, machine, devices="2,3") == [
        *USUAL, "--runtime", "ascend", *binds(*DRIVER[3:]), *options("--env", *variables),
    ]  # fmt: skip


def test_several_machines(matrix: Matrix, a2: Host) -> None:
    machine = a2()
    words = started(matrix, A2_VLLM, machine, devices="0,1", multi_node=True)
    interface = [f"{name}_SOCKET_IFNAME=bond0" for name in ("HCCL", "GLOO", "TP")]
    waits = ("HCCL_CONNECT_TIMEOUT=3600", "HCCL_EXEC_TIMEOUT=3600")
    assert words == [
        *USUAL,
        *options("--device", "/dev/davinci0", "/dev/davinci1"),
        *NODES,
        *binds(*DRIVER, *HCCN),
        *options("--env", *waits, *interface, "ASCEND_RT_VISIBLE_DEVICES=0,1"),
    ]
    other = started(matrix, A2_VLLM, machine, multi_node=True, network="wide")
    assert "--network wide" in " ".join(other) and "IFNAME" not in " ".join(other)


def test_npu_smi_in_another_folder(matrix: Matrix, a2: Host) -> None:
    machine = a2("/usr/local/bin/npu-smi")
    with pytest.raises(HostError, match=r"^this host has no /usr/local/bin/npu-smi$"):
        started(matrix, A2_VLLM, machine)
    machine.file("/usr/local/sbin").mkdir()
    machine.file("/usr/local/sbin/npu-smi").write_text("")
    words = started(matrix, A2_VLLM, machine)
    assert "type=bind,source=/usr/local/sbin/npu-smi,target=/usr/local/bin/npu-smi,readonly" in words


def test_an_upstream_image_gets_the_variables_of_the_row(matrix: Matrix, a3: Host) -> None:
    machine = a3()
    own, foreign = (started(matrix, A3_SGLANG, machine, foreign=foreign) for foreign in (False, True))
    row = [f"{item.name}={item.value}" for item in environment(matrix, A3_SGLANG).variables.values()]
    assert [word for word in foreign if word not in own] == row
    assert {"RAY_EXPERIMENTAL_NOSET_ASCEND_RT_VISIBLE_DEVICES=1", *PORTS} < set(row)


def test_a_variable_of_the_row_is_not_overridden(matrix: Matrix, a2: Host) -> None:
    machine, row = a2(), environment(matrix, A2_VLLM)
    setting = next(iter(environment(matrix, A3_SGLANG).variables.values()))._replace(value="7")
    row.__dict__["variables"] = {"HCCL_CONNECT_TIMEOUT": setting}
    needs, _ = needs_here(row, machine, ContainerOptions())
    assert "HCCL_CONNECT_TIMEOUT" not in needs.variables
    needs, _ = needs_here(row, machine, ContainerOptions(foreign=True, multi_node=True))
    assert needs.variables["HCCL_CONNECT_TIMEOUT"] == "7"


def test_a_cpu_environment_needs_no_devices(matrix: Matrix) -> None:
    needs = needs_elsewhere(environment(matrix, CPU), ContainerOptions())
    assert needs == Needs(shm_size="4g")
    with pytest.raises(UsageError, match="has no NPUs"):
        needs_elsewhere(environment(matrix, CPU), ContainerOptions(devices="0"))


# --- refusals --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "missing", ["/dev/hisi_hdc", "/dev/devmm_svm", "/usr/local/Ascend/driver/version.info", HCCN[1]]
)
def test_a_missing_file_is_named(matrix: Matrix, a2: Host, missing: str) -> None:
    machine = a2(missing)
    with pytest.raises(HostError) as error:
        started(matrix, A2_VLLM, machine, multi_node=True)
    assert error.value.message == f"this host has no {missing}"
    assert error.value.exit_code == 5 and "driver" in (error.value.hint or "")


def test_all_missing_files_are_named_at_once(matrix: Matrix, a2: Host) -> None:
    machine = a2("/dev/hisi_hdc", "/etc/ascend_install.info")
    with pytest.raises(HostError, match=r"^this host has no /dev/hisi_hdc, no /etc/ascend_install.info$"):
        started(matrix, A2_VLLM, machine)


def test_a_missing_device_is_refused(matrix: Matrix, a2: Host) -> None:
    machine = a2()
    with pytest.raises(HostError, match="this host has no NPU 8,9") as error:
        started(matrix, A2_VLLM, machine, devices="7-9")
    assert error.value.hint == "it has 0,1,2,3,4,5,6,7"
    with pytest.raises(UsageError, match="not '0;1'"):
        started(matrix, A2_VLLM, machine, devices="0;1")


def test_a_device_that_another_container_uses_is_refused(matrix: Matrix, a2: Host) -> None:
    held = replace(a2(), docker=DockerState(holders={"trainer": (0, 1), "server": (3,)}))
    with pytest.raises(HostError) as error:
        started(matrix, A2_VLLM, held, devices="1-3")
    assert error.value.message == ("NPU 1 is given to the container trainer, NPU 3 is given to the container server")
    assert error.value.hint == "--devices 2,4,5,6,7, or docker stop trainer server"
    assert started(matrix, A2_VLLM, held, devices="2,4")
    needs_here(environment(matrix, A2_VLLM), held, ContainerOptions(), free=False)


def test_an_engine_without_root_has_the_rights_of_its_user(
    matrix: Matrix, a2: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = a2()
    closed = {str(machine.file(path)) for path in ("/dev/davinci1", "/dev/devmm_svm")}
    monkeypatch.setattr("os.access", lambda path, mode: str(path) not in closed)
    assert started(matrix, A2_VLLM, machine), "root opens them for an engine of root's"
    monkeypatch.setattr("envbuilder.launch.on_this_host.is_without_root", lambda: True)
    with pytest.raises(HostError, match=r"nor the engine, .* may open /dev/davinci1, /dev/devmm_svm") as refused:
        started(matrix, A2_VLLM, machine)
    assert "group of these devices" in str(refused.value.hint)
    closed.clear()
    assert started(matrix, A2_VLLM, machine)


def test_free_devices_are_whole_cards(matrix: Matrix, a3: Host) -> None:
    hardware = environment(matrix, A3_SGLANG).hardware
    held = replace(a3(), docker=DockerState(holders={"trainer": (0, 3)}))
    assert free_devices(hardware, held, 4) == "4,5,6,7" and free_devices(hardware, held, 1) == "1"
    assert free_devices(hardware, held, len(held.cards)) is None
    needs, _ = needs_here(environment(matrix, A3_SGLANG), held, ContainerOptions(npus=4))
    assert needs.devices[:4] == tuple(f"/dev/davinci{number}" for number in range(4, 8))


PROCESSES = """\
| NPU     Chip              | Process id    | Process name             | Process memory(MB)    |
+===========================+===============+====================================================+
| 1       1                 | 4711          | python3                  | 128                   |
+===========================+===============+====================================================+
"""


def test_a_process_on_a_device_is_noted(matrix: Matrix, a3: Host) -> None:
    """The second die of the second card is device 3."""
    machine, row = a3(more=PROCESSES), environment(matrix, A3_SGLANG)
    words = "NPU 3 is used by python3 (process 4711)"
    assert words in needs_here(row, machine, ContainerOptions(devices="2,3"))[1]
    assert words not in needs_here(row, machine, ContainerOptions(devices="4,5"))[1]


def test_an_image_for_other_chips_is_refused(matrix: Matrix, a2: Host) -> None:
    machine, row = a2(), environment(matrix, A3_SGLANG)
    assert "it needs chips of Atlas A3" in (misfit(row, machine) or "")
    with pytest.raises(HostError, match=f"{A3_SGLANG} does not run on this host: it needs chips of Atlas A3"):
        needs_here(row, machine, ContainerOptions())


def test_a_driver_that_is_too_old_is_refused(matrix: Matrix, a2: Host) -> None:
    old = replace(a2(), driver={"version": "22.0.0"})
    with pytest.raises(HostError, match=r"does not run on this host: .*22\.0\.0"):
        started(matrix, A2_VLLM, old)


@pytest.mark.parametrize(("asked", "hint"), [("0-2", "0,1,2,3"), ("1,2", "0,1,2,3"), ("4,6", "4,5,6,7")])
def test_two_dies_of_a_card_go_together(matrix: Matrix, a3: Host, asked: str, hint: str) -> None:
    machine = a3()
    with pytest.raises(HostError, match="has 2 devices on a card, and a job takes 1 of them or whole cards") as error:
        started(matrix, A3_SGLANG, machine, devices=asked)
    assert error.value.hint == f"--devices {hint}"
    for fine in ("1", "2,3", "0-3", "0-15"):
        assert started(matrix, A3_SGLANG, machine, devices=fine)


@pytest.mark.parametrize("asked", ["", "a", "0,", "3-1", "0,3-1"])
def test_what_names_no_devices_is_refused(matrix: Matrix, a2: Host, asked: str) -> None:
    with pytest.raises(UsageError, match="--devices takes numbers such as 0,1 or 0-3, not"):
        started(matrix, A2_VLLM, a2(), devices=asked)


# --- the command on such a host --------------------------------------------------------------------------


@pytest.fixture
def run_on(monkeypatch: pytest.MonkeyPatch) -> Callable[[Machine], None]:
    """Return a function that makes the command run on a machine."""

    def become(machine: Machine) -> None:
        monkeypatch.setattr("envbuilder.platforms.npus", lambda: [machine.file("/dev/davinci0")])
        monkeypatch.setattr("envbuilder.machine.machine.look", lambda: machine)

    return become


def test_a_host_that_fits_is_checked(matrix: Matrix, a2: Host, run_on: Callable[[Machine], None]) -> None:
    machine, row = a2("/etc/hccn.conf"), environment(matrix, A2_VLLM)
    run_on(replace(machine, docker=DockerState(holders={"trainer": (0,)})))
    with pytest.raises(HostError, match="given to the container trainer"):
        needs_for(row, None, ContainerOptions())
    needs, notes = needs_for(row, "docker", ContainerOptions())
    assert needs.devices[7] == "/dev/davinci7" and not any("checked" in note for note in notes)
    with pytest.raises(HostError, match=r"this host has no /etc/hccn\.conf"):
        needs_for(row, "compose", ContainerOptions(multi_node=True))
    needs, notes = needs_for(row, "k8s", ContainerOptions(multi_node=True))
    assert needs.count == 8 and "this host was not checked" in notes[0] and "IFNAME=" in notes[1]


def test_a_container_for_other_chips_can_be_printed_but_not_started(
    matrix: Matrix, a2: Host, run_on: Callable[[Machine], None]
) -> None:
    row = environment(matrix, A3_SGLANG)
    run_on(a2())
    with pytest.raises(HostError, match="it needs chips of Atlas A3"):
        needs_for(row, None, ContainerOptions())
    needs, notes = needs_for(row, "docker", ContainerOptions())
    assert "/dev/davinci15" in needs.devices
    assert notes[0].startswith("this host was not checked further: it needs chips of Atlas A3")
