"""Imports between source trees: the mistakes that the rule finds, and correct code that it accepts."""

from __future__ import annotations

import tarfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from envbuilder.check import Finding, SourceTree, check_environment
from envbuilder.check.source_tree import SourceModule
from envbuilder.inputs import source_trees
from envbuilder.inputs.source_archives import SourceOptions
from envbuilder.lock.index import Index
from envbuilder.matrix import Matrix
from envbuilder.plan import SourceArchive
from tests.conftest import A3_SGLANG, environment

CPU_SGLANG = "verl-v0.6.0-sglang-cpu-aarch64"
ROLLOUT = "verl.workers.rollout.sglang_rollout.sglang_rollout"
UTILS = "sglang.srt.utils"


def found(matrix: Matrix, code: Mapping[str, str], identifier: str = A3_SGLANG) -> list[Finding]:
    """Return the findings if these modules have this code and all others that the row uses are empty."""
    row = environment(matrix, identifier)
    folders = {
        folder.rpartition("/")[2]: (name, folder)
        for name in row.pins
        if (component := row.component(name))
        for folder in component.packages
    }
    files: dict[str, dict[str, bytes]] = {name: {} for name, _ in folders.values()}
    for module in {*row.used_modules().modules, *code}:
        owner, folder = folders[module.partition(".")[0]]
        inner = module.partition(".")[2].replace(".", "/")
        path = f"{folder}/{inner}.py" if inner else f"{folder}/__init__.py"
        files[owner][path] = code.get(module, "").encode()
    trees = {
        name: SourceTree(tree, component.packages) for name, tree in files.items() if (component := row.component(name))
    }
    return [item for item in check_environment(row, trees=trees) if item.code == "import-missing"]


@pytest.mark.parametrize(
    ("importer", "provider", "severity"),
    [
        (f"from {UTILS} import get_ip", "def get_port(): ...", "error"),
        (f"from {UTILS} import get_ip", "def get_ip(): ...", None),
        (f"from {UTILS} import get_ip", "try:\n    from socket import gethostname as get_ip\nexcept ImportError:\n    pass", None),
        (f"from {UTILS} import get_ip", "def __getattr__(name): ...", None),
        (f"from {UTILS} import get_ip", "a syntax of tomorrow", None),
        (f"from {UTILS} import get_ip", "class Lazy:\n    def __getattr__(self, name): ...", "error"),
        (f"from {UTILS} import *", "", None),
        ("from sglang.srt import utils", "", None),
        ("import sglang.srt.network", "", "error"),
        ("import torch.nonsense", "", None),
        (f"class Rollout:\n    from {UTILS} import get_ip", "", "error"),
        (f"def rollout():\n    from {UTILS} import get_ip", "", "info"),
        (f"try:\n    from {UTILS} import get_ip\nexcept ImportError:\n    get_ip = None", "", "info"),
        (f"if version > '0.5':\n    from {UTILS} import get_ip", "", "info"),
        (f"if TYPE_CHECKING:\n    from {UTILS} import get_ip", "", None),
        (f"if _is_npu:\n    from {UTILS} import get_ip", "", "error"),
        (f"if is_npu_available():\n    pass\nelse:\n    from {UTILS} import get_ip", "", None),
        (f"if not is_npu():\n    from {UTILS} import get_ip", "", None),
        (f"if _is_cuda or torch.is_hip():\n    from {UTILS} import get_ip", "", None),
        (f"if _is_cuda:\n    pass\nelse:\n    from {UTILS} import get_ip", "", "error"),
        (f"if _is_npu and fast:\n    from {UTILS} import get_ip", "", "info"),
    ],
)  # fmt: skip
def test_one_import(matrix: Matrix, importer: str, provider: str, severity: str | None) -> None:
    findings = found(matrix, {ROLLOUT: importer, UTILS: provider})
    assert [item.severity for item in findings] == ([severity] if severity else [])


def test_the_message_names_both_releases_and_the_line(matrix: Matrix) -> None:
    (finding,) = found(matrix, {ROLLOUT: f"import os\nfrom {UTILS} import get_ip", UTILS: ""})
    row = environment(matrix, A3_SGLANG)
    verl, sglang = row.version("verl"), row.version("sglang")
    assert finding.message == f"verl {verl} imports get_ip of {UTILS}, which SGLang {sglang} does not have"
    assert "verl/workers/rollout/sglang_rollout/sglang_rollout.py:2" in str(finding.hint)


def test_hardware_without_an_npu_takes_the_other_branch(matrix: Matrix) -> None:
    code = {
        ROLLOUT: f"if is_npu():\n    from {UTILS} import get_ip\nelse:\n    from {UTILS} import get_port",
        UTILS: "",
    }
    assert ["get_port" in item.message for item in found(matrix, code, CPU_SGLANG)] == [True]


def test_a_name_may_come_from_a_module_that_is_imported_wholly(matrix: Matrix) -> None:
    code = {ROLLOUT: f"from {UTILS} import get_ip", UTILS: "from .common import *", "sglang.srt.common": "get_ip = 1"}
    assert found(matrix, code) == []
    assert [item.severity for item in found(matrix, {**code, "sglang.srt.common": "get_port = 1"})] == ["error"]


def test_only_modules_that_the_row_uses_count(matrix: Matrix) -> None:
    broken = {"verl.recipes.other": f"from {UTILS} import get_ip", UTILS: ""}
    assert found(matrix, broken) == []
    assert [item.severity for item in found(matrix, {**broken, ROLLOUT: "import verl.recipes.other"})] == ["error"]
    assert found(matrix, {**broken, ROLLOUT: "def lazy():\n    import verl.recipes.other"}) == []


def test_a_model_that_cannot_be_imported_is_a_warning(matrix: Matrix) -> None:
    code = {"sglang.srt.models.deepseek": "from sgl_kernel_npu.norm import fused", "sgl_kernel_npu.norm": ""}
    assert [item.severity for item in found(matrix, code)] == ["warning"]


def test_a_used_module_that_the_source_lacks(matrix: Matrix) -> None:
    row = environment(matrix, A3_SGLANG)
    trees = {"verl": SourceTree({"verl/__init__.py": b""}, ("verl",))}
    lacking = [item.message for item in check_environment(row, trees=trees) if item.code == "import-missing"]
    used = [name for name in row.used_modules().modules if name.startswith("verl.")]
    assert lacking == [f"verl {row.version('verl')} has no module {name}, which the row uses" for name in used]


def test_relative_imports_of_a_package_and_of_a_module() -> None:
    text = b"from . import a\nfrom ..b import c"
    package = SourceModule("x.y", "x/y/__init__.py", text).imports(on_npu=True)
    module = SourceModule("x.y.z", "x/y/z.py", text).imports(on_npu=True)
    assert [item.module for item in package] == ["x.y", "x.b"]
    assert [item.module for item in module] == ["x.y", "x.b"]


def test_trees_are_read_from_archives_of_both_kinds(
    matrix: Matrix, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A source archive of the index has one folder at the top, and may contain a part of the repository."""
    (tmp_path / "sglang-0.5/sglang").mkdir(parents=True)
    (tmp_path / "sglang-0.5/sglang/utils.py").write_text("get_ip = 1", encoding="utf-8")
    (tmp_path / "sglang-0.5/setup.py").touch()
    with tarfile.open(tmp_path / "a.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "sglang-0.5", "sglang-0.5")
    source = SourceArchive("sglang", "sdist", "0.5", tmp_path / "a.tar.gz", "", 1, "python")
    assert dict(source_trees._python_files(source, ("python/sglang",))) == {"python/sglang/utils.py": b"get_ip = 1"}
    monkeypatch.setattr(source_trees, "obtain_published", lambda *_: source)
    trees = source_trees.SourceTrees(SourceOptions("sdist", Index("http://localhost")), lambda _: None)
    row = environment(matrix, A3_SGLANG)
    assert trees.read([row]) == []
    assert set(trees.of(row)["sglang"].modules) == {"sglang.utils"}
