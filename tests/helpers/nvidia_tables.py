"""Tables as nvidia-smi prints them."""

_ROW = """\
|   {number}  {name:<27}    On |   00000000:{bus:02X}:00.0 Off |                    0 |
| N/A   31C    P0             75W /  700W |       4MiB / {memory:>7}MiB |      0%      Default |
|                                         |                        |             Disabled |
+-----------------------------------------+------------------------+----------------------+
"""
_TABLE = """\
Thu Nov 19 10:00:00 2026
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI {driver:<22} Driver Version: {driver:<14} CUDA Version: {cuda:<8} |
|-----------------------------------------+------------------------+----------------------+
| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |
| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |
|                                         |                        |               MIG M. |
|=========================================+========================+======================|
"""


def nvidia_smi_output(
    name: str = "NVIDIA H200", *, gpus: int = 2, driver: str = "570.86.15", cuda: str = "12.8", memory: int = 143771
) -> str:
    rows = (_ROW.format(number=number, name=name, bus=0x10 + number, memory=memory) for number in range(gpus))
    return _TABLE.format(driver=driver, cuda=cuda) + "".join(rows)
