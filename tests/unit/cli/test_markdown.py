"""The addresses of sources."""

from __future__ import annotations

import html
import re
from pathlib import Path

import pytest

from envbuilder.cli.markdown import address, code, escaped
from envbuilder.environment import Catalog
from envbuilder.matrix import Matrix
from tests.conftest import Edit, run, succeeded


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


HOSTILE = "torch==2.8.0 <img src=x onerror=alert(1)> `code` <script>"


def test_html_of_a_report_is_shown_and_not_obeyed(tmp_path: Path) -> None:
    report = tmp_path / "report.txt"
    report.write_text(f"torch_npu==2.7.1\n{HOSTILE}\n", encoding="utf-8")
    printed = succeeded(run("diagnose", str(report), "--markdown")).stdout
    assert f"`` {HOSTILE} ``" in printed, "more backquotes than the line has"
    assert "<" not in re.sub("(`+).*?[^`]\\1(?!`)", "", printed)
    assert HOSTILE in run("diagnose", str(report)).stdout, "a terminal shows it as it is"


@pytest.mark.parametrize("text", ["<b>", "a & b", "numpy<2", "&lt;"])
def test_markdown_of_a_text(text: str) -> None:
    assert escaped(text) == html.escape(text, quote=False)
    assert escaped(f"`{text}` {text}") == f"`{text}` {html.escape(text, quote=False)}"
    assert code(text) == f"`{text}`" and code(f"`{text}```") == f"```` `{text}``` ````"


def test_an_overlay_cannot_add_html(edit: Edit) -> None:
    row = "frameworks/verl/v0.6.0.yaml"
    edit(row, "title: verl v0.6.0", "title: verl <script>v0.6.0")
    folder = edit(row, "requirements: verl-project/verl", "requirements: https://x.example/)<script>")
    printed = succeeded(run("show", "verl-v0.6.0-sglang-a3-aarch64", "--markdown", "--matrices", str(folder))).stdout
    assert "<script>" not in printed and "&lt;script&gt;" in printed
