"""The picture of a comparison: a panel for each metric with both runs and the limit. matplotlib draws it, an extra."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from envbuilder.compare.noise import text_of
from envbuilder.compare.result import Comparison, Metric, ShownSide
from envbuilder.compare.runs import Pair
from envbuilder.errors import HostError, UsageError
from envbuilder.language import tr
from envbuilder.paths import with_extra
from envbuilder.render.page import render_page

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NPU_COLOUR, GPU_COLOUR, LIMIT_COLOUR = "#2563eb", "#c2660c", "#fbe3c8"
NOISE_COLOUR = "#eef1f5"
_GOOD, _BAD, _FAINT, _RULE = "#15803d", "#b91c1c", "#64748b", "#e3e8ee"
# in inches
_WIDTH, _PANEL, _HEAD = 8.8, 2.5, 0.8
_TITLE_LENGTH = 70
# beyond this, the difference of two values may not fit into a float
_HUGE = 1e300
_CHINESE = (
    "Noto Sans CJK SC",
    "Source Han Sans SC",
    "WenQuanYi Micro Hei",
    "WenQuanYi Zen Hei",
    "PingFang SC",
    "Microsoft YaHei",
    "SimHei",
)


@dataclass(frozen=True)
class _Panel:
    title: str
    pair: Pair
    note: str
    note_colour: str = _FAINT
    # the lowest and the highest allowed value of each step
    band: Sequence[tuple[float, float]] = ()
    # the values of the single runs of each side
    runs: Sequence[Sequence[Sequence[float]]] = ()
    # how far correct runs may be apart
    noise: float | None = None


def drawer(path: Path) -> Callable[[Comparison], bytes]:
    """Return the function that draws a comparison in the format of a file.

    A format that cannot be drawn is an error here, before any log is read.
    """
    draw = {".svg": _svg, ".html": _html, ".png": _png}.get(path.suffix.lower())
    if draw is None:
        raise UsageError(
            tr("'{name}' has no format that can be drawn", name=path.name),
            hint=tr("end its name with .svg, .html, .png"),
        )
    # a notebook sets a backend that only its own installation has
    os.environ["MPLBACKEND"] = "agg"
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise HostError(tr("a picture needs matplotlib, and it is not installed"), hint=with_extra("plot")) from error
    return draw


def _svg(found: Comparison) -> bytes:
    # without a date, the same comparison gives the same file
    return _saved(found, "svg", {"Date": None})


def _png(found: Comparison) -> bytes:
    return _saved(found, "png", {})


def _html(found: Comparison) -> bytes:
    # a page must not contain an XML declaration
    _, start, rest = _svg(found).decode().partition("<svg")
    words = text_of(found.judgement) if found.judgement else ""
    page = render_page("compare.html.j2", found=found, title=_title(found), judgement=words, picture=start + rest)
    return page.encode()


def _saved(found: Comparison, suffix: str, metadata: dict[str, str | None]) -> bytes:
    import matplotlib

    content = BytesIO()
    # the text of an SVG stays text, and its identifiers do not change from run to run
    settings = matplotlib.rc_context(
        {"svg.fonttype": "none", "svg.hashsalt": "envbuilder", "font.family": "sans-serif", "font.sans-serif": _fonts()}
    )
    with settings, warnings.catch_warnings():
        # the name of a log may have Chinese characters, which the font of a PNG lacks
        warnings.filterwarnings("ignore", "Glyph .* missing from font")
        _figure(found).savefig(content, format=suffix, dpi=200, metadata={"Title": _title(found), **metadata})
    return content.getvalue()


def _figure(found: Comparison) -> Figure:
    """Return the picture: the names of the logs, the verdict and the legend, and below them the panels."""
    # without pyplot, which keeps every figure and looks for a display
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    panels = list(_panels(found))
    figure = Figure(figsize=(_WIDTH, _HEAD + len(panels) * _PANEL), layout="constrained")
    first, second = map(_named, (found.first, found.second))
    if first == second:
        first, second = f"first, {first}", f"second, {second}"
    names = {first: (NPU_COLOUR, 2), second: (GPU_COLOUR, 2), "limit": (LIMIT_COLOUR, 8)}
    if any(panel.noise for panel in panels):
        names["other samples"] = (NOISE_COLOUR, 8)
    legend = figure.legend(
        [Line2D([], [], color=colour, linewidth=width) for colour, width in names.values()], [*names],
        loc="outside upper left", ncols=4, frameon=False, title=_shortened(_title(found)), alignment="left",
        title_fontproperties={"size": "large", "weight": "bold"},
    )  # fmt: skip
    legend.get_title().set_parse_math(False)
    for text in legend.get_texts():
        text.set_parse_math(False)
    colour = {"passed": _GOOD, "failed": _BAD}.get(found.verdict, _FAINT)
    figure.text(0.99, 0.985, found.verdict, ha="right", va="top", size="large", weight="bold", color=colour)
    if found.judgement:
        words = text_of(found.judgement).partition(":")[0]
        figure.text(
            0.99, 0.985 - 0.24 / figure.get_figheight(), words, ha="right", va="top", size="medium", color=_FAINT
        )
    for panel, axes in zip(panels, figure.subplots(len(panels), squeeze=False)[:, 0], strict=True):
        _draw(panel, axes)
    return figure


def _named(side: ShownSide) -> str:
    """Return a side for the legend: its device, and its log or how many it has."""
    logs = side.logs[0] if len(side.logs) == 1 else f"mean of {len(side.logs)} runs"
    return _printable(f"{side.device.upper()}: {_shortened(logs)}" if side.device else _shortened(logs))


def _panels(found: Comparison) -> Iterator[_Panel]:
    for item in found.metrics:
        colour = _FAINT if item.limit is None else _GOOD if item.ok else _BAD
        title = f"{item.name}  ({item.pair.key})"
        yield _Panel(title, item.pair, item.summary, colour, list(item.band()), item.curves)
        if item.limit is not None and item.by == "mae":
            yield _difference(item, item.limit)
    if found.throughput is not None and all(item.name != found.throughput.pair.name for item in found.metrics):
        pair, ratio = found.throughput.pair, found.throughput.ratio
        note = "" if ratio is None else f"ratio {ratio:.3f}"
        yield _Panel(f"{pair.name}  ({pair.key}), {found.throughput.when}", pair, note)


def _difference(item: Metric, limit: float) -> _Panel:
    """Return the difference of the curves, on which the limit is broad enough to be seen."""
    pair, noise = item.pair, item.judgement.noise if item.judgement else None
    values = tuple(ours - theirs for ours, theirs in zip(pair.npu, pair.gpu, strict=True))
    own = replace(pair, name=f"{item.name}-difference", npu=values, gpu=())
    reason = item.judgement.reason if item.judgement else ""
    return _Panel(f"{item.name}: first - second", own, reason, _FAINT, [(-limit, limit)] * len(values), (), noise)


def _draw(panel: _Panel, axes: Axes) -> None:
    pair, name = panel.pair, panel.pair.name
    axes.set_title(panel.title, loc="left", weight="bold", size="medium", parse_math=False)
    axes.set_title(panel.note, loc="right", size="small", color=panel.note_colour, parse_math=False)
    if panel.noise:
        axes.axhspan(-panel.noise, panel.noise, color=NOISE_COLOUR, linewidth=0, gid=f"{name}-noise")
    if panel.band:
        low, high = (_drawable(values) for values in zip(*panel.band, strict=True))
        # the edge keeps the limits of a single step visible
        axes.fill_between(pair.steps, low, high, color=LIMIT_COLOUR, linewidth=1, gid=f"{name}-limit")
    for side, colour in zip(panel.runs, (NPU_COLOUR, GPU_COLOUR), strict=False):
        for values in side if len(side) > 1 else ():
            axes.plot(pair.steps, _drawable(values), color=colour, linewidth=0.7, alpha=0.45, gid=f"{name}-run")
    for values, colour, run in ((pair.gpu, GPU_COLOUR, "gpu"), (pair.npu, NPU_COLOUR, "npu")):
        # a step between two that are not a number is visible only by its dot
        if values:
            axes.plot(pair.steps, _drawable(values), color=colour, marker="o", markersize=2.5, gid=f"{name}-{run}")
    axes.set_ylim(*_range(panel))
    axes.set_xlabel("step", color=_FAINT, size="small")
    axes.locator_params(axis="x", integer=True, min_n_ticks=1)
    axes.tick_params(colors=_FAINT, labelsize="small")
    axes.grid(axis="y", color=_RULE)
    axes.set_axisbelow(True)
    axes.spines[["top", "left", "right"]].set_visible(False)


def _range(panel: _Panel) -> tuple[float, float]:
    """Return the values that the axis shows: those of the curves and the limit, however small their change is."""
    runs = (value for side in panel.runs for values in side for value in values)
    shown = [*panel.pair.npu, *panel.pair.gpu, *runs, *(edge for pair in panel.band for edge in pair)]
    finite = [value for value in _drawable(shown) if math.isfinite(value)]
    low, high = min(finite, default=0.0), max(finite, default=1.0)
    room = (high - low) * 0.06 or abs(high) * 0.05 or 1.0
    return low - room, high + room


def _drawable(values: Iterable[float]) -> list[float]:
    return [value if abs(value) < _HUGE else math.nan for value in values]


def _title(found: Comparison) -> str:
    """Return the names of both sides, without the characters that XML does not allow."""
    return _printable(f"{found.first.name} against {found.second.name}")


def _printable(text: str) -> str:
    return "".join(sign if sign.isprintable() else "\N{REPLACEMENT CHARACTER}" for sign in text)


def _shortened(text: str) -> str:
    return text if len(text) <= _TITLE_LENGTH else f"{text[: _TITLE_LENGTH - 1]}…"


def _fonts() -> list[str]:
    """Return the font of matplotlib, and those of this machine that have the Chinese characters of a name."""
    from matplotlib.font_manager import get_font_names

    known = {*get_font_names()}
    return ["DejaVu Sans", *(name for name in _CHINESE if name in known)]
