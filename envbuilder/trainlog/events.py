"""Reads event files of TensorBoard: records of a length, its checksum, a protobuf message and its checksum.

Only scalars are read: the step of an event, and the tag and value of its summaries. The package tensorboard reads
them too, but brings protobuf, grpc and a web server into every installation for these few fields.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from functools import cache

from envbuilder.trainlog.step import LoggedStep

_HEADER = struct.Struct("<QI")
_CHECKSUM = struct.Struct("<I")
# numbers of fields: Event, Summary, Summary.Value, TensorProto
_STEP, _SUMMARY = 2, 5
_VALUE = 1
_TAG, _SIMPLE_VALUE, _TENSOR = 1, 2, 8
_DTYPE, _CONTENT, _FLOATS, _DOUBLES = 1, 4, 5, 6
# values of a TensorProto's dtype
_FLOAT, _DOUBLE = 1, 2
# wire types of fields, and the number of bytes of those with a fixed length
_VARINT, _BYTES = 0, 2
_FIXED = {1: 8, 5: 4}


def is_events(content: bytes) -> bool:
    """Return whether the content begins as an event file: with a length and its valid checksum."""
    return len(content) >= _HEADER.size and _is_intact(content[:8], content[8:12])


def read_events(content: bytes) -> list[LoggedStep]:
    """Return one step per event that has scalars; a file that is still being written may end within an event."""
    found = (_event(message) for message in _records(content))
    return [step for step in found if step is not None and step.metrics]


def _records(content: bytes) -> Iterator[bytes]:
    """Yield the messages up to the first that is cut or damaged."""
    position = 0
    while position + _HEADER.size <= len(content):
        length, _ = _HEADER.unpack_from(content, position)
        start = position + _HEADER.size
        end = start + length
        following = end + _CHECKSUM.size
        if following > len(content) or not _is_intact(content[position : position + 8], content[position + 8 : start]):
            return
        if not _is_intact(content[start:end], content[end:following]):
            return
        yield content[start:end]
        position = following


def _event(message: bytes) -> LoggedStep | None:
    number = 0
    metrics: dict[str, float] = {}
    try:
        for field, value in _fields(message):
            if field == _STEP and isinstance(value, int):
                number = value
            elif field == _SUMMARY and isinstance(value, bytes):
                parts = (part for name, part in _fields(value) if name == _VALUE and isinstance(part, bytes))
                metrics.update(item for part in parts if (item := _scalar(part)) is not None)
    except (IndexError, KeyError, struct.error):
        return None
    return LoggedStep(number, metrics)


def _scalar(message: bytes) -> tuple[str, float] | None:
    tag, number = "", None
    for field, value in _fields(message):
        if not isinstance(value, bytes):
            continue
        if field == _TAG:
            tag = value.decode("utf-8", "replace")
        elif field == _SIMPLE_VALUE:
            number = struct.unpack("<f", value)[0]
        elif field == _TENSOR:
            number = _tensor(value)
    return None if number is None else (tag, number)


def _tensor(message: bytes) -> float | None:
    """Return the number of a tensor that has exactly one, or None, as for text and histograms."""
    kind, content = 0, b""
    for field, value in _fields(message):
        if field == _DTYPE and isinstance(value, int):
            kind = value
        elif field in (_CONTENT, _FLOATS, _DOUBLES) and isinstance(value, bytes):
            content = value
    form = {_FLOAT: "<f", _DOUBLE: "<d"}.get(kind)
    if form is None or len(content) != struct.calcsize(form):
        return None
    number: float = struct.unpack(form, content)[0]
    return number


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    position = 0
    while position < len(message):
        key, position = _varint(message, position)
        kind = key & 7
        if kind == _VARINT:
            number, position = _varint(message, position)
            yield key >> 3, number
            continue
        length, position = _varint(message, position) if kind == _BYTES else (_FIXED[kind], position)
        if position + length > len(message):
            raise IndexError("the message is cut")
        yield key >> 3, message[position : position + length]
        position += length


def _varint(message: bytes, position: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = message[position]
        number |= (byte & 0x7F) << shift
        position, shift = position + 1, shift + 7
        if byte < 0x80:
            return number, position


def _is_intact(content: bytes, checksum: bytes) -> bool:
    return _CHECKSUM.pack(masked(content)) == checksum


def masked(content: bytes) -> int:
    """Return the CRC-32C in the masked form of event files, as a plain checksum of data with checksums is weak."""
    table, crc = _table(), 0xFFFFFFFF
    for byte in content:
        crc = table[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    crc ^= 0xFFFFFFFF
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


@cache
def _table() -> tuple[int, ...]:
    table = []
    for number in range(256):
        for _ in range(8):
            number = (number >> 1) ^ (0x82F63B78 if number & 1 else 0)
        table.append(number)
    return tuple(table)
