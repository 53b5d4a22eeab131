"""Writes pictures as PNG. Only this module needs pillow, which is an optional dependency."""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO

from PIL import Image, ImageDraw, ImageFont

from envbuilder.render.chart import PAPER, Area, Curve, Label, Picture, Point

# drawn at a larger scale than saved, so that lines are smooth
_KEPT, _SMOOTH = 2, 2
_SCALE = _KEPT * _SMOOTH


def png(picture: Picture) -> bytes:
    """Return a picture as the content of a PNG file."""
    image = Image.new("RGB", (picture.width * _SCALE, picture.height * _SCALE), PAPER)
    canvas = ImageDraw.Draw(image)
    for shape in picture.shapes:
        if isinstance(shape, Label):
            _write(canvas, shape)
        elif isinstance(shape, Area):
            canvas.polygon(_scaled(shape.points), fill=shape.colour)
        else:
            _line(canvas, shape)
    kept = image.resize((picture.width * _KEPT, picture.height * _KEPT), Image.Resampling.LANCZOS)
    content = BytesIO()
    kept.save(content, "PNG", optimize=True)
    return content.getvalue()


def _write(canvas: ImageDraw.ImageDraw, shape: Label) -> None:
    anchor = {"start": "ls", "middle": "ms", "end": "rs"}[shape.anchor]
    ((x, y),) = _scaled([shape.at])
    font = ImageFont.load_default(shape.size * _SCALE)
    canvas.text((x, y), shape.text, shape.colour, font, anchor, stroke_width=_SCALE // 4 if shape.bold else 0)


def _line(canvas: ImageDraw.ImageDraw, shape: Curve) -> None:
    points = _scaled(shape.points)
    if len(points) > 1:
        canvas.line(points, shape.colour, max(1, round(shape.width * _SCALE)), joint="curve")
    radius = shape.dots * _SCALE
    for x, y in points if radius else ():
        canvas.ellipse((x - radius, y - radius, x + radius, y + radius), fill=shape.colour)


def _scaled(points: Sequence[Point]) -> list[Point]:
    return [(x * _SCALE, y * _SCALE) for x, y in points]
