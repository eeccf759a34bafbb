"""The figures of the chapter on the bound."""

import altair as alt
import pandas as pd

from report import display
from report.chapters.bound.facts import OWN, changes, everywhere
from report.charts import theme
from report.charts.annotations import ONCE, tips
from report.charts.axes import Categories, LinearAxis, LogAxis, by_color, by_shape
from report.charts.forms import dots
from report.charts.roofline import DrawnRoof, Plane
from report.paper import Paper, published
from report.paper.chips import short_name
from report.paper.published import SOURCE, TWINS, network_name

SHARE = "share of the measured time"
WHO = {"timm": theme.VERMILION, "lamikr": theme.SKY, OWN: theme.BLUE, "torch2trt": theme.ORANGE}

STREAMS = {"read": "read", "init": "write", "scale": "copy", "triad": "triad"}
"""The streams of gpu-benches by the names that they have here."""


@display.figure
def roofs(paper: Paper) -> alt.ConcatChart:
    best = display.required(published.best_timed(paper.published), SOURCE.command)
    rows, drawn = best.of_usual_size, DrawnRoof.of(best.roof)
    named = {TWINS[each]: network_name(each) for each in ("mobilenet_v2", "resnet18", "vgg16", "vit_b_16")}
    moved = (rows.whole_byte, rows.layers_byte)
    found = {bound: rows.flop / byte for bound, byte in zip(theme.BOUND_COLORS, moved, strict=True)}
    plane = Plane.over([drawn], theme.plot_width(2, unit="FLOP/s"), 145, pd.concat(found.values()), rows.flop_per_s)
    batches = sorted({int(rows.batch.min()), int(rows.batch.max())})
    setting = f"{short_name(best.device)}, {best.computed}, batch {' to '.join(map(str, batches))}"
    followed = sorted({named[model] for model in rows.model if model in named})
    looks = {  # a legend, as names would cover the cloud
        "color": by_color("label", dict.fromkeys(followed, theme.INK)),
        "shape": by_shape("label", theme.shapes(followed)),
    }
    panels = []
    for bound, intensity in found.items():
        marks = rows[["flop_per_s"]].assign(
            name=rows.model.map(network_name), label=rows.model.map(named).fillna(""), intensity=intensity
        )
        labelled, places = marks[marks.label != ""], ("intensity", "flop_per_s")
        panels.append(plane.chart(
            plane.place(alt.Chart(marks).mark_point(color=theme.BOUND_COLORS[bound], size=12, opacity=0.3), *places),
            plane.place(alt.Chart(labelled).mark_point(size=30).encode(**looks), *places),
            title=[setting, bound],
        ))  # fmt: skip
    middles = [f"{bound} {intensity.median():.0f} FLOP/B" for bound, intensity in found.items()]
    description = f"{len(rows)} networks under the roof of the {best.device}. Middle intensities: {', '.join(middles)}."
    return alt.concat(*panels, name="bound-roofs", description=description)


@display.figure
def shares(paper: Paper) -> alt.LayerChart:
    """Draw a row for each device and precision: the median share of the bound, its interval, eight networks in ten."""
    rows = display.required(everywhere(paper), SOURCE.command)
    rows = rows.assign(label=rows.device + ", " + rows.precision + " × " + rows.batch.astype(str))
    y = Categories.steps(rows.label, 14)
    width = theme.plot_width(left=y.room, figure=theme.TEXT_WIDTH)
    x = LinearAxis.around([1, *rows.nine_tenths, *rows.high.dropna()], pixels=width, format="%", title=SHARE)
    palette = {who: color for who, color in WHO.items() if who in set(rows.who)}
    palette |= dict.fromkeys(sorted(set(rows.who) - palette.keys()), theme.GREEN)
    rows = rows.drop(columns=["is_processor", "folder"])
    tooltip = [
        ("name", "device", ""), ("who", "timed by", ""), ("networks", "networks", "d"), ("share", "median", ".0%"),
        ("tenth", "a tenth has less", ".0%"), ("nine_tenths", "a tenth has more", ".0%"),
    ]  # fmt: skip
    looks = {"color": by_color("who", palette, title="timed by"), "shape": by_shape("who", theme.shapes(palette))}
    base = alt.Chart(rows)
    return alt.layer(
        alt.Chart(ONCE).mark_rule(color=theme.MUTED, strokeDash=theme.DASH).encode(x(1)),
        base.mark_rule(color=theme.GREY, strokeWidth=1).encode(x("tenth"), y("label"), x2=alt.X2("nine_tenths")),
        alt.Chart(rows.dropna(subset=["low", "high"])).mark_rule(strokeWidth=3).encode(
            x("low"), y("label"), x2=alt.X2("high"), color=looks["color"]
        ),
        tips(base.mark_point(size=60).encode(x("share"), y("label"), **looks), *tooltip),
        width=x.pixels, height=y.pixels, name="bound-shares",
        description="Median shares: " + "; ".join(f"{row.name} {row.share:.0%}" for row in rows.itertuples()) + ".",
    )  # fmt: skip


@display.figure
def gains(paper: Paper) -> alt.LayerChart:
    """Draw a row for each change: eight networks in ten, half of them, the median, and the bounds' promises."""
    rows = display.required(changes(paper), SOURCE.command)
    y = Categories.steps(rows.name, 18)
    values = [1, *rows.low, *rows.high, *rows.whole.dropna(), *rows.layers.dropna()]
    x = LogAxis.around(values, pixels=theme.plot_width(left=y.room, figure=theme.HALF_WIDTH), title="gain in speed")
    tooltip = [
        ("name", "change", ""), ("networks", "networks", "d"), ("low", "a tenth gains less", ".3~g"),
        ("speed", "typical gain", ".3~g"), ("high", "a tenth gains more", ".3~g"),
    ]  # fmt: skip
    promised = rows.rename(columns=dict(zip(("whole", "layers"), theme.BOUND_COLORS, strict=True)))
    promised = promised.melt("name", list(theme.BOUND_COLORS), "roofline", "promised", ignore_index=False)
    promised = promised.dropna().sort_index(kind="stable")
    layers = [
        alt.Chart(ONCE).mark_rule(color=theme.MUTED, strokeDash=theme.DASH).encode(x(1)),
        alt.Chart(rows).mark_rule(color=theme.GREY, strokeWidth=2).encode(x("low"), y("name"), x2=alt.X2("high")),
        tips(
            alt.Chart(rows).mark_rect(color=theme.GREY).encode(x("quarter"), y("name"), x2=alt.X2("three_quarters")),
            *tooltip,
        ),
        alt.Chart(rows).mark_tick(color=theme.PAPER, thickness=3, size=14).encode(x("speed"), y("name")),
    ]
    if len(promised):
        color = by_color("roofline", theme.BOUND_COLORS, title="predicted by the roofline")
        points = alt.Chart(promised).mark_point(shape="diamond", size=80).encode(x("promised"), y("name"), color=color)
        tooltip = [("name", "change", ""), ("roofline", "roofline", ""), ("promised", "promised gain", ".3~g")]
        layers.append(tips(points, *tooltip))
    description = "; ".join(f"{each.name}: {each.speed:.2f} times as fast" for each in rows.itertuples(index=False))
    return alt.layer(*layers, width=x.pixels, height=y.pixels, name="bound-gains", description=description)


@display.figure
def delivered(paper: Paper) -> alt.ConcatChart:
    streams, products = paper.published.bandwidths, paper.published.products
    printed = paper.chips.drop_duplicates("chip").set_index("chip").bandwidth_byte_per_s
    streams = streams[(streams.benchmark == "gpu-stream") & streams.stream.isin(STREAMS)]
    streams = streams.assign(share=streams.byte_per_s / streams.device.map(printed), what=streams.stream.map(STREAMS))
    peaks = paper.chips.groupby(["chip", "precision"]).peak_flop_per_s.max()
    keys = pd.MultiIndex.from_frame(products[["device", "precision"]])
    products = products.assign(share=products.flop_per_s / peaks.reindex(keys).to_numpy(), what=products.precision)
    panels = []
    for rows, palette, title in (
        (streams, theme.STREAM_COLORS, "share of printed bandwidth"),
        (products, theme.colors(sorted(set(products.precision))), "share of printed peak"),
    ):
        found = rows.dropna(subset="share").sort_values("share", ascending=False).drop_duplicates(["device", "what"])
        found = display.required(found, SOURCE.command)
        found = found.assign(name=found.device.map(short_name), low=None, high=None)
        x = LinearAxis.around([1, *found.share], pixels=theme.plot_width(2, left=130), title=title, format="%")
        tooltip = [("name", "device", ""), ("what", "kind", ""), ("share", title, ".0%")]
        ends = ("share", "low", "high")
        panels.append(dots(found, "name", ends, x, "what", palette, reference=1, step=16, tooltip=tooltip))
    counts = streams.device.nunique(), products.device.nunique()
    description = "Shares that {} devices deliver in streams, {} in products.".format(*counts)
    own = alt.Resolve(scale=alt.LegendResolveMap(yOffset="independent"))  # each panel has its own series
    return alt.concat(*panels, resolve=own, name="bound-delivered", description=description)
