"""Figures of how far predictions are off, and of what kinds of layer cost by the fits."""

from collections.abc import Sequence
from itertools import cycle
from statistics import median
from typing import Any

import altair as alt
import pandas as pd

from measure.cache.predictions import BY_DEVICE, BY_FAMILY, BY_MODEL, ONE_KNOWN, OURS
from measure.domain.values import significant
from report.analysis import available, predictions
from report.analysis.predictions import CALLED, LEFT_OUT, Check
from report.charts import theme
from report.charts.axes import Layers, LogAxis
from report.figures.bars import dashed_at
from report.figures.marks import rounded, styles, tips, widest
from report.load.paper import Paper
from report.text.frame_rows import extremes
from report.text.prose import number, percent

ROW, KIND_ROW = 18, 40
"""Pixels from one row to the next."""

DEVICE_STYLES = (
    (theme.BLUE, "circle"), (theme.VERMILION, "square"), (theme.GREEN, "diamond"), (theme.ORANGE, "triangle-up"),
    (theme.PURPLE, "cross"), (theme.WINE, "triangle-down"), (theme.SKY, "triangle-right"),
    (theme.OLIVE, "triangle-left"),
)  # fmt: skip
"""Of the devices that a kind of layer is shown on."""


@available.or_missing
@theme.building()
def errors(paper: Paper) -> Any:
    """Draw the median error of each way to predict, by what was left out: a dot a device, a tick in their middle."""
    found = {
        left_out: [check for check in predictions.checks(paper, left_out) if not predictions.is_pool(check.setting)]
        for left_out in (BY_MODEL, BY_FAMILY, BY_DEVICE, ONE_KNOWN)
    }
    predictions.of_settings(paper)  # says what is missing where there is none
    every = [100 * check.median for checks in found.values() for check in checks]
    width = theme.WIDTH / 2 - 24 - widest(CALLED.values()) / 2
    x = LogAxis.around(every, width, "median error, %")
    panels = [
        _errors(paper, checks, x, named=place % 2 == 0).properties(title=f"without {LEFT_OUT[left_out]}")
        for place, (left_out, checks) in enumerate(found.items())
        if checks
    ]
    ours = [
        percent(median(check.median for check in checks if check.method == OURS)) for checks in found.values() if checks
    ]
    description = (
        f"Dot plots of the median error of {number(len(CALLED), 'way')} to predict a latency, a dot a device and its "
        f"conditions. In the middle of these our terms are off by {', '.join(ours)}: left out were in turn "
        f"{', '.join(LEFT_OUT[left_out] for left_out, checks in found.items() if checks)}."
    )
    return theme.finish(alt.concat(*panels, columns=2, spacing=12), "prediction-errors", description)


def _errors(paper: Paper, checks: Sequence[Check], x: LogAxis, named: bool) -> Layers:
    rows = pd.DataFrame(
        {
            "how": CALLED[check.method], "error": 100 * check.median, "ours": check.method == OURS,
            "name": predictions.title(paper, check.setting), "conditions": predictions.conditions(check.setting),
            "nine in ten within": percent(check.nine_in_ten), "models": check.models,
        }
        for check in checks
    )  # fmt: skip
    rows["error"] = rounded(rows.error, 3)
    present = set(rows.how)
    order = [name for name in CALLED.values() if name in present]
    axis = alt.Axis(
        labelFontSize=theme.LABEL_SIZE, labelLimit=theme.WIDTH, grid=True, ticks=False, domain=False, labels=named
    )
    y = alt.Y("how:N", sort=order, title=None, scale=alt.Scale(domain=order), axis=axis)
    color = alt.when("datum.ours").then(alt.value(theme.BLUE)).otherwise(alt.value(theme.MUTED))
    error = alt.Tooltip("error:Q", title="median error, %")
    tooltip = tips("name", "conditions", "how", error, "nine in ten within", "models")
    dots = (
        alt.Chart(rows)
        .mark_point(filled=True, size=26, opacity=0.55)
        .encode(x.channel("error"), y, color=color, tooltip=tooltip)
    )
    middles = rows.groupby(["how", "ours"], as_index=False).error.median()
    ticks = (
        alt.Chart(middles)
        .mark_tick(thickness=2.5, height=15)
        .encode(
            x.channel("error"),
            y,
            color=color,
            tooltip=tips("how", alt.Tooltip("error:Q", title="middle of the medians, %")),
        )
    )
    return alt.layer(dots, ticks).properties(width=x.pixels, height=ROW * len(order))


@available.or_missing
@theme.building()
def kinds(paper: Paper) -> Any:
    """Draw how many times as long as its roof allows each kind of layer takes, with its interval, on each device."""
    rows = predictions.kinds(paper)
    order = [kind for kind in theme.LAYER_COLORS if kind in set(rows.layer_kind)]
    names = sorted(set(rows.name))
    frame = pd.DataFrame(
        {
            "kind": rows.layer_kind, "name": rows.name, "times": rounded(rows.roof_times, 3),
            "low": rounded(rows.roof_times_low, 3), "high": rounded(rows.roof_times_high, 3), "models": rows.models,
            "share": [percent(share) for share in rows.share],
        }
    )  # fmt: skip
    ends = [1, *frame.low[frame.low > 0], *frame.high]
    x = LogAxis.around(ends, theme.WIDTH - widest(order) - 10, "times as long as its roof allows")
    colors, shapes = theme.scales(dict(zip(names, cycle(DEVICE_STYLES), strict=False)))
    axis = alt.Axis(labelFontSize=theme.LABEL_SIZE, labelLimit=theme.WIDTH, grid=False, ticks=False, domain=False)
    y = alt.Y("kind:N", sort=order, title=None, scale=alt.Scale(domain=order), axis=axis)
    beside = alt.YOffset("name:N", sort=names, scale=alt.Scale(domain=names))
    legend = alt.Legend(orient="top", columns=2, labelLimit=theme.WIDTH)
    looks = styles("name", colors, shapes, legend, title=None)
    base = alt.Chart(frame).encode(y, beside, looks["color"])
    intervals = base.mark_rule(strokeWidth=1.2, clip=True).encode(x.channel("low"), alt.X2("high:Q"))
    share = alt.Tooltip("share:N", title="share of the latency")
    points = base.mark_point(filled=True, size=34, opacity=1, clip=True).encode(
        x.channel("times"), looks["shape"], tooltip=tips("kind", "name", "times", "low", "high", share, "models")
    )
    chart = alt.layer(dashed_at([1.0], "low", x.scale), intervals, points)
    least, most = extremes(frame.assign(label=[f"{row.kind} ({row.name})" for row in frame.itertuples()]), "times")
    description = (
        f"Dot plot of the time of {number(len(order), 'kind')} of layer over the least that the roof allows, on "
        f"{number(len(names), 'device')} and under their conditions: from {significant(least.times)} for {least.label} "
        f"to {significant(most.times)} for {most.label}."
    )
    return theme.finish(chart.properties(width=x.pixels, height=KIND_ROW * len(order)), "prediction-kinds", description)
