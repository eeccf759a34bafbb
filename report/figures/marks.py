"""What figures share: encodings, marks, controls and panels."""

from collections.abc import Iterable
from typing import Any

import altair as alt
import pandas as pd

from report.charts import theme
from report.charts.axes import Layers, LogAxis, YearAxis
from report.charts.labels import text_size

TOP = alt.Legend(orient="top")


def rounded(values: Iterable[float], digits: int = 5) -> list[float]:
    """Return the values with so many significant digits, all that a chart can show."""
    return [float(f"{value:.{digits}g}") for value in values]


def widest(names: Iterable[str]) -> float:
    """Return the width in pixels of the longest of these labels."""
    return max(text_size(name, theme.LABEL_SIZE)[0] for name in names)


def first_of(preferred: Iterable[str], present: Iterable[str], most: int) -> list[str]:
    """Return the preferred models that are present; where none is, the first ``most`` of the others."""
    models = set(present)
    return [model for model in preferred if model in models] or sorted(models)[:most]


def axis_before_names(low: float, high: float, pixels: float, end: float, title: str, unit: str = "") -> LogAxis:
    """Return a horizontal axis that reaches ``high`` at the pixel ``end``, and leaves the rest to names."""
    return LogAxis(low, low * (high / low) ** (pixels / end), pixels, title, unit, last=high)


def opacity_where(condition: Any, shown: float = 1, otherwise: float = 0) -> Any:
    """Return the opacity of marks by a condition; by default those for which it does not hold are not drawn."""
    return alt.when(condition).then(alt.value(shown)).otherwise(alt.value(otherwise))


def color_of(field: str, scale: alt.Scale, title: str | None = None, **legend: Any) -> alt.Color:
    """Return the colour by a field, with its legend above the chart."""
    return alt.Color(f"{field}:N", scale=scale, title=title, legend=alt.Legend(orient="top", **legend))


def styles(
    field: str, colors: alt.Scale, shapes: alt.Scale, legend: alt.Legend | None = TOP,
    hollow: bool = False, **options: Any
) -> dict[str, Any]:  # fmt: skip
    """Return colour and shape by a field, so that its values can be told apart in grey.

    Marks that may be ``hollow`` have the colour as their stroke and their fill.
    """
    options |= {"legend": legend}
    channels = {"stroke": alt.Stroke, "fill": alt.Fill} if hollow else {"color": alt.Color}
    colored = {name: channel(f"{field}:N", scale=colors, **options) for name, channel in channels.items()}
    return colored | {"shape": alt.Shape(f"{field}:N", scale=shapes, **options)}


def family_styles(families: Iterable[str], hollow: bool = False, columns: int = 7) -> dict[str, Any]:
    """Return colour and shape of the families of models, with a legend of so many columns."""
    legend = alt.Legend(orient="top", columns=columns)
    return styles("family", *theme.families(families), legend, hollow, title="family")


def zoom(panel: object = None) -> alt.Parameter:
    """Return the reader's zoom, of a chart or of one of its panels: a wheel alone scrolls the page."""
    name = "zoom" if panel is None else f"zoom_{panel}"
    return alt.selection_interval(bind="scales", name=name, zoom="wheel![event.ctrlKey || event.metaKey]")


def drop_down(name: str, options: list[str], value: str, label: str) -> alt.Parameter:
    """Return a choice among options, which opens with ``value``."""
    return alt.param(name=name, value=value, bind=alt.binding_select(options=options, name=f"{label} "))


def controlled(marks: Any, panels: list[Any], picked: alt.Parameter, *controls: alt.Parameter) -> Any:
    """Add a panel's controls to its marks, and to the first panel's what a reader picks for all of them."""
    controls = controls if panels else (picked, *controls)
    return marks.add_params(*controls) if controls else marks


def tips(*columns: str | alt.Tooltip) -> list[alt.Tooltip]:
    """Return what a tooltip tells. Altair takes names of columns as well, and a hundred times as long to read one."""
    return [alt.Tooltip(column) if isinstance(column, str) else column for column in columns]


def panel(x: LogAxis | YearAxis, y: LogAxis, *layers: Layers | alt.Chart | None, **properties: Any) -> Layers:
    """Return the layers that there are, in a panel as large as its axes."""
    drawn = [layer for layer in layers if layer is not None]
    return alt.layer(*drawn, width=x.pixels, height=y.pixels, **properties)


def texts(rows: list[dict[str, Any]], x: LogAxis, y: LogAxis, **options: Any) -> alt.Chart:
    """Return the ``text`` of each row at its ``x`` and ``y``."""
    look: dict[str, Any] = {"color": theme.INK, "fontSize": theme.LABEL_SIZE, "clip": True} | options
    written = alt.Chart(pd.DataFrame(rows)).mark_text(**look)
    return written.encode(x.channel("x"), y.channel("y"), alt.Text("text:N"))
