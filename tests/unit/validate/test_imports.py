"""Imports of modules: each fails alone, is named, and finds nothing that another one has imported."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import Mock

import pytest

from envbuilder.matrix import load
from envbuilder.matrix.model import CPU, NPU, Device
from envbuilder.validate.expected import expected, plan_of
from envbuilder.validate.imports import import_modules
from envbuilder.validate.report import Check
from envbuilder.validate.target import OnHost
from tests.conftest import A3_SGLANG, environment

MODULES = {
    # it writes a line for each process that imports it
    "torch": "open(__file__ + '.log', 'a').write('imported\\n')",
    "works": "import torch",
    "loud": "import sys; print('out'); print('err', file=sys.stderr)",
    "brings/__init__": "",
    "brings/part": "",
    "uses_part": "import brings.part",
    # works only where another module has imported the part
    "forgets_part": "import brings; brings.part",
    "raises": "import no_such_module",
    "dies": "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)",
    "fails_at_the_end": "import atexit, os; atexit.register(os._exit, 3)",
    "lacks": "raise ImportError('libhal.so: cannot open shared object file')",
    "busy": "from pathlib import Path; first = Path(__file__ + '.first'); first.exists() or [first.touch(), 1 / 0]",
    "engine": "device = 'cpu'",
    "of_the_run": "import os; os.environ['OF_THE_RUN']",
    "changes": "import builtins; builtins.CHANGED = True",
    # works only where the run has changed something first
    "is_changed": "CHANGED",
}


USED = ("changes", "of_the_run", "is_changed")


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "modules"
    (folder / "brings").mkdir(parents=True)
    for name, text in MODULES.items():
        (folder / f"{name}.py").write_text(text)
    monkeypatch.setenv("PYTHONPATH", str(folder))
    return folder


def imported(folder: Path, device: Device, *names: str) -> dict[str, Check]:
    row = environment(load(everything=True), A3_SGLANG)
    wanted = expected(row, plan_of(row, {}), {}, device, {"OF_THE_RUN": "yes"}, is_image=True)
    changed = {
        "modules": names, "used": USED, "first": ("changes",), "libraries": {"libhal.so": "the driver"},
        "devices": {"engine:device": "npu"},
    }  # fmt: skip
    target = OnHost(folder.parent)
    checks = import_modules(target, type(wanted)(**{**wanted.__dict__, **changed}), device, folder / "log", Mock())
    return {check.name: check for check in checks}


def test_each_module_fails_alone(modules: Path) -> None:
    names = [name for name in MODULES if "/" not in name and name not in {"engine", *USED}]
    found = imported(modules, CPU, *names)
    assert found.keys() == {
        *(f"import {name}" for name in names), "device of the engine engine:device", *(f"import {name}" for name in USED),
    }  # fmt: skip
    failed = {name: check.message for name, check in found.items() if check.status == "failed"}
    assert failed == {
        "import forgets_part": "AttributeError: module 'brings' has no attribute 'part'",
        "import raises": "ModuleNotFoundError: No module named 'no_such_module'",
        "import dies": "it was killed by SIGSEGV: it printed nothing",
        "import fails_at_the_end": "it ended with code 3",
        "device of the engine engine:device": (
            "engine:device is 'cpu', and not 'npu': the plugin of the engine is not found"
        ),
    }
    assert found["import lacks"].status == "not-checked"
    assert found["import lacks"].message == "needs the driver: libhal.so is missing"
    assert found["import busy"].status == "passed", "a module that fails beside others is tried once more"
    assert (modules / "torch.py.log").read_text().count("\n") == 2, "once for each set of variables"


def test_processes_on_an_npu_share_nothing(modules: Path) -> None:
    found = imported(modules, NPU, "torch", "works")
    assert found["import works"].status == found["import is_changed"].status == "passed"
    assert (modules / "torch.py.log").read_text().count("\n") == 2, "once for each module"


def test_a_torch_that_cannot_be_imported_is_named(modules: Path) -> None:
    (modules / "torch.py").write_text("raise ImportError('libtorch.so')")
    found = imported(modules, CPU, "torch", "works", "loud")
    assert found["import torch"].message == found["import works"].message == "ImportError: libtorch.so"
    assert found["import loud"].status == "passed"


def test_half_of_a_module_hides_no_error(modules: Path) -> None:
    half = (
        "import builtins\nif hasattr(builtins, 'HALF'): raise RuntimeError('registered twice')\nbuiltins.HALF = True\n"
    )
    (modules / "torch.py").write_text(half + MODULES["raises"])
    found = imported(modules, CPU, "torch", "works", "loud")
    missing = "ModuleNotFoundError: No module named 'no_such_module'"
    assert found["import torch"].message == found["import works"].message == missing
    assert found["import loud"].status == "passed"


def test_a_script_that_dies_is_a_failure(modules: Path) -> None:
    (modules / "torch.py").write_text(MODULES["dies"])
    found = imported(modules, CPU, "loud")
    assert "was killed by signal 11" in found["process"].message and found["process"].status == "failed"
