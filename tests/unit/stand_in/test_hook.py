"""What a rehearsal changes in packages when they are imported; the packages here are the parts that it looks at."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from envbuilder.stand_in import HOOK, INSIDE

TORCH = {
    "torch/__init__.py": "from .version import cuda\nfrom . import version\n",
    "torch/version.py": "cuda = '12.8'\n__version__ = '2.8.0'\n",
}
TRITON = {
    "triton/__init__.py": "from . import backends\n",
    "triton/backends/__init__.py": (
        "from collections import namedtuple\nfrom .compiler import Compiler\n"
        "Backend = namedtuple('Backend', 'compiler driver')\nbackends = {NAME: Backend(Compiler, None)}\n"
    ),
    "triton/backends/compiler.py": (
        "from collections import namedtuple\nGPUTarget = namedtuple('GPUTarget', 'backend arch warp_size')\n"
        "class Compiler: __module__ = 'triton.backends.nvidia.compiler'\n"
    ),
    "triton/backends/driver.py": "class DriverBase: pass\n",
    "triton/language/__init__.py": "from . import extra\n",
    "triton/language/extra/__init__.py": "",
}
LOOK = """
import os, triton
from triton.backends import backends
[driver] = [item.driver for item in backends.values()]
if driver is None:
    print(*backends, os.environ.get("TRITON_INTERPRET"))
else:
    print(*backends, driver.is_active(), driver().get_current_target().backend, os.environ["TRITON_INTERPRET"])
"""


def shown(folder: Path, files: dict[str, str], code: str) -> str:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    variables = {**os.environ, "PYTHONPATH": f"{INSIDE / HOOK}:{folder}"}
    command = [sys.executable, "-c", code]
    return subprocess.run(command, env=variables, capture_output=True, text=True, check=True).stdout


def test_torch_of_the_package_index_looks_as_built_without_cuda(tmp_path: Path) -> None:
    code = "import torch; print(torch.cuda, torch.version.cuda, torch.version.__version__)"
    assert shown(tmp_path, TORCH, code) == "None None 2.8.0\n"


@pytest.mark.parametrize(("name", "wanted"), [("nvidia", "ascend True npu 1\n"), ("ascend", "ascend None\n")])
def test_triton_without_triton_ascend_gets_a_driver(tmp_path: Path, name: str, wanted: str) -> None:
    files = {
        **TRITON,
        "triton/backends/__init__.py": TRITON["triton/backends/__init__.py"].replace("NAME", f"'{name}'"),
    }
    assert shown(tmp_path, files, LOOK) == wanted


def test_triton_without_triton_ascend_names_an_operator_that_is_called(tmp_path: Path) -> None:
    code = """
from triton.language.extra.cann.extension import insert_slice
try:
    insert_slice(1, 2)
except NotImplementedError as error:
    print(error)
"""
    files = {**TRITON, "triton/__init__.py": ""}
    assert shown(tmp_path, files, code) == "stand-in of CANN: insert_slice of triton-ascend\n"
    there = {
        "triton/language/extra/cann/__init__.py": "",
        "triton/language/extra/cann/extension.py": "insert_slice = print",
    }
    assert shown(tmp_path, {**files, **there}, code) == "1 2\n"
