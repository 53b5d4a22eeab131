"""Reads a project's own source trees: where they differ from the row's releases, and what they import."""

from __future__ import annotations

from collections.abc import Callable

from envbuilder.check import SourceTree
from envbuilder.environment import Environment
from envbuilder.errors import NetworkError
from envbuilder.inputs.source_archives import SourceOptions, obtain
from envbuilder.inputs.source_trees import source_tree, tree_hashes
from envbuilder.project.trees import pack_tree


def changed_sources(
    environment: Environment, options: SourceOptions, say: Callable[[str], None]
) -> tuple[dict[str, dict[str, str]], list[str]]:
    """Return the files in which each own source tree differs (`+`, `-` or `~` by path), and what cannot be reached."""
    found: dict[str, dict[str, str]] = {}
    unread = []
    for name, source in environment.additions.sources.items() if environment.additions else ():
        try:
            theirs = tree_hashes(obtain(environment.of_row, name, options, say), ())
        except NetworkError as error:
            unread.append(error.message)
            continue
        mine = tree_hashes(pack_tree(source, options.git_mirror).archive, ())
        found[name] = {
            path: "+" if path not in theirs else "-" if path not in mine else "~"
            for path in sorted({*mine, *theirs})
            if mine.get(path) != theirs.get(path)
        }
    return found, unread


def own_trees(environment: Environment, git_mirror: str | None) -> dict[str, SourceTree]:
    """Return the own source trees for the rule on imports."""
    found = {}
    for name, source in environment.additions.sources.items() if environment.additions else ():
        component = environment.component(name)
        if component is not None and component.packages:
            found[name] = source_tree(pack_tree(source, git_mirror).archive, component.packages)
    return found
