"""The picture of a comparison: a panel for each metric with both runs and the limit. matplotlib draws it, an extra."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from envbuilder.compare.result import Comparison
from envbuilder.compare.runs import Pair
from envbuilder.errors import HostError, UsageError
from envbuilder.language import tr
from envbuilder.paths import with_extra
from envbuilder.render.page import render_page

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NPU_COLOUR, GPU_COLOUR, LIMIT_COLOUR = "#2563eb", "#c2660c", "#fbe3c8"
_GOOD, _BAD, _FAINT, _RULE = "#15803d", "#b91c1c", "#64748b", "#e3e8ee"
# in inches
_WIDTH, _PANEL, _HEAD = 8.8, 2.5, 0.8
_TITLE_LENGTH = 70
# beyond this, the difference of two values may not fit into a float
_HUGE = 1e300


@dataclass(frozen=True)
class _Panel:
    title: str
    pair: Pair
    note: str
    note_colour: str = _FAINT
    # the lowest and the highest allowed value of each step
    band: Sequence[tuple[float, float]] = ()


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
    return render_page("compare.html.j2", found=found, title=_title(found), picture=start + rest).encode()


def _saved(found: Comparison, suffix: str, metadata: dict[str, str | None]) -> bytes:
    import matplotlib

    content = BytesIO()
    # the text of an SVG stays text, and its identifiers do not change from run to run
    settings = matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "envbuilder"})
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
    names = {"NPU": (NPU_COLOUR, 2), "reference" if found.doubt else "GPU": (GPU_COLOUR, 2), "limit": (LIMIT_COLOUR, 8)}
    legend = figure.legend(
        [Line2D([], [], color=colour, linewidth=width) for colour, width in names.values()], [*names],
        loc="outside upper left", ncols=3, frameon=False, title=_shortened(_title(found)), alignment="left",
        title_fontproperties={"size": "large", "weight": "bold"},
    )  # fmt: skip
    legend.get_title().set_parse_math(False)
    colour = _GOOD if found.passed else _BAD
    figure.text(0.99, 0.98, found.verdict, ha="right", va="top", size="large", weight="bold", color=colour)
    for panel, axes in zip(panels, figure.subplots(len(panels), squeeze=False)[:, 0], strict=True):
        _draw(panel, axes)
    return figure


def _panels(found: Comparison) -> Iterator[_Panel]:
    for item in found.metrics:
        colour = _FAINT if item.limit is None else _GOOD if item.ok else _BAD
        yield _Panel(f"{item.name}  ({item.pair.key})", item.pair, item.summary, colour, list(item.band()))
    if found.throughput is not None and all(item.name != found.throughput.pair.name for item in found.metrics):
        pair, ratio = found.throughput.pair, found.throughput.ratio
        note = "" if ratio is None else f"ratio {ratio:.3f}"
        yield _Panel(f"{pair.name}  ({pair.key}), {found.throughput.when}", pair, note)


def _draw(panel: _Panel, axes: Axes) -> None:
    pair, name = panel.pair, panel.pair.name
    axes.set_title(panel.title, loc="left", weight="bold", size="medium", parse_math=False)
    axes.set_title(panel.note, loc="right", size="small", color=panel.note_colour, parse_math=False)
    if panel.band:
        low, high = (_drawable(values) for values in zip(*panel.band, strict=True))
        # the edge keeps the limits of a single step visible
        axes.fill_between(pair.steps, low, high, color=LIMIT_COLOUR, linewidth=1, gid=f"{name}-limit")
    for values, colour, run in ((pair.gpu, GPU_COLOUR, "gpu"), (pair.npu, NPU_COLOUR, "npu")):
        # a step between two that are not a number is visible only by its dot
        axes.plot(pair.steps, _drawable(values), color=colour, marker="o", markersize=2.5, gid=f"{name}-{run}")
    axes.set_xlabel("step", color=_FAINT, size="small")
    axes.locator_params(axis="x", integer=True, min_n_ticks=1)
    axes.tick_params(colors=_FAINT, labelsize="small")
    axes.grid(axis="y", color=_RULE)
    axes.set_axisbelow(True)
    axes.spines[["top", "left", "right"]].set_visible(False)


def _drawable(values: Iterable[float]) -> list[float]:
    return [value if abs(value) < _HUGE else math.nan for value in values]


def _title(found: Comparison) -> str:
    """Return the names of both logs, without the characters that XML does not allow."""
    text = f"{PurePath(found.npu).name} against {PurePath(found.gpu).name}"
    return "".join(sign if sign.isprintable() else "\N{REPLACEMENT CHARACTER}" for sign in text)


def _shortened(text: str) -> str:
    return text if len(text) <= _TITLE_LENGTH else f"{text[: _TITLE_LENGTH - 1]}…"
