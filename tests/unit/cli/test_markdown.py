"""The addresses of sources."""

from __future__ import annotations

import pytest

from envbuilder.cli.markdown import address
from envbuilder.environment import Catalog
from envbuilder.matrix import Matrix


@pytest.mark.parametrize(
    ("source", "wanted"),
    [
        ("a/b@v1:docs/x y.md", "https://github.com/a/b/blob/v1/docs/x%20y.md"),
        ("a/b@0123abc:c.py#L3-L9", "https://github.com/a/b/blob/0123abc/c.py#L3-L9"),
        ("a/b@0123abc:c.py, d.py at each tag", "https://github.com/a/b/blob/0123abc/c.py"),
        ("a/b@v1", "https://github.com/a/b/tree/v1"),
        ("a/b#12", "https://github.com/a/b/issues/12"),
        ("www.example.com/page.html", "https://www.example.com/page.html"),
        ("https://example.com/x", "https://example.com/x"),
        ("pypi/verl@0.9.1", None),
        ("a document", None),
    ],
)
def test_addresses(source: str, wanted: str | None) -> None:
    assert address(source) == wanted


def test_every_source_of_an_environment_has_an_address(matrix: Matrix) -> None:
    for item in Catalog(matrix).environments:
        sources = {pin.source for pin in item.pins.values()} | {setting.source for setting in item.variables.values()}
        for source in sources:
            assert address(source) or source.startswith(("pypi/", "debian/")), source
