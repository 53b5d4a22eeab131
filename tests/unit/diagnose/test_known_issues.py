"""Known issues of rows are found in reports by their messages."""

from __future__ import annotations

import pytest

from envbuilder.diagnose.judge import diagnose
from envbuilder.diagnose.known_issues import CODE, issues_with_messages
from envbuilder.environment import Catalog
from envbuilder.errors import MatrixError
from envbuilder.matrix import Matrix, load
from tests.conftest import Edit

# for every known issue with messages: its release, and lines that show it
SHOWN = [
    ("v0.9.0", 'File "/w/verl/checkpoint_engine/hccl_checkpoint_engine.py", line 93, in _run\n    self.pyhccl.broadcast(x)'),
    ("v0.9.0", "ray::CheckpointEngineWorker.update_weights()\nRuntimeError: HCCL call failed with error code 5"),
    ("v0.9.0", "we see an HCCL error whenever it updates weights"),
    ("v0.7.1", "CalledProcessError: Command '['npu-smi', 'info', '-t', 'board', '-i', '1']' returned non-zero exit status 215."),
    ("v0.7.1", "npu-smi info -t board -i 1 exits 215"),
    ("v0.8.0", "RuntimeError: Failed to execute npu-smi command: Command returned an error"),
    ("v0.9.1", 'File "/w/verl/utils/device.py", line 197, in get_npu_versions'),
    ("v0.9.1", "Accessing `FooImageProcessor` from `.models.foo.image_processing_foo`. Returning another"),
    ("v0.9.0", "ModuleNotFoundError: No module named 'megatron.bridge'"),
    ("v0.9.1", "Megatron-Bridge package not found. Please install it"),
    ("v0.7.0", "ValueError: FRACTAL_NZ mode is enabled. Set VLLM_ASCEND_ENABLE_NZ=0."),
    ("v0.6.0", 'File "/sgl/python/sglang/srt/patch_torch.py", line 7\nAttributeError: no attribute uuid'),
    ("v0.3.0", "ValueError: strategy deepspeed_train not found"),
    ("v0.3.0", "AssertionError: ROLL does not support using ray distributed executor with vllm version 0.13.0"),
]  # fmt: skip
OTHER = [
    'File "/w/verl/checkpoint_engine/hccl_checkpoint_engine.py", line 20, in <module>',
    "CheckpointEngineWorker.update_weights() took 3 s",
    "$ npu-smi info -t board -i 1\n\tSoftware Version : 25.3.rc1",
    "npu-smi info shows eight cards",
]


@pytest.mark.parametrize(("branch", "text"), SHOWN)
def test_a_known_issue_is_found_by_its_messages(matrix: Matrix, branch: str, text: str) -> None:
    shown = [issue for issue, _ in issues_with_messages(Catalog(matrix)) if issue.place_in(text) is not None]
    assert len(shown) == 1, [issue.what for issue in shown]
    rows = next(rows for issue, rows in issues_with_messages(Catalog(matrix)) if issue is shown[0])
    assert branch in {row.coordinates.branch for row in rows}


def test_every_known_issue_with_messages_has_an_example(matrix: Matrix) -> None:
    for issue, _ in issues_with_messages(Catalog(matrix)):
        assert any(issue.place_in(text) is not None for _, text in SHOWN), issue.what


@pytest.mark.parametrize("text", OTHER)
def test_similar_text_shows_no_known_issue(matrix: Matrix, text: str) -> None:
    assert CODE not in {item.code for item in diagnose(Catalog(matrix), text).findings}


@pytest.mark.parametrize(
    ("version", "severity"), [("verl==0.9.0\n", "error"), ("", "warning"), ("verl==0.9.1\n", None)]
)
def test_the_release_of_a_report_decides(matrix: Matrix, version: str, severity: str | None) -> None:
    """Without a release the issue is only likely; v0.9.1 has the repair."""
    text = f"{version}{SHOWN[0][1]}\nRuntimeError: HCCL function error"
    found = [item for item in diagnose(Catalog(matrix), text).findings if item.code == CODE]
    assert [item.severity for item in found] == ([severity] if severity else [])
    assert all("verl v0.9.0" in str(item.message) and "v0.9.1 has the repair" in str(item.hint) for item in found)


def test_messages_are_regular_expressions(edit: Edit) -> None:
    folder = edit("frameworks/verl/v0.7.0.yaml", "FRACTAL_NZ mode is enabled", "'FRACTAL_(NZ'")
    with pytest.raises(MatrixError, match="is not a regular expression"):
        load(folder)
