"""A server with NPUs as a folder: device nodes, files of the vendor, settings of the system."""

from __future__ import annotations

from pathlib import Path

from envbuilder.machine.npu_smi import Npu
from tests.helpers.npu_tables import LAYOUTS, table

DRIVER = """\
Version={version}
ascendhal_version=7.35.23
Innerversion=V100R001C18SPC001B251
compatible_version_fw=[7.0.0,7.7.99]
package_version={version}
"""
FIRMWARE = "Version=7.5.0.5.220\ncompatible_version_drv=[24.1.rc3,24.1.rc3.],[25.0.0,25.9.99]\n"
TOOLKIT = """\
package_name=Ascend-cann-toolkit
version=8.3.RC1
innerversion=V100R001C23SPC001B235
arch=aarch64
os=linux
path=/usr/local/Ascend/ascend-toolkit/8.3.RC1/aarch64-linux
"""


def fake_host(root: Path, *, cards: int = 8, driver: str = "25.3.rc1", arch: str = "aarch64") -> Path:
    """Write the files of a server; devices are plain files, and a test removes those that must be missing."""
    files = {
        "etc/os-release": 'PRETTY_NAME="openEuler 22.03 (LTS-SP4)"\n',
        "etc/ascend_install.info": "UserName=HwHiAiUser\nDriver_Install_Path_Param=/usr/local/Ascend\n",
        "proc/sys/kernel/osrelease": "5.10.0-216.0.0.115.oe2203sp4.aarch64\n",
        "proc/sys/kernel/numa_balancing": "1\n",
        "proc/sys/vm/swappiness": "10\n",
        "proc/meminfo": "MemTotal:       1583951872 kB\nHugePages_Total:       0\n",
        "proc/cpuinfo": "processor\t: 0\nmodel name\t: Kunpeng-920\n",
        "usr/local/Ascend/driver/version.info": DRIVER.format(version=driver),
        "usr/local/Ascend/driver/lib64/libascend_hal.so": "",
        "usr/local/Ascend/driver/tools/hccn_tool": "",
        "usr/local/Ascend/firmware/version.info": FIRMWARE,
        "usr/local/Ascend/ascend-toolkit/8.3.RC1/aarch64-linux/ascend_toolkit_install.info": TOOLKIT,
        "usr/local/Ascend/ascend-toolkit/8.3.RC1/version.cfg": "required_driver_ascendhal_version=4.0.0\n",
        "usr/local/dcmi/libdcmi.so": "",
        "usr/local/bin/npu-smi": "",
        "etc/hccn.conf": "",
        **{f"dev/davinci{number}": "" for number in range(cards)},
        **{f"dev/{name}": "" for name in ("davinci_manager", "devmm_svm", "hisi_hdc")},
        **{f"sys/bus/pci/devices/0000:{number:02x}:00.0/vendor": "0x19e5\n" for number in range(cards)},
        **{f"sys/bus/pci/devices/0000:{number:02x}:00.0/class": "0x120000\n" for number in range(cards)},
        **{f"sys/bus/pci/devices/0000:{number:02x}:00.0/device": "0xd802\n" for number in range(cards)},
    }
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    machine = {"aarch64": 0xB7, "x86_64": 0x3E}[arch]
    program = root / "usr/bin/env"
    program.parent.mkdir(parents=True)
    program.write_bytes(b"\x7fELF" + bytes(14) + bytes([machine, 0]))
    return root


def npu_smi_output(chip: str = "910B3", *, cards: int = 8, driver: str = "25.3.rc1", health: str = "OK") -> str:
    """Return the output of npu-smi on such a server."""
    dies = 2 if chip == "Ascend910" else 1
    layout = LAYOUTS["a3" if dies == 2 else "910"]
    devices = [
        Npu(
            card, die, card * dies + die if dies == 2 else None, chip, health, f"0000:{card:02X}:00.{die}", 65536, "hbm"
        )
        for card in range(cards // dies)
        for die in range(dies)
    ]
    return table(layout, driver, driver, devices)


def described_server(root: Path, driver: str, chip: str = "910B3") -> Path:
    """Write the files of a server with its output of npu-smi, as `--machine` reads them."""
    cards = 16 if chip == "Ascend910" else 8
    fake_host(root, driver=driver, cards=cards)
    (root / "npu-smi.txt").write_text(npu_smi_output(chip, driver=driver, cards=cards))
    return root
