"""Changes of envbuilder.toml as text: comments and all other lines stay."""

from __future__ import annotations

import pytest

from envbuilder.project.edit import required_with, required_without, with_packages, with_row, without_packages

SEVERAL = """\
# ours
[environment]
hw = "a3"   # the cluster
packages = [
    "swanlab",  # logs, [sic]
    "math-verify>=0.8"
]
# the end

[other]
packages = ["not", "these"]
"""


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('[environment]\nhw = "a3"\n', '[environment]\nhw = "a3"\npackages = ["x>=1"]\n'),
        ("[environment]", '[environment]\npackages = ["x>=1"]\n'),
        ("[environment]\npackages = []\n", '[environment]\npackages = ["x>=1"]\n'),
        ('[environment]\npackages = ["a"]  # b\n', '[environment]\npackages = ["a", "x>=1"]  # b\n'),
        ("[environment]\npackages = ['X==0', 'a']\n", "[environment]\npackages = [\"x>=1\", 'a']\n"),
        (
            "[environment]\nsystem-packages = [\n]\nvariables = { A = ']' }\n",
            "[environment]\nsystem-packages = [\n]\nvariables = { A = ']' }\npackages = [\"x>=1\"]\n",
        ),
    ],
)
def test_a_package_is_added(before: str, after: str) -> None:
    assert with_packages(before, ["x>=1"]) == after


def test_a_list_over_several_lines() -> None:
    added = with_packages(SEVERAL, ["x"])
    assert added == SEVERAL.replace('"math-verify>=0.8"\n', '"math-verify>=0.8",\n    "x",\n')
    assert without_packages(added, ["swanlab", "math_verify"]) == SEVERAL.replace(
        '    "swanlab",  # logs, [sic]\n    "math-verify>=0.8"\n', '    "x",\n'
    )
    with pytest.raises(LookupError):
        without_packages(SEVERAL, ["not"])


@pytest.mark.parametrize(
    ("before", "after"),
    [('["a", "b", "c"]', '["a", "c"]'), ('["b"]', "[]"), ('["a", "b"]', '["a"]'), ('["b", "c"]', '["c"]')],
)
def test_a_package_is_removed_from_one_line(before: str, after: str) -> None:
    form = "[environment]\npackages = {}\n".format
    assert without_packages(form(before), ["b"]) == form(after)


def test_the_release_is_changed() -> None:
    assert with_row('[environment]\nbranch = "v1"  # old\n', "v2") == '[environment]\nbranch = "v2"  # old\n'
    assert with_row('[environment]\nhw = "a3"\n', "v2") == '[environment]\nbranch = "v2"\nhw = "a3"\n'


def test_requirements_in_a_file() -> None:
    text = "# ours\nswanlab  # logs\n-e .\n"
    assert required_with(text, ["swanlab>=1", "x"]) == "# ours\nswanlab>=1\n-e .\nx\n"
    assert required_without(text, ["swanlab"]) == "# ours\n-e .\n"
    with pytest.raises(LookupError):
        required_without(text, ["x"])
