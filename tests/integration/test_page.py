"""The page of a report in a real browser: it is drawn, and it fits the window."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from matplotlib.image import imread

from envbuilder.validate.page import page
from tests.helpers.browser import BROWSER, opened
from tests.helpers.passed_report import REPORT

CURVE, GOAL, INK = (37, 99, 235), (21, 128, 61), (31, 41, 51)

pytestmark = pytest.mark.skipif(BROWSER is None, reason="needs chromium: apt-get install chromium, as `make test` does")


@pytest.mark.parametrize("width", [600, 1000])
def test_the_page_is_drawn(tmp_path: Path, width: int) -> None:
    # a part that is too wide makes the page wider than the window
    overflow = "<script>document.body.dataset.wide = document.documentElement.scrollWidth > innerWidth</script>"
    file = tmp_path / "report.html"
    file.write_text(page(REPORT).replace("</body>", f"{overflow}</body>"), encoding="utf-8")
    picture, size = tmp_path / "report.png", f"--window-size={width},1400"
    opened(file.as_uri(), tmp_path / "profile", size, action=f"--screenshot={picture}")
    assert 'data-wide="false"' in opened(file.as_uri(), tmp_path / "profile", size)
    pixels = (imread(picture) * 255).round().astype(int)
    assert pixels.shape[:2] == (1400, width)
    colours = Counter(map(tuple, pixels[:, :, :3].reshape(-1, 3).tolist()))
    # two curves, the line of the goal, and words
    assert colours[CURVE] > 500 and colours[GOAL] > 100 and colours[INK] > 500
