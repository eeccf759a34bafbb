"""The figures of the chapter on tokens."""

from collections.abc import Mapping
from typing import Any

import altair as alt
import numpy as np
import pandas as pd

from measure.domain.roofs import Roofline
from measure.domain.statistics import FEWEST_MODELS
from report import display
from report.chapters.tokens import timed
from report.charts import theme
from report.charts.annotations import ONCE, covered, end_names, names, tips
from report.charts.axes import Categories, LinearAxis, LogAxis, by_color, by_shape
from report.charts.forms import quantile_bars, stacked_bars
from report.charts.roofline import DrawnRoof, Plane
from report.markdown import si
from report.paper import Paper
from report.paper.chips import brief_name, short_name
from report.paper.frames import each, quantiles
from report.paper.served import PARTS, explained, work_of

PART_NAMES = dict(zip((*PARTS, "rest"), ("weights", "caches", "FLOP beyond", "collectives", "the rest"), strict=True))
PART_COLORS = dict(
    zip(PART_NAMES.values(), (theme.BLUE, theme.SKY, theme.VERMILION, theme.GREEN, theme.GREY), strict=True)
)
PRECISION_COLORS = {"bf16": theme.BLUE, "fp8": theme.ORANGE, "fp4": theme.VERMILION}
SIZE_COLORS = dict(zip(timed.SIZES, (theme.GREY, theme.PURPLE, theme.GREEN), strict=True))
PHASE_LOOKS = (theme.BLUE, "circle"), (theme.VERMILION, "square")  # of decode and prefill
LENGTH_COLORS = theme.GREEN, theme.PURPLE  # of long answers, and of long prompts


@display.figure
def roofline(paper: Paper) -> alt.ConcatChart:
    """Draw prefill and decode of the example under one roof, and its time per token against the requests at once."""
    answers = display.required(timed.single(paper.served))
    prompts = timed.single(paper.served, has_long_answers=False)
    device = answers.device.iloc[0]
    drawn = DrawnRoof.of(Roofline(paper.served.peak(device, "fp8"), paper.served.bandwidth(device)))
    read = prompts.iloc[0]
    calls = [
        ("decode", f"decode, {row.batch:.0f} requests", row.tpot_s, work_of(row, is_prompt=False))
        for row in each(answers)
    ]
    calls.append(("prefill", f"prefill, {read.input_tokens:,.0f} tokens", read.ttft_s, work_of(read, is_prompt=True)))
    rows = pd.DataFrame(
        [
            (phase, label, work.flop / (work.weight_byte + work.cache_byte), work.flop / seconds)
            for phase, label, seconds, work in calls
        ],
        columns=["phase", "name", "intensity", "flop_per_s"],
    )
    width = theme.plot_width(2, unit="FLOP/s")
    plane = Plane.over([drawn], width, 170, [*rows.intensity, rows.intensity.min() / 2], rows.flop_per_s)
    marks = [
        plane.place(alt.Chart(part).mark_point(color=color, shape=shape), "intensity", "flop_per_s")
        for (_, part), (color, shape) in zip(rows.groupby("phase"), PHASE_LOOKS, strict=True)
    ]
    # The fewest requests are at the end of the roof, which has its own name
    rows["label"] = ["", *(f"{row.batch:.0f}" for row in each(answers[1:-1])), *rows.name[-2:]]
    named = plane.names(rows, "label", "intensity", "flop_per_s", 45)
    title = f"{timed.NAMES[timed.EXAMPLE]} on a {short_name(device)}"
    panel = plane.chart(*marks, *named, title=title)
    description = "; ".join(f"{row.name} {si(row.flop_per_s, 'FLOP/s')}" for row in each(rows))
    panels = [panel, _against_requests(answers, prompts, width)]
    return alt.concat(*panels, name="tokens-roofline", description=f"{title}: {description}.")


def _against_requests(answers: pd.DataFrame, prompts: pd.DataFrame, width: float) -> alt.LayerChart:
    """Draw the measured time of a token and the least one against requests at once, for both lengths."""
    rows = pd.concat([answers, prompts])
    lengths = zip(rows.input_tokens, rows.output_tokens, strict=True)
    rows = rows[["batch", "tpot_s", "bound_s"]].astype(float)
    rows["name"] = [f"{read:,.0f} in, {written:,.0f} out" for read, written in lengths]
    palette = dict(zip(rows.name.unique(), LENGTH_COLORS, strict=False))
    x = LinearAxis.around(rows.batch, pixels=width, title="requests at once", format="d")
    times = [*rows.tpot_s, *rows.bound_s]
    y = LinearAxis.around(times, pixels=170, title="time of a token", unit="s", format="~s", vertical=True)
    shapes = dict(zip(palette, ("diamond", "triangle-up"), strict=False))
    looks = {"color": by_color("name", palette, legend=None), "shape": by_shape("name", shapes, legend=None)}
    base = alt.Chart(rows)
    ends = rows.loc[rows.groupby("name", sort=False).batch.idxmax()]
    lines = [part for _, part in rows.groupby("name")]
    taken = [box for part in lines for time in ("tpot_s", "bound_s") for box in covered(part, x("batch"), y(time))]
    tooltip = [
        ("name", "tokens", ""), ("batch", "requests", "d"), ("tpot_s", "measured", "s"), ("bound_s", "least time", "s")
    ]  # fmt: skip
    line = {"detail": alt.Detail("name:N"), "color": looks["color"]}
    return alt.layer(
        base.mark_line(strokeDash=theme.DASH).encode(x("batch"), y("bound_s"), **line),
        base.mark_line().encode(x("batch"), y("tpot_s"), **line),
        tips(base.mark_point().encode(x("batch"), y("tpot_s"), **looks), *tooltip),
        *names(ends, "name", x("batch"), y("tpot_s"), taken, 45),
        title="measured, and by bytes and FLOP", width=x.pixels, height=y.pixels,
    )  # fmt: skip


@display.figure
def kernels(paper: Paper) -> alt.ConcatChart:
    """Draw for each GPU the tokens that half of the peak needs, and decode attention's share of the bandwidth."""
    half = display.required(timed.halves(paper.served))
    attention = display.required(timed.decode_attention(paper.served))
    quantiles = np.array([0.1, 0.5, 0.9])
    shares = attention.groupby(["gpu", "size"]).bandwidth_share.quantile(quantiles).unstack()
    shares = shares.set_axis(["low", "median", "high"], axis=1).reset_index()
    order = [*dict.fromkeys([*sorted(half.device), *sorted(shares.gpu)])]
    half, shares = half.assign(gpu=half.device.map(brief_name)), shares.assign(gpu=shares.gpu.map(brief_name))
    steps = 9 * len(timed.SIZES)
    y = Categories.steps(map(brief_name, order), steps)
    width = theme.plot_width(2, left=y.room, shared=True)
    values = [*half.tokens.dropna(), *half.roof_tokens]
    halves = LogAxis.around(values, pixels=width, title="tokens for half of the peak")
    shown = LinearAxis.around([1, *shares.high], pixels=width, format="%", title="share of the bandwidth")
    beside = Categories.steps(map(brief_name, order), steps, shown=False)
    tooltip = [
        ("gpu", "GPU", ""), ("precision", "precision", ""), ("tokens", "tokens", "d"),
        ("roof_tokens", "by the roofline", "d"), ("share", "best share of the peak", ".0%"),
    ]  # fmt: skip
    left = _rows(half, "gpu", "tokens", halves, y, "precision", PRECISION_COLORS, tooltip, "roof_tokens")
    tooltip = [
        ("gpu", "GPU", ""), ("size", "keys and values", ""), ("median", "median", ".0%"),
        ("low", "a tenth has less", ".0%"), ("high", "a tenth has more", ".0%"),
    ]  # fmt: skip
    right = _rows(shares, "gpu", "median", shown, beside, "size", SIZE_COLORS, tooltip, "", ("low", "high"))
    medians = "; ".join(f"{row.gpu} {row.median:.0%}" for row in each(shares[shares["size"] == timed.SIZES[2]]))
    description = f"Share of the bandwidth in decode attention with large caches: {medians}."
    own = alt.Resolve(scale=alt.LegendResolveMap(yOffset="independent"))
    titled = (
        left.properties(title="wide products, by precision"),
        right.properties(title="attention, by keys and values"),
    )
    return alt.concat(*titled, resolve=own, name="tokens-kernels", description=description)


def _rows(
    rows: pd.DataFrame, name: str, value: str, x: LogAxis | LinearAxis, y: Categories, series: str,
    palette: Mapping[str, str], tooltip: list[Any], tick: str = "", ends: tuple[str, str] | None = None,
) -> alt.LayerChart:  # fmt: skip
    """Draw a mark for each name and series, with a line from one end to the other, or a tick."""
    looks: dict[str, Any] = {"color": by_color(series, palette)}
    offset = alt.YOffset(f"{series}:N").scale(domain=[*palette])
    base, layers = alt.Chart(rows), []
    if ends:
        line = base.mark_rule(strokeWidth=1.6).encode(x(ends[0]), y(name), x2=alt.X2(ends[1]), yOffset=offset, **looks)
        layers += [alt.Chart(ONCE).mark_rule(color=theme.MUTED, strokeDash=theme.DASH).encode(x(1)), line]
    if tick:
        marks = base.mark_point(shape="M0,-1V1", filled=False, strokeWidth=1.5, size=80)
        layers.append(marks.encode(x(tick), y(name), yOffset=offset, **looks))
    forms = ("circle", "square", "diamond") if tick else ("triangle-up", "cross", "triangle-down")
    looks["shape"] = by_shape(series, dict(zip(palette, forms, strict=True)))
    known = alt.Chart(rows.dropna(subset=value))
    layers.append(tips(known.mark_point(size=40).encode(x(value), y(name), yOffset=offset, **looks), *tooltip))
    return alt.layer(*layers, width=x.pixels, height=y.pixels)


@display.figure
def experts(paper: Paper) -> alt.LayerChart:
    """Draw the time of a layer's experts on one GPU against the tokens of a batch."""
    rows = display.required(timed.layer_times(paper.served)).reset_index()
    rows = rows.assign(name=rows.device.map(brief_name), tokens=rows.tokens.astype(float))
    width = theme.plot_width(right=110, unit="s", figure=theme.HALF_WIDTH)
    x = LogAxis.around(rows.tokens, pixels=width, title="tokens at once")
    y = LogAxis.around(rows.latency_s, pixels=190, title="time of the experts of a layer", unit="s", vertical=True)
    palette, shapes = theme.gpus(rows.name.unique())
    color, shape = by_color("name", palette, legend=None), by_shape("name", shapes, legend=None)
    base = alt.Chart(rows).encode(x("tokens"), y("latency_s"), color=color)
    tooltip = [("name", "GPU", ""), ("tokens", "tokens", "d"), ("latency_s", "time", "s")]
    ends = rows.loc[rows.groupby("name", sort=False).tokens.idxmax()]
    spans = rows.groupby("name").latency_s.agg(["min", "max"])
    said = "; ".join(f"{row.Index}: {si(row.min, 's')} to {si(row.max, 's')}" for row in each(spans))
    return alt.layer(
        base.mark_line(), tips(base.mark_point(size=24).encode(shape=shape), *tooltip),
        *end_names(ends, "name", x("tokens"), y("latency_s")),
        width=x.pixels, height=y.pixels, name="tokens-experts", description=f"Times of a layer's experts: {said}.",
    )  # fmt: skip


@display.figure
def apart(paper: Paper) -> alt.ConcatChart:
    """Draw the parts of a token of the example by GPUs and requests, and all servers' shares of the bound by GPUs."""
    served = paper.served
    example = display.required(timed.example(served))
    blocks = []
    for has_long_answers in (True, False):
        rows = timed.of_lengths(example, has_long_answers)
        groups = rows.groupby("batch").plan_gpus.nunique()
        batch = groups.idxmax() if has_long_answers else groups.index[groups > 1].max()
        said = "long answers" if has_long_answers else "long prompts"
        block = rows[rows.batch == batch].sort_values("plan_gpus")
        blocks.append(block.assign(label=[f"{said}, {batch:.0f} at once, {_gpus(gpus)}" for gpus in block.plan_gpus]))
    rows = pd.concat(blocks, ignore_index=True)
    columns = {f"{part}_s": name for part, name in PART_NAMES.items()}
    parts = rows[["label", *columns]].rename(columns=columns)
    parts = parts.melt("label", list(PART_COLORS), "part", "seconds", ignore_index=False).sort_index(kind="stable")
    every = explained(served)
    shares = display.required(quantiles(every, "plan_gpus", "share", "servers", FEWEST_MODELS))
    shares["label"] = shares.plan_gpus.map(_gpus)
    total = parts.groupby("label").seconds.sum().max()
    room = Categories.steps(rows.label, 20).room
    width = (theme.FULL_WIDTH - room - 70 - 2 * 10 - theme.GAP) / 2
    x = LinearAxis(low=0, high=1.03 * total, pixels=width, title="time of a token", unit="s", format="~s")
    tooltip: Any = [("label", "server", ""), ("part", "part", ""), ("seconds", "time", "s")]
    left = stacked_bars(parts, "label", "part", "seconds", PART_COLORS, x, tooltip=tooltip, step=22)
    title = f"{timed.NAMES[timed.EXAMPLE]}, {short_name(rows.device.iloc[0])}"
    across = LinearAxis(low=0, high=1, pixels=width, format="%", title="least time, share of the measured")
    right = quantile_bars(shares, "label", "GPUs", "servers", across, left.height, title="all servers")
    medians = "; ".join(f"{row.label} {row.median:.0%}" for row in each(shares))
    description = f"The least time over the measured time of a token, medians: {medians}."
    return alt.concat(left.properties(title=title), right, name="tokens-apart", description=description)


def _gpus(number: float) -> str:
    return f"{number:.0f} GPU{'s' * (number > 1)}"


@display.figure
def curve(paper: Paper) -> alt.LayerChart:
    """Draw tokens a second of a GPU against those of a user, a line for each number of GPUs."""
    rows = display.required(timed.operator_rows(paper.served))
    rows = rows.assign(name=rows.plan_gpus.map(_gpus), requests=rows.batch.astype(float))
    rows = rows[["name", "requests", "per_gpu", "per_user"]]
    palette = dict(zip(rows.name.unique(), theme.batches(range(rows.name.nunique())).values(), strict=True))
    width = theme.plot_width(unit="1/s", figure=theme.HALF_WIDTH)
    x = LinearAxis.around(rows.per_user, pixels=width, title="tokens a second for a user", format="d")
    y = LogAxis.around(rows.per_gpu, pixels=190, title="tokens a second from a GPU", vertical=True)
    looks: dict[str, Any] = {"color": by_color("name", palette), "shape": by_shape("name", theme.shapes(palette))}
    base = alt.Chart(rows)
    tooltip = [
        ("name", "server", ""), ("requests", "requests at once", "d"), ("per_user", "for a user", ".3~g"),
        ("per_gpu", "from a GPU", ".3~g"),
    ]  # fmt: skip
    ends = rows.sort_values("requests").groupby("name", sort=False).requests.agg(["min", "max"])
    named = rows.merge(ends, left_on="name", right_index=True)
    labels = named.requests.map("{:.0f}".format).where(
        named.requests.isin([named["max"].max(), named["min"].min()]), ""
    )
    taken = [box for _, part in rows.groupby("name") for box in covered(part, x("per_user"), y("per_gpu"))]
    most = rows.groupby("name", sort=False).per_gpu.max()
    description = "; ".join(f"{name}: up to {rate:.0f} tokens/s" for name, rate in most.items())
    return alt.layer(
        base.mark_line().encode(x("per_user"), y("per_gpu"), color=looks["color"], order=alt.Order("requests:Q")),
        tips(base.mark_point().encode(x("per_user"), y("per_gpu"), **looks), *tooltip),
        *names(named.assign(label=labels), "label", x("per_user"), y("per_gpu"), tuple(taken), 45),
        width=x.pixels, height=y.pixels, name="tokens-curve", description=f"Tokens a second from a GPU; {description}.",
    )  # fmt: skip
