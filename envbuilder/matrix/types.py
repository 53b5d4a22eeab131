"""The shapes of YAML values, derived from the types of the model. A shape decodes nodes and has a JSON Schema.

A decoder never raises: it adds a problem with its position and returns INVALID, so that one run reports all problems.
"""

from __future__ import annotations

import re
import types
import typing
from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple, Protocol

from envbuilder.errors import Problem
from envbuilder.language import did_you_mean, tr
from envbuilder.matrix.model import INJECTED, Text
from envbuilder.matrix.reader import MOST_PROBLEMS, MappingNode, Node, ScalarNode, SequenceNode, place
from envbuilder.matrix.record import Record

INVALID: Any = object()
_NOUN: dict[type[Node], str] = {ScalarNode: "a value", SequenceNode: "a list", MappingNode: "a mapping"}
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class Decoding(NamedTuple):
    file: str
    problems: list[Problem]

    @property
    def is_full(self) -> bool:
        return len(self.problems) >= MOST_PROBLEMS

    def refuse(self, node: Node, message: str) -> Any:
        if not self.is_full:
            self.problems.append(Problem(place(node, self.file), message))
        return INVALID


class Shape(Protocol):
    # the kinds of node that this shape accepts; a union chooses by them
    nodes: tuple[type[Node], ...]

    def decode(self, node: Node, context: Decoding) -> Any: ...
    def schema(self, definitions: dict[str, Any]) -> dict[str, Any]: ...


class Scalar:
    nodes: tuple[type[Node], ...] = (ScalarNode,)

    def __init__(self, text: Text | None) -> None:
        self.text = text
        self._match = re.compile(text.pattern).fullmatch if text else None

    def decode(self, node: Node, context: Decoding) -> Any:
        if not isinstance(node, ScalarNode):
            return context.refuse(node, _expected(tr(self.text.what if self.text else "text"), node))
        value: str = node.value
        if self._match is None:
            return context.refuse(node, tr("control characters are not allowed")) if _CONTROL.search(value) else value
        if self._match(value) is None:
            assert self.text is not None  # noqa: S101  only a Text has a pattern
            return context.refuse(node, tr("'{value}' is not {what}", value=_shown(value), what=tr(self.text.what)))
        return value

    def schema(self, definitions: dict[str, Any]) -> dict[str, Any]:
        # editors read an unquoted 3.10 as a number; the loader keeps the text of the file
        return {"type": ["string", "number", "boolean"]} | ({"description": self.text.what} if self.text else {})


class Boolean:
    nodes: tuple[type[Node], ...] = (ScalarNode,)

    def decode(self, node: Node, context: Decoding) -> Any:
        if isinstance(node, ScalarNode) and node.value in {"true", "false"}:
            return node.value == "true"
        return context.refuse(node, tr("expected true or false"))

    def schema(self, definitions: dict[str, Any]) -> dict[str, Any]:
        return {"type": "boolean"}


class Integer:
    nodes: tuple[type[Node], ...] = (ScalarNode,)

    def decode(self, node: Node, context: Decoding) -> Any:
        if isinstance(node, ScalarNode) and re.fullmatch(r"\d{1,9}", node.value):
            return int(node.value)
        return context.refuse(node, tr("expected a whole number"))

    def schema(self, definitions: dict[str, Any]) -> dict[str, Any]:
        return {"type": "integer", "minimum": 0}


class OneOf:
    nodes: tuple[type[Node], ...] = (ScalarNode,)

    def __init__(self, options: tuple[str, ...]) -> None:
        self.options = options

    def decode(self, node: Node, context: Decoding) -> Any:
        if isinstance(node, ScalarNode) and node.value in self.options:
            return node.value
        return context.refuse(node, tr("expected one of: {names}", names=", ".join(self.options)))

    def schema(self, definitions: dict[str, Any]) -> dict[str, Any]:
        return {"enum": list(self.options)}


class Listing:
    nodes: tuple[type[Node], ...] = (SequenceNode,)

    def __init__(self, item: Shape) -> None:
        self.item = item

    def decode(self, node: Node, context: Decoding) -> Any:
        if not isinstance(node, SequenceNode):
            return context.refuse(node, _expected(tr("a list"), node))
        values = tuple(self.item.decode(child, context) for child in node.value)
        return INVALID if INVALID in values else values

    def schema(self, definitions: dict[str, Any]) -> dict[str, Any]:
        return {"type": "array", "items": self.item.schema(definitions)}


class Table:
    nodes: tuple[type[Node], ...] = (MappingNode,)

    def __init__(self, key: Shape, value: Shape) -> None:
        self.key = key
        self.value = value

    def decode(self, node: Node, context: Decoding) -> Any:
        if not isinstance(node, MappingNode):
            return context.refuse(node, _expected(tr("a mapping"), node))
        result = {}
        for key_node, value_node in node.value:
            key = self.key.decode(key_node, context)
            value = self.value.decode(value_node, context)
            if key is not INVALID and value is not INVALID:
                result[key] = value
        return result

    def schema(self, definitions: dict[str, Any]) -> dict[str, Any]:
        return {"type": "object", "additionalProperties": self.value.schema(definitions)}


class Either:
    def __init__(self, shapes: list[Shape]) -> None:
        self.shapes = shapes
        self.nodes: tuple[type[Node], ...] = tuple(kind for shape in shapes for kind in shape.nodes)
        if len(set(self.nodes)) < len(self.nodes):
            raise TypeError("two members of a union have the same kind of node, so its values cannot be decoded")

    def decode(self, node: Node, context: Decoding) -> Any:
        for shape in self.shapes:
            if isinstance(node, shape.nodes):
                return shape.decode(node, context)
        wanted = tr(" or ").join(dict.fromkeys(tr(_NOUN[kind]) for kind in self.nodes))
        return context.refuse(node, _expected(wanted, node))

    def schema(self, definitions: dict[str, Any]) -> dict[str, Any]:
        return {"anyOf": [shape.schema(definitions) for shape in self.shapes]}


class _Field(NamedTuple):
    name: str
    shape: Shape
    required: bool


class RecordShape:
    nodes: tuple[type[Node], ...] = (MappingNode,)

    def __init__(self, model: type[Record]) -> None:
        self.model = model
        self.has_place = "where" in model.record_types
        self.fields = {
            name.rstrip("_"): _Field(name, shape_of(hint), name in model.record_required)
            for name, hint in model.record_types.items()
            if INJECTED not in typing.get_args(hint)
        }

    def decode(self, node: Node, context: Decoding, **injected: str) -> Any:
        if not isinstance(node, MappingNode):
            return context.refuse(node, _expected(tr("a mapping"), node))
        values: dict[str, Any] = dict(injected)
        known = self.fields
        for key_node, value_node in node.value:
            spec = known.get(key_node.value)
            if spec is None:
                values["?"] = self._refuse_key(key_node, context)
                continue
            values[spec.name] = spec.shape.decode(value_node, context)
        for key, spec in known.items():
            if spec.required and spec.name not in values:
                values[spec.name] = context.refuse(node, tr("the key '{key}' is missing", key=key))
        if INVALID in values.values():
            return INVALID
        if self.has_place:
            values["where"] = place(node, context.file)
        return self.model(**values)

    def _refuse_key(self, node: Node, context: Decoding) -> Any:
        if context.is_full:
            return INVALID  # a search for similar names takes long
        hint = did_you_mean(node.value, self.fields).rstrip() or tr(
            "known keys: {names}", names=", ".join(sorted(self.fields))
        )
        return context.refuse(node, tr("unknown key '{key}'; {hint}", key=_shown(node.value), hint=hint))

    def schema(self, definitions: dict[str, Any]) -> dict[str, Any]:
        title = self.model.__name__
        if title not in definitions:
            definitions[title] = {}
            definitions[title] = {
                "type": "object",
                "description": (self.model.__doc__ or title).strip().partition("\n")[0],
                "properties": {key: spec.shape.schema(definitions) for key, spec in self.fields.items()},
                "required": [key for key, spec in self.fields.items() if spec.required],
                "additionalProperties": False,
            }
        return {"$ref": f"#/$defs/{title}"}


def _expected(wanted: str, node: Node) -> str:
    return tr("expected {wanted}, found {found}", wanted=wanted, found=tr(_NOUN[type(node)]))


def _shown(value: str) -> str:
    return value if len(value) <= 60 else value[:57] + "..."


@cache
def shape_of(hint: Any) -> Shape:
    """Return the shape of a type of the model."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        return Scalar(arguments[1])
    if origin in {typing.Union, types.UnionType}:
        shapes = [shape_of(argument) for argument in arguments if argument is not type(None)]
        return shapes[0] if len(shapes) == 1 else Either(shapes)
    if origin is typing.Literal:
        return OneOf(arguments)
    if origin is tuple:
        return Listing(shape_of(arguments[0]))
    if origin is Mapping:
        return Table(shape_of(arguments[0]), shape_of(arguments[1]))
    if hint is bool:
        return Boolean()
    if hint is int:
        return Integer()
    return Scalar(None) if hint is str else record_of(hint)


_RECORDS: dict[type, RecordShape] = {}


def record_of(model: type[Record]) -> RecordShape:
    if model not in _RECORDS:
        _RECORDS[model] = RecordShape(model)
    return _RECORDS[model]
