import subprocess
import sys

import pytest
from PIL import ImageFont

from report.charts.font import FOLDER, text_width


@pytest.mark.parametrize("weight", ["regular", "bold"])
def test_texts_are_as_wide_as_their_font_draws_them(weight):
    font = ImageFont.truetype(FOLDER / f"RoofwrightSans-{weight.title()}.ttf", 1000)
    for text in ("NVIDIA AV To 1.0", "wide_resnet101_2 (µs, 95 %)", "−1 × 10⁶ ≥ α → β"):
        assert text_width(text, 1000, weight) == pytest.approx(font.getlength(text), abs=len(text))


def test_the_process_that_draws_begins_without_pandas():
    code = "import sys, report.charts.drawing; print('pandas' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
