"""Builds the site into build/site: the documents, a page for every release and component, and the chooser.

python -m tools.site
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import yaml

from envbuilder.chooser import chooser
from envbuilder.cli.markdown import environment_table, link, table
from envbuilder.environment import Catalog, Environment, Filters
from envbuilder.environment.partners import Partners, partners
from envbuilder.matrix import load
from envbuilder.plan import make_plan
from tools.generate import NOTE
from tools.readme import families

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"
PAGES = BUILD / "docs"
GUIDES = ("train", "build", "ci", "offline", "host", "repair", "compare", "commands")
# the address of the repository in a workflow; without one, no page links to it
REPOSITORY = "/".join(filter(None, map(os.environ.get, ("GITHUB_SERVER_URL", "GITHUB_REPOSITORY"))))
# the words of the generated pages, by the suffix of their file names
WORDS = {
    ".md": {
        "driver": "The default environment needs the driver HDK {hdk}.",
        "none": "A laptop, or a runner of a CI system. The training is small and real; no code for the NPU runs.",
    },
    ".zh.md": {
        "driver": "默认环境需要的驱动是 HDK {hdk}。",
        "none": "笔记本或 CI 机器。训练规模小，但是真实的训练；不运行 NPU 代码。",
        "environment": "环境",
        "proven": "验证级别",
        "lock": "锁文件",
        "yes": "有",
        "no": "无",
        "engine": "推理引擎",
        "driver HDK": "驱动 HDK",
        "What goes with which release. The same:": "各版本的配套关系。命令行：",
        "Nothing is published on it.": "没有公布的信息。",
        "published with": "官方配套：",
        "works with": "可配合：",
        "not with": "不可配合：",
        "requires": "依赖：",
        "named by": "被引用于",
        "pinned in": "用于",
        "source": "来源",
    },
}


def main() -> int:
    catalog = Catalog(load(everything=True))
    shutil.rmtree(BUILD, ignore_errors=True)
    shutil.copytree(ROOT / "docs", PAGES)
    for name in ("README.md", "README.zh-CN.md", "CONTRIBUTING.md"):
        _copy_page(ROOT / name, PAGES / name.lower().replace(".zh-cn", ".zh").replace("readme", "overview"))
    for page in PAGES.rglob("*.md"):
        _copy_page(page, page)
    for name in ("index.md", "index.zh.md"):
        text = (PAGES / name).read_text(encoding="utf-8")
        named = ", ".join(f"[{item.title}](start/{hw}.md)" for hw, item in catalog.hardware.items())
        # the first commands are those of the README
        _, start, *_ = re.split(r"^## .*\n", (PAGES / name.replace("index", "overview")).read_text("utf-8"), flags=re.M)
        text = text.replace("<!-- start -->", start.strip()).replace("<!-- families -->", families(name, catalog))
        text = text.replace("<!-- links -->", named)
        (PAGES / name).write_text(text, encoding="utf-8")
    (PAGES / "chooser.html").write_text(chooser(catalog, in_site=True), encoding="utf-8")
    for ending, words in WORDS.items():
        pages = dict((*_families(catalog, ending), *_releases(catalog, words), *_components(catalog, words)))
        for name, text in pages.items():
            page = PAGES / f"{name}{ending}"
            page.parent.mkdir(exist_ok=True)
            page.write_text(text, encoding="utf-8")
    shutil.copytree(ROOT / "matrices" / "schema", PAGES / "schema")
    _configure([f"{name}.md" for name in pages])
    options = ["--strict", "--quiet", "--config-file", str(BUILD / "mkdocs.yml")]
    # the warning is about a later major release
    variables = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    command = [sys.executable, "-m", "mkdocs", "build", *options]
    return subprocess.run(command, check=False, cwd=ROOT, env=variables).returncode  # noqa: S603


def _copy_page(source: Path, target: Path) -> None:
    """Copy a page; links to files that the site does not have become the names of these files."""
    text = source.read_text(encoding="utf-8").removeprefix(NOTE)
    text = re.sub(r"\[([^\]]+)\]\((?:\.\./)*(?:\.github|dockerfiles)[^)]*\)", r"`\1`", text)
    # pages of the repository's host
    text = re.sub(r"\[([^\]]+)\]\(\.\./\.\./([^)]+)\)", _of_host, text)
    text = re.sub(r"\]\(README(?:\.zh-CN)?\.md\)", "](overview.md)", text)
    text = text.replace("](docs/", "](").replace("](CONTRIBUTING.md)", "](contributing.md)")
    target.write_text(text, encoding="utf-8")


def _of_host(link: re.Match[str]) -> str:
    return f"[{link[1]}]({REPOSITORY}/{link[2]})" if REPOSITORY else link[1]


def _configure(generated: Sequence[str]) -> None:
    def pages(folder: str) -> list[str]:
        return [page for page in generated if page.startswith(f"{folder}/")]

    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    navigation = [
        {"Get started": ["index.md", *pages("start")]},
        {"Guides": [f"guides/{name}.md" for name in GUIDES]},
        {"Releases": pages("releases")},
        {"Components": pages("compat")},
        {"Reference": ["overview.md", "cli.md", "json.md", "rules.md", "matrix.md", "glossary.md"]},
        {"Contribute": "contributing.md"},
    ]
    text = text.replace("build/docs", "docs").replace("build/site", "site")
    (BUILD / "mkdocs.yml").write_text(text + yaml.safe_dump({"nav": navigation}, allow_unicode=True), encoding="utf-8")


def _families(catalog: Catalog, ending: str) -> Iterable[tuple[str, str]]:
    """Yield a page for every family of servers: the commands, and the environments that it runs."""
    words = WORDS[ending]
    page = (ROOT / "tools" / "pages" / f"family{ending}").read_text(encoding="utf-8")
    for name, hardware in sorted(catalog.hardware.items(), key=lambda item: item[1].cpu_only):
        default = catalog.pick(None, Filters(hardware=name))
        machines = ", ".join(item.title for item in hardware.products.values())
        rows = [item for item in catalog.environments if item.coordinates.hardware == name]
        rows.sort(key=lambda item: item.rank, reverse=True)
        text = page.format(
            title=hardware.title,
            hw=name,
            machines=words["none"] if hardware.cpu_only else machines,
            driver="" if hardware.cpu_only else words["driver"].format(hdk=default.version("hdk")),
        )
        listed = [_offered(row) for row in rows if row.coordinates.arch == default.coordinates.arch]
        header = ("environment", "proven", "engine", "CANN", "driver HDK")
        yield f"start/{name}", text.replace("<!-- rows -->", table([words.get(cell, cell) for cell in header], listed))


def _offered(row: Environment) -> tuple[str, ...]:
    where, engine = row.coordinates, row.engine.engine
    vendor = ("-", "-") if row.hardware.cpu_only else (row.version("cann") or "-", row.version("hdk") or "-")
    release = f"[`{row.id}`](../releases/{where.framework}-{where.branch}.md)"
    return (release, row.proven or "-", f"{engine} {row.version(engine)}", *vendor)


def _releases(catalog: Catalog, words: Mapping[str, str]) -> Iterable[tuple[str, str]]:
    found: dict[tuple[str, str], list[Environment]] = {}
    for item in catalog.environments:
        found.setdefault((item.coordinates.framework, item.coordinates.branch), []).append(item)
    for (framework, branch), rows in reversed(found.items()):
        header = [words.get(name, name) for name in ("environment", "proven", "lock")]
        parts = [f"# {rows[0].branch.title}", table(header, (_listed(row, words) for row in rows))]
        seen: set[tuple[str, str]] = set()
        for row in rows:
            # the pins of a family are those of both its architectures
            key = (row.coordinates.engine, row.coordinates.hardware)
            if key not in seen and not row.hardware.cpu_only:
                seen.add(key)
                parts.append(environment_table(row, make_plan(row)).replace("### ", "## ", 1))
        yield f"releases/{framework}-{branch}", "\n\n".join(parts) + "\n"


def _listed(row: Environment, words: Mapping[str, str]) -> tuple[str, str, str]:
    locked = "yes" if row.rank.is_locked else "no"
    return f"`{row.id}`", row.proven or "-", words.get(locked, locked)


def _components(catalog: Catalog, words: Mapping[str, str]) -> Iterable[tuple[str, str]]:
    def translated(text: str) -> str:
        return words.get(text, text)

    titles = {name: item.title for name, item in catalog.components.items()}
    for name, component in sorted(catalog.components.items()):
        intro = translated("What goes with which release. The same:")
        parts = [f"# {component.title}", f"{intro} `envbuilder compat {name} VERSION`"]
        for item in reversed(partners(catalog, component)):
            parts.append(f"## {item.release.version} {{ #{anchor(item.release.version)} }}")
            parts.append("\n".join(_facts(item, titles, translated)) or translated("Nothing is published on it."))
        yield f"compat/{name}", "\n\n".join(parts) + "\n"


def anchor(version: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", version.lower()).strip("-")


def _facts(item: Partners, titles: Mapping[str, str], translated: Callable[[str], str]) -> Iterable[str]:
    release = item.release
    for title, found in (
        ("published with", release.paired),
        ("works with", release.compatible),
        ("not with", release.excluded),
    ):
        for name, listed in found.items():
            yield f"- {translated(title)} {titles.get(name, name)} {', '.join(listed)}"
    if item.conditions():
        yield f"- {translated('requires')} {', '.join(f'`{text}`' for text in item.conditions())}"
    for name, versions in item.named_by.items():
        linked = ", ".join(f"[{text}]({name}.md#{anchor(text)})" for text in versions)
        yield f"- {translated('named by')} {titles[name]} {linked}"
    rows = dict.fromkeys(f"{where.framework}-{where.branch}" for where in item.environments)
    if rows:
        yield f"- {translated('pinned in')} {', '.join(f'[{row}](../releases/{row}.md)' for row in rows)}"
    if release.note:
        yield f"- {' '.join(release.note.split())}"
    yield f"- {', '.join(link(translated('source'), source) for source in item.sources)}"


if __name__ == "__main__":
    sys.exit(main())
