"""The order of versions: a total order, the versions of the vendor, and agreement with PEP 440."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from envbuilder import versions
from tests.conftest import A3_SGLANG, run

# each list is in order, oldest first
ORDERED = [
    ["8.1.RC1.alpha001", "8.1.RC1.alpha002", "8.1.RC1", "8.2.RC1.alpha003", "8.2.RC1", "8.2.RC2", "8.3.RC1", "8.5.0.alpha002", "8.5.0", "8.5.2", "9.0.0-beta.1", "9.0.0-beta.2", "9.0.0"],
    ["24.1.RC1", "24.1.RC3", "24.1.0", "25.0.RC1", "25.0.rc1.1", "25.0.0", "25.2.0", "25.3.RC1", "26.0.RC1"],
    ["2.5.1rc1", "2.5.1", "2.5.1.post1.dev20250528", "2.5.1.post1", "2.5.1.post3", "2.6.0"],
    ["v0.7.3rc2", "v0.7.3", "v0.7.3.post1", "v0.8.4rc1", "v0.8.5rc1", "v0.8.5.post1", "v0.9.0", "v0.10.0rc1", "v0.11.0"],
    ["3.2.0.dev20250729", "3.2.0rc2", "3.2.0rc4", "3.2.0", "3.2.1"],
    ["2025.12.30", "2025.12.30.post1", "2026.01.07", "2026.8.18", "2026.8.18_v2", "20250926"],
    ["3.9", "3.10", "3.11"],
]  # fmt: skip


@pytest.mark.parametrize("ordered", ORDERED, ids=lambda ordered: ordered[0])
def test_vendor_order(ordered: list[str]) -> None:
    for earlier, later in itertools.pairwise(ordered):
        assert versions.key(earlier) < versions.key(later), f"{earlier} must come before {later}"


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("2.5.1rc1", "2.5.1.RC1"),
        ("2.5.1rc1", "2.5.1.rc1"),
        ("v0.7.3", "0.7.3"),
        ("8.1.RC1", "8.1.rc1"),
        ("2.7.1", "2.7.1+cpu"),
        ("0.9.1+empty", "v0.9.1"),
        ("2.6", "2.6.0"),
    ],
)
def test_two_spellings_of_one_version_are_equal(left: str, right: str) -> None:
    assert versions.same(left, right)
    assert versions.same(right, left)


@pytest.mark.parametrize(("left", "right"), [("3.1", "3.10"), ("2.5.1", "2.5.1rc1"), ("8.3.RC1", "8.3.RC2")])
def test_different_versions_are_not_equal(left: str, right: str) -> None:
    assert not versions.same(left, right)


@pytest.mark.parametrize(
    ("version", "family", "expected"),
    [
        ("25.2.3", "25.2.X", True),
        ("25.3.RC1", "25.3.X", True),
        ("25.0.RC1.1", "25.0.X", True),
        ("25.3.0", "25.2.X", False),
        ("25.5.0", "25.5.0", True),
        ("9.0.1", "9.0.X", True),
        ("9.1.0-beta.1", "9.1.X", True),
    ],
)
def test_families(version: str, family: str, expected: bool) -> None:
    assert versions.in_family(version, family) is expected


_pieces = st.builds(
    lambda numbers, tail, local: ".".join(map(str, numbers)) + tail + local,
    st.lists(st.integers(0, 30), min_size=1, max_size=4),
    st.sampled_from(
        ["", "rc1", ".rc2", ".RC1.alpha003", "-beta.1", "a1", ".post1", ".post2.dev5", ".dev20250925", ".rc1.1", "_v2"]
    ),
    st.sampled_from(["", "+cpu", "+empty", "+git95d6260"]),
)


@given(_pieces, _pieces, _pieces)
def test_the_order_is_total(one: str, two: str, three: str) -> None:
    first, second, third = map(versions.key, (one, two, three))
    assert (first < second) + (first == second) + (first > second) == 1
    if first <= second <= third:
        assert first <= third


@given(st.text(max_size=30))
def test_any_text_can_be_compared(text: str) -> None:
    assert versions.key(text) == versions.key(text)
    assert versions.same(text, text)


_pep440 = st.builds(
    lambda numbers, pre, post, dev: ".".join(map(str, numbers)) + pre + post + dev,
    st.lists(st.integers(0, 20), min_size=2, max_size=3),
    st.sampled_from(["", "", "a1", "b2", "rc1", "rc2"]),
    st.sampled_from(["", "", ".post1", ".post2"]),
    st.sampled_from(["", "", ".dev1", ".dev20250925"]),
)


@given(_pep440, _pep440)
def test_the_order_agrees_with_pep_440(left: str, right: str) -> None:
    assert (versions.key(left) < versions.key(right)) == (Version(left) < Version(right))
    assert (versions.key(left) == versions.key(right)) == (Version(left) == Version(right))


@settings(max_examples=400)
@given(_pep440, st.sampled_from(["==", "!=", "<=", ">=", "<", ">"]), _pep440)
def test_conditions_agree_with_pep_440(version: str, operator: str, bound: str) -> None:
    expected = SpecifierSet(f"{operator}{bound}").contains(version, prereleases=True)
    assert versions.satisfies(version, f"{operator}{bound}") == expected


@pytest.mark.parametrize(
    ("version", "specifier", "expected"),
    [
        ("0.9.1", ">=0.8.0,<=0.9.1,!=0.9.0", True),
        ("0.9.0", ">=0.8.0,<=0.9.1,!=0.9.0", False),
        ("2.5.1+cpu", "==2.5.1", True),
        ("2.5.1", "==2.5.1+cpu", False),
        ("4.52.4", "==4.52.*", True),
        ("4.53.0", "!=4.52.*", True),
        ("1.4.5", "~=1.4.2", True),
        ("1.5.0", "~=1.4.2", False),
        ("8.3.RC1", ">=8.2.RC1.alpha003", True),
        ("8.2.RC1.alpha002", ">=8.2.RC1.alpha003", False),
        ("anything", "", True),
    ],
)
def test_conditions(version: str, specifier: str, expected: bool) -> None:
    assert versions.satisfies(version, specifier) is expected


@pytest.mark.parametrize("specifier", ["2.5.1", "=>1", "== ", "unpinned", ">=1;<2"])
def test_invalid_conditions_are_refused(specifier: str) -> None:
    with pytest.raises(ValueError, match="not a version condition"):
        versions.satisfies("1.0", specifier)


def test_numbers_of_thousands_of_digits_are_compared() -> None:
    long = "9" * 5_000
    assert versions.key(f"{long}.1") > versions.key("2.8.0") and versions.same(f"2.{long}", f"2.{long}")
    assert versions.satisfies("2.8.0", f"<{long}") and not versions.satisfies("2.8.0", f"=={long}.*")
    for words in (
        ["compat", "torch", long],
        ["list", "--with", f"driver={long}"],
        ["show", A3_SGLANG, "--pin", f"torch={long}"],
    ):
        assert "Traceback" not in run(*words).stderr
