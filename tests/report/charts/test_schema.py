"""The figures' charts follow Altair's schema."""

from importlib import import_module

import altair as alt
import pytest
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


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_is_valid(name):
    try:
        chart = FIGURES[name](world())
    except display.Missing:
        pytest.skip("the small paper has no data for it")
    alt.Chart.from_dict(specified(chart), validate=True)  # raises SchemaValidationError
