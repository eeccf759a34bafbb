"""How far models are apart, and by how much a predictor is closer than another: medians with resampled intervals."""

import numpy as np
import pandas as pd

from measure.timing.statistics import CONFIDENCE
from report.analysis import resampling
from report.analysis.effect import Effect, Interval
from report.analysis.resampling import Numbers


def weighted_medians(values: Numbers, weights: Numbers) -> Numbers:
    """The median of each row of values of which each counts so often; not a number where none counts."""
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
    """The factor between the values of two models, in the median of all pairs; each model has one, above 0.

    Models are resampled with all pairs that they are in (``report.analysis.resampling``); a model drawn twice is no
    pair.
    """
    logs = np.log(values.to_numpy(float))
    one, other = np.triu_indices(len(logs), 1)
    distances = np.abs(logs[one] - logs[other])
    weights = resampling.weights(models)
    pairs = weights[:, one] * weights[:, other]
    draws = weighted_medians(np.broadcast_to(distances, pairs.shape), pairs)
    return _effect(float(np.median(distances)), draws, len(logs), CONFIDENCE)


def closer(x: pd.Series, other: pd.Series, y: pd.Series, models: pd.Series, confidence: float = CONFIDENCE) -> Effect:
    """By what factor half of the points are farther off the line through another quantity than off that through x.

    The lines are those of ``report.analysis.power_law``, fitted again to each resample, the same for both.
    """
    weights = np.vstack([np.ones((1, len(y))), resampling.weights(models)])
    near, far = (_typical(quantity, y, weights) for quantity in (x, other))
    (point, *draws) = far - near
    return _effect(float(point), np.array(draws), models.nunique(), confidence)


def _typical(x: pd.Series, y: pd.Series, weights: Numbers) -> Numbers:
    """The median distance in logarithms from the line of least squares, for each row of weights."""
    logs_x, logs_y = np.log(x.to_numpy(float)), np.log(y.to_numpy(float))
    xx, xy, _ = resampling.moments(logs_x, logs_y, weights)
    slopes = np.divide(xy, xx, out=np.full_like(xy, np.nan), where=xx > 1e-9)[:, None]
    whole = weights.sum(axis=1, keepdims=True)
    middle_x, middle_y = ((weights * logs).sum(axis=1, keepdims=True) / whole for logs in (logs_x, logs_y))
    return weighted_medians(np.abs(logs_y - middle_y - slopes * (logs_x - middle_x)), weights)
