"""The picture of a comparison as a file; the end of its name says of which kind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from envbuilder.compare.chart import PAPER, WIDTH, Area, Curve, Label, Picture, Point, picture
from envbuilder.compare.result import Comparison
from envbuilder.errors import HostError, UsageError
from envbuilder.render.page import render_page

if TYPE_CHECKING:
    from PIL.ImageDraw import ImageDraw

_FONT = "system-ui, -apple-system, 'Segoe UI', 'Noto Sans', sans-serif"
# a PNG is drawn larger than it is kept, so that its lines are smooth
_KEPT, _SMOOTH = 2, 2


def drawer(path: Path) -> Callable[[Comparison], bytes]:
    """Asked before anything is compared, so that nothing is done in vain."""
    suffix = path.suffix.lower()
    if suffix not in _FORMS:
        raise UsageError(f"nothing is drawn as '{path.name}'", hint=f"end its name with {', '.join(_FORMS)}")
    if suffix == ".png":
        try:
            import PIL.ImageDraw  # noqa: F401
        except ImportError as error:
            hint = "pip install 'envbuilder[plot]', or draw a .svg or .html, which need nothing"
            raise HostError("a PNG needs pillow, and it is not installed", hint=hint) from error
    return _FORMS[suffix]


def svg(drawn: Picture) -> str:
    root = ElementTree.Element(
        "svg", xmlns="http://www.w3.org/2000/svg", viewBox=f"0 0 {WIDTH} {drawn.height}", width=str(WIDTH),
        height=str(drawn.height), role="img",
    )  # fmt: skip
    root.set("font-family", _FONT)
    ElementTree.SubElement(root, "title").text = drawn.title
    ElementTree.SubElement(root, "rect", width="100%", height="100%", fill=PAPER)
    for shape in drawn.shapes:
        if isinstance(shape, Label):
            _text(root, shape)
        elif isinstance(shape, Area):
            ElementTree.SubElement(
                root, "polygon", {"class": shape.name}, points=_points(shape.points), fill=shape.colour
            )
        else:
            _curve(root, shape)
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode") + "\n"


def _curve(root: ElementTree.Element, shape: Curve) -> None:
    line = ElementTree.SubElement(root, "polyline", points=_points(shape.points), fill="none", stroke=shape.colour)
    line.set("stroke-width", f"{shape.width:g}")
    line.set("stroke-linejoin", "round")
    if shape.name:
        line.set("class", shape.name)
    if shape.dots:
        for x, y in shape.points:
            ElementTree.SubElement(root, "circle", cx=f"{x:g}", cy=f"{y:g}", r=f"{shape.dots:g}", fill=shape.colour)


def _text(root: ElementTree.Element, shape: Label) -> None:
    x, y = shape.at
    text = ElementTree.SubElement(root, "text", x=f"{x:g}", y=f"{y:g}", fill=shape.colour)
    text.set("font-size", str(shape.size))
    text.set("text-anchor", shape.anchor)
    if shape.bold:
        text.set("font-weight", "600")
    text.text = shape.text


def _points(points: Sequence[Point]) -> str:
    return " ".join(f"{x:g},{y:g}" for x, y in points)


def html(found: Comparison) -> str:
    drawn = picture(found)
    return render_page("compare.html.j2", found=found, title=drawn.title, picture=svg(drawn))


def png(drawn: Picture) -> bytes:
    from io import BytesIO

    from PIL import Image, ImageDraw

    scale = _KEPT * _SMOOTH
    image = Image.new("RGB", (WIDTH * scale, drawn.height * scale), PAPER)
    draw = ImageDraw.Draw(image)
    for shape in drawn.shapes:
        if isinstance(shape, Label):
            _write(draw, shape, scale)
        elif isinstance(shape, Area):
            draw.polygon(_scaled(shape.points, scale), fill=shape.colour)
        else:
            _line(draw, shape, scale)
    kept = image.resize((WIDTH * _KEPT, drawn.height * _KEPT), Image.Resampling.LANCZOS)
    content = BytesIO()
    kept.save(content, "PNG", optimize=True)
    return content.getvalue()


def _write(draw: ImageDraw, shape: Label, scale: int) -> None:
    from PIL import ImageFont

    anchor = {"start": "ls", "middle": "ms", "end": "rs"}[shape.anchor]
    ((x, y),) = _scaled([shape.at], scale)
    font = ImageFont.load_default(shape.size * scale)
    draw.text((x, y), shape.text, shape.colour, font, anchor, stroke_width=scale // 4 if shape.bold else 0)


def _line(draw: ImageDraw, shape: Curve, scale: int) -> None:
    points = _scaled(shape.points, scale)
    if len(points) > 1:
        draw.line(points, shape.colour, max(1, round(shape.width * scale)), joint="curve")
    radius = shape.dots * scale
    for x, y in points if radius else ():
        draw.ellipse((x - radius, y - radius, x + radius, y + radius), fill=shape.colour)


def _scaled(points: Sequence[Point], scale: int) -> list[Point]:
    return [(x * scale, y * scale) for x, y in points]


_FORMS: dict[str, Callable[[Comparison], bytes]] = {
    ".svg": lambda found: svg(picture(found)).encode(),
    ".html": lambda found: html(found).encode(),
    ".png": lambda found: png(picture(found)),
}
