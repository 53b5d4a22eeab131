"""Builds the site into build/site: the documents, a page for every release and component, and the chooser.

python -m tools.site
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import yaml

from envbuilder.chooser import chooser
from envbuilder.cli.markdown import environment_table, link, table
from envbuilder.environment import Catalog, Environment
from envbuilder.environment.partners import Partners, partners
from envbuilder.matrix import load
from envbuilder.plan import make_plan
from tools.generate import NOTE
from tools.readme import families

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"
PAGES = BUILD / "docs"
GUIDES = ("train", "build", "offline", "host", "repair", "compare", "commands")


def main() -> int:
    catalog = Catalog(load(everything=True))
    shutil.rmtree(BUILD, ignore_errors=True)
    shutil.copytree(ROOT / "docs", PAGES)
    for name in ("README.md", "README.zh-CN.md", "CONTRIBUTING.md"):
        _mended(ROOT / name, PAGES / name.lower().replace(".zh-cn", ".zh").replace("readme", "overview"))
    for page in PAGES.rglob("*.md"):
        _mended(page, page)
    for name in ("index.md", "index.zh.md"):
        text = (PAGES / name).read_text(encoding="utf-8")
        (PAGES / name).write_text(text.replace("<!-- families -->", families(name, catalog)), encoding="utf-8")
    (PAGES / "chooser.html").write_text(chooser(catalog), encoding="utf-8")
    releases = dict(_releases(catalog))
    components = dict(_components(catalog))
    for name, text in {**releases, **components}.items():
        (PAGES / name).parent.mkdir(exist_ok=True)
        (PAGES / name).write_text(text, encoding="utf-8")
    _configure(list(releases), list(components))
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--config-file", str(BUILD / "mkdocs.yml")]
    # it is about a later major release
    quiet = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run(words, check=False, cwd=ROOT, env=quiet).returncode  # noqa: S603


def _mended(source: Path, target: Path) -> None:
    """Copy a page; links to files that the site does not have become the names of these files."""
    text = source.read_text(encoding="utf-8").removeprefix(NOTE)
    text = re.sub(r"\[([^\]]+)\]\((?:\.\./)*(?:\.github|dockerfiles)[^)]*\)", r"`\1`", text)
    text = (
        text.replace("](docs/", "](")
        .replace("](README.zh-CN.md)", "](overview.md)")
        .replace("](README.md)", "](overview.md)")
    )
    target.write_text(text.replace("](CONTRIBUTING.md)", "](contributing.md)"), encoding="utf-8")


def _configure(releases: list[str], components: list[str]) -> None:
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    navigation = [
        {"Get started": "index.md"},
        {"Guides": [f"guides/{name}.md" for name in GUIDES]},
        {"Releases": releases},
        {"Components": components},
        {"Reference": ["overview.md", "cli.md", "rules.md", "matrix.md", "glossary.md"]},
        {"Contribute": "contributing.md"},
    ]
    text = text.replace("build/docs", "docs").replace("build/site", "site")
    (BUILD / "mkdocs.yml").write_text(text + yaml.safe_dump({"nav": navigation}, allow_unicode=True), encoding="utf-8")


def _releases(catalog: Catalog) -> Iterable[tuple[str, str]]:
    found: dict[tuple[str, str], list[Environment]] = {}
    for item in catalog.environments:
        found.setdefault((item.coordinates.framework, item.coordinates.branch), []).append(item)
    for (framework, branch), rows in reversed(found.items()):
        parts = [f"# {rows[0].branch.title}", table(("environment", "proven", "lock"), map(_listed, rows))]
        seen: set[tuple[str, str]] = set()
        for row in rows:
            # the pins of a family are those of both its architectures
            key = (row.coordinates.engine, row.coordinates.hardware)
            if key not in seen and not row.hardware.rehearsal:
                seen.add(key)
                parts.append(environment_table(row, make_plan(row)).replace("### ", "## ", 1))
        yield f"releases/{framework}-{branch}.md", "\n\n".join(parts) + "\n"


def _listed(row: Environment) -> tuple[str, str, str]:
    return f"`{row.id}`", row.proven or "-", "yes" if row.rank.is_locked else "no"


def _components(catalog: Catalog) -> Iterable[tuple[str, str]]:
    titles = {name: item.title for name, item in catalog.components.items()}
    for name, component in sorted(catalog.components.items()):
        parts = [f"# {component.title}", f"What goes with which release. The same: `envbuilder compat {name} VERSION`."]
        for item in reversed(partners(catalog, component)):
            parts.append(f"## {item.release.version} {{ #{anchor(item.release.version)} }}")
            parts.append("\n".join(_facts(item, titles)) or "Nothing is published on it.")
        yield f"compat/{name}.md", "\n\n".join(parts) + "\n"


def anchor(version: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", version.lower()).strip("-")


def _facts(item: Partners, titles: dict[str, str]) -> Iterable[str]:
    release = item.release
    for title, found in (
        ("published with", release.paired),
        ("works with", release.compatible),
        ("not with", release.excluded),
    ):
        for name, listed in found.items():
            yield f"- {title} {titles.get(name, name)} {', '.join(listed)}"
    if item.conditions():
        yield f"- requires {', '.join(f'`{text}`' for text in item.conditions())}"
    for name, versions in item.named_by.items():
        yield f"- named by {titles[name]} {', '.join(f'[{text}]({name}.md#{anchor(text)})' for text in versions)}"
    rows = dict.fromkeys(f"{where.framework}-{where.branch}" for where in item.environments)
    if rows:
        yield f"- pinned in {', '.join(f'[{row}](../releases/{row}.md)' for row in rows)}"
    if release.note:
        yield f"- {' '.join(release.note.split())}"
    yield f"- {', '.join(link('source', source) for source in item.sources)}"


if __name__ == "__main__":
    sys.exit(main())
