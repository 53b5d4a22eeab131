"""Generated logs of training runs: the same series in every format that a run may write."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path

from envbuilder.compare import LoggedRun
from envbuilder.compare.runs import run_of
from envbuilder.trainlog import read_log
from envbuilder.trainlog.events import masked

Series = Mapping[str, Sequence[float]]
LOSS, REWARD, SPEED, TIME = "train/loss", "critic/rewards/mean", "perf/throughput", "timing_s/step"
MEMORY, DIFFERENCE = "perf/max_memory_allocated_gb", "training/rollout_probs_diff_mean"


def rows(series: Series, first: int = 1) -> list[tuple[int, dict[str, float]]]:
    length = max(map(len, series.values()))
    return [
        (first + at, {name: values[at] for name, values in series.items() if at < len(values)}) for at in range(length)
    ]


def console(series: Series, first: int = 1, device: str | None = None) -> str:
    head = f"(TaskRunner pid=7) {{'trainer': {{'device': '{device}'}}}}\n" if device else ""
    lines = (
        f"(TaskRunner pid=7) step:{step} - " + " - ".join(f"{name}:{value!r}" for name, value in metrics.items())
        for step, metrics in rows(series, first)
    )
    return head + "".join(f"{line} - training/global_step:9\n" for line in lines)


def jsonl(series: Series, first: int = 1) -> str:
    return "".join(json.dumps({"step": step, "data": metrics}) + "\n" for step, metrics in rows(series, first))


def table(series: Series, first: int = 1) -> str:
    names = [*series]
    lines = [",".join(["step", *names])]
    for step, metrics in rows(series, first):
        lines.append(",".join([str(step), *(repr(metrics[name]) if name in metrics else "" for name in names)]))
    return "\n".join(lines) + "\n"


def events(series: Series, first: int = 1, *, tensors: bool = False) -> bytes:
    """Return an event file as TensorBoard writes it: a record with the version, then one for each scalar."""
    content = record(field(1, struct.pack("<d", 1.5)) + field(3, b"brain.Event:2"))
    for step, metrics in rows(series, first):
        for name, value in metrics.items():
            number = field(2, struct.pack("<f", value))
            if tensors:
                number = field(8, varint(1 << 3) + varint(1) + field(5, struct.pack("<f", value), packed=True))
            summary = field(1, field(1, name.encode()) + number)
            content += record(field(1, struct.pack("<d", 1.5)) + varint(2 << 3) + varint(step) + field(5, summary))
    return content


def record(message: bytes) -> bytes:
    length = struct.pack("<Q", len(message))
    return length + struct.pack("<I", masked(length)) + message + struct.pack("<I", masked(message))


def field(number: int, content: bytes, *, packed: bool = False) -> bytes:
    """Encode a field: four and eight bytes as numbers unless they are a packed list, anything else with its length."""
    if not packed and len(content) == 8 and number == 1:
        return varint(number << 3 | 1) + content
    if not packed and len(content) == 4 and number == 2:
        return varint(number << 3 | 5) + content
    return varint(number << 3 | 2) + varint(len(content)) + content


def varint(number: int) -> bytes:
    out = b""
    while number > 127:
        out, number = out + bytes([number & 127 | 128]), number >> 7
    return out + bytes([number])


def run(content: str | bytes, name: str = "a.log") -> LoggedRun:
    return run_of(name, read_log(content.encode() if isinstance(content, str) else content))


def write(folder: Path, name: str, content: str | bytes) -> str:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return str(path)
