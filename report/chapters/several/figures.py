"""The figures of the chapter on several GPUs."""

from collections.abc import Mapping
from typing import Any

import altair as alt
import pandas as pd

from measure.domain.statistics import FEWEST_MODELS
from report import display
from report.chapters.several import here, timed
from report.charts import theme
from report.charts.annotations import end_names, tips
from report.charts.axes import Categories, LinearAxis, LogAxis, by_color, by_shape
from report.charts.forms import quantile_bars
from report.markdown import si
from report.options import measure_command
from report.paper import Paper
from report.paper.chips import brief_name, short_name
from report.paper.frames import quantiles

HEIGHT = 210  # pixels of both panels
NAMES = 145  # pixels of leaders and names next to the curves


@display.figure
def links(paper: Paper) -> alt.ConcatChart:
    """Draw the bus bandwidth of all-reduces by size, and the share of collectives in the time of a token by GPUs."""
    panels: list[Any] = [_bandwidths(paper)]
    shares = quantiles(timed.communication(paper.served), "plan_gpus", "lost", "servers", FEWEST_MODELS)
    if len(shares):
        panels.append(_shares(shares))
    highest = timed.by_device(paper).bus
    said = "; ".join(f"{short_name(str(device))} {si(float(bus), 'B/s')}" for device, bus in highest.items())
    return alt.concat(*panels, name="several-links", description=f"Highest bus bandwidth of an all-reduce: {said}.")


@display.figure
def measured(paper: Paper) -> alt.ConcatChart:
    """Draw the bus bandwidth of collectives by size, as the first machine that timed them did, for each group."""
    machine, *_ = display.required(here.machines(paper), measure_command(here.COMMAND))
    rows = machine.collectives
    byte, sent = rows.message_byte.astype(float), rows.bus_byte_per_s * rows.latency_s
    ends = {"low": sent / rows.latency_high_s, "high": sent / rows.latency_low_s}
    rows = rows.assign(name=rows.collective.str.replace("_", "-"), message_byte=byte, **ends)
    palette = theme.colors(rows.name.unique())
    groups = rows.groupby("processes")
    panels = [_by_size(part, f"{processes} processes", palette, len(groups), rows) for processes, part in groups]
    best = "; ".join(f"{processes} processes {si(part.bus_byte_per_s.max(), 'B/s')}" for processes, part in groups)
    description = f"Bus bandwidth of collectives on the {machine.name}, highest: {best}."
    return alt.concat(*panels, name="several-measured", description=description)


def _by_size(part: pd.DataFrame, title: str, palette: Mapping[str, str], panels: int, every: pd.DataFrame) -> Any:
    width = theme.plot_width(panels, unit="B/s")
    x = LogAxis.around(every.message_byte, pixels=width, title="array", unit="B")
    rates = [*every.bus_byte_per_s, *every.low.dropna(), *every.high.dropna()]
    y = LogAxis.around(rates, pixels=HEIGHT, title="bus bandwidth", unit="B/s", vertical=True)
    looks: dict[str, Any] = {"color": by_color("name", palette), "shape": by_shape("name", theme.shapes(palette))}
    tooltip = [
        ("name", "collective", ""), ("message_byte", "array", "B"), ("bus_byte_per_s", "bus bandwidth", "B/s"),
        ("latency_s", "time", "s"),
    ]  # fmt: skip
    base, known = alt.Chart(part), part.dropna(subset=["low", "high"])
    interval = alt.Chart(known).mark_rule().encode(x("message_byte"), y("low"), y2=alt.Y2("high"), color=looks["color"])
    return alt.layer(
        *([interval] if len(known) else []),
        base.mark_line().encode(x("message_byte"), y("bus_byte_per_s"), color=looks["color"]),
        tips(base.mark_point(size=24).encode(x("message_byte"), y("bus_byte_per_s"), **looks), *tooltip),
        width=x.pixels, height=y.pixels, title=title,
    )  # fmt: skip


def _bandwidths(paper: Paper) -> alt.LayerChart:
    rows = display.required(timed.reductions(paper.served))
    rows = rows.assign(name=rows.device.map(brief_name), message_byte=rows.message_byte.astype(float))
    width = theme.plot_width(2, right=NAMES, unit="B/s")
    x = LogAxis.around(rows.message_byte, pixels=width, title="array", unit="B")
    y = LogAxis.around(rows.bus, pixels=HEIGHT, title="bus bandwidth", unit="B/s", vertical=True)
    palette, shapes = theme.gpus(rows.name.unique())
    color, shape = by_color("name", palette, legend=None), by_shape("name", shapes, legend=None)
    tooltip = [
        ("name", "GPU", ""), ("message_byte", "array", "B"), ("bus", "bus bandwidth", "B/s"),
        ("latency_s", "time", "s"),
    ]  # fmt: skip
    base = alt.Chart(rows).encode(x("message_byte"), y("bus"), color=color)
    ends = rows.loc[rows.groupby("name", sort=False).message_byte.idxmax()]
    return alt.layer(
        base.mark_line(), tips(base.mark_point(size=24).encode(shape=shape), *tooltip),
        *end_names(ends, "name", x("message_byte"), y("bus")),
        width=x.pixels, height=y.pixels, title="all-reduce of eight GPUs",
    )  # fmt: skip


def _shares(shares: pd.DataFrame) -> alt.LayerChart:
    shares = shares.assign(label=shares.plan_gpus.map("{:.0f} GPUs".format))
    width = theme.plot_width(2, left=Categories.steps(shares.label).room)
    across = LinearAxis.around(shares.high, pixels=width, format="%", title="collectives, share of a token's time")
    return quantile_bars(shares, "label", "GPUs", "servers", across, HEIGHT, size=16, title="servers")
