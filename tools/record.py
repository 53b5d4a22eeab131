"""Draws commands and their output as a picture, docs/terminal.svg, which loads nothing from elsewhere."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import struct
import subprocess
import sys
import termios
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

ROOT = Path(__file__).resolve().parent.parent
WIDTH = 112
COMMANDS = (
    "envbuilder list --hw atlas-800t-a3 --engine sglang --arch aarch64",
    "envbuilder compat torch_npu 2.8.0",
    "envbuilder build --hw atlas-800t-a3 --engine sglang --dry-run",
)
_HUES = [(240, 113, 120), (152, 195, 121), (229, 192, 123), (97, 175, 239), (198, 120, 221), (86, 182, 194)]
_DARK, _LIGHT = (24, 26, 31), (214, 218, 224)
_THEME = TerminalTheme(_DARK, _LIGHT, [_DARK, *_HUES, _LIGHT], [(92, 99, 112), *_HUES, (255, 255, 255)])
_FORMAT = """<svg viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<title>envbuilder in a terminal</title>
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, "SFMono-Regular", Menlo, Consolas, "DejaVu Sans Mono", monospace;
  font-size: {char_height}px; line-height: {line_height}px; }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}"/>
</clipPath>
{lines}
</defs>
<rect fill="#181a1f" width="{width}" height="{height}" rx="8"/>
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""


def terminal() -> str:
    """Return the picture of the commands, which run one after the other in a terminal."""
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True, legacy_windows=False)
    for command in COMMANDS:
        console.print(Text.assemble(("$ ", "bold green"), (command, "bold")))
        console.print(Text.from_ansi(_shown(command)))
        console.print()
    return console.export_svg(theme=_THEME, code_format=_FORMAT, unique_id="terminal")


def _shown(command: str) -> str:
    """Return what a command prints on a terminal, with standard error."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 60, WIDTH, 0, 0))
    words = [sys.executable, "-m", *command.split()]
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("ENVBUILDER_", "NO_COLOR"))}
    variables = {**kept, "TERM": "xterm-256color", "COLUMNS": str(WIDTH), "XDG_CONFIG_HOME": os.devnull}
    with subprocess.Popen(words, stdin=theirs, stdout=theirs, stderr=theirs, env=variables, cwd=ROOT) as process:  # noqa: S603
        os.close(theirs)
        text = b""
        while chunk := _read(ours):
            text += chunk
    os.close(ours)
    if process.returncode:
        raise SystemExit(f"{command} ended with {process.returncode}")
    return text.decode("utf-8").replace("\r\n", "\n").rstrip("\n")


def _read(stream: int) -> bytes:
    try:
        return os.read(stream, 4096)
    except OSError:
        # Linux reports the end of a terminal as an error
        return b""
