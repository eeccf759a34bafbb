"""The figure of the front page."""

from typing import Any

import altair as alt
import pandas as pd

from measure.domain.chips import reachable_peak
from measure.domain.roofs import Roofline
from measure.domain.statistics import FEWEST_MODELS
from report import display
from report.charts import theme
from report.charts.axes import by_color
from report.charts.roofline import DrawnRoof, Plane
from report.paper import BASE_PRECISION, Paper, published
from report.paper.chips import chip_named, roof_of, short_name
from report.paper.frames import matching
from report.paper.published import SOURCE, TWINS, network_name

NAMED = [network_name(model) for model in ("mobilenet_v2", "resnet18", "resnet50", "vgg16", "densenet121", "vit_b_16")]
MOST = 0.75  # the batch size is the largest that this share of the networks ran


@display.figure
def overview(paper: Paper) -> alt.ConcatChart:
    best, machine = published.best_timed(paper.published), paper.at_hand
    panels = _own_gpu(paper)
    if best and not panels:
        rows = best.of_usual_size
        rows = rows.assign(intensity=rows.flop / rows.layers_byte)
        size = f"{'median ' if rows.batch.nunique() > 1 else ''}batch {rows.batch.median():g}"
        title = f"{short_name(best.device)}, {best.computed}, {size}, timed by {published.timed_by(rows)}"
        panels.append(_panel(rows, best.roof, title))
    roof_here = machine.roof(BASE_PRECISION) if machine else None
    if machine and roof_here:
        cells = matching(machine.cells, status="ok", precision=BASE_PRECISION)
        batch = _most_ran(cells)
        rows = cells[(cells.batch == batch) & ~cells.model.isin(TWINS.values())]
        rows = rows.assign(intensity=rows.traffic_intensity)
        panels.append(_panel(rows, roof_here, f"{machine.name}, {BASE_PRECISION}, batch {batch}"))
    titles = " and ".join(panel["title"] for panel in panels)
    description = f"Networks under the rooflines of two devices by their bytes layer by layer: {titles}."
    return alt.concat(*display.required(panels, SOURCE.command), name="overview", description=description)


def _own_gpu(paper: Paper) -> list[alt.LayerChart]:
    """Draw the GPU measured here under its datasheet, at the lower precision, unless it is the machine at hand."""
    gpu = paper.undisturbed.machine("gpu")
    roof = roof_of(paper.chips, chip_named(paper.chips, gpu.environment.name)) if gpu else None
    if gpu is None or roof is None or (paper.at_hand and gpu.folder == paper.at_hand.folder):
        return []
    precision = gpu.lower_precision
    cells = matching(gpu.cells, status="ok", precision=precision)
    peak, rows = reachable_peak(roof, precision), cells[cells.batch == _most_ran(cells)]
    if not peak or rows.model.nunique() < FEWEST_MODELS:
        return []
    rows, drawn = rows.assign(intensity=rows.traffic_intensity), Roofline(peak, roof.byte_per_s)
    return [_panel(rows, drawn, f"{gpu.name}, {precision}, batch {rows.batch.iloc[0]}, datasheet")]


def _most_ran(cells: pd.DataFrame) -> Any:
    models = cells.groupby("batch").model.nunique()
    return models[models >= MOST * models.max()].index.max()


def _panel(rows: pd.DataFrame, roof: Roofline, title: str) -> alt.LayerChart:
    rows = rows[["flop_per_s", "intensity"]].assign(name=rows.model.map(network_name))
    reach = [rows.intensity.min() / 4, *rows.intensity, 8 * rows.intensity.max()]
    rates = [rows.flop_per_s.min() / 6, *rows.flop_per_s]  # the regimes' names stand below the networks'
    plane = Plane.over([DrawnRoof.of(roof)], theme.plot_width(2, unit="FLOP/s"), 150, reach, rates)
    is_named, places = rows.name.isin(NAMED), ("intensity", "flop_per_s")
    color = by_color("name", dict.fromkeys(NAMED, theme.INK) | theme.ACCENTS, legend=None)
    return plane.chart(
        plane.place(alt.Chart(rows[~is_named]).mark_point(color=theme.GREY, size=14, opacity=0.4), *places),
        plane.place(alt.Chart(rows[is_named]).mark_point(size=60).encode(color=color), *places),
        *plane.names(rows[is_named], "name", *places, 60),
        title=title,
    )
