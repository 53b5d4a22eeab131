"""Pages in a real browser."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

BROWSER = shutil.which("chromium")


def opened(address: str, profile: Path, *flags: str, action: str = "--dump-dom") -> str:
    """Open a page in chromium, and return its document, or what another action prints."""
    assert BROWSER, "make test installs chromium"
    fixed = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={profile}", *flags]
    words = [BROWSER, *fixed, action, address]
    return subprocess.run(words, capture_output=True, text=True, check=True, timeout=300).stdout
