"""Every figure is valid by Vega-Lite's schema."""

from importlib import import_module

import pytest
from altair.vegalite.v6.schema import core
from helpers.world import world

from report import display
from report.charts.panels import specified
from report.facts import CHAPTERS


def figures():
    for chapter in CHAPTERS:
        try:
            module = import_module(f"report.chapters.{chapter}.figures")
        except ModuleNotFoundError:  # a chapter of words and tables
            continue
        for name, make in vars(module).items():
            if hasattr(make, "__wrapped__") and make.__module__ == module.__name__:
                yield f"{chapter}.{name}", make.__wrapped__


FIGURES = dict(figures())
KINDS = {
    "layer": core.TopLevelLayerSpec, "concat": core.TopLevelConcatSpec, "hconcat": core.TopLevelHConcatSpec,
    "vconcat": core.TopLevelVConcatSpec, "facet": core.TopLevelFacetSpec, "repeat": core.TopLevelRepeatSpec,
    "mark": core.TopLevelUnitSpec,
}  # fmt: skip
"""The schema of a chart by its distinctive key. Trying all schemas takes six times as long."""


def layers(chart, data=None):
    """Yield each layer with the name of its data."""
    data = chart.get("data", {}).get("name", data)
    if "encoding" in chart:
        yield chart, data
    for part in chart.get("layer", chart.get("concat", ())):
        yield from layers(part, data)


def cut_off(chart):
    """Yield fields with values of points and intervals beyond an axis, where they are cut off."""
    for layer, data in layers(chart):
        for channel in ("x", "y"):
            place, other = (layer["encoding"].get(name) or {} for name in (channel, f"{channel}2"))
            if layer["mark"]["type"] not in ("point", "tick", "rule") or "domain" not in place.get("scale", {}):
                continue
            if place["type"] != "quantitative":
                continue
            low, high = place["scale"]["domain"]
            for row in chart["datasets"][data]:
                for field in (place.get("field"), other.get("field")):
                    if row.get(field) is not None and not low <= row[field] * (1 + 1e-5) <= high * (1 + 2e-5):
                        yield field, row


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_is_valid(name):
    try:
        chart = FIGURES[name](world())
    except display.Missing:
        pytest.skip("the small paper has no data for it")
    chart = specified(chart)
    (kind,) = (kind for key, kind in KINDS.items() if key in chart)
    kind.validate(chart)  # raises SchemaValidationError
    assert list(cut_off(chart)) == []
