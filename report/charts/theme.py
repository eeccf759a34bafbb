"""The look of every chart: sizes, and one colour for each thing that charts show. `docs/palette.md` lists the colours.

A figure is at most ``FULL_WIDTH`` pixels wide, axes included. The PDF prints that as 170 mm, so 10 pixels are 6 points.
A figure of at most ``TEXT_WIDTH`` has its caption in the margin there. On a wide page, text flows around a figure of at
most ``HALF_WIDTH``.
"""

import json
from collections.abc import Iterable
from itertools import cycle
from pathlib import Path
from typing import Any

FONTS = Path(__file__).with_name("fonts")  # shipped, so that charts look the same everywhere
FAMILY = "Roofwright Sans, Arial, Liberation Sans, Helvetica, sans-serif"  # the others have the same widths
WIDTHS: dict[str, dict[str, float]] = json.loads((FONTS / "widths.json").read_text(encoding="utf-8"))  # ems, by weight

FULL_WIDTH, TEXT_WIDTH, HALF_WIDTH = 800, 555, 400
FONT_SIZE, TICK_SIZE, LABEL_SIZE = 12, 11, 11  # titles; ticks and legends; names of marks
LONGEST_NAME = 0.4 * FULL_WIDTH  # a longer name is cut; the tooltip has all of it
GAP = 22  # pixels between panels
LARGEST = 600  # pixels of the area of the largest mark
DASH = [5, 3]
NARROWEST = 50  # pixels of a plot; longer names next to it make the figure wider than the paper

INK, MUTED, GRID, GREY, PAPER = "#1a1a1a", "#6b6b6b", "#e6e6e6", "#a8a8a8", "#ffffff"
# Okabe and Ito's colours, told apart without colour vision; then Tol's, and one of ColorBrewer's
ORANGE, SKY, GREEN, BLUE, VERMILION, PURPLE = "#E69F00", "#56B4E9", "#009E73", "#0072B2", "#D55E00", "#CC79A7"
YELLOW, WINE, OLIVE, INDIGO, BROWN = "#DDB340", "#882255", "#999933", "#332288", "#A6761D"

ACCENTS = {"MobileNet-v2": VERMILION, "ResNet-18": BLUE}  # the two networks of the puzzle; all others are grey
CHIP_COLORS = {"CPU": BLUE, "GPU": VERMILION, "ASIC": GREEN, "SoC": PURPLE, "FPGA": ORANGE}
CHIP_SHAPES = {"CPU": "circle", "GPU": "square", "ASIC": "diamond", "SoC": "triangle-up", "FPGA": "cross"}
LAYER_COLORS = {
    "convolution": BLUE, "depthwise convolution": SKY, "linear": VERMILION, "attention": YELLOW,
    "experts": BROWN, "normalisation": GREEN, "activation": PURPLE, "pooling": INDIGO, "recurrent": OLIVE,
    "embedding": WINE, "other": "#b5b5b5", "outside the layers": "#dedede",
}  # fmt: skip
KERNEL_COLORS = {
    "convolution": BLUE, "convolution, data gradient": "#3F8EC4",
    "convolution, weight gradient": "#7DB3DB", "convolution, both gradients": "#08244f",
    "depthwise convolution": SKY, "matrix product": VERMILION, "attention": YELLOW, "batch norm": GREEN,
    "batch norm, backward": "#66C2A5", "layer norm": OLIVE, "elementwise": PURPLE, "pooling": INDIGO,
    "reduction": WINE, "memory copy and set": BROWN, "layout conversion": ORANGE, "optimiser": "#F4A582",
    "other": "#b5b5b5",
}  # fmt: skip
MEMORY_COLORS = {"parameters": BLUE, "gradients": ORANGE, "momentum": SKY, "saved activations": GREEN}
STREAM_COLORS = {"read": BLUE, "write": VERMILION, "copy": GREEN, "triad": ORANGE}
GPU_LOOKS = {  # of GPUs whose curves meet, far apart in hue and lightness
    "A100 SXM 80GB": (ORANGE, "circle"), "H100 SXM": (BLUE, "square"), "H200 SXM": (SKY, "triangle-up"),
    "B200 SXM": (VERMILION, "circle"), "GB200 SXM": (GREEN, "diamond"), "GB300 SXM": (INDIGO, "triangle-down"),
    "L40S": (WINE, "cross"), "RTX PRO 6000": (PURPLE, "square"), "Intel Arc Pro B60": (OLIVE, "diamond"),
}  # fmt: skip
BATCH_COLORS = (SKY, "#399ed7", "#1d88c4", BLUE, "#035891", "#053e70", "#08244f")  # darker as the batch grows
BOUND_COLORS = {"whole network": PURPLE, "layer by layer": GREEN}  # the two rooflines, in every chapter
REGIME_COLORS = {"memory-bound": SKY, "compute-bound": ORANGE}

_DRAWN = {"color": INK, "clip": True}
MARKS: dict[str, dict[str, Any]] = {
    "point": {"filled": True, "shape": "circle", "size": 45, "opacity": 0.9, "color": BLUE, "clip": True},
    "line": _DRAWN | {"strokeWidth": 1.6}, "rule": _DRAWN | {"strokeWidth": 1.2}, "tick": _DRAWN,
    "bar": {"color": BLUE, "clip": True}, "rect": {"color": SKY, "clip": True}, "area": {"opacity": 0.15, "clip": True},
    "text": {"color": INK, "align": "center", "fontSize": LABEL_SIZE},
}  # fmt: skip
"""The usual look of marks; parts outside the axes are cut off."""

_GUIDE = {"labelFontSize": TICK_SIZE, "titleFontSize": FONT_SIZE, "titleFontWeight": "normal"}


def config(limit: float) -> dict[str, Any]:
    """Return Vega's settings. Names are cut at a limit in pixels; without one (0), Vega measures each half as often."""
    return {
        "background": PAPER,
        "font": FAMILY,
        "view": {"stroke": "#c8c8c8"},
        "axis": _GUIDE | {
            "labelColor": INK, "titleColor": INK, "gridColor": GRID, "domainColor": "#9a9a9a", "tickColor": "#9a9a9a",
            "labelLimit": limit,
        },
        "legend": _GUIDE | {
            "symbolSize": 70, "columnPadding": 14, "titlePadding": 8, "offset": 8, "labelLimit": limit,
        },
        "text": {"limit": limit},
        "title": {"fontSize": FONT_SIZE, "fontWeight": "bold", "anchor": "start", "color": INK, "offset": 6},
    }  # fmt: skip


def text_width(text: str, font_size: float, weight: str = "regular") -> float:
    """Return the width of a line of text; a character outside the font counts as an em."""
    widths = WIDTHS[weight]
    return sum(widths.get(character, 1) for character in text) * font_size


def plot_width(
    panels: int = 1, left: float = 0, right: float = 10, unit: str = "", shared: bool = False,
    figure: float = FULL_WIDTH,
) -> float:  # fmt: skip
    """Return the width of a plot, one of ``panels`` side by side in a ``figure`` of this width.

    ``left`` are the pixels of its axis, by default of an axis with this unit; ``right`` those for names. Only the first
    panel has a ``shared`` axis.
    """
    left = left or text_width(f"500 M{unit}", TICK_SIZE) + 36  # with its title
    sides = left + panels * right if shared else panels * (left + right)
    return max(NARROWEST, (figure - sides - GAP * (panels - 1)) / panels)


def accents(names: Iterable[str]) -> dict[str, str]:
    """Return the palette with ``ACCENTS`` and all other names in grey."""
    return {name: ACCENTS.get(name, GREY) for name in names}


def colors(names: Iterable[str]) -> dict[str, str]:
    """Return a colour for each name, in their order; the ninth repeats the first."""
    return dict(zip(names, cycle((BLUE, GREEN, ORANGE, VERMILION, PURPLE, SKY, OLIVE, WINE))))


def gpus(names: Iterable[str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return a colour and a shape for each GPU, the same in every figure; one without either is a grey circle."""
    looks = {name: GPU_LOOKS.get(name, (GREY, "circle")) for name in names}
    return {name: color for name, (color, _) in looks.items()}, {name: shape for name, (_, shape) in looks.items()}


def batches(sizes: Iterable[int]) -> dict[str, str]:
    """Return a colour for each batch size as text, darker as it grows."""
    ordered = sorted(set(sizes))
    step = (len(BATCH_COLORS) - 1) / max(len(ordered) - 1, 1)
    return {str(size): BATCH_COLORS[round(index * step)] for index, size in enumerate(ordered)}


def shapes(names: Iterable[str]) -> dict[str, str]:
    """Return a shape for each name, to tell them apart in grey."""
    return dict(zip(names, cycle(("circle", "square", "diamond", "cross", "triangle-up", "triangle-down"))))
