"""The picture of a comparison as a file, in the format that the suffix of its name asks for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from envbuilder.compare.picture import picture
from envbuilder.compare.result import Comparison
from envbuilder.errors import HostError, UsageError
from envbuilder.paths import with_extra
from envbuilder.render.chart import svg
from envbuilder.render.page import render_page


def drawer(path: Path) -> Callable[[Comparison], bytes]:
    """Return the function that draws a comparison in the format of a file.

    A format that cannot be drawn is an error here, before any log is read.
    """
    match path.suffix.lower():
        case ".svg":
            return _svg
        case ".html":
            return _html
        case ".png":
            return _png()
    raise UsageError(f"'{path.name}' has no format that can be drawn", hint="end its name with .svg, .html, .png")


def _svg(found: Comparison) -> bytes:
    return svg(picture(found)).encode()


def _html(found: Comparison) -> bytes:
    drawn = picture(found)
    return render_page("compare.html.j2", found=found, title=drawn.title, picture=svg(drawn)).encode()


def _png() -> Callable[[Comparison], bytes]:
    """Return the function that draws a PNG; it needs pillow, which may be missing."""
    try:
        from envbuilder.render.png import png
    except ImportError as error:
        hint = f"{with_extra('plot')}; or draw a .svg or .html, which need nothing"
        raise HostError("a PNG needs pillow, and it is not installed", hint=hint) from error
    return lambda found: png(picture(found))
