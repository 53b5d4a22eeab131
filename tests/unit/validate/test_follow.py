"""The end of a script of the smoke run, explained from its log."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from envbuilder.process import run
from envbuilder.validate import smoke
from envbuilder.validate.follow import Ended

LOG = """
(EngineCore) AssertionError: the installed kernels are for another chip
    raise RuntimeError(
RuntimeError: Engine core initialization failed. See root cause above.
"""


@pytest.mark.parametrize(
    ("code", "text", "limit", "words"),
    [
        (0, LOG, None, "the trainer ended without an error"),
        (
            1,
            LOG,
            None,
            "the trainer ended with code 1: (EngineCore) AssertionError: the installed kernels are for another",
        ),
        (1, "some line\n", None, "the trainer ended with code 1: some line"),
        (1, "", None, "the trainer ended with code 1: it printed nothing"),
        (137, "", None, "the trainer was killed by signal 9"),
        (-9, "", None, "the trainer was killed by signal 9"),
        (137, "", 120.0, "the trainer was stopped after 2 minutes"),
    ],
)
def test_the_message_names_the_cause(code: int, text: str, limit: float | None, words: str) -> None:
    verdict = Ended(code, text, limit).verdict("trainer")
    assert verdict.message.startswith(words)
    assert verdict.passed == (code == 0)


RAY = """
import pathlib, types

class RayActorError(Exception): pass

exceptions = types.SimpleNamespace(RayActorError=RayActorError)
node = types.SimpleNamespace(get_logs_dir_path=lambda: pathlib.Path(__file__).parent / "logs")
_private = types.SimpleNamespace(worker=types.SimpleNamespace(_global_node=node))
init = shutdown = lambda **settings: None
is_initialized = lambda: False
"""


@pytest.fixture
def job(tmp_path: Path) -> list[str]:
    """Return the command of a smoke run whose trainer is `trainer.py` in the same folder."""
    shutil.copy(Path(smoke.__file__).parent / "inside" / "train.py", tmp_path)
    (tmp_path / "assets.py").write_text("make_assets = lambda folder: None\n")
    (tmp_path / "ray.py").write_text(RAY)
    empty: dict[str, object] = {
        key: {} for key in ("variables", "unset", "assets", "cpus", "resources", "gpus", "arguments")
    }
    (tmp_path / "job.json").write_text(json.dumps({"trainer": "trainer", "folder": str(tmp_path), **empty}))
    return [sys.executable, str(tmp_path / "train.py"), str(tmp_path / "job.json")]


def test_the_log_of_a_dead_worker_names_the_cause(tmp_path: Path, job: list[str]) -> None:
    """Ray reports that a worker died; the reason is in the log of the worker."""
    died = "The actor died.\\n\\tpid: 674\\n\\tname: WorkerDict_0:0"
    (tmp_path / "trainer.py").write_text(f"import ray\nraise ray.exceptions.RayActorError('{died}')\n")
    logs = tmp_path / "logs"
    logs.mkdir()
    (logs / "worker-0a-01-674.err").write_text("loading\nRuntimeError: no kernel for this chip\n")
    (logs / "worker-0b-01-1674.err").write_text("RuntimeError: of another worker\n")
    ended = run(job)
    assert ended.code == 1
    verdict = Ended(ended.code, ended.error_text, None).verdict("trainer")
    assert verdict.message == "the trainer ended with code 1: RuntimeError: no kernel for this chip"


def test_errors_do_not_split_the_lines_of_steps(
    tmp_path: Path, job: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
    trainer = (
        "import sys\nfor step in range(9):\n    print(f'step:{step} ' + 'x' * 3000)\n    print('!', file=sys.stderr)\n"
    )
    (tmp_path / "trainer.py").write_text(trainer)
    text = subprocess.run(job, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=True).stdout
    assert text.splitlines() == [line for step in range(9) for line in (f"step:{step} {'x' * 3000}", "!")]
