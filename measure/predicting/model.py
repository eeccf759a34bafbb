"""A fitted model of latencies: coefficients of the terms, and what like models are off by."""

from dataclasses import dataclass

import numpy as np

from measure.cache.predictions import CALL, COPY, LAUNCHES, TERMS, UNFUSED, UPDATE
from measure.predicting.fitting import TINY, Numbers, fit
from measure.predicting.likeness import Neighbours, of_distinct
from measure.predicting.sample import Sample, numbered

BESIDE = (UNFUSED, LAUNCHES, CALL, COPY, UPDATE)
"""The terms of what no roof asks for."""

AT_THE_ROOF = np.array([0.0 if term in BESIDE else 1.0 for term in TERMS])
"""What coefficients are drawn to where nothing was timed: layers at their roofs, and nothing beside them."""


@dataclass(frozen=True, eq=False)
class LatencyModel:
    """Coefficients of ``TERMS``, and the neighbours whose offsets correct what they give."""

    coefficients: Numbers
    neighbours: Neighbours

    def predict(self, terms: Numbers, make_ups: Numbers) -> Numbers:
        """Return the likely latencies (s) of calls, one row each."""
        return self.by_terms(terms) * np.exp(self.neighbours.offsets_of(make_ups))

    def by_terms(self, terms: Numbers) -> Numbers:
        """Return the latencies (s) that the terms alone give."""
        return np.maximum(terms @ self.coefficients, TINY)


def of_setting(timed: Sample, prior: Numbers = AT_THE_ROOF) -> LatencyModel:
    """Fit the calls of one setting, whose rows count alike; what they do not tell is drawn to a ``prior``."""
    return with_neighbours(timed, fit(timed.terms, timed.latency_s, np.ones(len(timed)), prior))


def of_pool(timed: Sample) -> LatencyModel:
    """Fit the calls of several settings; of a neighbour counts what it is off by beyond its setting.

    A setting of a thousand calls has more say than one of thirty, but not thirty times as much: the fourth roots of
    their numbers weigh their rows.
    """
    return with_neighbours(timed, fit(timed.terms, timed.latency_s, timed.weights(), AT_THE_ROOF))


def with_neighbours(timed: Sample, coefficients: Numbers) -> LatencyModel:
    """Return the model of these coefficients; of several settings each is off by nothing in the median."""
    offsets = np.log(timed.latency_s / np.maximum(timed.terms @ coefficients, TINY))
    settings = numbered(timed.setting)
    for each in range(settings.max() + 1):
        offsets[settings == each] -= np.median(offsets[settings == each]) if settings.max() else 0.0
    return LatencyModel(coefficients, of_distinct(timed.make_ups, offsets))


def without_neighbours(coefficients: Numbers) -> LatencyModel:
    """Return the model of coefficients alone, where the latencies that they were fitted to are not at hand."""
    return LatencyModel(coefficients, Neighbours(np.zeros((0, 0)), np.zeros(0)))
