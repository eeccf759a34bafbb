"""The figures of the chapter on energy."""

from typing import Any

import altair as alt
import pandas as pd

from report import display
from report.chapters.energy import facts as energy
from report.charts import theme
from report.charts.annotations import covered, names, tips
from report.charts.axes import LogAxis, by_color, by_shape
from report.markdown import si
from report.options import gpu_command
from report.paper import BASE_PRECISION, Paper


@display.figure
def efficiency(paper: Paper) -> alt.ConcatChart:
    """Draw the FLOP that a joule buys against FLOP per byte, of networks and by the fit at the roof's speed."""
    machine = display.required(next(iter(energy.machines_with_energy(paper)), None), gpu_command())
    rows = display.required(energy.efficiencies(machine), gpu_command())
    about: dict[str, Any] = {"title": "FLOP/B layer by layer"}
    x = LogAxis.around(
        rows.intensity, (0.08, 0.08), pixels=theme.plot_width(2, unit="FLOP/J", figure=theme.TEXT_WIDTH), **about
    )
    along = pd.Series([x.value(pixel) for pixel in range(0, int(x.pixels) + 1, 4)])
    arches = {each: energy.arch(machine, each, along) for each in (BASE_PRECISION, machine.lower_precision)}
    drawn = {precision: line for precision, line in arches.items() if line is not None}
    values = pd.concat(
        [rows.flop_per_j, *(line.flop_per_j for line in display.required(drawn, gpu_command()).values())]
    )
    large = set(rows.inputs) - {"one image"}
    y = LogAxis.around(values, pixels=120, title="FLOP for a joule", unit="FLOP/J", vertical=True)
    palette, places = {"one image": theme.SKY} | dict.fromkeys(large, theme.BLUE), (x("intensity"), y("flop_per_j"))
    looks: Any = {"color": by_color("inputs", palette), "shape": by_shape("inputs", theme.shapes(palette))}
    tooltip = [
        ("name", "network", ""), ("batch", "batch size", "d"), ("intensity", "intensity", "FLOP/B"),
        ("flop_per_j", "FLOP for a joule", "FLOP/J"), ("input_j", "energy of an image", "J"),
    ]  # fmt: skip
    panels = []
    for precision, line in drawn.items():
        found = rows[rows.precision == precision][["inputs", *(field for field, *_ in tooltip)]]
        points = alt.Chart(found).mark_point(size=34).encode(*places, **looks)
        labelled = found.assign(label=found.name.where(found.name.isin(theme.ACCENTS), ""))
        panels.append(alt.layer(
            alt.Chart(line).mark_line(color=theme.INK, strokeWidth=1.6).encode(*places), tips(points, *tooltip),
            *names(labelled, "label", *places, covered(line, *places), 34),
            width=x.pixels, height=y.pixels, title=f"{machine.name}, {precision}",
        ))  # fmt: skip
    middles = [f"{name} {si(of.flop_per_j.median(), 'FLOP/J')}" for name, of in rows.groupby("inputs")]
    description = f"FLOP for a joule of {rows.model.nunique()} networks; the middle of each: {', '.join(middles)}."
    return alt.concat(*panels, name="energy-efficiency", description=description)
