"""Figures of latency: against counted quantities, as rank correlations, over batch sizes, and at equal FLOP."""

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import altair as alt
import pandas as pd

from report import display
from report.chapters.latency.timed import (
    COMMAND,
    Timed,
    equal_flop,
    ranked_devices,
    timed_elsewhere,
    timed_gpu,
    timed_here,
)
from report.charts import theme
from report.charts.annotations import covered, names, tips
from report.charts.axes import Categories, LogAxis, by_color, by_shape, longest
from report.charts.forms import curves
from report.charts.labels import Box
from report.paper import Paper
from report.paper.frames import matching, spread
from report.paper.published import ALIKE_FLOP
from report.stats.correlations import FEWEST, fit_power_law, rank_correlation

FEW = 12  # networks with most batch sizes, of which throughput shows some
LINES = 6  # the most networks in throughput, each with a colour and shape of its own
COLORS = theme.GREEN, theme.ORANGE, theme.PURPLE, theme.INDIGO, theme.WINE, theme.INK  # next to the accents
MEASURED = 200  # the most networks with an interval at each batch size, against FLOP and parameters

HEIGHT = 84  # pixels of a plot against a count
AGAINST = {
    "flop": ("FLOP of an input", ""), "parameters": ("parameters", ""),
    "activation_byte": ("activations of an input", "B"),
}  # fmt: skip
"""The counts that times are drawn against: columns, their titles, and units where a title has none."""

CELL, ROW = 38.0, 16.0  # pixels of a cell in a matrix of correlations
COUNTS = {"flop": "FLOP", "parameters": "parameters", "activation_byte": "activations", "traffic_byte": "bytes"}
"""Counted quantities of a matrix, column to name; all but the parameters are per input."""

BOUND = "layers_s"

TIMING = [("name", "network", ""), ("batch", "batch size", "d")]


@display.figure
def here(paper: Paper) -> alt.ConcatChart:
    """Draw time against counts, a row of panels for each device: its batches, or a cloud of one input's times."""
    devices = [display.required(timed_here(paper), COMMAND)]
    devices += [found for found in (timed_gpu(paper) or timed_elsewhere(paper),) if found]
    batches = {size for timed in devices for size in timed.batches}
    panels: list[alt.LayerChart] = []
    for timed in devices:
        panels += _against(timed, devices, theme.batches(batches))
    description = f"Time of networks on the {' and the '.join(timed.name for timed in devices)} against their counts."
    return alt.concat(*panels, name="latency-here", columns=len(AGAINST), description=description)


def _against(timed: Timed, devices: Sequence[Timed], palette: Mapping[str, str]) -> list[alt.LayerChart]:
    """Draw the panels of a device, with the trend of each batch size. The last device has the lower axes."""
    time, about = ("latency_s", "latency of a call") if timed.batches else ("input_s", "time of an image")
    groups = [timed.at(batch) for batch in timed.batches] or [timed.rows]
    rows = pd.concat(groups)[["name", "batch", *AGAINST, "low_s", "high_s", time]]
    rows = rows.assign(size=rows.batch.astype(str))
    most = MEASURED if timed.batches else display.CLOUD
    networks = spread(rows.sort_values("flop").drop_duplicates("name"), most).name
    drawn = rows[rows.name.isin(networks)]
    looks: dict[str, Any] = {
        "color": by_color("size", palette, title="batch size"),
        "shape": by_shape("size", theme.shapes(palette), title="batch size"),
    }
    width = theme.plot_width(len(AGAINST), unit="s", shared=True, figure=theme.TEXT_WIDTH)
    panels: list[alt.LayerChart] = []
    for column, (title, unit) in AGAINST.items():
        y = LogAxis.around(rows[time], pixels=HEIGHT, title=about, unit="s", vertical=True, shown=not panels)
        every = pd.concat([each.rows[column] for each in devices])
        x = LogAxis.around(every, pixels=width, title=title, unit=unit, shown=timed is devices[-1])
        layers = []
        for group in groups:
            law = fit_power_law(group[column], group[time], group.model)
            if law is None:
                continue
            ends = group[column].min(), group[column].max()
            trend = pd.DataFrame({"x": ends, "y": map(law.at, ends)})
            line = alt.Chart(trend).mark_line(color=theme.MUTED, strokeDash=theme.DASH, strokeWidth=1)
            layers.append(line.encode(x("x"), y("y")))
        points = alt.Chart(drawn).mark_point(color=theme.GREY, size=9).encode(x(column), y(time))
        if timed.batches:
            intervals = alt.Chart(drawn.dropna(subset="low_s")).mark_rule()
            layers.append(intervals.encode(x(column), y("low_s"), y2=alt.Y2("high_s"), color=looks["color"]))
            points = alt.Chart(drawn).mark_point(size=28).encode(x(column), y(time), **looks)
        layers.append(tips(points, *TIMING, (column, title, unit or ".3~s"), (time, about, "s")))
        panels.append(alt.layer(*layers, width=x.pixels, height=y.pixels))
    shown = f": {len(networks):,} of {timed.networks:,} networks" if len(networks) < timed.networks else ""
    panels[0] = panels[0].properties(title=f"{_titled(timed)}{shown}")
    return panels


def _titled(timed: Timed) -> str:
    return f"{timed.name}, {timed.precision}"


def _names(named: pd.DataFrame, drawn: pd.DataFrame, x: Any, y: Any, taken: Sequence[Box]) -> list[alt.Chart]:
    """Name the networks with a label, each once, clear of the drawn marks and the taken boxes."""
    pixels = [drawn[place["field"]].map(place["scale"].axis.pixel) for place in (x, y)]
    marks = [Box(right - 4, down - 4, right + 4, down + 4) for right, down in zip(*pixels, strict=True)]
    return names(named[named.label != ""].drop_duplicates("name"), "label", x, y, [*taken, *marks])


@display.figure
def ranks(paper: Paper) -> alt.ConcatChart:
    """Draw one matrix for devices that were measured, and one for the published GPU if no GPU was measured.

    A matrix with an interval that contains zero in half of its cells is left out: it rests on too few networks.
    """
    own = [timed for timed in ranked_devices(paper) if timed.networks >= FEWEST]
    published = timed_elsewhere(paper)
    found = [own, [published] if published and not timed_gpu(paper) else []]
    told = [(rows, _of(devices)) for devices in found if len(rows := correlations(devices)) > 2 * rows.pale.sum()]
    panels = [matrix(*each) for each in display.required(told, COMMAND)]
    description = "Rank correlations of measured times and counted quantities."
    return alt.concat(*panels, name="latency-ranks", description=description)


def _of(devices: Sequence[Timed]) -> list[str]:
    """Return the lines of a title: a phone has no room for more in one."""
    titles = []
    for timed in devices:
        ran = {batch: timed.at(batch).model.nunique() for batch in timed.batches}
        fewer = [f"{networks} at batch {batch}" for batch, networks in ran.items() if networks < timed.networks]
        titles += [f"{_titled(timed)}: {timed.networks:,} networks", *([f"({', '.join(fewer)})"] if fewer else [])]
    return titles


def correlations(devices: Sequence[Timed]) -> pd.DataFrame:
    """Return the rank correlations of all times, counts and bounds: ``first``, ``second`` and ``rho``.

    ``pale`` says that the interval contains zero or is unknown. Counts are those of a time's own batch size, else of
    the middle one; a bound is of its own device.
    """
    several = len(devices) > 1
    columns: dict[str, tuple[Timed | None, int | None, str]] = {}
    for timed in devices:
        for batch in timed.batches or (None,):
            parts = [timed.kind if several else "", f"batch {batch}" if batch else "time"]
            columns[", ".join(filter(None, parts))] = timed, batch, "input_s"
    columns |= {name: (None, None, column) for column, name in COUNTS.items() if devices}
    columns |= {f"bound, {timed.kind}" if several else "bound": (timed, None, BOUND) for timed in devices}
    found = []
    for first, second in combinations(columns, 2):
        (of, at, x), (to, on, y) = columns[first], columns[second]
        of, to = of or to or devices[0], to or of or devices[0]
        one, other = (
            timed.at(timed.nearest(*batches)).set_index(["model", "input_shape"])[column].astype(float)
            for timed, batches, column in ((of, (at, on), x), (to, (on, at), y))
        )
        both = pd.concat([one, other], axis=1, keys=["x", "y"], join="inner").reset_index()
        rho = rank_correlation(both.x, both.y, both.model)
        pale = rho.low is None or rho.high is None or rho.low <= 0 <= rho.high
        found.append({"first": first, "second": second, "rho": rho.number, "pale": pale})
    return pd.DataFrame(found, columns=["first", "second", "rho", "pale"]).dropna(subset="rho")


def matrix(rows: pd.DataFrame, title: list[str]) -> alt.LayerChart:
    """Draw rank correlations as coloured cells with numbers; pale cells are white."""
    across, down = (tuple(dict.fromkeys(rows[of])) for of in ("first", "second"))
    x = Categories(names=across, pixels=CELL * len(across), vertical=False, padding=0.04)
    y = Categories(names=down, pixels=ROW * len(down), padding=0.04)
    shade = alt.Color("rho:Q", legend=None)
    shade = shade.scale(domain=[-1, 0, 1], range=[theme.ORANGE, theme.PAPER, theme.SKY], interpolate="rgb")
    base = alt.Chart(rows).encode(x("first"), y("second"))
    cells = base.mark_rect().encode(color=alt.when("datum.pale").then(alt.value(theme.PAPER)).otherwise(shade))
    return alt.layer(
        tips(cells, ("second", "of", ""), ("first", "with", ""), ("rho", "coefficient", ".2f")),
        base.mark_text(color=theme.INK).encode(text=alt.Text("rho:Q", format=".2f")),
        title=title, width=x.pixels, height=y.pixels,
    )  # fmt: skip


@display.figure
def throughput(paper: Paper) -> alt.ConcatChart:
    timed = [each for each in (timed_here(paper), timed_gpu(paper)) if each and each.rows.batch.nunique() > 1]
    chosen = _lines(display.required(timed, COMMAND))
    colors = iter(COLORS)
    looks = by_color("name", {name: theme.ACCENTS.get(name) or next(colors) for name in chosen}, legend=None)
    shapes = by_shape("name", theme.shapes(chosen), legend=None)
    panels = []
    for each in timed:
        rows = matching(each.rows).assign(
            rate=each.rows.throughput_per_s,
            low=each.rows.batch / each.rows.high_s,
            high=each.rows.batch / each.rows.low_s,
        )
        rows = rows[rows.name.isin(chosen)].sort_values(["name", "batch"])[["name", "batch", "rate", "low", "high"]]
        rates = [*rows.low, *rows.high, *rows.rate]
        axis = LogAxis.around(rates, pixels=150, title="inputs per second", vertical=True)
        width = theme.plot_width(len(timed), right=longest(chosen) + 20)
        panels.append(curves(rows, "batch", "rate", axis, looks, width, _titled(each), shapes))
    description = "Throughput against batch size, a line for each network."
    return alt.concat(*panels, name="throughput", description=description)


def _lines(found: Sequence[Timed]) -> list[str]:
    """Choose networks that all devices timed at several batch sizes: those with most of them, at even steps of time.

    The two networks of the puzzle are among them if they were timed.
    """
    counted = pd.concat([timed.rows.groupby("name").batch.nunique() for timed in found], axis=1, join="inner")
    sizes = counted[(counted > 1).all(axis=1)].sum(axis=1).sort_values(ascending=False, kind="stable")
    times = found[0].rows.sort_values("batch").drop_duplicates("name").set_index("name").input_s
    accents = [name for name in theme.ACCENTS if name in sizes.index]
    others = sizes.drop(accents)
    ordered = times[others.index[:FEW]].sort_values().to_frame()
    return [*accents, *spread(ordered, LINES - len(accents)).index]


@display.figure
def equal(paper: Paper) -> alt.LayerChart:
    """Draw time against bytes for published networks of equal FLOP, with the least times of both."""
    timed = timed_elsewhere(paper)
    if timed is None or timed.roof is None or equal_flop(timed).empty:
        raise display.Missing
    rows, roof = equal_flop(timed), timed.roof
    batches = " to ".join(map(str, sorted({int(rows.batch.min()), int(rows.batch.max())})))
    least = [flop / roof.peak_flop_per_s for flop in ALIKE_FLOP]
    width = theme.plot_width(unit="s", figure=theme.TEXT_WIDTH)
    x = LogAxis.around(rows.traffic_byte, pixels=width, title="bytes of an image, layer by layer", unit="B")
    y = LogAxis.around(
        [*rows.input_s, *least], (0.03, 0.16), pixels=110, title="time of an image", unit="s", vertical=True
    )
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
    named = pd.concat([rows.iloc[[0, -1]].assign(label=lambda end: end.name), rows.iloc[1:-1]])
    named = named[named.label.isin(["ResNet-50", *named.label[:2]])]
    return alt.layer(
        *(line.encode(x("byte"), y("s")) for line in lines),
        *(text.encode(x("byte"), y("s"), text=alt.Text("text:N")) for text in texts),
        tips(
            points, ("name", "network", ""), ("flop", "FLOP", "FLOP"), ("traffic_byte", "bytes", "B"),
            ("input_s", "time", "s"),
        ),
        *_names(named, rows, x("traffic_byte"), y("input_s"), taken),
        width=x.pixels, height=y.pixels, name="equal-flop", title=f"{_titled(timed)}, batch {batches}",
        description=f"Time against bytes for {len(rows)} networks of equal FLOP on the {timed.name}.",
    )  # fmt: skip
