"""The figures of the chapter on training."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from math import pi
from typing import Any

import altair as alt
import pandas as pd

from measure.domain.models import STORY
from measure.domain.names import model_name
from measure.domain.words import INFERENCE
from report import display, options
from report.chapters.training import costs, traced
from report.charts import forms, theme
from report.charts.annotations import tips
from report.charts.axes import Categories, LinearAxis, LogAxis, by_color, by_shape, longest
from report.charts.roofline import DrawnRoof, Plane
from report.markdown import si
from report.paper import BASE_PRECISION, Machine, Paper
from report.paper.cells import MEMORY_PARTS
from report.paper.chips import short_name
from report.paper.frames import spread
from report.stats.value import median_of

STEPS = "--sections workload training"
PROFILES = "--sections workload training operators"

KINDS = {"cpu": "processor", "gpu": "GPU"}
QUANTITIES = {"time_s": "time", "flop": "operations", "byte": "memory"}
TEMPORARY, LAYERED = "temporary", "layer-by-layer bound"
MEMORY = "memory"  # the last level of memory
SHARES = alt.binding_range(min=0, max=0.5, step=0.01, name="Share from ")
SMALL, OTHER = 0.05, "other"  # smaller slices of a pie are drawn as one
LETTERS = {
    "convolution": "C", "depthwise convolution": "D", "linear": "L", "attention": "T", "experts": "X",
    "normalisation": "N", "activation": "A", "pooling": "P", "recurrent": "R", "embedding": "E", OTHER: "o",
    "outside the layers": "–",
}  # fmt: skip
"""The letter of each kind of layer in its slice."""

SLICE_COLORS = {f"{LETTERS[kind]}  {kind}": color for kind, color in theme.LAYER_COLORS.items()}
LIGHT = {theme.SKY, theme.YELLOW, theme.PURPLE, theme.LAYER_COLORS[OTHER], theme.LAYER_COLORS["outside the layers"]}
PIE, CELL, RADIUS = 96.0, 94.0, 26  # pixels from a pie to the next, down and across; of a pie
LETTERED = 11 / (2 * pi * (RADIUS - 9))  # the share of a slice that is as wide as its letter
STEP = 11.5  # pixels from a name to the next
FEW = 12  # the most networks in the figure of steps


def with_names(rows: pd.DataFrame, flags: str) -> pd.DataFrame:
    """Add the column ``network``. Raises Missing, with the command to measure, for no rows."""
    found = display.required(rows, options.measure_command(flags))
    return found.assign(network=found.model.map(model_name))


def _titled(machine: Machine, batch: Any) -> str:
    return f"{machine.name}, {BASE_PRECISION}, batch {batch}"


@display.figure
def ratios(paper: Paper) -> alt.LayerChart:
    """Draw backward over forward by kind of layer: medians over networks, in time, in FLOP and in bytes."""
    machine = display.required(costs.subject(paper, is_profiled=True), options.measure_command(PROFILES))
    kinds = pd.DataFrame(display.required(_kinds(paper, machine), options.measure_command(PROFILES)))
    width = theme.plot_width(left=longest(list(kinds.kind), theme.TICK_SIZE) + 12, figure=theme.HALF_WIDTH)
    ends = [value for column in ("time", "low", "high", "flop", "byte") for value in kinds[column].dropna()]
    axis = LogAxis.around(ends, pixels=width, title="backward over forward")
    most, least = kinds.iloc[0], kinds.iloc[-1]
    return forms.dots(
        kinds, "kind", ("time", "low", "high"), axis, ticks={"FLOP": "flop", "bytes": "byte"}, step=STEP,
        title=_titled(machine, next(iter(costs.steps(machine).batch))), name="training-ratios",
        description=f"Backward over forward in time by kind of layer, from {least.kind} to {most.kind}.",
    )  # fmt: skip


def _kinds(paper: Paper, machine: Machine) -> list[dict[str, Any]]:
    """Return the medians by kind of layer, the highest first; a kind without products has no ratio of FLOP."""
    found: list[dict[str, Any]] = []
    for kind, rows in costs.seen(paper, machine).groupby("layer_kind"):
        time, flop, byte = (median_of(rows[f"{cost}_ratio"]) for cost in ("time", "flop", "byte"))
        ends = {"low": time.low, "high": time.high, "flop": flop.number, "byte": byte.number}
        found.append({"kind": f"{kind} ({len(rows)})", "time": time.number} | ends)
    return sorted(found, key=lambda kind: -kind["time"])


@display.figure
def networks(paper: Paper) -> alt.LayerChart:
    """Draw backward over forward of each network."""
    machine = display.required(costs.subject(paper), options.measure_command(STEPS))
    rows = with_names(costs.steps(machine), STEPS).sort_values("time_ratio", ascending=False)
    rows = spread(rows, display.DRAWN)
    width = theme.plot_width(left=longest(list(rows.network), theme.TICK_SIZE) + 12, figure=theme.HALF_WIDTH)
    rows = rows.assign(byte_ratio=(rows.backward_traffic_byte / rows.traffic_byte).astype(float))
    ratio, ticks = ("time_ratio", "time_ratio_low", "time_ratio_high"), {"FLOP": "flop_ratio", "bytes": "byte_ratio"}
    ends = [value for column in (*ratio, *ticks.values()) for value in rows[column].dropna()]
    axis = LinearAxis.around(ends, zero=False, pixels=width, title="backward over forward")
    most, least = rows.iloc[0], rows.iloc[-1]
    return forms.dots(
        rows, "network", ratio, axis, ticks=ticks, step=13, title=_titled(machine, least.batch),
        name="training-networks",
        description=f"Backward over forward in time, from {least.network} to {most.network}, and in FLOP.",
    )  # fmt: skip


@display.figure
def memory(paper: Paper) -> alt.LayerChart:
    """Draw the memory of a step as shares, with its peak as a number and the peak of inference as a mark."""
    rows = costs.trained(paper).reset_index()
    rows = with_names(rows[rows.training_peak_byte.notna()], "--sections workload")
    rows = rows.assign(over=rows.training_peak_byte / rows.inference_peak_byte).sort_values("over")
    rows = spread(rows, display.LISTED)
    parts = rows[list(MEMORY_PARTS.values())].rename(columns={column: name for name, column in MEMORY_PARTS.items()})
    parts[TEMPORARY] = (rows.training_peak_byte - parts.sum(axis=1)).clip(lower=0)
    whole = parts.sum(axis=1)
    peaks = [si(value, "B") for value in rows.training_peak_byte]
    shares = parts.div(whole, axis=0).assign(network=rows.network, peak=peaks)
    long = shares.melt(["network", "peak"], var_name="part", value_name="share")
    palette = theme.MEMORY_COLORS | {TEMPORARY: theme.GREY}
    chart = forms.stacked_bars(
        long, "network", "part", "share", palette, note="peak", step=13, width=theme.HALF_WIDTH,
        title=f"Batch {rows.batch.iloc[0]}", name="training-memory",
        description=f"Memory of a training step of {len(rows)} networks, by its use.",
    )  # fmt: skip
    x = LinearAxis(low=0, high=1, pixels=chart.width, format="%")
    marks = alt.Chart(rows.assign(inference=rows.inference_peak_byte / whole)).mark_tick(size=13, thickness=2.5)
    chart += marks.encode(x("inference"), Categories.steps(rows.network, 13)("network"))
    return chart


@display.figure
def pies(paper: Paper) -> alt.ConcatChart:
    """Draw pies of the FLOP, the memory and the time of two networks, the time also on a GPU or a processor."""
    own = display.required(costs.subject(paper), options.measure_command(PROFILES))
    batches, other = costs.profiled(own), costs.other_machine(paper, own)
    both = {
        batch: batches[batch] & some
        for batch, some in (costs.profiled(other) if other else {}).items()
        if batch in batches
    }
    batch, common = max(both.items(), key=lambda one: (len(one[1]), one[0]), default=(None, set()))
    rows = with_names(costs.kinds(paper, own, batch), PROFILES)
    rows = rows.assign(flop=rows.forward_flop + rows.backward_flop)
    rows = rows.assign(flop_share=rows.flop / rows.groupby("model").flop.transform("sum"))
    models = costs.pick(pd.Series([*sorted(common), *rows.model], dtype=object), STORY)
    panels = [_pies(rows, models, "flop", ["operations,", "both passes"])]
    panels += [_pies(rows, models, f"{stage}_byte", ["memory,", stage]) for stage in costs.PASSES]
    machines = [own, other] if other and common.intersection(models) else [own]
    for machine in machines:
        named = with_names(costs.kinds(paper, machine, batch), PROFILES)
        kind = KINDS[machine.chip_kind]
        panels += [_pies(named, models, f"{stage}_time_s", [f"time, {kind},", stage]) for stage in costs.PASSES]
    names = " and ".join(machine.name for machine in machines)
    title = f"{names}, {BASE_PRECISION}, batch {batch or next(iter(costs.steps(own).batch))}"
    description = f"Pies of FLOP, memory and time by kind of layer for {' and '.join(map(model_name, models))}."
    return alt.concat(*panels, title=title, name="training-pies", description=description)


@display.figure
def pies_of_all(paper: Paper) -> alt.ConcatChart:
    """Draw a panel for each quantity and pass, with a pie for each network, ten at most."""
    machine = display.required(costs.subject(paper, costs.TWO, True), options.measure_command(PROFILES))
    rows = with_names(costs.kinds(paper, machine), PROFILES)
    models = costs.pick(rows.model, ("vit_b_16", *STORY, *[""] * 7))
    panels = [
        _pies(rows, models, f"{stage}_{cost}", [f"{name},", stage])
        for (cost, name), stage in product(QUANTITIES.items(), costs.PASSES)
    ]
    description = f"Pies of time, FLOP and memory by kind of layer for {', '.join(map(model_name, models))}."
    title = _titled(machine, next(iter(costs.steps(machine).batch)))
    return alt.concat(*panels, title=title, name="training-pies-of-all", description=description)


def slices(rows: pd.DataFrame, column: str) -> pd.DataFrame:
    """Return the share of each ``kind`` of layer by network, the largest first and small ones together at the end."""
    rows = rows[rows[column] > 0]
    share = rows[column] / rows.groupby("network")[column].transform("sum")
    rows = rows[["network"]].assign(kind=rows.layer_kind.where(share >= SMALL, OTHER), share=share)
    rows = rows.groupby(["network", "kind"], sort=False)[["share"]].sum().reset_index()
    return rows.iloc[rows.share.mask(rows.kind == OTHER, 0).argsort()[::-1]]


def _pies(rows: pd.DataFrame, models: Sequence[str], column: str, title: list[str]) -> alt.LayerChart:
    """Draw a pie for each network, below each other. Each has its name, since a narrow page moves the panels."""
    of = " ".join(title)
    middles = {model_name(model): PIE * (line + 0.5) + 10 for line, model in enumerate(models)}
    seen = rows[rows.model.isin(models) & (rows[f"{column}_share"] >= traced.SEEN)]
    places = alt.X("x:Q", scale=None, axis=None), alt.Y("y:Q", scale=None, axis=None)
    cut = slices(seen, column)
    cut = cut.assign(
        x=CELL / 2, y=cut.network.map(middles), of=of, letter=cut.kind.map(LETTERS).where(cut.share >= LETTERED, ""),
        slice=cut.kind.map(lambda kind: f"{LETTERS[kind]}  {kind}"),
        ink=[theme.INK if theme.LAYER_COLORS[kind] in LIGHT else theme.PAPER for kind in cut.kind],
    ).sort_values("y", kind="stable")  # fmt: skip
    base = alt.Chart(cut).encode(*places).transform_stack(["start", "end"], "share", ["network"])
    angle = {"type": "quantitative", "stack": None, "scale": alt.Scale(domain=[0, 1], range=[0, 2 * pi])}
    arcs = base.mark_arc(outerRadius=RADIUS, stroke=theme.PAPER, strokeWidth=0.8).encode(
        theta=alt.Theta(field="start", **angle), theta2=alt.Theta2("end"), color=by_color("slice", SLICE_COLORS)
    )
    turned = base.transform_calculate(turn="(datum.start + datum.end) / 2", text="format(100 * datum.share, '.0f')")
    turned = turned.encode(theta=alt.Theta(field="turn", **angle))
    numbers = turned.mark_text(radius=RADIUS + 10).encode(text=alt.Text("text:N"))
    letters = turned.mark_text(radius=RADIUS - 9, fontWeight="bold", fontSize=10)
    letters = letters.encode(text=alt.Text("letter:N"), color=alt.Color("ink:N", scale=None))
    names = pd.DataFrame({"text": [*middles], "x": 0, "y": [middle - PIE / 2 for middle in middles.values()]})
    return alt.layer(
        tips(arcs, ("of", "of", ""), ("network", "network", ""), ("kind", "kind", ""), ("share", "share", ".1%")),
        alt.Chart(names).mark_text(align="left").encode(*places, text=alt.Text("text:N")), numbers, letters,
        title=alt.Title(title, lineHeight=14), width=CELL, height=PIE * len(middles), view={"stroke": None},
    )  # fmt: skip


def choice(name: str, value: str, values: list[str], title: str) -> alt.Parameter:
    """Return a parameter that a reader of the page chooses."""
    return alt.param(name=name, value=value, bind=alt.binding_select(options=values, name=title))


@display.figure
def strip(paper: Paper) -> alt.ConcatChart:
    """Draw each layer's share of a network that the reader picks, forward upwards and backward downwards."""
    machine = display.required(costs.subject(paper, costs.TWO, True), options.measure_command(PROFILES))
    layers = with_names(costs.layers(paper, machine), PROFILES)
    names = [model_name(model) for model in costs.pick(layers.model, STORY)]
    layers = layers[layers.network.isin({*names, *spread(layers.drop_duplicates("network"), display.DRAWN).network})]
    panels = []
    for cost, title in QUANTITIES.items():
        whole = (layers[f"forward_{cost}"] + layers[f"backward_{cost}"]).groupby(layers.model).transform("sum")
        up, down = (layers[f"{stage}_{cost}"] / whole for stage in costs.PASSES)
        place = layers.groupby("model").position.rank(pct=True)
        rows = layers[["network", "path", "layer_kind"]].assign(place=place, up=up, down=-down)
        rows = rows[(up >= traced.SEEN) | (down >= traced.SEEN)]
        if rows.empty:
            continue
        x = LinearAxis(low=-0.01, high=1.01, pixels=theme.plot_width(), shown=False)
        y = LinearAxis.around([*rows.up, *rows.down], pixels=90, title=title, format="%", vertical=True, ticks=4)
        y_scale = alt.Scale(nice=False, zero=False)  # its domain follows the network chosen
        base = alt.Chart(rows).mark_rule(strokeWidth=3.5).transform_filter("datum.network === network")
        base = base.encode(x("place"), color=by_color("layer_kind", theme.LAYER_COLORS), detail=alt.Detail("network:N"))
        bars = [
            tips(
                base.encode(y(end).scale(y_scale), y2=alt.Y2Datum(0)),
                ("path", "layer", ""), ("layer_kind", "kind", ""), (end, title, ".1%"),
            )
            for end in ("up", "down")
        ]  # fmt: skip
        panels.append(alt.layer(*bars, width=x.pixels, height=y.pixels))
    description = f"Layers of {layers.network.nunique()} networks, one chosen: time, FLOP and memory of both passes."
    network = choice("network", names[0], sorted(set(layers.network)), "Network ")
    chart = alt.concat(
        *panels, columns=1, spacing=8, title=_titled(machine, next(iter(costs.steps(machine).batch))),
        name="training-strip", description=description,
    )  # fmt: skip
    return chart.add_params(network)


@display.figure
def steps(paper: Paper) -> alt.ConcatChart:
    """Draw time and memory of the same networks: a step against its least times, and against inference."""
    machine = display.required(costs.subject(paper), options.measure_command(STEPS))
    rows = with_names(costs.steps(machine), STEPS).sort_values("latency_s", ascending=False)
    rows = with_names(rows[rows.flop_bound_s.notna()], "--sections roofs").reset_index(drop=True)
    is_named = rows.network.isin(theme.ACCENTS)
    rows = rows[is_named | rows.index.isin(spread(rows[~is_named], FEW - int(is_named.sum())).index)]
    left = longest(list(rows.network), theme.TICK_SIZE) + 12
    ends = [*rows.latency_s, *rows.flop_bound_s, *rows.latency_high_s.dropna()]
    axis = LogAxis.around(ends, pixels=theme.plot_width(2, left=left), title="time of a step", unit="s")
    tooltip = [("network", "network", ""), ("latency_s", "measured", "s"), ("flop_bound_s", "FLOP at the peak", "s")]
    measured = ("latency_s", "latency_low_s", "latency_high_s")
    ticks = {"FLOP at the peak": "flop_bound_s", LAYERED: "operator_bound_s"}
    panels = [forms.dots(
        rows, "network", measured, axis, ticks=ticks, step=STEP, tooltip=tooltip,
        title=_titled(machine, rows.batch.iloc[0]),
    )]  # fmt: skip
    held = costs.trained(paper).reindex(rows.model).reset_index()
    held = held.assign(network=held.model.map(model_name), low=None, high=None)
    if len(held := held[held.training_peak_byte.notna()]):
        ends = [*held.training_peak_byte, *held.inference_peak_byte]
        axis = LogAxis.around(ends, pixels=axis.pixels, title="peak of memory", unit="B")
        tooltip = [
            ("network", "network", ""), ("training_peak_byte", "step", "B"), ("inference_peak_byte", "inference", "B"),
        ]  # fmt: skip
        dots = forms.dots(
            held, "network", ("training_peak_byte", "low", "high"), axis, step=STEP, tooltip=tooltip,
            title=f"Memory, counted, batch {held.batch.iloc[0]}",
        )  # fmt: skip
        places = axis("inference_peak_byte"), Categories.steps(held.network, STEP)("network")
        squares = alt.Chart(held.assign(mark=INFERENCE)).mark_point(filled=False, fill=theme.PAPER, size=40)
        squares = squares.encode(*places, color=by_color("mark", {INFERENCE: theme.GREEN}))
        panels.append(dots + tips(squares.encode(shape=by_shape("mark", {INFERENCE: "square"})), *tooltip))
    return alt.concat(
        *panels,
        name="training-steps",
        description=f"Measured and least time of a training step of {len(rows)} networks, and its memory.",
    )


@display.figure
def kernels(paper: Paper) -> alt.ConcatChart:
    """Draw groups of operators of two networks' steps under the roofs, their area the share of the time.

    In the page a reader chooses the networks, one group, the level of memory and the least share.
    """
    machine = display.required(costs.subject(paper, costs.TWO, True), options.measure_command(PROFILES))
    rows = with_names(costs.groups(paper, machine), PROFILES)
    rows = with_names(rows[rows.flop_per_s.notna() & (rows.share >= traced.SEEN)], "--sections workload")
    roof = display.required(machine.roof(BASE_PRECISION), options.measure_command("--sections roofs"))
    rows = rows.sort_values("share", ascending=False)
    chosen = dict(zip(("first", "second"), map(model_name, costs.pick(rows.model, STORY)), strict=False))
    some = spread(rows.drop_duplicates("network").sort_values("model"), display.DRAWN).network
    rows = rows[rows.network.isin({*chosen.values(), *some})]
    # The roof sets the axes, so that two papers line up; they are longer only where a group would be lost
    ridge, peak = roof.ridge_flop_per_byte or 1, roof.peak_flop_per_s
    reach = [ridge / 200, 200 * ridge, *rows.intensity], [peak / 2000, *rows.flop_per_s]
    plane = Plane.over([DrawnRoof.of(roof)], theme.plot_width(2, unit="FLOP/s"), 180, *reach)
    title = f"{plane.x.title} ({plane.x.unit})"  # the unit at each tick would leave room for two
    plane = replace(plane, x=replace(plane.x, title=title, unit=""))
    levels = {level.name: float(level.bandwidth_byte_per_s) for level in machine.levels}
    levels[MEMORY] = min(float(roof.bandwidth_byte_per_s), 1e30)  # JSON has no endless one
    most = f"min({float(peak)}, datum['intensity'] * {levels}[level])"
    networks = sorted(set(rows.network))
    panels = []
    color = by_color("group", theme.KERNEL_COLORS, legend=None)
    named = _names_of(plane, rows)
    corners = [
        {"level": level, "intensity": at, "rate": at * speed}
        for level, speed in levels.items() if level != MEMORY
        for at in (max(plane.x.low, plane.y.low / speed), min(peak / speed, plane.x.high))
    ]  # fmt: skip
    slopes = alt.Chart(pd.DataFrame(corners)).mark_line(color=theme.VERMILION, strokeDash=theme.DASH)
    slopes = slopes.encode(plane.x("intensity"), plane.y("rate"), detail=alt.Detail("level:N"))
    slopes = slopes.transform_filter("datum['level'] === level")
    for side in chosen:
        marks = plane.groups(rows, "group", "group", "step", color=color)
        picked = [
            {"filter": f"datum['network'] === {side} && datum['share'] >= least"},
            {"filter": "only === 'all' || datum['group'] === only"},
        ]
        attained = {"calculate": f"datum['flop_per_s'] / {most}", "as": "attained"}
        marks.transform = [*picked, attained, *marks.transform]
        texts = [layer.copy(deep=False) for layer in named]
        for layer in texts:
            layer.transform = picked
        panels.append(plane.chart(marks, slopes, *texts, title={"text": {"expr": side}}))
    choices = [
        *(choice(side, network, networks, f"{side.capitalize()} ") for side, network in chosen.items()),
        choice("only", "all", ["all", *sorted(set(rows.group))], "Group "),
        choice("level", MEMORY, [*levels], "Slope of "),
        alt.param(name="least", value=0, bind=SHARES),
    ]
    description = f"Rooflines with groups of operators of a training step of {' and '.join(chosen.values())}."
    return alt.concat(*panels, name="training-kernels", description=description).add_params(*choices)


def _names_of(plane: Plane, rows: pd.DataFrame) -> list[alt.Chart]:
    """Name the groups of each network clear of each other, in layers whose rows have the network, group and share."""
    found = []
    for network, own in rows.groupby("network"):
        layers = plane.names(own, "group", "intensity", "flop_per_s", ("share", 1.0))
        placed = layers[0].data.merge(own[["group", "share"]], left_on="text", right_on="group")
        found.append((layers, placed.assign(network=network)))
    layers, placed = found[0][0], pd.concat([placed for _, placed in found])
    for layer in layers:
        layer.data = placed
    return layers


@display.figure
def recorded(paper: Paper) -> alt.ConcatChart:
    """Draw the kinds of layer of a step that a GPU ran, forward and backward, their area the share of the time."""
    step = display.required(traced.recorded(paper), options.measure_command(f"--device cuda {PROFILES}"))
    rows = traced.groups(step)
    rows = rows[(rows.share >= traced.SEEN) & (rows.flop_per_s > 0)]
    roof = DrawnRoof.of(step.roof, f"{step.precision} ")
    reach = [rows.intensity.min() / 2, rows.intensity.max()]
    plane = Plane.over([roof], theme.plot_width(2, unit="FLOP/s"), 190, reach, rows.flop_per_s / 4)
    panels = []
    for stage in costs.PASSES:
        found = rows[rows.stage == stage]
        groups = plane.groups(found, "kind", "kind of layer", "time")
        named = plane.names(found, "kind", "intensity", "flop_per_s", ("share", 1.0))
        panels.append(plane.chart(groups, *named, title=f"{short_name(step.chip)}, {step.precision}, {stage} pass"))
    description = f"Rooflines of the {step.chip} with {len(rows)} kinds of layer of a training step, sized by time."
    return alt.concat(*panels, name="training-recorded", description=description)
