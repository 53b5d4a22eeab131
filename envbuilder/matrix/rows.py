"""The part of the matrices that defines which environments exist."""

from collections.abc import Mapping

from envbuilder.matrix.model import Branch, Chips, Engine, Framework, Hardware, Host, Root
from envbuilder.matrix.record import Record


class Rows(Record):
    root: Root
    chips: Chips
    host: Host
    hardware: Mapping[str, Hardware]
    engines: Mapping[str, Engine]
    frameworks: Mapping[str, Framework]
    branches: tuple[Branch, ...]
