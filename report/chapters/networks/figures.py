"""Figures of the networks: FLOP, memory, intensity, kinds of layer, and the roofs over them."""

from dataclasses import replace
from typing import Any

import altair as alt
import pandas as pd

from measure.domain.models import STORY
from measure.domain.names import model_name
from measure.domain.roofs import Roofline
from measure.domain.words import PRODUCT_KINDS
from report import display
from report.chapters.networks import facts
from report.chapters.networks.tables import chosen_models
from report.charts import forms, theme
from report.charts.annotations import NAMES, ONCE, tips
from report.charts.axes import Categories, LinearAxis, LogAxis, by_color, by_shape
from report.charts.labels import text_size
from report.charts.roofline import DrawnRoof, Plane
from report.paper import BASE_PRECISION, Paper
from report.paper.frames import matching, spread

WAYS = dict(zip(facts.BYTES, theme.BOUND_COLORS, strict=True))  # the names of both ways to count bytes
BY_WAY = {
    "color": by_color("way", theme.BOUND_COLORS), "shape": by_shape("way", theme.shapes(theme.BOUND_COLORS)),
}  # fmt: skip
SHORT = {
    "convolution": "conv", "depthwise convolution": "dw", "linear": "lin", "attention": "att", "experts": "exp",
    "normalisation": "norm", "activation": "act", "pooling": "pool", "recurrent": "rec", "embedding": "emb",
    "other": "other", "outside the layers": "outside",
}  # fmt: skip
SHORT_SIZE = 10  # the smallest that prints legibly
PALE = ("depthwise convolution", "attention", "activation", "other", "outside the layers")  # with dark letters
TOOLTIP = [("name", "network", ""), ("way", "bytes", ""), ("intensity", "intensity", "FLOP/B")]


def _networks(paper: Paper, everything: bool) -> pd.DataFrame:
    rows = display.required(facts.at_batch(paper), facts.COUNTS.command)
    return spread(rows, display.LISTED) if everything else rows[rows.model.isin(chosen_models(paper))]


def _by_way(rows: pd.DataFrame) -> pd.DataFrame:
    """Return one row per network and way to count bytes, with its ``intensity``."""
    parts = [rows.assign(way=WAYS[way], intensity=rows.forward_flop / rows[facts.BYTES[way]]) for way in facts.BYTES]
    return pd.concat(parts, ignore_index=True)


@display.figure
def demands(paper: Paper) -> alt.ConcatChart:
    rows = _networks(paper, everything=True)
    y = Categories.steps(rows.name, 13)
    width = (theme.FULL_WIDTH - y.room - 46) / 3
    panels: list[alt.LayerChart] = []
    for column, title, unit in (("forward_flop", "FLOP", "FLOP"), ("inference_peak_byte", "peak memory", "B")):
        if not (rows[column] > 0).any():
            continue
        x = LogAxis.around(rows[column], pixels=width, title=title, unit=unit)
        place = Categories.steps(rows.name, 13, shown=not panels)
        tooltip = [("name", "network", ""), (column, title, unit)]
        dots = alt.Chart(rows).mark_point(color=theme.INK).encode(x(column), place("name"))
        panels.append(_on_rules(rows, place, x, tips(dots, *tooltip)))
    both = _by_way(rows)
    x = LogAxis.around(both.intensity, pixels=width, title="intensity", unit="FLOP/B")
    place = Categories.steps(rows.name, 13, shown=False)
    panels.append(_on_rules(rows, place, x, tips(_by_bytes(both).encode(x("intensity"), place("name")), *TOOLTIP)))
    description = f"FLOP, peak memory and operational intensity of {len(rows)} networks at batch size 1."
    return alt.concat(*panels, spacing=8, name="networks-demands", description=description)


def _on_rules(rows: pd.DataFrame, y: Categories, x: LogAxis, *layers: Any, title: Any = "") -> alt.LayerChart:
    """Draw layers over a thin line for each network."""
    rules = alt.Chart(rows[["name"]].drop_duplicates(), description=NAMES).mark_rule(color=theme.GRID)
    return alt.layer(rules.encode(y("name")), *layers, width=x.pixels, height=y.pixels, title=title)


def _by_bytes(both: pd.DataFrame) -> alt.Chart:
    """Return points whose colour and shape tell the bytes that are counted."""
    return alt.Chart(both).mark_point(size=50).encode(**BY_WAY)


@display.figure
def kinds(paper: Paper, everything: bool = False) -> alt.ConcatChart:
    rows = _networks(paper, everything)
    sums = display.required(facts.kind_sums(paper), facts.COUNTS.command)
    shares = rows[["model", "name"]].merge(sums, on="model")
    for column in ("flop", "byte"):
        shares[column] /= shares.groupby("model")[column].transform("sum")
    products = shares[shares.layer_kind.isin(PRODUCT_KINDS)].groupby("model").byte.sum()
    shares = shares.assign(products=shares.model.map(products).fillna(0.0))
    shares = shares.sort_values("products", ascending=False, kind="stable")
    step, figure = (16, theme.FULL_WIDTH) if everything else (14, theme.TEXT_WIDTH)
    left = Categories.steps(shares.name, step).room
    width = (figure - left - 20 - theme.GAP) / 2
    panels = []
    for column, title in (("flop", "share of all operations"), ("byte", "share of bytes layer by layer")):
        x = LinearAxis(low=0, high=1, pixels=width, format="%", title=title)
        about: dict[str, Any] = {"step": step, "labels": column == "flop"}
        bars = forms.stacked_bars(shares, "name", "layer_kind", column, theme.LAYER_COLORS, x, **about)
        panels.append(_named(bars, shares, column, x, step))
    description = f"Shares of kinds of layer in the operations and bytes of {len(rows)} networks, as stacked bars."
    name = "networks-all-kinds" if everything else "networks-kinds"
    return alt.concat(*panels, name=name, description=description)


def _named(bars: alt.LayerChart, rows: pd.DataFrame, column: str, x: LinearAxis, step: float) -> alt.LayerChart:
    """Write the short name of its kind on every part of a bar that has room for it."""
    rows = rows.assign(place=rows.layer_kind.map([*theme.LAYER_COLORS].index), text=rows.layer_kind.map(SHORT))
    y = Categories.steps(rows.name, step, shown=column == "flop")
    rows = rows.sort_values("place", kind="stable")
    rows = rows.assign(middle=rows.groupby("name")[column].cumsum() - rows[column] / 2)
    size = rows[column] / (x.high - x.low) * x.pixels
    rows = rows[size > [text_size(text, SHORT_SIZE)[0] + 4 for text in rows.text]]
    texts = [
        alt.Chart(part, description=NAMES).mark_text(fontSize=SHORT_SIZE, color=theme.INK if pale else theme.PAPER)
        .encode(x("middle"), y("name"), text=alt.Text("text:N"))
        for pale, part in rows.groupby(rows.layer_kind.isin(PALE))
    ]  # fmt: skip
    bars.layer = [*bars.layer, *texts]
    return bars


@display.figure
def pair(paper: Paper) -> alt.ConcatChart:
    kinds = facts.pair_kinds(paper).sort_values("model")  # MobileNet-v2 first
    if set(kinds.model) != set(STORY) or kinds.bound_s.isna().any():
        raise display.Missing
    left = Categories.steps(map(model_name, STORY)).room
    width = (theme.TEXT_WIDTH - left - 3 * 14 - 2 * theme.GAP) / 3
    panels: list[alt.LayerChart] = []
    about = facts.on_roof(paper, "gpu")
    columns = (
        ("flop", "FLOP", "FLOP", f"batch size {kinds.batch.iloc[0]}"), ("byte", "bytes", "B", f"at {about.precision}"),
        ("bound_s", "layer-by-layer bound", "s", f"on the {about.name}"),
    )  # fmt: skip
    for column, title, unit, heading in columns:
        sums = kinds.groupby("name")[column].sum()
        x = LinearAxis.around(sums, pixels=width, title=title, unit=unit, format="~s", ticks=2)
        bars = forms.stacked_bars(
            kinds, "name", "layer_kind", column, theme.LAYER_COLORS, x, step=22, labels=not panels,
            tooltip=[("name", "network", ""), ("layer_kind", "kind", ""), (column, title, unit)],
            title=_lines(heading, width),
        )  # fmt: skip
        panels.append(_named(bars, kinds, column, x, 22))
    description = "FLOP, bytes and layer-by-layer bound of MobileNet-v2 and ResNet-18, as bars by kind of layer."
    return alt.concat(*panels, name="networks-pair", description=description)


@display.figure
def roofs(paper: Paper, everything: bool = False) -> alt.ConcatChart:
    """Draw the roof of the processor and of the GPU, and both intensities of each network below it."""
    devices = []
    for kind in ("cpu", "gpu"):
        found = facts.roof_of(paper, kind)
        precision = facts.counted_at(paper, found[1] if found else BASE_PRECISION)
        rows = facts.at_batch(paper, None, precision)
        rows = rows[rows.batch.isin([1, facts.large_batch(paper, precision)])]
        if found and (rows.batch == 1).any():
            devices.append((kind, *found[2:], rows))
    singles = matching(display.required(devices, facts.ROOFS.command)[0][-1], batch=1).sort_values("traffic_intensity")
    shown = spread(singles, facts.ROWS) if everything else singles[singles.model.isin(chosen_models(paper))]
    step, figure = (14, theme.FULL_WIDTH) if everything else (15, theme.TEXT_WIDTH)
    width = theme.plot_width(len(devices), Categories.steps(shown.name).room, right=12, shared=True, figure=figure)
    planes: list[alt.LayerChart] = []
    lists: list[alt.LayerChart] = []
    for kind, roof, machine, rows in devices:
        both, about = _by_way(rows[rows.name.isin(shown.name)]), facts.on_roof(paper, kind)
        ridge, source = about.ridge.number or 0.0, ", as measured" if machine else ""
        texts = f"{about.name}, {about.precision}", f"ridge {about.ridge}{source}"
        heading = [line for text in texts for line in _lines(text, width)]
        title = f"intensity at {about.precision}"
        x = LogAxis.around([*both.intensity, ridge], pixels=width, title=title, unit="FLOP/B")
        planes.append(_roof(roof, x, matching(both, batch=1), heading))
        y = Categories.steps(shown.name, step, padding=0.4, shown=not lists)
        edges: dict[str, Any] = {"y": alt.YValue(0), "y2": alt.Y2Value("height")}
        shade = alt.Chart(ONCE).mark_rect(opacity=0.15, color=theme.REGIME_COLORS["memory-bound"])
        band = alt.Chart(ONCE).mark_rect(opacity=0.35, color=theme.GREY)
        lists.append(_on_rules(
            both, y, x, shade.encode(x(x.low), x2=alt.X2Datum(ridge), **edges),
            band.encode(x(about.ridge.low or ridge), x2=alt.X2Datum(about.ridge.high or ridge), **edges),
            alt.Chart(ONCE).mark_rule(strokeDash=theme.DASH).encode(x(ridge)), *_growths(both, x, y),
        ))  # fmt: skip
    description = "Roofs of a processor and of a GPU, and both intensities of each network against the ridge points."
    name = "networks-all-roofs" if everything else "networks-roofs"
    return alt.concat(*planes, *lists, columns=len(devices), spacing=8, name=name, description=description)


def _roof(roof: Roofline, x: LogAxis, rows: pd.DataFrame, title: list[str]) -> alt.LayerChart:
    """Draw a roof over an axis of intensities, with the networks on it."""
    rows = rows.assign(attainable=[*map(roof.attainable, rows.intensity)])
    rates = [*rows.attainable, 3 * roof.peak_flop_per_s]
    about: dict[str, Any] = {"title": "attainable", "unit": "FLOP/s", "vertical": True, "shown": False}
    y = LogAxis.around(rates, (0.12, 0.01), pixels=76, **about)
    plane = Plane((DrawnRoof.of(roof),), replace(x, shown=False), y)
    points = plane.place(alt.Chart(rows).mark_point(size=24).encode(**BY_WAY), "intensity", "attainable", *TOOLTIP)
    return plane.chart(points, title=title)


def _growths(both: pd.DataFrame, x: LogAxis, y: Categories) -> list[alt.Chart]:
    """Return arrows from each intensity at batch size 1 to the one at the largest, where both were counted."""
    offset = {"yOffset": alt.YOffset("way:N").scale(domain=[*WAYS.values()])}
    smallest = both.groupby(["name", "way"]).intensity.transform("min")
    large = both.assign(small=smallest)[both.batch > 1]
    ends = alt.Chart(large).encode(y("name"), color=BY_WAY["color"], **offset)
    tooltip = TOOLTIP[0], TOOLTIP[1], ("batch", "batch size", "d"), TOOLTIP[2]
    marks = [
        ends.mark_rule().encode(x("small"), x2=alt.X2("intensity")),
        tips(ends.mark_point(size=34, shape="triangle-right").encode(x("intensity")), *tooltip),
    ]
    starts = alt.Chart(matching(both, batch=1)).mark_point(size=34)
    starts = tips(starts.encode(x("intensity"), y("name"), **BY_WAY, **offset), *tooltip)
    return [*marks, starts] if len(large) else [starts]


def _lines(text: str, width: float) -> list[str]:
    """Break a title between words into lines of a width."""
    lines = [""]
    for word in text.split(" "):
        longer = f"{lines[-1]} {word}".strip()
        if lines[-1] and theme.text_width(longer, theme.FONT_SIZE, "bold") > width:
            lines.append(word)
        else:
            lines[-1] = longer
    return lines
