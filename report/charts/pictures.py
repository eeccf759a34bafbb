"""Pictures of charts without what shows nothing and digits that no eye can tell: about half of what Vega writes."""

import re
from typing import Any

import vl_convert

TAG = re.compile(r"<[^>]*>")
LONG_NUMBER = re.compile(r"\d+\.\d{3,}(?!\d*e)")
"""More than hundredths of a pixel."""

INVISIBLE = re.compile(r'<text [^>]*/>|<(?:line|path) [^>]*?(?<![\w-])opacity="0"[^>]*/>')
"""Labels without text, and ticks and lines of a grid that an axis leaves out."""

UNUSED = re.compile(r' (?:class|role|aria-[a-z]+|pointer-events)="[^"]*"')
FONT = re.compile(r' font-family="[^"]*"')


def picture(specification: dict[str, Any]) -> str:
    """A chart's picture as SVG.

    Its alternative text stands in the page: without one for every mark it takes half the room.
    """
    config = specification["config"] | {"aria": False}
    return lean(vl_convert.vegalite_to_svg(specification | {"config": config}))


def lean(svg: str) -> str:
    """The same picture with fewer letters: the font, which is one, stands at the root."""
    font = FONT.search(svg)
    svg = TAG.sub(_short, INVISIBLE.sub("", svg))
    return svg.replace("<svg", f"<svg{font.group()}", 1) if font else svg


def _short(tag: re.Match[str]) -> str:
    text = FONT.sub("", UNUSED.sub("", tag.group()))
    return LONG_NUMBER.sub(lambda number: f"{float(number.group()):.2f}".rstrip("0").rstrip("."), text)
