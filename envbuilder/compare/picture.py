"""A comparison as a picture: a verdict, a legend, and a panel for each metric with both runs and the limit."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePath

from envbuilder.compare.result import Comparison
from envbuilder.compare.runs import Pair
from envbuilder.render import chart

NPU_COLOUR, GPU_COLOUR, BAND_COLOUR = chart.BLUE, chart.ORANGE, chart.SAND
_WIDTH, _PANEL, _HEAD, _FOOT = 880, 270, 84, 12
_LEFT, _RIGHT, _ABOVE, _BELOW = 76, 24, 38, 44


def picture(found: Comparison) -> chart.Picture:
    """Return the picture of a comparison, with its panels one below the other."""
    panels = list(_panels(found))
    shapes = [*_head(found)]
    for number, panel in enumerate(panels):
        top = _HEAD + number * _PANEL
        shapes += chart.draw(panel, chart.Frame(_LEFT, top + _ABOVE, _WIDTH - _RIGHT, top + _PANEL - _BELOW))
    return chart.Picture(_title(found), _WIDTH, _HEAD + len(panels) * _PANEL + _FOOT, tuple(shapes))


def _title(found: Comparison) -> str:
    """Return the names of both logs, without the characters that XML does not allow."""
    text = f"{PurePath(found.npu).name} against {PurePath(found.gpu).name}"
    return "".join(sign if sign.isprintable() else "\N{REPLACEMENT CHARACTER}" for sign in text)


def _panels(found: Comparison) -> Iterator[chart.Panel]:
    for item in found.metrics:
        colour = chart.FAINT if item.limit is None else chart.GOOD if item.ok else chart.BAD
        name = f"{item.name}  ({item.pair.key})"
        yield chart.Panel(name, item.pair.steps, _series(item.pair), item.summary, colour, list(item.band()))
    if found.throughput is not None and all(item.name != found.throughput.pair.name for item in found.metrics):
        pair, ratio = found.throughput.pair, found.throughput.ratio
        note = "" if ratio is None else f"ratio {ratio:.3f}"
        yield chart.Panel(f"{pair.name}  ({pair.key}), {found.throughput.when}", pair.steps, _series(pair), note)


def _series(pair: Pair) -> tuple[chart.Series, chart.Series]:
    return chart.Series("gpu", pair.gpu, GPU_COLOUR), chart.Series("npu", pair.npu, NPU_COLOUR)


def _head(found: Comparison) -> Iterator[chart.Shape]:
    yield chart.Label((_LEFT, 32), _shortened(_title(found), 70), 18, bold=True)
    judged = chart.GOOD if found.passed else chart.BAD
    yield chart.Label((_WIDTH - _RIGHT, 32), found.verdict, 18, judged, "end", bold=True)
    x = float(_LEFT)
    reference = "reference" if found.doubt else "GPU"
    for text, colour, width in (("NPU", NPU_COLOUR, 2.5), (reference, GPU_COLOUR, 2.5), ("limit", BAND_COLOUR, 11)):
        yield chart.Curve(((x, 58), (x + 26, 58)), colour, width)
        yield chart.Label((x + 33, 62), text, 13, chart.FAINT)
        x += 58 + 8 * len(text)


def _shortened(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 1]}…"
