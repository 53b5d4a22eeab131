"""Releases, hardware and engines are data: no code or template contains their names, and invented ones work."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from envbuilder.check import check_environment
from envbuilder.environment import Filters, resolve
from envbuilder.environment.select import pick
from envbuilder.matrix import Matrix, load
from envbuilder.plan import make_plan
from envbuilder.render import FORMATS

ROOT = Path(__file__).resolve().parents[2]
WORD = re.compile(r"[A-Za-z0-9_.+-]+")


# these files name the kinds of device "cpu" and "cuda", which are also the names of hardware without NPUs
DEVICE_FILES = (
    "check/source_tree.py",
    "matrix/model/scalars.py",
    "validate/smoke/inside/cpu/patch_sglang.py",
    "validate/smoke/inside/cpu/patch_verl.py",
    "validate/smoke/inside/cpu/platform_cpu.py",
    "stand_in/inside/hook/host_kernels.py",
)
DEVICES = {ROOT / "envbuilder" / path: {"cpu", "cuda"} for path in DEVICE_FILES}


def forbidden(matrix: Matrix) -> set[str]:
    names = {*matrix.hardware, *matrix.engines, *matrix.frameworks}
    names |= {name for hardware in matrix.hardware.values() for name in (*hardware.aliases, *hardware.products)}
    versions = {release.version for component in matrix.components.values() for release in component.releases}
    versions |= {branch.name for branch in matrix.branches}
    # a bare number such as 3.9 may be something else than a version
    return names | {version for version in versions if version.count(".") > 1 or re.search(r"[a-z].*\d", version)}


def literals(path: Path) -> Iterator[tuple[int, str]]:
    """Yield line and text of the string constants of a module, without its docstrings."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node.lineno, node.value


def found_in(text: str, names: set[str]) -> set[str]:
    return set(WORD.findall(text)) & names


def test_no_name_or_version_of_the_matrices_in_code(matrix: Matrix) -> None:
    names = forbidden(matrix)
    found = [
        f"{path.relative_to(ROOT)}:{line}: {sorted(hit)}"
        for path in sorted((ROOT / "envbuilder").rglob("*.py"))
        for line, text in literals(path)
        if not (path in DEVICES and text in DEVICES[path]) and (hit := found_in(text, names))
    ]
    assert found == []


def test_no_name_or_version_of_the_matrices_in_templates(matrix: Matrix) -> None:
    names = forbidden(matrix)
    for path in sorted((ROOT / "templates").rglob("*.j2")):
        assert not found_in(path.read_text(encoding="utf-8"), names), path


@pytest.mark.parametrize(
    "text", ["vllm", "use sglang here", "atlas-800t-a3", "torch==2.5.1", "v0.6.0", "if hw == 'cpu'"]
)
def test_forbidden_names_are_found(matrix: Matrix, text: str) -> None:
    assert found_in(text.replace("==", " "), forbidden(matrix))


HARDWARE = """
title: Abacus 9000
family: a3
source: example/abacus@1:README.md
provides: [cann, npu]
devices: 4
base: {image: registry.example/abacus, tag: 'beads-${pin.python}'}
image_tag: abacus-py${pin.python}
disk_gb: 5
arches: {x86_64: {}, aarch64: {}}
soc: {loom_npu: ascend910_9391}
"""
COMPONENT = """
title: Loom
kind: git
source: example/loom@1:README.md
repository: https://git.example/loom.git
releases:
- {version: v7.0.0, commit: 1111111111111111111111111111111111111111, requires: ['transformers>=4.50'], paired: {loom_npu: [v7.1.0]}}
"""
PLUGIN = """
title: Loom NPU
kind: git
source: example/loom@1:README.md
repository: https://git.example/loom-npu.git
releases:
- {version: v7.1.0, commit: '2222222222222222222222222222222222222222', paired: {loom: [v7.0.0]}}
"""
ENGINE = """
title: Loom
engine: loom
plugin: loom_npu
system_packages: [git]
layers:
- {title: Loom, component: loom, steps: [{kind: wheel}]}
- title: Loom for NPUs
  component: loom_npu
  needs: [npu]
  steps: [{kind: wheel, with: {env: {LOOM_SOC: '${soc.loom_npu}'}}}]
"""
BRANCH = """
title: verl v9.9.9
date: 2030-01-01
pins: {verl: {version: v0.5.0, source: example/x}}
engines:
  loom:
    hardware: [abacus-9000]
    source: example/x
    pins:
      python: {version: '3.11', source: example/x}
      transformers: {version: 4.52.4, source: example/x}
      loom: {version: v7.0.0, source: example/x}
      loom_npu: {version: v7.1.0, source: example/x}
"""


@pytest.fixture
def invented(tmp_path: Path) -> Path:
    files = {
        "hardware/abacus-9000.yaml": HARDWARE,
        "compat/loom.yaml": COMPONENT,
        "compat/loom_npu.yaml": PLUGIN,
        "engines/loom.yaml": ENGINE,
        "frameworks/verl/v9.9.9.yaml": BRANCH,
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def test_an_invented_hardware_and_engine_render(invented: Path) -> None:
    matrix = load(invented, everything=True)
    coordinates = pick(matrix, filters=Filters(hardware="Abacus 9000"))
    assert coordinates.id == "verl-v9.9.9-loom-abacus-9000-x86_64"
    environment = resolve(matrix, coordinates)
    assert [item for item in check_environment(environment) if item.severity == "error"] == []
    text = FORMATS["dockerfile"](make_plan(environment))
    assert "ARG BASE_IMAGE=registry.example/abacus:beads-3.11\n" in text
    assert "https://git.example/loom.git 1111111111111111111111111111111111111111" in text
    assert "export LOOM_SOC=ascend910_9391" in text
    assert "LOOM_SOC" in FORMATS["script"](make_plan(environment))


def test_an_invented_engine_has_a_cpu_environment(invented: Path) -> None:
    matrix = load(invented)
    planned = make_plan(resolve(matrix, pick(matrix, "verl-v9.9.9-loom-cpu-aarch64")))
    assert [item.title for item in planned.left_out] == ["Loom for NPUs"]


def test_pins_of_a_release_are_in_its_row(matrix: Matrix) -> None:
    """A new release then needs no change of the file that all releases of its framework share."""
    for framework in matrix.frameworks.values():
        assert not framework.pins and not any(item.pins for item in framework.overrides), framework.name


def test_a_new_release_is_one_file(tmp_path: Path, matrix: Matrix) -> None:
    """A release is added by copying a row and changing its pins."""
    source = matrix.files["frameworks/verl/v0.6.0.yaml"].path.read_text(encoding="utf-8")
    target = tmp_path / "frameworks/verl/v99.0.0.yaml"
    target.parent.mkdir(parents=True)
    target.write_text(source.replace("version: v0.6.0", "version: v0.6.1"), encoding="utf-8")
    changed = load(tmp_path, everything=True)
    coordinates = pick(changed, filters=Filters(hardware="atlas-800t-a3", engine="sglang", branch="v99.0.0"))
    text = FORMATS["dockerfile"](make_plan(resolve(changed, coordinates)))
    assert "d62da4950573d7a4b7ef2362337952e7ab59e78d" in text
