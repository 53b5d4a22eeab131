"""Strict loading: problems are refused with their place in the file, all of them at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from envbuilder.errors import MatrixError, UsageError
from envbuilder.matrix import load
from tests.conftest import Edit

ROW = "frameworks/verl/v0.6.0.yaml"


def problems(folder: Path) -> list[str]:
    with pytest.raises(MatrixError) as caught:
        load(folder, everything=True)
    return [
        f"{Path(item.where.file).name}:{item.where.line}:{item.where.column}: {item.message}"
        for item in caught.value.problems
    ]


def only(folder: Path) -> str:
    found = problems(folder)
    assert len(found) == 1, found
    return found[0]


def test_versions_stay_text(edit: Edit) -> None:
    folder = edit(ROW, "version: '3.11'", "version: 3.10")
    branch = load(folder).branch("verl", "v0.6.0")
    assert branch.engines["sglang"].pins["python"].version == "3.10"


def test_a_duplicate_key_names_both_lines(edit: Edit) -> None:
    folder = edit(ROW, "title: verl v0.6.0\n", "title: verl v0.6.0\ntitle: again\n")
    assert only(folder) == "v0.6.0.yaml:2:1: duplicate key 'title'; first at line 1"


def test_an_unknown_key_is_refused_with_the_nearest(edit: Edit) -> None:
    assert "unknown key 'titel'; did you mean 'title'?" in problems(edit(ROW, "title:", "titel:"))[0]


def test_a_missing_key(edit: Edit) -> None:
    assert only(edit(ROW, "date: 2025-10-15\n", "")).endswith("the key 'date' is missing")


def test_all_problems_come_at_once(edit: Edit) -> None:
    edit(ROW, "date: 2025-10-15", "date: yesterday")
    edit(ROW, "version: 8.3.RC1", "version: 8.3 RC1")
    edit("hardware/cpu.yaml", "cpu_only: true", "cpu_only: yes")
    folder = edit("compat/torch.yaml", "heavy: true", "heavy: maybe")
    found = problems(folder)
    assert [line.split(":")[0] for line in found] == ["torch.yaml", "v0.6.0.yaml", "v0.6.0.yaml", "cpu.yaml"]
    assert "'yesterday' is not a date" in found[1]
    assert "'8.3 RC1' is not a version" in found[2]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("title: [verl]", "expected one line of text without control characters, found a list"),
        ("title: &name verl\ndate: *name", "anchors and aliases are not allowed"),
        ("<<: {title: verl}", "merge keys are not allowed"),
        ("title: !!python/object:os.system verl", "the tag tag:yaml.org,2002:python/object:os.system is not allowed"),
        ("title: verl\n---\ntitle: verl", "this is not valid YAML"),
        ("title: 'verl", "this is not valid YAML"),
        ("", "the file is empty"),
        ("- verl", "expected a mapping, found a list"),
        ("? [a, b]\n: verl", "a key must be plain text"),
        ("title: " + "[" * 60 + "]" * 60, "nested more than 40 levels deep"),
        ("title: " + "[" * 5000, "nested more than 40 levels deep"),
        ("title: a\x07b", "this is not valid YAML"),
        ('title: "a\\nb"', "is not one line of text"),
    ],
)  # fmt: skip
def test_yaml_that_is_not_allowed(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "frameworks" / "verl" / "v1.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(text, encoding="utf-8")
    found = problems(tmp_path)
    assert any(message in line for line in found), found
    assert all(line.startswith("v1.yaml:") for line in found)


def test_bytes_that_are_not_utf_8(tmp_path: Path) -> None:
    path = tmp_path / "engines" / "loom.yaml"
    path.parent.mkdir()
    path.write_bytes(b"title: loom\nengine: \xff\n")
    assert only(tmp_path) == "loom.yaml:2:9: this is not UTF-8 text"


@pytest.mark.parametrize(
    ("relative", "old", "new", "message"),
    [
        (ROW, "[a2, a3,", "[a2, a33,", "there is no hardware 'a33'; did you mean 'a3'?"),
        (ROW, "  sglang:\n    hardware", "  sglng:\n    hardware", "there is no engine 'sglng'; did you mean 'sglang'?"),
        (ROW, "when: {family: [a2]}", "when: {family: [a9]}", "there is no chip family 'a9'"),
        (ROW, "source: triton\n", "source: tritn\n", "names the source 'tritn', which the file does not define"),
        (ROW, "        because: sglang v0.5.3rc0 requires it;", "        documented: 4.52.4\n        note: x", "unknown key 'note'"),
        ("hardware/cpu.yaml", "family: none", "family: nothing", "there is no chip family 'nothing'"),
        ("hardware/a3.yaml", "systems: [ubuntu,", "systems: [ubunto,", "there is no operating system 'ubunto'; did you mean 'ubuntu'?"),
        ("matrix.yaml", "hardware: cpu", "hardware: gpu", "there is no hardware 'gpu'"),
        ("compat/verl.yaml", "requires: [accelerate,", "requires: ['accelerate @ https://x/y',", "names an address"),
        ("compat/verl.yaml", "requires: [accelerate,", "requires: ['accelerate ; python >',", "is not a requirement"),
        ("compat/verl.yaml", "repository: https://github.com/verl-project/verl.git\n", "", "a git component needs a 'repository'"),
        ("compat/verl.yaml", "commit: 0758489422e8d41a89e6c36d4c477714520f0dcc", "commit: '0758489'", "is not a full commit"),
        ("compat/torch.yaml", "python: '>=3.9,<3.12'", "python: 3.9-3.11", "is not a version condition"),
    ],
)  # fmt: skip
def test_references(edit: Edit, relative: str, old: str, new: str, message: str) -> None:
    folder = edit(relative, old, new)
    if relative == "matrix.yaml":
        # a folder with that file replaces the built-in matrices, and this one lacks the rest
        with pytest.raises(MatrixError):
            load(folder)
        return
    assert any(message in line for line in problems(folder)), problems(folder)


def test_a_pin_that_differs_from_its_document_needs_a_reason(edit: Edit) -> None:
    folder = edit(ROW, "tensordict: {version: 0.10.0,", "tensordict: {version: 0.11.0,")
    assert "'tensordict' differs from the documented version; give the reason with 'because'" in only(folder)


def test_a_row_without_its_engine_is_refused(edit: Edit) -> None:
    folder = edit("frameworks/verl/v0.5.0.yaml", "      vllm: {version: v0.7.3, source: document}\n", "")
    assert "no pin for 'vllm'" in only(folder)


def test_a_file_in_an_unknown_folder(tmp_path: Path) -> None:
    (tmp_path / "hardwear").mkdir()
    (tmp_path / "hardwear" / "x.yaml").write_text("title: x\n")
    assert "is not part of the matrix" in only(tmp_path)


def test_a_file_name_that_is_not_lower_case(tmp_path: Path) -> None:
    (tmp_path / "hardware").mkdir()
    (tmp_path / "hardware" / "Atlas 900.yaml").write_text("title: x\n")
    assert "'Atlas 900' is not a lower-case name" in only(tmp_path)


def test_a_missing_and_an_empty_folder(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not exist"):
        load(tmp_path / "nowhere")
    with pytest.raises(UsageError, match="contains no YAML"):
        load(tmp_path)


def test_an_overlay_changes_nothing_else(edit: Edit) -> None:
    folder = edit("hardware/cpu.yaml", "title: CPU environment", "title: Another")
    overlaid = load(folder)
    assert overlaid.hardware["cpu"].title == "Another"
    assert overlaid.hardware["a3"] == load().hardware["a3"]
