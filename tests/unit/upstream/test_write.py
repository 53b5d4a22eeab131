"""The files of a draft: valid, complete, and all of them or none."""

from __future__ import annotations

from pathlib import Path

import pytest

from envbuilder.check import check_matrix
from envbuilder.errors import MatrixError
from envbuilder.matrix import Matrix, load
from envbuilder.upstream.draft import Sources, draft
from envbuilder.upstream.entries import NewEntry, new_entries
from envbuilder.upstream.readers import RowTarget
from envbuilder.upstream.row import row_text
from envbuilder.upstream.write import texts, with_entry, write
from tests.helpers.upstream import ENGINE_TAG, INDEX, PLUGIN_TAG, TAG, mirror


@pytest.fixture
def files(matrix: Matrix, tmp_path: Path) -> dict[str, str]:
    sources = Sources(INDEX, str(mirror(tmp_path / "mirror")), tmp_path / "kept")
    drafts = [draft(matrix, RowTarget("verl", TAG, "vllm", "a2"), sources, {})]
    return texts(matrix, drafts, row_text(matrix, drafts, {"vllm": ("a2", "a3")}))


def test_a_draft_is_a_row_that_check_refuses(files: dict[str, str], tmp_path: Path) -> None:
    folder = tmp_path / "overlay"
    write(folder, files)
    matrix = load(folder, everything=True)
    branch = matrix.branch("verl", TAG)
    assert branch.status == "draft"
    found = {item.message for item in check_matrix(matrix) if item.code == "draft"}
    assert found == {
        f"verl {TAG} is a draft", "transformers 4.57.6 is guessed", "tensordict 0.10.0 is guessed",
        "ray 2.48.0 is guessed", "opencv_python_headless 4.11.0.86 is guessed",
    }  # fmt: skip


def test_each_pin_has_its_source_and_what_contradicts_it(files: dict[str, str]) -> None:
    row = files[f"frameworks/verl/{TAG}.yaml"]
    (at,) = [number for number, line in enumerate(row.splitlines()) if line.startswith("      transformers:")]
    above, line = row.splitlines()[at - 1 : at + 1]
    assert above.startswith("      # document says 5.3.0 (verl-project/verl@")
    assert "source: engine, documented: 5.3.0, because: 'the newest release until 2026-09-11 of" in line
    assert line.endswith("draft: guessed}  # line 1")
    assert "  engine: 'vllm-project/vllm@" in row


def test_missing_entries_of_the_tables_are_written(files: dict[str, str], tmp_path: Path) -> None:
    folder = tmp_path / "overlay"
    write(folder, files)
    components = load(folder, everything=True).components
    plugin = components["vllm_ascend"].release(PLUGIN_TAG)
    assert plugin is not None
    assert plugin.commit is not None
    assert plugin.date == "2026-09-01"
    assert dict(plugin.paired)["vllm"] == (ENGINE_TAG,)
    assert dict(plugin.paired)["cann"] == ("9.0.0",)
    assert plugin.requires == ("torch-npu==2.9.0.post2", "torch==2.9.0", "transformers>=4.57.4")
    framework = components["verl"].release(TAG)
    assert framework is not None
    assert framework.python == ">=3.10"
    assert "ray[default]>=2.41.0" in framework.requires
    assert "torch==2.4.0" not in framework.requires
    # what no file states is left to a person
    assert "TODO" in str(plugin.note)


def test_a_requirement_that_does_not_bind_is_left_out_where_a_pin_contradicts_it(
    matrix: Matrix, tmp_path: Path
) -> None:
    folder = mirror(tmp_path / "mirror", {"requirements-npu.txt": "torch==2.7.1\npeft>=0.15\ntransformers>=1\n"})
    sources = Sources(INDEX, str(folder), tmp_path / "kept")
    drafted = draft(matrix, RowTarget("verl", TAG, "vllm", "a2"), sources, {})
    (entry,) = [item for item in new_entries(drafted) if item.component == "verl"]
    assert "peft>=0.15, transformers>=1" in entry.text
    assert "torch==" not in entry.text


def test_nothing_is_written_if_the_files_are_not_valid(files: dict[str, str], tmp_path: Path) -> None:
    folder = tmp_path / "overlay"
    broken = files | {f"frameworks/verl/{TAG}.yaml": "title: x\nunknown: y\n"}
    with pytest.raises(MatrixError):
        write(folder, broken)
    assert not folder.exists()


def test_an_entry_stands_in_the_order_of_versions_and_replaces_its_candidate() -> None:
    table = "releases:\n- version: '1.0'\n  commit: a\n- {version: '1.1', status: candidate}\n- {version: '2.0'}\n"
    entry = NewEntry("x", "1.1", "- {version: '1.1', commit: b}\n")
    assert with_entry(table, entry).splitlines()[3] == "- {version: '1.1', commit: b}"
    assert "candidate" not in with_entry(table, entry)
    assert with_entry("title: x\nreleases: []\n", entry) == f"title: x\nreleases:\n{entry.text}"
    later = NewEntry("x", "1.5", "- {version: '1.5'}\n")
    assert with_entry(table, later).splitlines()[-2:] == ["- {version: '1.5'}", "- {version: '2.0'}"]
