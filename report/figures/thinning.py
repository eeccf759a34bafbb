"""Figures of many models: marks that would cover each other are one mark with a count, and only ends are named."""

from collections.abc import Iterable

import pandas as pd

from report.charts.axes import LogAxis

FEW = 400
"""So many points are all drawn."""

SIDE = 5
"""Pixels of a place's side, about a mark's width: marks in one place cover each other."""

NAMES = 60
"""So many points get a name each, as far as there is room; of more, only those at the ends."""


def one_a_place(
    points: pd.DataFrame, x: LogAxis, x_field: str, y: LogAxis, y_field: str, apart: tuple[str, ...] = ()
) -> pd.DataFrame:
    """Return the first of the points in each place of a panel, with the number of ``models`` that are there.

    Points that differ in one of the columns ``apart`` never share a mark; one without a logarithm is in no place.
    """
    drawn = points[(points[x_field] > 0) & (points[y_field] > 0)]
    places = drawn.assign(
        across=[x.pixel(value) // SIDE for value in drawn[x_field]],
        down=[y.pixel(value) // SIDE for value in drawn[y_field]],
    )
    key = [*apart, "across", "down"]
    counted = places.assign(models=places.groupby(key).model.transform("size"))
    return counted.drop_duplicates(key).drop(columns=["across", "down"])


def thinned(
    points: pd.DataFrame, x: LogAxis, x_field: str, y: LogAxis, y_field: str, apart: tuple[str, ...] = ()
) -> pd.DataFrame:
    """Return all points, where they are few; else ``one_a_place``."""
    return points if len(points) <= FEW else one_a_place(points, x, x_field, y, y_field, apart)


def counts(points: pd.DataFrame) -> list[str]:
    """Return the column in which thinned points tell how many they stand for; none of points that are all there."""
    return ["models"] if "models" in points else []


def covered(panels: Iterable[pd.DataFrame]) -> str:
    """Say what marks of panels stand for, where points were thinned."""
    thinned = any(counts(points) for points in panels)
    return "Where models fall on one place, one mark stands for them and tells their number." if thinned else ""


def ends(points: pd.DataFrame, *columns: str) -> pd.DataFrame:
    """Return the points with the least and the most of each column."""
    at = [end for column in columns for end in (points[column].idxmin(), points[column].idxmax())]
    return points[points.index.isin(at)]


def named(points: pd.DataFrame, *columns: str) -> pd.DataFrame:
    """Return the points that get a name: all, where they are few; else those at the ends of columns."""
    return points if len(points) <= NAMES else ends(points, *columns)
