"""Figures of the networks: FLOP, memory, intensity, kinds of layer, and the roofs over them."""

from typing import Any

import altair as alt
import pandas as pd

from measure.domain.models import STORY
from measure.domain.names import model_name
from measure.domain.words import PRODUCT_KINDS
from report import display
from report.chapters.networks import facts
from report.chapters.networks.tables import chosen_models
from report.charts import forms, theme
from report.charts.annotations import NAMES, ONCE, tips
from report.charts.axes import Categories, LinearAxis, LogAxis, by_color, by_shape
from report.charts.labels import text_size
from report.paper import Paper
from report.paper.frames import spread

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
def demands(paper: Paper, everything: bool = False) -> alt.ConcatChart:
    rows = _networks(paper, everything)
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
    name = "networks-all-demands" if everything else "networks-demands"
    return alt.concat(*panels, spacing=8, name=name, description=description)


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
    left = Categories.steps(shares.name, 16).room
    width = (theme.FULL_WIDTH - left - 20 - theme.GAP) / 2
    panels = []
    for column, title in (("flop", "share of all operations"), ("byte", "share of bytes layer by layer")):
        x = LinearAxis(low=0, high=1, pixels=width, format="%", title=title)
        about: dict[str, Any] = {"step": 16, "labels": column == "flop"}
        bars = forms.stacked_bars(shares, "name", "layer_kind", column, theme.LAYER_COLORS, x, **about)
        panels.append(_named(bars, shares, column, x, 16))
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
    width = (theme.FULL_WIDTH - left - 3 * 14 - 2 * theme.GAP) / 3
    panels: list[alt.LayerChart] = []
    columns = ("flop", "FLOP", "FLOP"), ("byte", "bytes", "B"), ("bound_s", "layer-by-layer bound", "s")
    for column, title, unit in columns:
        sums = kinds.groupby("name")[column].sum()
        x = LinearAxis.around(sums, pixels=width, title=title, unit=unit, format="~s", ticks=2)
        bars = forms.stacked_bars(
            kinds, "name", "layer_kind", column, theme.LAYER_COLORS, x, step=24, labels=not panels,
            tooltip=[("name", "network", ""), ("layer_kind", "kind", ""), (column, title, unit)],
        )  # fmt: skip
        panels.append(_named(bars, kinds, column, x, 24))
    description = "FLOP, bytes and layer-by-layer bound of MobileNet-v2 and ResNet-18, as bars by kind of layer."
    return alt.concat(*panels, name="networks-pair", description=description)


@display.figure
def intensity(paper: Paper) -> alt.ConcatChart:
    large = facts.large_batch(paper)
    rows = facts.at_batch(paper, None).query(f"batch in (1, {large})")
    whole = rows.groupby("model").batch.nunique() == 2
    rows = rows[rows.model.isin(set(whole[whole].index) & set(chosen_models(paper)))]
    if large == 1 or rows.empty:
        raise display.Missing(facts.COUNTS.command)
    both = _by_way(rows).sort_values(["batch", "traffic_intensity"], ascending=False)
    both = both.assign(size=[f"batch size {batch}" for batch in both.batch])
    sizes = [f"batch size {batch}" for batch in (1, large)]
    color = by_color("size", dict(zip(sizes, (theme.ORANGE, theme.INK), strict=True)))
    shape = by_shape("size", dict(zip(sizes, ("circle", "triangle-right"), strict=True)))
    y = Categories.steps(both.name, 15)
    width = (theme.FULL_WIDTH - y.room - 30 - theme.GAP) / 2
    panels: list[alt.LayerChart] = []
    for way in theme.BOUND_COLORS:
        x = LogAxis.around(both.intensity, pixels=width, title="intensity", unit="FLOP/B")
        place = Categories.steps(both.name, 15, shown=not panels)
        part = both[both.way == way]
        ends = part.pivot(index="name", columns="batch", values="intensity").reset_index()
        ends = ends.set_axis(["name", "small", "large"], axis=1)
        lines = alt.Chart(ends).mark_rule(color=theme.MUTED).encode(x("small"), place("name"), x2=alt.X2("large"))
        points = alt.Chart(part).mark_point(size=50).encode(x("intensity"), place("name"), color=color, shape=shape)
        tooltip = [("name", "network", ""), ("batch", "batch size", "d"), ("intensity", "intensity", "FLOP/B")]
        panels.append(_on_rules(part, place, x, lines, tips(points, *tooltip), title=way))
    description = f"FLOP per byte of {both.name.nunique()} networks at two batch sizes, as a whole and layer by layer."
    return alt.concat(*panels, name="networks-intensity", description=description)


@display.figure
def roofs(paper: Paper) -> alt.ConcatChart:
    """Set both intensities of each network against the ridge points of the processor and of the GPU."""
    counted = {}
    for kind in ("cpu", "gpu"):
        if found := facts.roof_of(paper, kind):
            counted[kind] = facts.at_batch(paper, 1, facts.counted_at(paper, found[1]))
    counted = {kind: rows for kind, rows in counted.items() if len(rows)}
    first, *_ = display.required([*counted.values()], facts.ROOFS.command)
    names = [*spread(first.sort_values("traffic_intensity"), facts.ROWS).name]
    counted = {kind: rows[rows.name.isin(names)] for kind, rows in counted.items()}
    y = Categories.steps(names, 13)
    width = (theme.FULL_WIDTH - y.room - 40 - theme.GAP * (len(counted) - 1)) / len(counted)
    panels: list[alt.LayerChart] = []
    for kind, rows in counted.items():
        about = facts.on_roof(paper, kind)
        both, ridge = _by_way(rows), about.ridge.number or 0.0
        title = f"intensity at {about.precision}"
        x = LogAxis.around([*both.intensity, ridge], pixels=width, title=title, unit="FLOP/B")
        place = Categories.steps(names, 13, shown=not panels)
        edges: dict[str, Any] = {"y": alt.YValue(0), "y2": alt.Y2Value("height")}
        shade = alt.Chart(ONCE).mark_rect(opacity=0.15, color=theme.REGIME_COLORS["memory-bound"])
        band = alt.Chart(ONCE).mark_rect(opacity=0.35, color=theme.GREY)
        panels.append(_on_rules(
            both, place, x, shade.encode(x(x.low), x2=alt.X2Datum(ridge), **edges),
            band.encode(x(about.ridge.low or ridge), x2=alt.X2Datum(about.ridge.high or ridge), **edges),
            alt.Chart(ONCE).mark_rule(strokeDash=theme.DASH).encode(x(ridge)),
            tips(_by_bytes(both).encode(x("intensity"), place("name")), *TOOLTIP),
            title=[str(about.name), f"ridge point {about.ridge}"],
        ))  # fmt: skip
    description = "Both intensities of each network against the ridge points of a processor and of a GPU."
    return alt.concat(*panels, name="networks-roofs", description=description)
