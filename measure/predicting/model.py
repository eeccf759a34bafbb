"""A fitted model of latencies: coefficients of the terms, and what like models are off by.

What models of like make-up are off by: the part of a latency that no term tells, learnt from their neighbours.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from measure.cache.predictions import CALL, COPY, LAUNCHES, TERMS, UNFUSED, UPDATE
from measure.predicting.demand import TINY, Numbers, fit
from measure.predicting.timings import Sample, numbered

if TYPE_CHECKING:
    from scipy.spatial import KDTree

NEIGHBOURS = 4
"""So many of the nearest count."""

NEAR = 0.02
"""A distance that halves the weight of a neighbour; make-ups that share nothing are 4 apart."""

CAUTION = 0.2
"""So many neighbours of distance 0 say that the terms are right."""


ALIKE, LEVEL = 1e-12, 1e-9
"""Shares, and sums of them, that differ by no more than rounding does are one."""


@dataclass(frozen=True, eq=False)
class Neighbours:
    """Calls that were timed: their make-ups, and the logarithms of latency over terms."""

    make_ups: Numbers
    offsets: Numbers

    def offsets_of(self, make_ups: Numbers) -> Numbers:
        """Return what calls of these make-ups are off by, by their nearest neighbours' offsets, drawn to 0.

        A make-up's neighbours are near by the sum of the absolute differences of its shares. The estimate is the mean
        weighted by inverse distance (D. Shepard, A two-dimensional interpolation function for irregularly-spaced data,
        ACM National Conference 1968, 517-524). What is as near as the last neighbour, such as half and twice a batch,
        shares the places that are left, so that no order of rows decides who counts.
        """
        if not len(self.offsets) or not len(make_ups):
            return np.zeros(len(make_ups))
        kept = min(NEIGHBOURS, len(self.offsets))
        (lasts,) = self._tree.query(make_ups, k=[kept], p=1)[0].T
        found = self._tree.query_ball_point(make_ups, lasts + LEVEL, p=1)
        return np.array(
            [self._offset(row, kept, last, near) for row, last, near in zip(make_ups, lasts, found, strict=True)]
        )

    def _offset(self, make_up: Numbers, kept: int, last: float, near: list[int]) -> float:
        """Return what a call is off by: of its neighbours, ``kept`` count, the last of which is so far away."""
        apart = np.abs(self.make_ups[near] - make_up).sum(axis=1)
        level = apart >= last - LEVEL
        share = (kept - np.count_nonzero(~level)) / np.count_nonzero(level)
        weights = np.where(level, share, 1.0) / (NEAR + apart)
        return float(weights @ self.offsets[near] / (weights.sum() + CAUTION / NEAR))

    @cached_property
    def _tree(self) -> "KDTree":
        from scipy.spatial import KDTree

        return KDTree(self.make_ups)


def of_distinct(make_ups: Numbers, offsets: Numbers) -> Neighbours:
    """Return neighbours of which no two are alike: calls of one make-up, on several devices, say their median."""
    distinct, places = np.unique(np.round(make_ups / ALIKE) * ALIKE, axis=0, return_inverse=True)
    order = np.argsort(places, kind="stable")
    ends = np.cumsum(np.bincount(places, minlength=len(distinct)))[:-1]
    return Neighbours(distinct, np.array([np.median(part) for part in np.split(offsets[order], ends)]))


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
