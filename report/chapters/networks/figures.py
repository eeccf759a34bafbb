"""Figures of the networks: FLOP, memory, intensity, kinds of layer, and the roofs over them."""

from typing import Any

import altair as alt
import pandas as pd

from measure.domain.models import STORY
from measure.domain.names import model_name
from report import display
from report.chapters.networks import facts
from report.chapters.networks.tables import chosen_models
from report.charts import forms, theme
from report.charts.annotations import tips
from report.charts.axes import Categories, LinearAxis, LogAxis, by_color, by_shape, longest
from report.charts.roofline import DrawnRoof, Plane
from report.paper import Paper
from report.paper.frames import spread

WAYS = dict(zip(facts.BYTES, theme.BOUND_COLORS, strict=True))  # the names of both ways to count bytes
BY_WAY = {
    "color": by_color("way", theme.BOUND_COLORS), "shape": by_shape("way", theme.shapes(theme.BOUND_COLORS)),
}  # fmt: skip
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
    y = Categories.steps(rows.name, 12)
    width = (theme.FULL_WIDTH - y.room - 46) / 3
    panels: list[alt.LayerChart] = []
    for column, title, unit in (("forward_flop", "FLOP", "FLOP"), ("inference_peak_byte", "peak memory", "B")):
        if not (rows[column] > 0).any():
            continue
        x = LogAxis.around(rows[column], (0.1, 0.05), pixels=width, title=title, unit=unit)
        place = Categories.steps(rows.name, 12, shown=not panels)
        tooltip = [("name", "network", ""), (column, title, unit)]
        bars = alt.Chart(rows, width=width, height=y.pixels).mark_bar(color=theme.GREY)
        panels.append(tips(bars.encode(x(column), place("name"), x2=alt.X2Datum(x.low)), *tooltip))
    both = _by_way(rows)
    x = LogAxis.around(both.intensity, pixels=width, title="intensity", unit="FLOP/B")
    place = Categories.steps(rows.name, 12, shown=False)
    dots = alt.Chart(both, width=width, height=y.pixels).mark_point()
    panels.append(tips(dots.encode(x("intensity"), place("name"), **BY_WAY), *TOOLTIP))
    description = f"FLOP, peak memory and operational intensity of {len(rows)} networks at batch size 1."
    name = "networks-all-demands" if everything else "networks-demands"
    return alt.concat(*panels, spacing=8, name=name, description=description)


@display.figure
def kinds(paper: Paper, everything: bool = False) -> alt.ConcatChart:
    rows = _networks(paper, everything)
    sums = display.required(facts.kind_sums(paper), facts.COUNTS.command)
    families = rows.groupby("family").forward_flop.min().sort_values().index.tolist()
    rows = rows.assign(place=rows.family.map(families.index)).sort_values(["place", "forward_flop"])
    shares = rows[["model", "name"]].merge(sums, on="model")
    for column in ("flop", "byte"):
        shares[column] /= shares.groupby("model")[column].transform("sum")
    left = Categories.steps(shares.name, 12).room
    width = (theme.FULL_WIDTH - left - 20 - theme.GAP) / 2
    panels = [
        forms.stacked_bars(
            shares, "name", "layer_kind", column, theme.LAYER_COLORS,
            LinearAxis(low=0, high=1, pixels=width, format="%", title=title), step=12, labels=column == "flop",
        )
        for column, title in (("flop", "share of all operations"), ("byte", "share of bytes layer by layer"))
    ]  # fmt: skip
    description = f"Shares of kinds of layer in the operations and bytes of {len(rows)} networks, as stacked bars."
    name = "networks-all-kinds" if everything else "networks-kinds"
    return alt.concat(*panels, name=name, description=description)


@display.figure
def pair(paper: Paper) -> alt.ConcatChart:
    kinds = facts.pair_kinds(paper).sort_values("model")  # MobileNet-v2 first
    if set(kinds.model) != set(STORY) or kinds.bound_s.isna().any():
        raise display.Missing
    left = Categories.steps(map(model_name, STORY)).room
    width = (theme.FULL_WIDTH - left - 3 * 14 - 2 * theme.GAP) / 3
    panels: list[alt.LayerChart] = []
    for column, title, unit in (("flop", "FLOP", "FLOP"), ("byte", "bytes", "B"), ("bound_s", "least time", "s")):
        sums = kinds.groupby("name")[column].sum()
        x = LinearAxis.around(sums, pixels=width, title=title, unit=unit, format="~s", ticks=2)
        panels.append(forms.stacked_bars(
            kinds, "name", "layer_kind", column, theme.LAYER_COLORS, x, step=24, labels=not panels,
            tooltip=[("name", "network", ""), ("layer_kind", "kind", ""), (column, title, unit)],
        ))  # fmt: skip
    description = "FLOP, bytes and least time of MobileNet-v2 and ResNet-18 by kind of layer, as stacked bars."
    return alt.concat(*panels, name="networks-pair", description=description)


@display.figure
def intensity(paper: Paper) -> alt.ConcatChart:
    rows, large = facts.at_batch(paper, None), facts.large_batch(paper)
    fully = set(rows[rows.batch == large].model) & set(chosen_models(paper))
    rows = rows[rows.model.isin(fully)]
    if rows.batch.nunique() < 2:
        raise display.Missing(facts.COUNTS.command)
    both = _by_way(rows)
    width = theme.plot_width(2, right=longest([*both.name]) + 20, shared=True, unit="FLOP/B")
    panels: list[alt.LayerChart] = []
    for way in theme.BOUND_COLORS:
        about: dict[str, Any] = {"title": "intensity", "unit": "FLOP/B", "vertical": True, "shown": not panels}
        y = LogAxis.around(both.intensity, pixels=150, **about)
        lines, color = both[both.way == way], by_color("name", theme.accents(both.name), legend=None)
        panels.append(forms.curves(lines, "batch", "intensity", y, color, width, way))
    description = f"FLOP per byte of {rows.name.nunique()} networks by batch size, as a whole and layer by layer."
    return alt.concat(*panels, name="networks-intensity", description=description)


@display.figure
def roofs(paper: Paper) -> alt.ConcatChart:
    panels: list[alt.LayerChart] = []
    for kind in ("cpu", "gpu"):
        if (found := facts.roof_of(paper, kind)) is None:
            continue
        name, precision, roof, _ = found
        both = _by_way(facts.at_batch(paper, 1, facts.counted_at(paper, precision)))
        if both.empty:
            continue
        both = both.assign(rate=[roof.attainable(at) for at in both.intensity])
        drawn = DrawnRoof.of(roof, f"{precision} ")
        plane = Plane.over([drawn], theme.plot_width(2, unit="FLOP/s"), 150, both.intensity, both.rate)
        marks = [
            alt.Chart(both[both.way == way]).mark_point(size=size).encode(**BY_WAY)
            for way, size in zip(theme.BOUND_COLORS, (90, 22), strict=True)  # both show where they meet
        ]
        named = both.model.isin(STORY) & ~both.duplicated("model", keep="last")
        panels.append(plane.chart(
            *(plane.place(each, "intensity", "rate", *TOOLTIP) for each in marks),
            *plane.names(both.assign(name=both.name.where(named, "")), "name", "intensity", "rate", 90), title=name,
        ))  # fmt: skip
    description = "Networks at the rates that the roofs of a CPU and of a GPU allow them, by both intensities."
    panels = display.required(panels, facts.ROOFS.command)
    return alt.concat(*panels, name="networks-roofs", description=description)
