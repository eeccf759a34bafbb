"""A model of latencies: a sum of terms with fitted coefficients, corrected by the errors of similar calls."""

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from measure.cache.predictions import CALL, COPY, LAUNCHES, TERMS, UNFUSED, UPDATE
from measure.predicting.demand import Numbers
from measure.predicting.timings import FitRows, number_labels

if TYPE_CHECKING:
    from scipy.spatial import KDTree

TURNS = 10  # the weights of outliers settle within this many rounds
TUNING = 1.345  # Huber's constant: 95 % of the efficiency of least squares if the errors are normal
TO_DEVIATION = 1.4826  # standard deviation over median absolute error if the errors are normal
LEAST_DEVIATION = 1e-3  # rows that fit better than this all count in full
TRACE = 1e-4  # the pull on a coefficient without a prior, as a share of its rows: too small to move what they determine
TINY = 1e-12

NEIGHBOURS = 4
NEAR = 0.02  # this distance halves the weight of a neighbour; make-ups that share nothing are 4 apart
CAUTION = 0.2  # the weight of "the terms are right", in neighbours at distance 0
SAME_SHARE, SAME_DISTANCE = 1e-12, 1e-9  # shares, and sums of them, that differ only by rounding

# The prior without measurements, ``(terms,)``: layers run at their roofs, and nothing else costs time
AT_THE_ROOF = np.array([0.0 if term in (UNFUSED, LAUNCHES, CALL, COPY, UPDATE) else 1.0 for term in TERMS])


def fit(terms: Numbers, times: Numbers, weights: Numbers, prior: Numbers) -> Numbers:
    """Fit coefficients ``(terms,)`` so that ``terms`` ``(rows, terms)`` (s) give ``times`` ``(rows,)`` (s).

    Minimises relative errors by non-negative least squares (C. L. Lawson and R. J. Hanson, Solving Least Squares
    Problems, 1974, chapter 23), and repeats with less weight on outliers (P. J. Huber, Robust Estimation of a Location
    Parameter, Annals of Mathematical Statistics 35 (1964), 73-101). A mean row's weight draws each coefficient to its
    ``prior`` ``(terms,)``: it stays there if no row has its term. A prior of 0 is none. All times are above 0.
    """
    from scipy.optimize import nnls

    relative = terms / times[:, None]
    # Columns in units of the prior, so that the pull to it weighs each term alike
    unit = np.where(prior > 0, prior, 1.0)
    columns = relative * unit
    weights = weights / np.sqrt(np.mean(weights**2))
    aim = (prior > 0).astype(float)
    robust = np.ones(len(times))
    for _ in range(TURNS):
        share = weights * robust
        weighted = columns * share[:, None]
        # Terms without a prior that the rows cannot tell apart share alike; a term that no row has is held at 0
        size = np.sqrt((weighted**2).sum(axis=0))
        trace = np.where(prior > 0, 0.0, np.where(size > 0, TRACE * size, 1.0))
        rows = np.vstack([weighted, np.diag(aim + trace)])
        scale = np.sqrt((rows**2).sum(axis=0))
        found, _ = nnls(rows / scale, np.concatenate([share, aim]), maxiter=50 * len(scale))
        coefficients = found / scale * unit
        errors = np.log(np.maximum(relative @ coefficients, TINY))
        deviation = max(TO_DEVIATION * float(np.median(np.abs(errors))), LEAST_DEVIATION)
        robust = np.sqrt(np.minimum(1.0, TUNING * deviation / np.maximum(np.abs(errors), TINY)))
    return np.asarray(coefficients)


@dataclass(frozen=True, eq=False)
class LatencyModel:
    """Coefficients ``(terms,)``, and timed calls whose errors correct the sum of the terms.

    ``make_ups`` ``(calls, shares)`` of the timed calls are distinct; ``offsets`` ``(calls,)`` are their logarithms of
    latency over terms. Both are None without timed calls.
    """

    coefficients: Numbers
    make_ups: Numbers | None = None
    offsets: Numbers | None = None

    def predict(self, terms: Numbers, make_ups: Numbers) -> Numbers:
        """Return the likely latencies (s) ``(rows,)`` of ``terms`` ``(rows, terms)``."""
        return np.maximum(terms @ self.coefficients, TINY) * np.exp(self.offsets_of(make_ups))

    def offsets_of(self, make_ups: Numbers) -> Numbers:
        """Estimate the offsets ``(rows,)`` of calls from their nearest neighbours, drawn to 0.

        The distance is the sum of absolute differences of the shares. The estimate is the mean weighted by inverse
        distance (D. Shepard, A two-dimensional interpolation function for irregularly-spaced data, ACM National
        Conference 1968, 517-524). Neighbours as near as the last, such as half and twice a batch, share the places
        that are left, so that the order of rows does not matter.
        """
        if self.make_ups is None or self.offsets is None:
            return np.zeros(len(make_ups))
        # Devices time the same networks: most make-ups were asked for before
        names = [make_up.tobytes() for make_up in make_ups]
        new = {name: row for row, name in enumerate(names) if name not in self._known}
        if new:
            asked = make_ups[[*new.values()]]
            kept = min(NEIGHBOURS, len(self.offsets))
            (lasts,) = self._tree.query(asked, k=[kept], p=1)[0].T
            found = self._tree.query_ball_point(asked, lasts + SAME_DISTANCE, p=1)
            for name, make_up, last, near in zip(new, asked, lasts, found, strict=True):
                distances = np.abs(self.make_ups[near] - make_up).sum(axis=1)
                tied = distances >= last - SAME_DISTANCE
                share = (kept - np.count_nonzero(~tied)) / np.count_nonzero(tied)
                weights = np.where(tied, share, 1.0) / (NEAR + distances)
                self._known[name] = float(weights @ self.offsets[near] / (weights.sum() + CAUTION / NEAR))
        return np.array([self._known[name] for name in names])

    @cached_property
    def _known(self) -> dict[bytes, float]:
        """The offsets that were asked for, by make-up."""
        return {}

    @cached_property
    def _tree(self) -> "KDTree":
        from scipy.spatial import KDTree

        return KDTree(self.make_ups)


def fit_setting(timed: FitRows, prior: Numbers = AT_THE_ROOF) -> LatencyModel:
    """Fit the calls of one setting; every row counts alike."""
    return add_neighbours(timed, fit(timed.terms, timed.latency_s, np.ones(len(timed)), prior))


def fit_pool(timed: FitRows) -> LatencyModel:
    """Fit the calls of several settings, each weighted by the square root of its number of calls."""
    return add_neighbours(timed, fit(timed.terms, timed.latency_s, timed.weights(), AT_THE_ROOF))


def add_neighbours(timed: FitRows, coefficients: Numbers) -> LatencyModel:
    """Return the model of these coefficients. Calls of one make-up, on several devices, count as their median.

    Among several settings an offset is relative to its setting's median.
    """
    offsets = np.log(timed.latency_s / np.maximum(timed.terms @ coefficients, TINY))
    settings = number_labels(timed.setting)
    if settings.max():
        for each in range(settings.max() + 1):
            offsets[settings == each] -= np.median(offsets[settings == each])
    distinct, places = np.unique(np.round(timed.make_ups / SAME_SHARE) * SAME_SHARE, axis=0, return_inverse=True)
    ordered, counts = offsets[np.lexsort((offsets, places))], np.bincount(places, minlength=len(distinct))
    firsts = np.cumsum(counts) - counts
    medians = (ordered[firsts + (counts - 1) // 2] + ordered[firsts + counts // 2]) / 2
    return LatencyModel(coefficients, distinct, medians)
