"""The font that the paper carries, so that charts look the same on every machine; ``fonts/subset.py`` makes it.

It needs neither Altair nor pandas: the process that draws pictures begins without them.
"""

import json
from pathlib import Path

FOLDER = Path(__file__).with_name("fonts")

FAMILY = "Roofwright Sans, Arial, Liberation Sans, Helvetica, sans-serif"
"""That font, and those with the same widths for a chart that leaves the paper."""

WIDTHS: dict[str, dict[str, float]] = json.loads((FOLDER / "widths.json").read_text(encoding="utf-8"))
"""Widths of its characters in ems, by weight; it has no kerning."""


def text_width(text: str, font_size: float, weight: str = "regular") -> float:
    """Return the width of a line of text; a character that the font lacks counts as an em."""
    widths = WIDTHS[weight]
    return sum(widths.get(character, 1) for character in text) * font_size
