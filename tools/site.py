"""Builds the site into build/site: the documents, a page for every release and component, and the chooser.

python -m tools.site
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import yaml

from envbuilder.chooser import chooser
from envbuilder.cli.markdown import environment_table, table
from envbuilder.environment import Catalog, Environment, Filters
from envbuilder.matrix import load
from envbuilder.plan import make_plan
from tools.component_pages import anchor, component_pages
from tools.generate import NOTE
from tools.readme import families

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"
PAGES = BUILD / "docs"
GUIDES = ("train", "project", "build", "ci", "offline", "host", "repair", "compare", "twin", "commands")
# the address of the repository in a workflow; without one, no page links to it
REPOSITORY = "/".join(filter(None, map(os.environ.get, ("GITHUB_SERVER_URL", "GITHUB_REPOSITORY"))))
# the words of the generated pages, by the suffix of their file names
WORDS = {
    ".md": {
        "driver": (
            "The default environment needs driver {least} or later; its [CANN {cann}](../compat/cann.md#{anchor}) was "
            "released with {hdk}. [What other drivers run](../compat/hdk.md)."
        ),
        "least": "{least} or later",
        "none": "A laptop, or a runner of a CI system. The training is small and real; no code for the NPU runs.",
    },
    ".zh.md": {
        "driver": (
            "默认环境需要驱动 {least} 或更新；它的 [CANN {cann}](../compat/cann.md#{anchor}) 与 {hdk} 一起发布。"
            "[其他驱动能运行什么](../compat/hdk.md)。"
        ),
        "least": "{least} 或更新",
        "none": "笔记本或 CI 机器。训练规模小，但是真实的训练；不运行 NPU 代码。",
        "environment": "环境",
        "proven": "验证级别",
        "lock": "锁文件",
        "yes": "有",
        "no": "无",
        "engine": "推理引擎",
        "needs driver": "需要驱动",
        "What goes with which release. The same:": "各版本的配套关系。命令行：",
        "A driver that is newer than all of them runs older toolkits. The sources are those of each [CANN](cann.md).": (
            "比它们都新的驱动可以运行较早的 CANN。出处见各个 [CANN](cann.md)。"
        ),
        "version": "版本",
        "published with": "官方配套",
        "works with": "可配合",
        "not with": "不可配合",
        "requires": "依赖",
        "named by": "被引用于",
        "pinned in": "用于",
        "runs at best": "最多能运行",
        "note": "说明",
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
        pages = dict((*_families(catalog, ending), *_releases(catalog, words), *component_pages(catalog, words)))
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
    code = subprocess.run(command, check=False, cwd=ROOT, env=variables).returncode  # noqa: S603
    if code == 0:
        _divide_search(BUILD / "site")
    return code


def _divide_search(site: Path) -> None:
    """Give the pages in Chinese a search of their own, with the English text of parts that are not translated."""
    folder = "zh/"
    index = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))
    english = [part for part in index["docs"] if not part["location"].startswith(folder)]
    chinese = [
        {name: _separated(text) for name, text in part.items()} | {"location": part["location"].removeprefix(folder)}
        for part in index["docs"]
        if part["location"].startswith(folder)
    ]
    # parts that both languages have in the same words are in the index once, as English
    found = {part["location"] for part in chinese}
    chinese += [
        part for part in english if part["location"] not in found and _has_part(site / folder, part["location"])
    ]
    # the search expects a page before its headings
    chinese.sort(key=lambda part: "#" in part["location"])
    for place, parts in ((site, english), (site / folder, chinese)):
        text = json.dumps({**index, "docs": parts}, ensure_ascii=False, separators=(",", ":"))
        (place / "search").mkdir(exist_ok=True)
        (place / "search" / "search_index.json").write_text(text, encoding="utf-8")
        (place / "search" / "search_index.js").write_text(f"var __index = {text}", encoding="utf-8")
    # the search looks for its index, and for the pages that it finds, below this address
    for page in (site / folder).rglob("*.html"):
        depth = len(page.relative_to(site / folder).parts) - 1
        text = page.read_text(encoding="utf-8")
        base = "/".join([".."] * depth) or "."
        page.write_text(re.sub(r'"base": "[^"]*"', f'"base": "{base}"', text, count=1), encoding="utf-8")


def _has_part(folder: Path, location: str) -> bool:
    page, _, heading = location.partition("#")
    file = folder / page
    return file.is_file() and (not heading or f'id="{heading}"' in file.read_text(encoding="utf-8"))


def _separated(text: str) -> str:
    """Return a text with an invisible space around each character of Chinese, which the search takes as a word."""
    return re.sub(r"([\u3000-\u303f\u4e00-\u9fff\uff00-\uffef])", "\u200b\\1\u200b", text)


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
    if REPOSITORY:
        # the theme's own link would load numbers of stars and forks
        navigation.append({"Repository": REPOSITORY})
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
            driver="" if hardware.cpu_only else _driver(default, words),
        )
        listed = [_offered(row, words) for row in rows if row.coordinates.arch == default.coordinates.arch]
        # what decides first, for narrow screens
        header = ("environment", "needs driver", "CANN", "engine", "proven")
        yield f"start/{name}", text.replace("<!-- rows -->", table([words.get(cell, cell) for cell in header], listed))


def _driver(row: Environment, words: Mapping[str, str]) -> str:
    cann = row.version("cann") or ""
    least = row.least_driver.version if row.least_driver else "-"
    return words["driver"].format(least=least, cann=cann, anchor=anchor(cann), hdk=row.version("hdk"))


def _offered(row: Environment, words: Mapping[str, str]) -> tuple[str, ...]:
    where, engine, least = row.coordinates, row.engine.engine, row.least_driver
    release = f"[`{row.id}`](../releases/{where.framework}-{where.branch}.md)"
    cann = "-" if row.hardware.cpu_only else row.version("cann") or "-"
    driver = words["least"].format(least=least.version) if least else "-"
    return (release, driver, cann, f"{engine} {row.version(engine)}", row.proven or "-")


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


if __name__ == "__main__":
    sys.exit(main())
