"""Hints that follow from how envbuilder was installed."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from envbuilder import paths
from tests.conftest import run

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[2]
NAMES = ("README*.md", "docs/*.md", "docs/guides/*.md", "docs/guides/ci/*", "envbuilder/**/*.py", "envbuilder/**/*.po")


def test_every_extra_that_a_text_names_exists() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named: dict[str, list[str]] = {}
    for path in sorted({path for name in NAMES for path in ROOT.glob(name)}):
        text = path.read_text(encoding="utf-8")
        found = [*re.findall(rf"{paths.DISTRIBUTION}\[([\w,-]+)\]", text), *re.findall(r'with_extra\("(\w+)"\)', text)]
        # such as "without `[plot]`"
        found += re.findall(r"`\[([\w,-]+)\]`", text) if path.suffix == ".md" else []
        for extra in {extra for extras in found for extra in extras.split(",")}:
            named.setdefault(extra, []).append(str(path.relative_to(ROOT)))
    assert {"plot", "sign"} <= named.keys()
    extras = project["optional-dependencies"]
    assert {extra: places for extra, places in named.items() if extra not in extras} == {}


def install(folder: Path, name: str, *lines: str, origin: str | None = None) -> None:
    """Write what an installer leaves of a package."""
    place = folder / f"{name}-1.0.dist-info"
    place.mkdir(parents=True)
    metadata = ("Metadata-Version: 2.4", f"Name: {name.replace('_', '-')}", "Version: 1.0", *lines, "")
    (place / "METADATA").write_text("\n".join(metadata), encoding="utf-8")
    if origin:
        (place / "direct_url.json").write_text(json.dumps({"url": origin, "archive_info": {}}), encoding="utf-8")


@pytest.mark.parametrize(
    ("prefix", "present", "origin", "command"),
    [
        ("/home/a/.venv", (), None, "pip install 'ascend-envbuilder[b]'"),
        ("/home/a/.local/share/uv/tools/x", (), None, "uv tool install --force 'ascend-envbuilder[b]'"),
        ("/home/a/.local/share/uv/tools/x", ("one", "two"), None, "uv tool install --force 'ascend-envbuilder[a,b]'"),
        ("/home/a/.local/share/uv/tools/x", ("one",), None, "uv tool install --force 'ascend-envbuilder[b]'"),
        ("/opt/pipx/venvs/x", (), "file:///a.whl", "pipx install --force 'ascend-envbuilder[b] @ file:///a.whl'"),
    ],
)
def test_an_extra_is_added_to_what_is_installed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, prefix: str, present: tuple[str, ...], origin: str | None,
    command: str,
) -> None:  # fmt: skip
    """A tool that installs again without the other extras would remove their packages."""
    extras = ("Provides-Extra: a", "Provides-Extra: b", "Requires-Dist: needed")
    install(
        tmp_path, "ascend_envbuilder", *extras, *(f"Requires-Dist: {name}; extra == 'a'" for name in ("one", "two")),
        "Requires-Dist: three; extra == 'b'", origin=origin,
    )  # fmt: skip
    for name in present:
        install(tmp_path, name)
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    monkeypatch.setattr(sys, "prefix", prefix)
    monkeypatch.setattr(paths, "is_checkout", lambda: False)
    assert paths.with_extra("b") == command


def test_keys_without_their_packages_say_how_to_add_them(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "nacl", None)
    result = run("keys", "new", str(tmp_path / "team"))
    assert result.returncode == 5 and list(tmp_path.iterdir()) == []
    assert "'.[sign]'" in result.stderr
