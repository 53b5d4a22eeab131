"""The page of a report in a real browser: it is drawn, and it fits the window."""

from __future__ import annotations

import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest
from matplotlib.image import imread

from envbuilder.validate.page import page
from tests.helpers.passed_report import REPORT

CURVE, GOAL, INK = (37, 99, 235), (21, 128, 61), (31, 41, 51)
BROWSER = shutil.which("chromium")

pytestmark = pytest.mark.skipif(BROWSER is None, reason="needs chromium: apt-get install chromium, as `make test` does")


@pytest.mark.parametrize("width", [600, 1000])
def test_the_page_is_drawn(tmp_path: Path, width: int) -> None:
    # a part that is too wide makes the page wider than the window
    overflow = "<script>document.body.dataset.wide = document.documentElement.scrollWidth > innerWidth</script>"
    file = tmp_path / "report.html"
    file.write_text(page(REPORT).replace("</body>", f"{overflow}</body>"), encoding="utf-8")
    options = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        f"--user-data-dir={tmp_path / 'profile'}",
        f"--window-size={width},1400",
    ]
    picture = tmp_path / "report.png"
    assert BROWSER is not None
    for action in (f"--screenshot={picture}", "--dump-dom"):
        result = subprocess.run(
            [BROWSER, *options, action, file.as_uri()], capture_output=True, text=True, check=True, timeout=120
        )
    assert 'data-wide="false"' in result.stdout
    pixels = (imread(picture) * 255).round().astype(int)
    assert pixels.shape[:2] == (1400, width)
    colours = Counter(map(tuple, pixels[:, :, :3].reshape(-1, 3).tolist()))
    # two curves, the line of the goal, and words
    assert colours[CURVE] > 500 and colours[GOAL] > 100 and colours[INK] > 500
