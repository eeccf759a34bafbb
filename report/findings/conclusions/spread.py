"""How far models are apart, and by how much a predictor is closer than another: medians with resampled intervals."""

import numpy as np
import pandas as pd

from measure.domain.statistics import CONFIDENCE
from report.analysis import resampling
from report.analysis.effect import Effect, Interval
from report.analysis.resampling import Numbers

ROUNDING = 1e-12
"""A share by which the difference of two logarithms may be off."""


def weighted_medians(values: Numbers, weights: Numbers) -> Numbers:
    """Return the median of each row of values of which each counts so often; not a number where none counts."""
    order = np.argsort(values, axis=1)
    ordered = np.take_along_axis(values, order, axis=1)
    until = np.cumsum(np.take_along_axis(weights, order, axis=1), axis=1)
    half = until[:, -1:] / 2
    low, high = (
        np.take_along_axis(ordered, np.argmax(reached, axis=1)[:, None], axis=1)[:, 0]
        for reached in (until >= half, until > half)
    )
    return np.where(half[:, 0] > 0, (low + high) / 2, np.nan)


def _effect(logs: float, draws: Numbers, models: int, confidence: float) -> Effect:
    def interval_at(confidence: float) -> Interval | None:
        found = resampling.interval(draws, models, confidence)
        return None if found is None else (float(np.exp(found[0])), float(np.exp(found[1])))

    return Effect(float(np.exp(logs)), interval_at, models, confidence)


def apart(values: pd.Series, models: pd.Series) -> Effect:
    """Return the factor between the values of two models, in the median of all pairs; each model has one, above 0.

    Models are resampled with all pairs that they are in (``report.analysis.resampling``); a model drawn twice is no
    pair.
    """
    logs = np.log(values.to_numpy(float))
    order = np.argsort(logs)
    logs, models = logs[order], models.iloc[order]
    (point,) = median_distances(logs, np.ones((1, len(logs))))
    draws = resampling.resampled(lambda weight: median_distances(logs, weight), models)
    return _effect(float(point), draws, len(logs), CONFIDENCE)


def median_distances(ascending: Numbers, weights: Numbers) -> Numbers:
    """Return the median distance of all pairs of points, for each row of weights, by which each point counts so often.

    Pairs are not resampled one by one, of which a thousand models have half a million: how many of them are nearer
    than a distance follows from the weights up to each point, so that the median is found by halving.
    """
    count, draws = len(ascending), len(weights)
    distances = np.sort(np.concatenate([ascending[after:] - ascending[:-after] for after in range(1, count)]))
    before = np.cumsum(weights, axis=1) - weights
    half = ((weights.sum(axis=1) ** 2 - (weights**2).sum(axis=1)) / 2) / 2

    def nearer(at: Numbers) -> Numbers:
        """Return how many pairs are no farther apart than a distance a row."""
        tried, rows = np.unique(at, return_inverse=True)  # few at first, since all rows begin alike
        reach = distances[tried] * (1 + ROUNDING) + ROUNDING
        first = np.searchsorted(ascending, ascending - reach[:, None])[rows]
        return (weights * (before - np.take_along_axis(before, first, axis=1))).sum(axis=1)

    found = np.zeros(draws)
    for reached in (np.greater_equal, np.greater):
        low, high = np.zeros(draws, int), np.full(draws, len(distances) - 1)
        while (low < high).any():
            middle = (low + high) // 2
            enough = reached(nearer(middle), half)
            low, high = np.where(enough, low, np.minimum(middle + 1, high)), np.where(enough, middle, high)
        found += distances[low] / 2
    return np.where(half > 0, found, np.nan)


def closer(x: pd.Series, other: pd.Series, y: pd.Series, models: pd.Series, confidence: float = CONFIDENCE) -> Effect:
    """By what factor half of the points are farther off the line through another quantity than off that through x.

    The lines are those of ``report.analysis.power_law``, fitted again to each resample, the same for both.
    """

    def gaps(weights: Numbers) -> Numbers:
        return _typical(other, y, weights) - _typical(x, y, weights)

    (point,) = gaps(np.ones((1, len(y))))
    return _effect(float(point), resampling.resampled(gaps, models), models.nunique(), confidence)


def _typical(x: pd.Series, y: pd.Series, weights: Numbers) -> Numbers:
    """Return the median distance in logarithms from the line of least squares, for each row of weights."""
    logs_x, logs_y = np.log(x.to_numpy(float)), np.log(y.to_numpy(float))
    slopes = resampling.slopes(logs_x, logs_y, weights)[:, None]
    whole = weights.sum(axis=1, keepdims=True)
    middle_x, middle_y = ((weights * logs).sum(axis=1, keepdims=True) / whole for logs in (logs_x, logs_y))
    return weighted_medians(np.abs(logs_y - middle_y - slopes * (logs_x - middle_x)), weights)
