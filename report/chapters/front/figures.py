"""The figure of the front page."""

import altair as alt
import pandas as pd

from measure.domain.roofs import Roofline
from report import display
from report.charts import theme
from report.charts.axes import by_color
from report.charts.roofline import DrawnRoof, Plane
from report.paper import BASE_PRECISION, Paper, published
from report.paper.chips import short_name
from report.paper.frames import matching
from report.paper.published import SOURCE, TWINS, network_name

NAMED = [network_name(model) for model in ("mobilenet_v2", "resnet18", "resnet50", "vgg16", "densenet121", "vit_b_16")]
MOST = 0.75  # the batch size is the largest that this share of the networks ran


@display.figure
def overview(paper: Paper) -> alt.ConcatChart:
    best, machine = published.best_timed(paper.published), paper.at_hand
    panels = []
    if best:
        rows = best.of_usual_size
        rows = rows.assign(intensity=rows.flop / rows.layers_byte)
        batch = f"{'median ' if rows.batch.nunique() > 1 else ''}batch {rows.batch.median():g}"
        title = f"{short_name(best.device)}, {best.computed}, {batch}, timed by {published.timed_by(rows)}"
        panels.append(_panel(rows, best.roof, title))
    roof_here = machine.roof(BASE_PRECISION) if machine else None
    if machine and roof_here:
        cells = matching(machine.cells, status="ok", precision=BASE_PRECISION)
        models = cells.groupby("batch").model.nunique()
        batch = models[models >= MOST * models.max()].index.max()
        rows = cells[(cells.batch == batch) & ~cells.model.isin(TWINS.values())]
        rows = rows.assign(intensity=rows.traffic_intensity)
        panels.append(_panel(rows, roof_here, f"{machine.name}, {BASE_PRECISION}, batch {batch}"))
    titles = " and ".join(panel["title"] for panel in panels)
    description = f"Networks under the rooflines of two devices by their bytes layer by layer: {titles}."
    return alt.concat(*display.required(panels, SOURCE.command), name="overview", description=description)


def _panel(rows: pd.DataFrame, roof: Roofline, title: str) -> alt.LayerChart:
    rows = rows[["flop_per_s", "intensity"]].assign(name=rows.model.map(network_name))
    reach = [*rows.intensity, 8 * rows.intensity.max()]
    plane = Plane.over([DrawnRoof.of(roof)], theme.plot_width(2, unit="FLOP/s"), 150, reach, rows.flop_per_s)
    is_named, places = rows.name.isin(NAMED), ("intensity", "flop_per_s")
    color = by_color("name", dict.fromkeys(NAMED, theme.INK) | theme.ACCENTS, legend=None)
    return plane.chart(
        plane.place(alt.Chart(rows[~is_named]).mark_point(color=theme.GREY, size=14, opacity=0.4), *places),
        plane.place(alt.Chart(rows[is_named]).mark_point(size=60).encode(color=color), *places),
        *plane.names(rows[is_named], "name", *places, 60),
        title=title,
    )
