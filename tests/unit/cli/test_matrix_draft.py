"""`matrix draft`: writes a row once, and afterwards only says where it differs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from envbuilder.cli import draft as cli_draft
from envbuilder.cli.arguments import IndexArguments, MatrixFolder, PinArguments, Talk
from envbuilder.cli.console import Console
from envbuilder.cli.draft import DraftArguments, try_draft
from envbuilder.errors import EnvbuilderError
from envbuilder.matrix import Matrix
from envbuilder.upstream.draft import Drafted
from envbuilder.upstream.git import names_of
from tests.conftest import Result, run, succeeded
from tests.helpers.upstream import INDEX, TAG, mirror
from tests.helpers.web_server import files

DISTRIBUTIONS = ("transformers", "tensordict", "ray", "torch", "torch-npu", "opencv-python-headless")
Command = Callable[..., Result]


def page(distribution: str) -> str:
    """Return the page of a distribution, with the days of its files."""
    name = distribution.replace("-", "_")
    found = [
        {"filename": f"{name}-{version}-py3-none-any.whl", "url": "/x", "upload-time": f"{day}T00:00:00Z"}
        for version, day in INDEX.days(distribution).items()
    ]
    return json.dumps({"files": found})


@pytest.fixture
def draft(tmp_path: Path) -> Iterator[Command]:
    """Call `matrix draft` for an overlay, with a mirror and an index of this machine."""
    folder, overlay = mirror(tmp_path / "mirror"), tmp_path / "overlay"
    overlay.mkdir()
    with files({f"/simple/{name}/": page(name) for name in DISTRIBUTIONS}) as server:

        def call(*words: str) -> Result:
            own = ("--git-mirror", str(folder), "--index-url", server.url, "--matrices", str(overlay))
            return run("matrix", "draft", *words, *own)

        yield call


def test_a_row_is_written_once_and_then_compared(draft: Command, tmp_path: Path) -> None:
    written = succeeded(draft("verl", TAG, "--engine", "vllm", "--hw", "a2"))
    row = tmp_path / "overlay" / "frameworks" / "verl" / f"{TAG}.yaml"
    assert str(row) in written.stdout
    assert "transformers 4.57.6: guessed" in written.stderr
    text = row.read_text()
    row.write_text(text.replace("tensordict: {version: 0.10.0", "tensordict: {version: 0.8.0"))
    before = row.read_text()
    compared = succeeded(draft("verl", TAG, "--json"))
    (found,) = json.loads(compared.stdout)["differences"]["vllm"]
    assert (found["component"], found["row"], found["draft"], found["status"]) == (
        "tensordict",
        "0.8.0",
        "0.10.0",
        "guessed",
    )
    assert row.read_text() == before


def test_a_cited_file_that_does_not_exist_is_named(draft: Command, tmp_path: Path) -> None:
    succeeded(draft("verl", TAG, "--engine", "vllm", "--hw", "a2"))
    row = tmp_path / "overlay" / "frameworks" / "verl" / f"{TAG}.yaml"
    row.write_text(row.read_text().replace("get_start/install_guidance.rst'", "nowhere.rst'"))
    found = json.loads(succeeded(draft("verl", TAG, "--json")).stdout)["differences"]["vllm"]
    absent = {item["component"] for item in found if item["absent_source"]}
    assert absent == {item["component"] for item in found} > {"torch", "vllm"}
    assert found[0]["absent_source"].endswith(":docs/ascend_tutorial/nowhere.rst")


def test_a_version_by_hand_is_taken_before_all_others(draft: Command) -> None:
    written = succeeded(draft("verl", TAG, "--engine", "vllm", "--pin", "transformers=4.57.1", "--json"))
    pin = json.loads(written.stdout)["pins"][0]["pins"]["transformers"]
    assert (pin["version"], pin["status"]) == ("4.57.1", "stated")
    assert any(text.startswith("plugin asks for >=4.57.4") for text in pin["contradictions"])


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["nothing", TAG], 4, "no framework is named 'nothing'"),
        (["openrlhf", "v1"], 2, "openrlhf has no rules of reading"),
        (["verl", TAG, "--engine", "x"], 4, "there is no engine 'x'"),
        (["verl", TAG, "--hw", "x"], 4, "no hardware with NPUs is named 'x'"),
        (["verl", "v1.2.3"], 4, "the repository of verl has no release v1.2.3"),
        (["verl", TAG, "--try", "--json"], 2, "--try prints the output of several commands"),
        (["verl", "v0.9.0", "--try"], 2, "verl already has a row v0.9.0"),
    ],
)
def test_what_is_refused(draft: Command, tmp_path: Path, words: list[str], code: int, message: str) -> None:
    result = draft(*words)
    assert result.returncode == code, result.stderr
    assert message in result.stderr
    assert list((tmp_path / "overlay").iterdir()) == []


def test_the_tags_of_a_mirror(tmp_path: Path) -> None:
    assert names_of("https://git.example/x/verl.git", str(mirror(tmp_path)), "tags") == [TAG]


def test_what_a_try_runs_where_no_engine_answers(
    tmp_path: Path, matrix: Matrix, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ran: list[str] = []

    def step(console: Console, words: Sequence[str]) -> int:
        ran.append(" ".join(words))
        return {"check": 3, "lock": 7}[words[0]]

    def unresolved(*_: object) -> list[Drafted]:
        raise EnvbuilderError("the index is away")

    monkeypatch.setattr(cli_draft, "_step", step)
    monkeypatch.setattr(cli_draft, "_has_engine", lambda: False)
    monkeypatch.setattr(cli_draft, "resolved", unresolved)
    given = DraftArguments(
        framework="verl", tag=TAG, engine=None, hw=None, pins=PinArguments(), git_mirror="/mirror",
        index=IndexArguments(), matrices=MatrixFolder(matrices=tmp_path), talk=Talk(),
    )  # fmt: skip
    # `check` refuses every draft, so that its code is not that of the command
    assert try_draft(given, tmp_path, matrix, []) == 7
    row = f"verl-{TAG}-* --matrices {tmp_path}"
    assert ran == [f"check {row}", f"check --sources {row} --git-mirror /mirror", f"lock {row}"]
    shown = capsys.readouterr()
    assert "build --rehearse  not run: no engine answers" in shown.out
    assert "the ranges cannot be resolved: the index is away" in shown.err
