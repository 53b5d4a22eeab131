"""Reads YAML strictly, into a tree of nodes with their positions. Scalars keep the text of the file.

It refuses, each with its position: duplicate keys (with both lines), keys that are not plain text, anchors, aliases,
merge keys and tags, several documents in one file, and bytes that are not UTF-8.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import yaml
from yaml.events import CollectionEndEvent, CollectionStartEvent
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from envbuilder.errors import Problem, Where
from envbuilder.files import read_regular
from envbuilder.language import tr

__all__ = ["MappingNode", "Node", "ScalarNode", "SequenceNode", "place", "read"]

_Loader: type = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_DEPTH_LIMIT, _HARMLESS_DEPTH = 40, 1_000
# the largest built-in file has a tenth of it
_MOST_BYTES = 10**6
# nobody reads more of them
MOST_PROBLEMS = 100
_PLAIN_TAGS = {
    f"tag:yaml.org,2002:{name}" for name in ("str", "int", "float", "bool", "null", "timestamp", "map", "seq")
}


def place(node: Node, file: str) -> Where:
    return Where(file, node.start_mark.line + 1, node.start_mark.column + 1)


def read(path: Path, file: str, problems: list[Problem]) -> Node | None:
    """Return the root node of a file, or None with the reasons added to `problems`. `file` is the name to show."""
    if len(problems) >= MOST_PROBLEMS:
        return None
    try:
        text = read_regular(path, _MOST_BYTES).decode("utf-8")
    except UnicodeDecodeError as error:
        before = error.object[: error.start]
        where = Where(file, before.count(b"\n") + 1, error.start - (before.rfind(b"\n") + 1) + 1)
        problems.append(Problem(where, tr("this is not UTF-8 text")))
        return None
    except OSError as error:
        problems.append(Problem(Where(file), tr("cannot be read: {reason}", reason=error.strerror or error)))
        return None
    node = None if _is_too_deep(text, file, problems) else _compose(text, file, problems)
    if node is None:
        return None
    earlier = len(problems)
    _inspect(node, file, problems, set(), 0)
    return node if len(problems) == earlier else None


def _is_too_deep(text: str, file: str, problems: list[Problem]) -> bool:
    """Report deep nesting before the nodes are made: the loader in C would end the process."""
    # no text is nested deeper than it has brackets, and columns of indentation
    if text.count("[") + text.count("{") + max(map(len, text.split("\n"))) < _HARMLESS_DEPTH:
        return False
    depth = 0
    with suppress(yaml.YAMLError, ValueError):  # which _compose reports
        for event in yaml.parse(text, Loader=_Loader):
            depth += isinstance(event, CollectionStartEvent) - isinstance(event, CollectionEndEvent)
            if depth > _DEPTH_LIMIT:
                where = Where(file, event.start_mark.line + 1, event.start_mark.column + 1)
                problems.append(Problem(where, tr("nested more than {number} levels deep", number=_DEPTH_LIMIT)))
                return True
    return False


def _compose(text: str, file: str, problems: list[Problem]) -> Node | None:
    loader = _Loader(text)
    try:
        node: Node | None = loader.get_single_node()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = Where(file, mark.line + 1, mark.column + 1) if mark else Where(file)
        problems.append(Problem(where, tr("this is not valid YAML: {reason}", reason=error.problem or error.context)))
        return None
    except yaml.YAMLError as error:
        # a forbidden character is reported by its position, not by a mark
        position = getattr(error, "position", 0)
        before = text[: position if isinstance(position, int) else 0]
        where = Where(file, before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1)
        problems.append(Problem(where, tr("this is not valid YAML: {reason}", reason=getattr(error, "reason", error))))
        return None
    except (RecursionError, ValueError) as error:
        problems.append(Problem(Where(file), tr("this YAML cannot be read: {reason}", reason=error)))
        return None
    finally:
        loader.dispose()
    if node is None:
        problems.append(Problem(Where(file), tr("the file is empty")))
    return node


def _inspect(node: Node, file: str, problems: list[Problem], seen: set[int], depth: int) -> None:
    if len(problems) >= MOST_PROBLEMS:
        return
    if id(node) in seen:
        problems.append(Problem(place(node, file), tr("anchors and aliases are not allowed; repeat the value")))
        return
    seen.add(id(node))
    if depth > _DEPTH_LIMIT:
        problems.append(Problem(place(node, file), tr("nested more than {number} levels deep", number=_DEPTH_LIMIT)))
        return
    if node.tag not in _PLAIN_TAGS:
        is_merge = node.tag.endswith(":merge")
        message = tr("merge keys are not allowed") if is_merge else tr("the tag {tag} is not allowed", tag=node.tag)
        problems.append(Problem(place(node, file), message))
        return
    if isinstance(node, SequenceNode):
        for child in node.value:
            _inspect(child, file, problems, seen, depth + 1)
    elif isinstance(node, MappingNode):
        _inspect_keys(node, file, problems)
        for key, child in node.value:
            if isinstance(key, ScalarNode):
                _inspect(key, file, problems, seen, depth + 1)
            _inspect(child, file, problems, seen, depth + 1)


def _inspect_keys(node: MappingNode, file: str, problems: list[Problem]) -> None:
    first: dict[str, Node] = {}
    for key, _ in node.value:
        if len(problems) >= MOST_PROBLEMS:
            return
        if not isinstance(key, ScalarNode):
            problems.append(Problem(place(key, file), tr("a key must be plain text")))
        elif key.value in first:
            earlier = place(first[key.value], file)
            message = tr("duplicate key '{key}'; first at line {line}", key=key.value, line=earlier.line)
            problems.append(Problem(place(key, file), message))
        else:
            first[key.value] = key
