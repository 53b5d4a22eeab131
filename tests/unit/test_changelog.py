"""The changelog has the form of "Keep a Changelog", and its newest release is the version of the package."""

from __future__ import annotations

import re
import sys
from datetime import date
from pathlib import Path

import yaml

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
# in the order in which a section has them
KINDS = ["Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"]
RELEASE = re.compile(r"(\d+\.\d+\.\d+) - (\d{4}-\d{2}-\d{2})")


def sections(text: str, level: int) -> dict[str, str]:
    """Return the text below each heading of a level; a heading that occurs twice is an error."""
    _, *found = re.split(rf"^{'#' * level} (.+)\n", text, flags=re.MULTILINE)
    titles = found[::2]
    assert len(titles) == len(set(titles)), titles
    return dict(zip(titles, found[1::2], strict=True))


def test_the_newest_release_is_the_version_of_the_package() -> None:
    unreleased, newest, *_ = sections(TEXT, 2)
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    assert unreleased == "Unreleased"
    assert newest.partition(" - ")[0] == version


def test_every_release_has_a_version_and_a_date_the_newest_first() -> None:
    found = [RELEASE.fullmatch(title) for title in list(sections(TEXT, 2))[1:]]
    releases = [(tuple(map(int, item[1].split("."))), date.fromisoformat(item[2])) for item in found if item]
    assert releases and len(releases) == len(found)
    assert releases == sorted(releases, reverse=True)


def test_changes_are_grouped_by_their_kind() -> None:
    for title, text in sections(TEXT, 2).items():
        groups = sections(text, 3)
        assert list(groups) == [kind for kind in KINDS if kind in groups], title
        assert groups or title == "Unreleased"
        for kind, changes in groups.items():
            # bullets, the lines that go on with one, and the names of topics
            lines = [line for line in changes.splitlines() if line]
            assert any(line.startswith("- ") for line in lines), f"{title}, {kind}"
            assert all(re.match(r"- |  \S|[A-Z][^.]*:$", line) for line in lines), f"{title}, {kind}"


def test_a_release_is_published_only_with_its_section() -> None:
    """The workflow finds the heading in the form that the changelog has."""
    steps = yaml.safe_load((ROOT / ".github/workflows/publish.yml").read_text(encoding="utf-8"))["jobs"]["build"][
        "steps"
    ]
    (wanted,) = (
        found[1] for step in steps if (found := re.search(r'grep --quiet "(.+)" CHANGELOG', step.get("run", "")))
    )
    version = list(sections(TEXT, 2))[1].partition(" - ")[0]
    assert re.search(wanted.replace("${GITHUB_REF_NAME#v}", version), TEXT, re.MULTILINE)
    assert not re.search(wanted.replace("${GITHUB_REF_NAME#v}", "99.0.0"), TEXT, re.MULTILINE)
