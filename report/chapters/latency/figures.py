"""Figures of latency: against counted quantities, as rank correlations, over batch sizes, and at equal FLOP."""

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import altair as alt
import pandas as pd

from report import display
from report.chapters.latency.facts import COMMAND, PREDICTORS, Timed, equal_flop, timed_elsewhere, timed_gpu, timed_here
from report.charts import theme
from report.charts.annotations import covered, names, tips
from report.charts.axes import Categories, LogAxis, by_color, longest
from report.charts.forms import curves
from report.charts.labels import Box
from report.paper import Paper
from report.paper.frames import matching, spread
from report.paper.published import ALIKE_FLOP
from report.stats.correlations import FEWEST, fit_power_law, rank_correlation

FEW = 12  # the most networks with all names against FLOP and parameters, and with lines in throughput
MEASURED = 200  # the most networks with an interval at each batch size, against FLOP and parameters

SIDE = 208.0  # pixels of the width of a matrix of correlations

TIMING = [("name", "network", ""), ("batch", "batch size", "d")]


@display.figure
def here(paper: Paper) -> alt.ConcatChart:
    return _against(display.required(timed_here(paper), COMMAND), "latency-here")


@display.figure
def gpu(paper: Paper) -> alt.ConcatChart:
    return _against(display.required(timed_gpu(paper), COMMAND), "latency-gpu")


def _against(timed: Timed, name: str) -> alt.ConcatChart:
    """Draw time against FLOP and against parameters: the time of a call by batch size, or of one input."""
    time, title = ("latency_s", "latency of a call") if timed.batches else ("input_s", "time of an image")
    groups = [timed.at(batch) for batch in timed.batches] or [timed.rows]
    columns = ["name", "label", "batch", "input_shape", "flop", "parameters", "latency_low_s", "latency_high_s", time]
    rows = pd.concat(groups)[columns].assign(size=lambda found: found.batch.astype(str))
    most = MEASURED if timed.batches else display.CLOUD
    networks = spread(rows.sort_values("flop").drop_duplicates("name"), most).name
    palette = theme.batches(timed.batches)
    y = LogAxis.around(rows[time], pixels=150, title=title, unit="s", vertical=True)
    shape = None if timed.batches else rows.input_shape.mode()[0]
    usual = matching(rows, batch=groups[0].batch.min() if timed.batches else None, input_shape=shape)
    color = by_color("size", palette, title="batch size")
    panels = []
    for column, heading, unit in (("flop", "FLOP of an input", "FLOP"), ("parameters", "parameters", "")):
        x = LogAxis.around(rows[column], pixels=theme.plot_width(2, unit="s"), title=heading, unit=unit)
        places = x(column), y(time)
        tooltip = [*TIMING, (column, heading, unit or ".3~s"), (time, title, "s")]
        layers, taken = [], []
        named = usual if usual.name.nunique() <= FEW else usual[usual.name.isin(theme.ACCENTS)]
        for group in groups:
            law = fit_power_law(group[column], group[time], group.model)
            if law is None:
                continue
            ends = group[column].min(), group[column].max()
            trend = pd.DataFrame({"x": ends, "y": map(law.at, ends)})
            line = alt.Chart(trend).mark_line(color=theme.MUTED, strokeDash=theme.DASH)
            layers.append(line.encode(x("x"), y("y")))
            taken += covered(trend, x("x"), y("y"))
            named = pd.concat([named, rows.loc[law.factors.sort_values().index[[0, -1]]]])
        drawn = rows[rows.name.isin(networks) | rows.index.isin(named.index)]
        if timed.batches:
            certain = drawn.dropna(subset="latency_low_s")
            interval = x(column), y("latency_low_s")
            layers.append(alt.Chart(certain).mark_rule().encode(*interval, y2=alt.Y2("latency_high_s"), color=color))
            taken += covered(certain, *interval, "latency_high_s")
            layers.append(tips(alt.Chart(drawn).mark_point(size=34).encode(*places, color=color), *tooltip))
        else:
            layers.append(tips(alt.Chart(drawn).mark_point(color=theme.GREY, size=9).encode(*places), *tooltip))
            accents = alt.Chart(usual[usual.name.isin(theme.ACCENTS)]).mark_point(size=60)
            accents = accents.encode(*places, color=by_color("name", theme.ACCENTS, legend=None))
            layers.append(tips(accents, *tooltip))
        layers += _names(named, drawn if timed.batches else usual.head(0), *places, taken)
        panels.append(alt.layer(*layers, width=x.pixels, height=y.pixels))
    description = f"Time of networks on the {timed.name} against their FLOP and against their parameters."
    return alt.concat(*panels, name=name, description=description)


def _names(named: pd.DataFrame, drawn: pd.DataFrame, x: Any, y: Any, taken: Sequence[Box]) -> list[alt.Chart]:
    """Name the networks with a label, clear of the drawn marks and the taken boxes."""
    pixels = [drawn[place["field"]].map(place["scale"].axis.pixel) for place in (x, y)]
    marks = [Box(right - 4, down - 4, right + 4, down + 4) for right, down in zip(*pixels, strict=True)]
    return names(named[named.label != ""].drop_duplicates(["name", "batch"]), "label", x, y, [*taken, *marks])


@display.figure
def ranks(paper: Paper) -> alt.ConcatChart:
    found = filter(None, (timed_here(paper), timed_gpu(paper)))
    devices = [timed for timed in found if timed.rows.model.nunique() >= FEWEST]
    panels = [_matrix(timed, timed.batches or (None,), timed.name) for timed in display.required(devices, COMMAND)]
    description = "Rank correlations of measured times and counted quantities."
    return alt.concat(*panels, name="latency-ranks", description=description)


@display.figure
def ranks_by_batch(paper: Paper) -> alt.ConcatChart:
    """Draw a matrix for each batch size of the machines measured here."""
    panels = [
        _matrix(timed, (batch,), f"{timed.name}, batch {batch}")
        for timed in (timed_here(paper), timed_gpu(paper)) if timed
        for batch in timed.batches if len(timed.at(batch)) >= FEWEST
    ]  # fmt: skip
    description = "Rank correlations of measured times and counted quantities, a matrix for each batch size."
    panels = display.required(panels, COMMAND)
    return alt.concat(*panels, columns=2, name="latency-ranks-by-batch", description=description)


def _matrix(timed: Timed, batches: Sequence[int | None], title: str) -> alt.LayerChart:
    """Draw rank correlations as coloured cells with numbers; a cell is white if its interval holds 0.

    Predictors are those of a time's own batch size, else of the middle one.
    """
    times = {"time" if len(batches) == 1 else f"time, batch {batch}": batch for batch in batches}
    groups = {batch: timed.at(batch) for batch in batches}
    groups = {batch: rows.set_index(rows.model + rows.input_shape) for batch, rows in groups.items()}
    middle = list(groups)[len(groups) // 2]
    columns = {name: column for column, name in PREDICTORS.items()}
    found = []
    for first, second in combinations([*times, *columns], 2):
        rows = groups[times.get(first, middle)]
        x = rows.input_s if first in times else rows[columns[first]].astype(float)
        y = groups[times[second]].input_s.reindex(x.index) if second in times else rows[columns[second]].astype(float)
        rho = rank_correlation(x, y, rows.model)
        pale = rho.low is None or rho.high is None or rho.low <= 0 <= rho.high
        found.append({"first": first, "second": second, "rho": rho.number, "pale": pale})
    return matrix(pd.DataFrame(found).dropna(subset="rho"), [*times, *columns], title)


def matrix(rows: pd.DataFrame, names: Sequence[str], title: str) -> alt.LayerChart:
    across, down = (tuple(name for name in names if name in set(rows[of])) for of in ("first", "second"))
    x = Categories(names=across, pixels=SIDE, vertical=False, padding=0.04)
    y = Categories(names=down, pixels=0.85 * SIDE, padding=0.04)  # numbers are wider than high
    colors = [theme.VERMILION, theme.PAPER, theme.BLUE]
    shade = alt.Color("rho:Q", legend=None).scale(domain=[-1, 0, 1], range=colors, interpolate="rgb")
    white, black = alt.value(theme.PAPER), alt.value(theme.INK)
    base = alt.Chart(rows).encode(x("first"), y("second"))
    cells = base.mark_rect().encode(color=alt.when("datum.pale").then(white).otherwise(shade))
    ink = alt.when("abs(datum.rho) > 0.7 && !datum.pale").then(white).otherwise(black)
    return alt.layer(
        tips(cells, ("second", "of", ""), ("first", "with", ""), ("rho", "coefficient", ".2f")),
        base.mark_text().encode(text=alt.Text("rho:Q", format=".2f"), color=ink),
        title=title, width=x.pixels, height=y.pixels,
    )  # fmt: skip


@display.figure
def throughput(paper: Paper) -> alt.ConcatChart:
    swept = {timed.name: _swept(timed) for timed in (timed_here(paper), timed_gpu(paper)) if timed and timed.batches}
    swept = {name: rows for name, rows in swept.items() if rows.batch.nunique() > 1}
    panels = []
    for name, rows in swept.items():
        axis = LogAxis.around([*rows.low, *rows.high, *rows.rate], pixels=150, title="inputs per second", vertical=True)
        width = theme.plot_width(len(swept), right=longest(list(rows.name)) + 20)
        title = name if len(swept) > 1 else ""
        color = by_color("name", theme.accents(rows.name), legend=None)
        panels.append(curves(rows, "batch", "rate", axis, color, width, title))
    panels, description = display.required(panels, COMMAND), "Throughput against batch size, a line for each network."
    return alt.concat(*panels, name="throughput", description=description)


def _swept(timed: Timed) -> pd.DataFrame:
    """Return the networks with most batch sizes, at most ``FEW`` of them."""
    rows = timed.rows.assign(
        rate=timed.rows.throughput_per_s,
        low=timed.rows.batch / timed.rows.latency_high_s,
        high=timed.rows.batch / timed.rows.latency_low_s,
    )
    sizes = rows.groupby("name").batch.nunique().sort_values(ascending=False, kind="stable")
    names = sizes[sizes > 1].index[:FEW]
    return rows[rows.name.isin(names)].sort_values(["name", "batch"])[["name", "batch", "rate", "low", "high"]]


@display.figure
def equal(paper: Paper) -> alt.LayerChart:
    """Draw time against bytes for published networks of equal FLOP, with the least times of both."""
    timed = timed_elsewhere(paper)
    if timed is None or timed.roof is None or equal_flop(timed).empty:
        raise display.Missing
    rows, roof = equal_flop(timed), timed.roof
    least = [flop / roof.peak_flop_per_s for flop in ALIKE_FLOP]
    width = theme.plot_width(unit="s", figure=theme.HALF_WIDTH)
    x = LogAxis.around(rows.traffic_byte, pixels=width, title="bytes of an image, layer by layer", unit="B")
    y = LogAxis.around([*rows.input_s, *least], pixels=180, title="time of an image", unit="s", vertical=True)
    reach = (y.low * roof.bandwidth_byte_per_s, x.high)
    bytes_s = pd.DataFrame({"byte": reach}).assign(s=lambda at: at.byte / roof.bandwidth_byte_per_s)
    flop_s = pd.DataFrame({"byte": (x.low, x.high), "s": sum(least) / 2})
    foot = x.value(0.5 * x.pixels)
    ends = pd.DataFrame({"byte": [foot], "s": foot / roof.bandwidth_byte_per_s, "text": "bytes at the bandwidth"})
    corner = pd.DataFrame({"byte": [x.value(x.pixels - 6)], "s": sum(least) / 2, "text": "FLOP at the peak"})
    lines = [alt.Chart(each).mark_line(color=theme.MUTED, strokeDash=theme.DASH) for each in (bytes_s, flop_s)]
    texts = [
        alt.Chart(ends).mark_text(color=theme.MUTED, align="left", dx=8, dy=14),
        alt.Chart(corner).mark_text(color=theme.MUTED, align="right", dy=-6, baseline="bottom"),
    ]
    taken = [box for each in (bytes_s, flop_s) for box in covered(each, x("byte"), y("s"))]
    points = alt.Chart(rows).mark_point(size=30).encode(x("traffic_byte"), y("input_s"))
    return alt.layer(
        *(line.encode(x("byte"), y("s")) for line in lines),
        *(text.encode(x("byte"), y("s"), text=alt.Text("text:N")) for text in texts),
        tips(
            points, ("name", "network", ""), ("flop", "FLOP", "FLOP"), ("traffic_byte", "bytes", "B"),
            ("input_s", "time", "s"),
        ),
        *_names(rows, rows, x("traffic_byte"), y("input_s"), taken),
        width=x.pixels, height=y.pixels, name="equal-flop",
        description=f"Time against bytes for {len(rows)} networks of equal FLOP on the {timed.name}.",
    )  # fmt: skip
