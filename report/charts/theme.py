"""The look of every chart: one theme, and one colour and shape for each kind, family, batch size and stream."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import cycle, islice
from typing import Any

import altair as alt
from altair.utils import schemapi
OUTSIDE = "outside the layers"

from report.charts import font
from report.paper.chips import KINDS

INK, MUTED, GRID = "#1a1a1a", "#6b6b6b", "#e6e6e6"
FONT_SIZE, LABEL_SIZE = 11, 10
WIDTH = 800
"""Width in pixels of a plot as wide as the text; with its axis it shrinks to about 0.7 on A4, if it is 560."""

PAGE_HEIGHT = 1.5 * WIDTH
"""Pixels of a figure as high as a page of the paper leaves room for, over a caption."""

LONGEST_NAME = 0.4 * WIDTH
"""Pixels of a name beside marks; of a longer one Vega draws the beginning, and its tooltip tells it whole."""

# Okabe and Ito's colours, told apart without colour vision and, with the shapes, in grey.
BLACK, ORANGE, SKY, GREEN, BLUE, VERMILION, PURPLE = (
    "#000000", "#E69F00", "#56B4E9", "#009E73", "#0072B2", "#D55E00", "#CC79A7"
)  # fmt: skip
# Tol's, where theirs are not enough.
YELLOW, WINE, OLIVE, INDIGO, TEAL = "#EECC66", "#882255", "#999933", "#332288", "#44AA99"
# ColorBrewer's, where neither are.
BROWN = "#A6761D"
# Paths of shapes that Vega has not, as large as its own are in a square of sides 2.
STAR = "M0,-1.4L.314,-.433L1.331,-.433L.509,.165L.823,1.133L0,.535L-.823,1.133L-.509,.165L-1.331,-.433L-.314,-.433Z"
HEXAGON = "M0,-1.1L.953,-.55L.953,.55L0,1.1L-.953,.55L-.953,-.55Z"
SALTIRE = "M-1.1,-.7L-.7,-1.1L0,-.4L.7,-1.1L1.1,-.7L.4,0L1.1,.7L.7,1.1L0,.4L-.7,1.1L-1.1,.7L-.4,0Z"

KIND_STYLES = {
    "cpu": (BLUE, "circle"), "gpu": (VERMILION, "square"), "asic": (GREEN, "diamond"),
    "soc": (PURPLE, "triangle-up"), "fpga": (ORANGE, "cross"),
}  # fmt: skip
FAMILY_STYLES = {
    "plain": (BLACK, "circle"), "residual": (BLUE, "square"), "inception": (SKY, "triangle-up"),
    "compact": (ORANGE, "diamond"), "transformer": (VERMILION, "cross"),
    "segmentation": (GREEN, "triangle-down"), "audio": (PURPLE, "triangle-right"),
    "detection": (WINE, "triangle-left"), "video": (OLIVE, "wedge"), "optical flow": (INDIGO, "arrow"),
    "language": (TEAL, HEXAGON), "own": (BROWN, STAR),
}  # fmt: skip
STREAM_STYLES = {
    "read": (BLUE, "circle"), "write": (VERMILION, "square"), "copy": (GREEN, "diamond"),
    "triad": (ORANGE, "triangle-up"),
}  # fmt: skip
OTHER_STYLE = (MUTED, SALTIRE)
"""For a family that is none of these."""

LAYER_COLORS = {
    "convolution": BLUE, "depthwise convolution": SKY, "linear": VERMILION, "attention": YELLOW,
    "normalisation": GREEN, "activation": PURPLE, "pooling": INDIGO, "recurrent": OLIVE,
    "embedding": WINE, "other": "#b5b5b5",
}  # fmt: skip
PART_COLORS = {**LAYER_COLORS, OUTSIDE: "#dedede"}
"""The parts of a training step's time: kinds of layer, and what belongs to none."""
MEMORY_COLORS = {"parameters": BLUE, "gradients": ORANGE, "momentum": SKY, "saved activations": GREEN}
"""The contents of memory in a training step, in the order in which figures stack it."""

GROUP_COLORS = {
    "convolution": BLUE, "convolution, data gradient": "#3F8EC4",
    "convolution, weight gradient": "#7DB3DB", "convolution, both gradients": "#08244f",
    "depthwise convolution": SKY, "matrix product": VERMILION, "attention": YELLOW, "batch norm": GREEN,
    "batch norm, backward": "#66C2A5", "layer norm": OLIVE, "elementwise": PURPLE, "pooling": INDIGO,
    "reduction": WINE, "memory copy and set": BROWN, "optimiser": "#F4A582", "other": "#b5b5b5",
}  # fmt: skip
"""The groups of operators, in the order in which figures stack them."""
TERM_COLORS = {
    "model bound": INK,
    "operator by operator": MUTED,
    **GROUP_COLORS,
    "framework": ORANGE,
    "residual": "#dedede",
}
"""The terms of a measured latency; a group of operators stands for its inefficiency."""

BATCH_COLORS = (SKY, BLUE, "#08244f")
"""Light to dark with growing batch size, between which more are mixed."""

GUIDE = {"labelFontSize": FONT_SIZE - 1, "titleFontSize": FONT_SIZE, "titleFontWeight": "normal"}
_SHARED: tuple[Any, ...] = (alt.MarkDef, alt.FacetedEncoding, alt.Scale, alt.Axis, alt.Legend)
"""Parts of charts that no figure changes once they are made."""


@contextmanager
def building() -> Iterator[None]:
    """Let Altair build the paper's charts without its checks; outside this context Altair is as its users know it.

    Figures thin their data themselves, so the limit on rows is lifted. Altair copies a chart at each level that it is
    put into, and validates each part: sharing what never changes, and leaving validation to the tests, saves half the
    time of all figures.
    """
    own = [vars(part).get("__deepcopy__") for part in _SHARED]
    with alt.data_transformers.disable_max_rows(), schemapi.debug_mode(False):
        for part in _SHARED:
            part.__deepcopy__ = lambda self, _memory=None: self
        try:
            yield
        finally:
            for part, method in zip(_SHARED, own, strict=True):
                if method is None:
                    del part.__deepcopy__
                else:
                    part.__deepcopy__ = method


CONFIG: dict[str, Any] = {
    "background": "#ffffff",
    "font": font.FAMILY,
    "view": {"stroke": "#c8c8c8"},
    "axis": GUIDE | {
        "labelColor": INK, "titleColor": INK, "gridColor": GRID, "domainColor": "#9a9a9a", "tickColor": "#9a9a9a",
    },
    "legend": GUIDE | {"symbolSize": 60},
    "text": {"limit": LONGEST_NAME},
    "title": {"fontSize": FONT_SIZE + 1, "fontWeight": "bold", "anchor": "start", "color": INK, "offset": 6},
}  # fmt: skip


def finish(chart: Any, name: str, description: str, note: str = "") -> Any:
    """Give a figure its name (that of its picture's file), alt text and theme.

    A note, on what the figure leaves out, stands above it and ends the alt text.
    """
    # In place: ``properties`` copies all panels, and validates what the tests do
    chart.name, chart.description, chart.config = name, f"{description} {note}".rstrip(), alt.Config(**CONFIG)
    if note:
        # In a list: a title that is a text names a panel (`figure_data`)
        chart.title = alt.Title([note], fontSize=LABEL_SIZE, fontWeight="normal", color=MUTED)
    return chart


def panel_height(rows: int, most: float) -> float:
    """Return the height (pixels) at which rows of panels fit on a page, or ``most`` where there is room for more.

    Each row has a title, an axis and its title; above all stands a legend.
    """
    return min(most, (PAGE_HEIGHT - 50) / rows - 75)


def choice(field: str) -> alt.Parameter:
    """Return a choice by the legend: a click on an entry picks the marks whose field has that value, or no more."""
    return alt.selection_point(fields=[field], bind="legend", name="picked", toggle="true")


def faded_unless(condition: Any) -> Any:
    """Return the opacity of marks of which those that a reader did not choose step back."""
    return alt.when(condition).then(alt.value(1)).otherwise(alt.value(0.12))


def scales(styles: Mapping[str, tuple[str, str]]) -> tuple[alt.Scale, alt.Scale]:
    """Return the scales of colours and of shapes."""
    names = list(styles)
    colors, shapes = ([style[part] for style in styles.values()] for part in (0, 1))
    return alt.Scale(domain=names, range=colors), alt.Scale(domain=names, range=shapes)


def families(present: Iterable[str]) -> tuple[alt.Scale, alt.Scale]:
    """Return colours and shapes of the families of models that are present."""
    known = set(present)
    ordered = [family for family in FAMILY_STYLES if family in known] + sorted(known - set(FAMILY_STYLES))
    return scales({family: FAMILY_STYLES.get(family, OTHER_STYLE) for family in ordered})


def kinds(present: Iterable[str]) -> tuple[alt.Scale, alt.Scale]:
    """Return colours and shapes of the kinds of chip that are present, by the names that the paper gives them."""
    known = set(present)
    return scales({KINDS[kind]: style for kind, style in KIND_STYLES.items() if KINDS[kind] in known})


def colors_of(present: Iterable[str], colors: Mapping[str, str]) -> alt.Scale:
    """Return the colours of those that are present, in the order in which figures stack them."""
    known = set(present)
    names = [name for name in colors if name in known]
    return alt.Scale(domain=names, range=[colors[name] for name in names])


def batch_colors(batches: Iterable[int]) -> alt.Scale:
    """Return a colour for each batch size, darker as it grows."""
    ordered = sorted(set(batches))
    steps = max(len(ordered) - 1, 1)
    return alt.Scale(domain=ordered, range=[_mixed(index / steps) for index in range(len(ordered))])


def batch_shapes(batches: Iterable[int]) -> alt.Scale:
    """Return a shape for each batch size, so that batch sizes can be told apart in grey."""
    ordered = sorted(set(batches))
    shapes = cycle(("circle", "square", "diamond", "cross"))
    return alt.Scale(domain=ordered, range=list(islice(shapes, len(ordered))))


def _mixed(share: float) -> str:
    """Return the colour at a share of the way through BATCH_COLORS."""
    place = share * (len(BATCH_COLORS) - 1)
    index = min(int(place), len(BATCH_COLORS) - 2)
    ends = [[int(color[at : at + 2], 16) for at in (1, 3, 5)] for color in BATCH_COLORS[index : index + 2]]
    parts = [round(low + (high - low) * (place - index)) for low, high in zip(*ends, strict=True)]
    return "#{:02x}{:02x}{:02x}".format(*parts)
