"""Figures of what a change, or a newer device, brings to the models that others timed."""

from collections.abc import Sequence
from typing import Any

import altair as alt
import pandas as pd

from measure.domain.values import significant
from report.analysis import available, elsewhere_pairs
from report.analysis.elsewhere_pairs import PairedChange
from report.charts import theme
from report.figures import distributions
from report.figures.marks import tips
from report.load.paper import Paper
from report.text.prose import listing, number

PROMISED = "what the roofs promise"


@available.or_missing
@theme.building()
def changes(paper: Paper) -> Any:
    """Draw by how much a compiler and a layout speed up models, a row for each on each device."""
    return _drawn(elsewhere_pairs.changes(paper), "elsewhere-changes", "times as fast")


@available.or_missing
@theme.building()
def lowered(paper: Paper) -> Any:
    """Draw by how much fp16 is faster than fp32 beside what the roofs promise, a row a device."""
    return _drawn(elsewhere_pairs.lowered(paper), "elsewhere-lowered", "times as fast at fp16 as at fp32")


@available.or_missing
@theme.building()
def generations(paper: Paper) -> Any:
    """Draw by how much a newer device is faster than an older one, and what their roofs promise: a row a pair."""
    return _drawn(elsewhere_pairs.generations(paper), "elsewhere-generations", "times as fast")


def _drawn(comparisons: Sequence[PairedChange], name: str, title: str) -> Any:
    several = len({each.case for each in comparisons}) > 1
    spreads = {f"{each.case}, {each.where}" if several else each.where: each.spread for each in comparisons}
    promised = {row: each.promised for row, each in zip(spreads, comparisons, strict=True) if each.promised is not None}
    ends = [value for spread in spreads.values() for value in (spread.low, spread.high)]
    x = distributions.factor_axis([*ends, *promised.values()], distributions.plot_width(spreads), title)
    layers: list[Any] = [distributions.rows(spreads, x.title, x.axis, x.scale, at=1.0)]
    if promised:
        layers.append(_marks(promised, x.scale, list(spreads)))
    parts = [f"{row}: {spread.told('fast')}" for row, spread in spreads.items()]
    beside = (
        f" {PROMISED[0].upper()}{PROMISED[1:]}: {listing([significant(value) for value in promised.values()])}."
        if promised
        else ""
    )
    rows = number(len(spreads), "row")
    description = f"{rows} of how many times as fast models are, all else alike. {'; '.join(parts)}.{beside}"
    chart = alt.layer(*layers).properties(width=x.pixels, height=distributions.ROW * len(spreads))
    return theme.finish(chart, name, description)


def _marks(promised: dict[str, float], scale: alt.Scale, order: list[str]) -> alt.Chart:
    frame = pd.DataFrame({"name": list(promised), "promised": list(promised.values()), "what": PROMISED})
    color = alt.Scale(domain=[PROMISED], range=[theme.VERMILION])
    return (
        alt.Chart(frame)
        .mark_point(shape="diamond", size=60, strokeWidth=1.6, filled=False)
        .encode(
            distributions.row_axis(order),
            alt.X("promised:Q", scale=scale),
            alt.Color("what:N", scale=color, title=None, legend=alt.Legend(orient="top")),
            tooltip=tips("name", "promised"),
        )
    )
