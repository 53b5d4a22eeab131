"""Output of npu-smi: every layout, as it is printed and as it is pasted into a report."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envbuilder.machine.npu_smi import Npu, board, read
from tests.helpers.corpus import Sample, samples
from tests.helpers.npu_tables import LAYOUTS, Layout, table

_VERSIONS = st.sampled_from(["22.0.4", "23.0.rc2.3", "24.1.rc3", "25.0.rc1.1", "25.5.2", "26.0.rc1", "25.7.rc1.6"])
_HEALTH = st.sampled_from(["OK", "Warning", "Alarm", "Critical", "UNKNOWN", "NA", "N/A"])
_NAMES = st.sampled_from(["310P3", "910A", "910ProB", "910B1", "910B2C", "910B4-1", "Ascend910", "Ascend950PR", "xxx"])
_BUS = st.builds(
    "{:04x}:{:02X}:00.{}".format, st.integers(0, 1), st.integers(0, 255), st.integers(0, 3)
) | st.sampled_from(["NA", "xxxx:xx:xx.x", "****:**:**.*", "xxx"])


@st.composite
def hosts(draw: st.DrawFn) -> tuple[Layout, list[Npu]]:
    kind = draw(st.sampled_from(sorted(LAYOUTS)))
    layout = LAYOUTS[kind]
    dies = 2 if layout.second == "Phy-ID" else 1
    numbers = draw(st.lists(st.integers(0, 2200), min_size=1, max_size=8, unique=True))
    name, total = draw(_NAMES), draw(st.integers(1, 200_000))
    devices = [
        Npu(
            npu=number,
            chip=die,
            phy_id=place * dies + die if layout.second else None,
            name=name,
            health=draw(_HEALTH),
            bus_id=draw(_BUS),
            memory_total_mb=total,
            memory_kind="hbm" if layout.hbm else "ddr",
        )
        for place, number in enumerate(numbers)
        for die in range(dies)
    ]
    return layout, devices


@given(host=hosts(), tool=_VERSIONS, driver=_VERSIONS, prefix=st.sampled_from(["", "    ", "# ", "> ", "    # "]))
def test_a_printed_table_is_read_back(host: tuple[Layout, list[Npu]], tool: str, driver: str, prefix: str) -> None:
    layout, devices = host
    busy = [devices[0].npu]
    text = "\n".join(prefix + line for line in table(layout, tool, driver, devices, busy).splitlines())
    found = read(f"[root@host ~]# npu-smi info\n{text}")
    assert (found.tool_version, found.driver_version) == (tool, driver)
    assert list(found.devices) == devices
    assert [(process.npu, process.pid, process.name) for process in found.processes] == [
        (busy[0], 4000 + busy[0], "python")
    ]
    assert not found.failures


@given(host=hosts(), cut=st.integers(0, 4000))
def test_a_truncated_table_gives_its_complete_devices(host: tuple[Layout, list[Npu]], cut: int) -> None:
    layout, devices = host
    found = read(table(layout, "24.1.rc3", "24.1.rc3", devices)[:cut])
    assert len(found.devices) <= len(devices)
    for have, true in zip(found.devices[:-1], devices, strict=False):
        assert have == true, "only the last device can be incomplete"


@given(host=hosts(), seed=st.randoms(use_true_random=False), noise=st.text(max_size=20))
def test_garbled_text_raises_nothing(host: tuple[Layout, list[Npu]], seed: object, noise: str) -> None:
    lines = table(host[0], "24.1.rc3", "24.1.rc3", host[1]).splitlines()
    seed.shuffle(lines)  # type: ignore[attr-defined]
    read(noise.join(lines))


@given(st.text())
def test_any_text_raises_nothing(text: str) -> None:
    read(text)
    board(text)


@pytest.mark.parametrize(
    "text",
    [
        "dcmi model initialized failed, because the device is used. ret is -8020",
        "DrvMngGetConsoleLogLevel failed. (g_conLogLevel=3)\ndcmi module initialize failed. ret is -8005",
        "bash: npu-smi: command not found",
    ],
)
def test_failures_are_kept(text: str) -> None:
    found = read(text)
    assert found.devices == () and found.failures == tuple(text.splitlines())


def test_one_value_of_one_device() -> None:
    found = read("npu-smi info -i 3 -c 1 -t health\n\tHealth Status                  : Alarm\n")
    assert [(device.npu, device.chip, device.health) for device in found.devices] == [(3, 1, "Alarm")]
    fields = board("\tNPU ID                         : 0\n\tProduct Name  : IT21DMDA\n\tSoftware Version : 24.1.rc3\n")
    assert fields == {"npu id": "0", "product name": "IT21DMDA", "software version": "24.1.rc3"}


def test_hbm_counts_before_ddr() -> None:
    devices = [Npu(0, 0, None, "910A", "OK", "0000:61:00.0", 32768, "hbm")]
    text = table(LAYOUTS["910"], "23.0.5", "23.0.5", devices).replace("0    / 0          0", "920  / 13553      0")
    assert read(text).devices[0].memory_total_mb == 32768
    none = text.replace("/ 32768", "/ 0    ")
    assert (read(none).devices[0].memory_total_mb, read(none).devices[0].memory_kind) == (13553, "ddr")


@pytest.mark.parametrize("sample", samples("npu-smi"), ids=lambda sample: sample.name)
def test_real_samples(sample: Sample) -> None:
    truth, found = sample.truth, read(sample.text)
    first = found.devices[0] if found.devices else Npu(0)
    assert len(found.devices) == truth["chips_shown"]
    assert len({device.npu for device in found.devices}) == truth["npus_shown"]
    assert first.name == truth["chip_name"]
    assert (found.tool_version, found.driver_version) == (truth["npu_smi_version"], truth["driver_version"])
    assert first.memory_total_mb == truth["memory_total_mb"]
    if first.bus_id:
        assert first.memory_kind == truth["memory_kind"]
    if truth["health"] == ["ERROR"]:
        assert found.failures
    else:
        assert {device.health for device in found.devices} == set(truth["health"])
