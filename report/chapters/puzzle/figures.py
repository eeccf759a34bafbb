"""The figures of the chapter on the puzzle."""

import altair as alt
import pandas as pd

from report import display, options
from report.chapters.puzzle.facts import CONTROL, HEAVY, LIGHT, SIXTEEN_BITS, compared, largest
from report.charts import theme
from report.charts.annotations import ONCE, hollow, tips
from report.charts.axes import Categories, LogAxis, by_color
from report.charts.roofline import DrawnRoof, Plane
from report.markdown import si
from report.paper import BASE_PRECISION, Paper
from report.paper.frames import each
from report.paper.published import SOURCE, network_name

PRECISIONS = {"16 bits": theme.VERMILION, "double precision": theme.BLUE}


@display.figure
def ratios(paper: Paper) -> alt.LayerChart:
    rows = compared(paper)
    rows = display.required(rows[rows.computed.isin([SIXTEEN_BITS, CONTROL])], SOURCE.command)
    words = dict(zip((SIXTEEN_BITS, CONTROL), PRECISIONS, strict=True))
    rows = rows.assign(precision=rows.computed.map(words)).sort_values(["computed", "ratio"])
    order = rows.sort_values("computed", kind="stable").drop_duplicates("name", keep="last")
    y = Categories.steps(order.sort_values("ratio").name, 14)
    flop = rows.forward_flop_other.iloc[0] / rows.forward_flop.iloc[0]
    width = theme.plot_width(left=y.room, figure=theme.HALF_WIDTH)
    x = LogAxis.around([flop, 1, *rows.ratio], pixels=width, title="time, MobileNet-v2 over ResNet-18")
    description = "Time of MobileNet-v2 over ResNet-18's: " + "; ".join(
        f"{name} {group.ratio.min():.2f} to {group.ratio.max():.2f} on {len(group)} devices"
        for name, group in rows.groupby("precision")
    )
    points = alt.Chart(rows).mark_point(size=60)
    points = points.encode(x("ratio"), y("name"), color=by_color("precision", PRECISIONS))
    return alt.layer(
        alt.Chart(ONCE).mark_rule(color=theme.MUTED, strokeDash=theme.DASH).encode(x(1)),
        alt.Chart(ONCE).mark_rule(color=theme.MUTED).encode(x(flop)),
        tips(
            points, ("name", "device", ""), ("precision", "precision", ""), ("ratio", "ratio", ".3~g"),
            ("batch", "batch", "d"),
        ),
        width=width, height=y.pixels, name="puzzle-ratios", description=f"{description}.",
    )  # fmt: skip


@display.figure
def plane(paper: Paper) -> alt.LayerChart:
    machine, both = paper.at_hand, largest(paper.at_hand)
    roof = machine.roof(BASE_PRECISION) if machine else None
    if machine is None or both is None or roof is None:
        raise display.Missing(options.measure_command(f"--models {LIGHT} {HEAVY}"))
    rows = pd.DataFrame(
        {"name": network_name(cell.model), "intensity": intensity, "rate": cell.flop_per_s, "whole": whole}
        for cell in both
        for intensity, whole in ((cell.traffic_intensity, False), (cell.compulsory_intensity, True))
    )
    width = theme.plot_width(unit="FLOP/s", figure=theme.HALF_WIDTH)
    reach = [*rows.intensity, 1.5 * rows.intensity.max()]  # a mark at the edge would be cut
    on = Plane.over([DrawnRoof.of(roof)], width, 160, reach, rows.rate)
    points = alt.Chart(rows).mark_point(size=70).encode(color=by_color("name", theme.ACCENTS, legend=None))
    description = f"Roofline of the {machine.name}: " + "; ".join(
        f"{row.name} at {row.intensity:.1f} FLOP/B, {si(row.rate, 'FLOP/s')}" for row in each(rows)
    )
    title = f"{machine.name}, {BASE_PRECISION}, batch {both[0].batch}"
    return on.chart(
        *hollow(on.place(points, "intensity", "rate"), "whole"), *on.names(rows, "name", "intensity", "rate", 70),
        title=title, name="puzzle-plane", description=f"{description}.",
    )  # fmt: skip
