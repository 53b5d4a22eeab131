"""Frozen records with keyword-only fields, like `@dataclass(frozen=True, kw_only=True)` but quicker to import.

A dataclass generates and compiles its methods when it is defined, about a millisecond for each class; that is too
long for the answer of `envbuilder list`. All records share one set of methods instead. Type checkers see the fields
as those of a dataclass.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

if TYPE_CHECKING:
    from typing_extensions import dataclass_transform
else:

    def dataclass_transform(**_: Any) -> Callable[[type], type]:
        return lambda cls: cls


NOTHING: Mapping[Any, Any] = MappingProxyType({})
R = TypeVar("R", bound="Record")


@dataclass_transform(kw_only_default=True, frozen_default=True, eq_default=True)
class Record:
    """A record. Subclasses annotate their fields; a value in the class body is the default and must be immutable."""

    record_types: ClassVar[Mapping[str, Any]] = NOTHING
    record_required: ClassVar[frozenset[str]] = frozenset()

    def __init_subclass__(cls) -> None:
        own = cls.__annotations__
        cls.record_types = {**cls.record_types, **own}
        cls.record_required = cls.record_required | {name for name in own if name not in cls.__dict__}

    def __init__(self, **values: Any) -> None:
        wrong = (self.record_required - values.keys()) or (values.keys() - self.record_types.keys())
        if wrong:
            raise TypeError(f"{type(self).__name__}: missing or unknown fields: {', '.join(sorted(wrong))}")
        self.__dict__.update(values)

    def changed(self: R, **values: Any) -> R:
        """Return a copy with other values of some fields."""
        return type(self)(**{name: getattr(self, name) for name in self.record_types} | values)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen")

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and all(getattr(self, n) == getattr(other, n) for n in self.record_types)

    def __hash__(self) -> int:
        # as in a frozen dataclass, this fails for a record with a mapping
        return hash((type(self), *(getattr(self, name) for name in self.record_types)))

    def __repr__(self) -> str:
        inner = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.record_types)
        return f"{type(self).__name__}({inner})"
