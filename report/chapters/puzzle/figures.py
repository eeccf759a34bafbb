"""The figures of the chapter on the puzzle."""

import altair as alt
import pandas as pd

from report import display
from report.chapters.puzzle.facts import BY_BYTES, compared
from report.charts import theme
from report.charts.annotations import ONCE, tips
from report.charts.axes import Categories, LogAxis, by_color, by_shape
from report.paper import Paper
from report.paper.published import SOURCE

MOST, LESS = "bytes take more than half of the time", "bytes take less"
DECIDED = {MOST: theme.VERMILION, LESS: theme.GREY}

LANES = {"host": theme.GREY, "arithmetic": theme.BLUE, "memory": theme.GREEN}
WAITS = {"waits for the host": (3, 0.7, 1), "waits for bytes": (0.8, 1.1, 3), "waits for arithmetic": (0.8, 3, 1.3)}
"""The time that an operator takes of each lane, in units of the drawing."""

OPERATORS, END = 3, 11


@display.figure
def life(_paper: Paper) -> alt.ConcatChart:
    """Draw three operators in three networks: launched by the host, then computed while their bytes move."""
    panels: list[alt.LayerChart] = []
    for title, times in WAITS.items():
        rows, ready, done = [], 0.0, 0.0
        for number in range(1, OPERATORS + 1):
            begin, ready = ready, ready + times[0]
            start = max(ready, done)
            done = start + max(times[1:])
            starts = begin, start, start
            rows += [
                {"lane": lane, "operator": number, "from": at, "to": at + time, "middle": at + time / 2}
                for lane, at, time in zip(LANES, starts, times, strict=True)
            ]
        y = Categories.steps(LANES, 22, shown=not panels)
        base = alt.Chart(pd.DataFrame(rows))
        places = {"x": alt.X("from:Q", axis=alt.Axis(title="time →", labels=False, ticks=False, grid=False)).scale(
            domain=[0, END]), "y": y("lane")}  # fmt: skip
        panels.append(alt.layer(
            base.mark_bar(height=15).encode(**places, x2=alt.X2("to"), color=by_color("lane", LANES, legend=None)),
            base.mark_text(color=theme.PAPER, fontWeight="bold").encode(
                x=alt.X("middle:Q").scale(domain=[0, END]), y=y("lane"), text="operator:N"
            ),
            width=theme.plot_width(3, left=70, shared=True, figure=theme.TEXT_WIDTH), height=y.pixels, title=title,
        ))  # fmt: skip
    description = "Three operators in time: host, arithmetic and memory of networks that wait for one of them each."
    return alt.concat(*panels, columns=3, name="puzzle-life", description=description)


@display.figure
def ratios(paper: Paper) -> alt.LayerChart:
    rows = display.required(compared(paper), SOURCE.command).sort_values("ratio", ignore_index=True)
    decided = (rows.byte_share > BY_BYTES).map({True: MOST, False: LESS})
    rows = rows.assign(label=rows["name"] + ", " + rows.batch.astype(str), decided=decided)
    y = Categories.steps(rows.label, 16)
    flop = rows.forward_flop_other.iloc[0] / rows.forward_flop.iloc[0]
    width = theme.plot_width(left=y.room, figure=theme.HALF_WIDTH)
    x = LogAxis.around([flop, 1, *rows.ratio], pixels=width, title="time, MobileNet-v2 over ResNet-18")
    looks = {"color": by_color("decided", DECIDED), "shape": by_shape("decided", theme.shapes(DECIDED))}
    tooltip = [
        ("name", "device", ""), ("ratio", "ratio", ".3~g"), ("batch", "batch", "d"), ("byte_share", "bytes", ".0%"),
    ]  # fmt: skip
    rows = rows[["label", "decided", *(field for field, *_ in tooltip)]]
    ends = "; ".join(f"{row.label} {row.ratio:.2f}" for row in rows.itertuples())
    return alt.layer(
        alt.Chart(ONCE).mark_rule(color=theme.MUTED, strokeDash=theme.DASH).encode(x(1)),
        alt.Chart(ONCE).mark_rule(color=theme.MUTED).encode(x(flop)),
        tips(alt.Chart(rows).mark_point(size=60).encode(x("ratio"), y("label"), **looks), *tooltip),
        width=width, height=y.pixels, name="puzzle-ratios",
        description=f"Time of MobileNet-v2 over ResNet-18's by device and batch size: {ends}.",
    )  # fmt: skip
