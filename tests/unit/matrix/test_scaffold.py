"""The files of a new release: values of the newest row that hold for all, and values of the package index."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from envbuilder.environment import Catalog
from envbuilder.matrix import Matrix, load
from envbuilder.matrix.schema import schema
from tests.conftest import Result, run, succeeded
from tests.helpers.web_server import Server, files

NEW = "v99.0.0"
ARCHIVE = "5" * 64
METADATA = """Metadata-Version: 2.4
Requires-Python: >=3.11
Requires-Dist: transformers>=5.0
Requires-Dist: pytest; extra == "test"
"""


@pytest.fixture
def index() -> Iterator[Server]:
    """Serve an index that has one release of one framework."""
    found = [
        {"filename": "verl-99.0.0.tar.gz", "url": "/verl.tar.gz", "hashes": {"sha256": ARCHIVE}},
        {"filename": "verl-99.0.0-py3-none-any.whl", "url": "/verl.whl", "core-metadata": True},
    ]
    with files({"/simple/verl/": json.dumps({"files": found}), "/verl.whl.metadata": METADATA}) as server:
        yield server


def init(index: Server, folder: Path, framework: str, branch: str = NEW) -> Result:
    return succeeded(run("matrix", "init", framework, branch, "--matrices", str(folder), "--index-url", index.url))


def todos(folder: Path, pattern: str) -> dict[str, str]:
    """Return the message of `check` about each value that is still TODO, by its place."""
    checked = run("check", pattern, "--matrices", str(folder), "--json")
    assert checked.returncode == 3, checked.stderr
    found = [item for item in json.loads(checked.stdout)["findings"] if item["code"] == "todo"]
    assert all(item["severity"] == "error" for item in found)
    return {item["where"].removeprefix(f"{folder}/"): item["message"] for item in found}


def places(folder: Path, relative: str) -> set[str]:
    """Return the places of a file where a value is TODO."""
    lines = (folder / relative).read_text(encoding="utf-8").splitlines()
    found = (
        (number, match.start() + 1)
        for number, line in enumerate(lines, 1)
        if not line.startswith("#")
        for match in re.finditer(r"(?<= )'?TODO", line)
    )
    return {f"{relative}:{line}:{column}" for line, column in found}


def values(found: Any, key: str) -> Iterator[Any]:
    """Yield the values that a document has under a key, at any depth."""
    if isinstance(found, dict):
        for name, item in found.items():
            yield from [item] if name == key else values(item, key)
    elif isinstance(found, list):
        for item in found:
            yield from values(item, key)


@pytest.mark.parametrize("framework", ["openrlhf", "ms-swift", "roll"])
def test_an_invented_release_is_refused_with_every_place(tmp_path: Path, index: Server, framework: str) -> None:
    folder = tmp_path / "mine"
    made = init(index, folder, framework)
    assert f"{folder}/frameworks/{framework}/{NEW}.yaml" in made.stdout.split()
    assert re.search(r"has no .*|is not on a package index", made.stderr) and "is TODO" in made.stderr
    rows = [item for item in Catalog(load(folder, everything=True)).environments if item.coordinates.branch == NEW]
    assert rows and all(item.version(item.framework.component) == NEW and NEW in item.branch.title for item in rows)
    component = rows[0].framework.component
    release = rows[0].release(component)
    assert release is not None and (release.status, release.fixed, release.requires) == ("candidate", False, ())
    found = todos(folder, f"{framework}-{NEW}-*")
    expected = places(folder, f"frameworks/{framework}/{NEW}.yaml") | places(folder, f"compat/{component}.yaml")
    assert set(found) == expected and len(found) > 20
    assert "releases.note is TODO: the commit of its tag; its Python range; its requirements" in found.values()


def test_a_row_has_no_statement_about_the_old_release(tmp_path: Path, index: Server, matrix: Matrix) -> None:
    folder = tmp_path / "mine"
    for framework in matrix.frameworks:
        init(index, folder, framework)
        text = (folder / f"frameworks/{framework}/{NEW}.yaml").read_text(encoding="utf-8")
        row = yaml.safe_load(text)
        jsonschema.Draft202012Validator(schema("branch")).validate(row)
        assert not any(list(values(row, key)) for key in ("because", "documented", "known_issues", "algorithms"))
        assert set(values(row, "source")) == set(row["sources"].values()) == {"TODO"}
        old = max((item for item in matrix.branches if item.framework == framework), key=lambda item: item.date)
        # what may still hold is named, as a remark about the old release
        head, _, body = text.partition("\ntitle: ")
        assert f"Copied from {old.name}" in head and "#" not in body and old.name not in body
        named = " ".join(head.replace("\n#", "").split())
        assert all(" ".join(issue.what.split()) in named for issue in old.known_issues)
        # the pins themselves are those of the old release, for all engines and in every override
        own = matrix.frameworks[framework].component
        new = next(item for item in load(folder).branches if (item.framework, item.name) == (framework, NEW))
        for before, after in zip(
            (old, *old.engines.values(), *old.overrides), (new, *new.engines.values(), *new.overrides), strict=True
        ):
            assert {name: NEW if name == own else pin.version for name, pin in before.pins.items()} == {
                name: pin.version for name, pin in after.pins.items()
            }


def test_what_the_index_publishes_is_filled_in(tmp_path: Path, index: Server) -> None:
    folder = tmp_path / "mine"
    made = init(index, folder, "verl")
    assert "all of" not in made.stderr
    release = load(folder, everything=True).components["verl"].release(NEW)
    assert release is not None
    assert (release.python, release.requires, release.archive) == (">=3.11", ("transformers>=5.0",), ARCHIVE)
    assert (release.status, release.sources) == ("candidate", ("pypi/verl@99.0.0",))
    # no one has read its documents yet
    found = todos(folder, f"verl-{NEW}-*")
    assert set(found) == places(folder, f"frameworks/verl/{NEW}.yaml") | places(folder, "compat/verl.yaml")
    assert any(message.startswith("releases.note is TODO: the commit of its tag, which") for message in found.values())


def test_a_completed_row_has_no_such_error(tmp_path: Path, index: Server) -> None:
    folder = tmp_path / "mine"
    init(index, folder, "verl")
    for relative in (f"frameworks/verl/{NEW}.yaml", "compat/verl.yaml"):
        path = folder / relative
        path.write_text(re.sub(r"'TODO:.*'|TODO", "example/x", path.read_text(encoding="utf-8")), encoding="utf-8")
    checked = run("check", f"verl-{NEW}-vllm-a3-*", "--matrices", str(folder))
    assert "error[todo]" not in checked.stdout and "error[moving-ref]" not in checked.stdout


def test_equal_values_of_two_files_are_listed_with_their_places(tmp_path: Path, index: Server) -> None:
    folder = tmp_path / "mine"
    for branch in (NEW, "v99.0.1"):
        init(index, folder, "roll", branch)
    shown = run("check", f"roll-{NEW}-*", "--matrices", str(folder)).stdout
    lines = [line for line in shown.splitlines() if "error[todo] sources.guide is TODO" in line]
    assert len(lines) == 2 and all(f"frameworks/roll/{branch}.yaml:" in shown for branch in (NEW, "v99.0.1"))


def test_an_empty_candidate_is_completed(tmp_path: Path, index: Server, matrix: Matrix) -> None:
    folder = tmp_path / "mine"
    (folder / "compat").mkdir(parents=True)
    table = matrix.files["compat/verl.yaml"].path.read_text(encoding="utf-8")
    entry = "- {version: v99.0.0, status: candidate}\n"
    later = "- {version: v99.0.1, status: candidate}\n"
    (folder / "compat/verl.yaml").write_text(table + entry + later, encoding="utf-8")
    init(index, folder, "verl")
    releases = load(folder, everything=True).components["verl"].releases
    assert [(item.version, item.archive) for item in releases[-2:]] == [(NEW, ARCHIVE), ("v99.0.1", None)]
    # one with more than its name was written by a person
    own = f"- {{version: v99.0.1, status: candidate, commit: {'1' * 40}}}\n"
    (folder / "compat/verl.yaml").write_text(table + own, encoding="utf-8")
    init(index, folder, "verl", "v99.0.1")
    assert (folder / "compat/verl.yaml").read_text(encoding="utf-8") == table + own


def test_without_a_network_every_value_is_todo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # between the attempts
    monkeypatch.setattr(time, "sleep", lambda _: None)
    folder = tmp_path / "mine"
    with files({}) as server:
        address = server.url
    made = run("matrix", "init", "verl", NEW, "--matrices", str(folder), "--index-url", address)
    assert made.returncode == 0 and f"all of verl {NEW} is TODO" in made.stderr
    release = load(folder, everything=True).components["verl"].release(NEW)
    assert release is not None and not release.fixed and str(release.note).startswith("TODO: the commit")


def test_what_exists_is_not_written_again(tmp_path: Path) -> None:
    again = run("matrix", "init", "verl", "v0.9.1", "--matrices", str(tmp_path / "mine"))
    assert again.returncode == 2 and "already has a row v0.9.1" in again.stderr
    unknown = run("matrix", "init", "verll", "v1.0.0", "--matrices", str(tmp_path / "mine"))
    assert unknown.returncode == 4 and not (tmp_path / "mine").exists()
