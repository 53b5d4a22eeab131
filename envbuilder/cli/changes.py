"""Prints the differences between two environments."""

from __future__ import annotations

from envbuilder.cli.columns import columns
from envbuilder.cli.console import Console
from envbuilder.plan.diff import Change


def show_change(item: Change, console: Console) -> None:
    """Print a change; a terminal would break a long line within a word."""
    mark, style = ("+", "added") if item.before is None else ("-", "removed") if item.after is None else (" ", "")
    values = [text for text in (item.before, item.after) if text and text != "yes"]
    text = f"{item.name}  {' -> '.join(values)}" if values else item.name
    if console.is_terminal and columns(text) + 4 > console.width:
        console.wrapped(text, 4, style, first=f"  {mark} ")
    else:
        console.out(console.style(f"  {mark} {text}", style) if style else f"  {mark} {text}")
