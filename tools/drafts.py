"""Draft the newest release of each framework that has no row, and audit all rows.

    envbuilder matrix outdated --json | python -m tools.drafts

Prints what was drafted, with what a person has to decide, and where rows differ from drafts of them: the text of a pull
request. A release that cannot be drafted is printed with its reason; it does not keep the others back.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

from envbuilder.matrix import Matrix, load


def new_releases(matrix: Matrix, components: list[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    """Yield the frameworks with their newest release, if that has no row; a release is named as the rows are."""
    newest = {item["component"]: item["newer"][-1] for item in components}
    for name, framework in matrix.frameworks.items():
        rows = [branch.name for branch in matrix.branches if branch.framework == name]
        if framework.reads and framework.component in newest:
            prefix = "v" if all(row.startswith("v") for row in rows) else ""
            yield name, prefix + newest[framework.component].removeprefix("v")


def rows(matrix: Matrix) -> Iterator[tuple[str, str]]:
    for branch in matrix.branches:
        if matrix.frameworks[branch.framework].reads:
            yield branch.framework, branch.name


def printed(framework: str, release: str) -> str:
    """Return what `matrix draft` prints about a release."""
    command = [sys.executable, "-m", "envbuilder", "matrix", "draft", framework, release]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)  # noqa: S603
    return f"### {framework} {release}\n\n```\n{done.stdout.strip()}\n```\n"


def main() -> None:
    matrix = load(everything=True)
    print("## Drafts\n")
    for release in new_releases(matrix, json.load(sys.stdin)["components"]):
        print(printed(*release), flush=True)
    print("## Rows compared with their sources\n")
    for release in rows(matrix):
        print(printed(*release), flush=True)


if __name__ == "__main__":
    main()
