"""Fits times as sums of terms, none of which is negative, to relative errors, with little say for outliers."""

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]

TURNS = 10
"""Weights settle within these."""

TUNING = 1.345
"""Huber's: of normal errors the estimate keeps 95 % of the efficiency of least squares (Huber 1964)."""

TO_DEVIATION = 1.4826
"""From the median absolute error of normal errors to their standard deviation."""

LEAST_DEVIATION = 1e-3
"""Rows that fit better than this all count in full."""

TRACE = 1e-4
"""The pull on a coefficient without a prior, as a share of what its rows say: too little to move what they tell."""

TINY = 1e-12


def fit(terms: Numbers, times: Numbers, weights: Numbers, prior: Numbers, strength: float = 1.0) -> Numbers:
    """Return the coefficients of ``terms`` (rows of seconds) that give ``times`` (s), each row's error relative to it.

    Non-negative least squares (C. L. Lawson and R. J. Hanson, Solving Least Squares Problems, 1974, chapter 23), in
    turns that weigh rows down whose error is large (P. J. Huber, Robust Estimation of a Location Parameter, Annals of
    Mathematical Statistics 35 (1964), 73-101). Each coefficient is drawn to that of a ``prior``, by ``strength`` times
    the weight of a mean row: it stays there where no row says anything of its term.

    Raises ValueError for no rows, and for a time that is not above 0.
    """
    from scipy.optimize import nnls

    if not len(times) or not (times > 0).all():
        raise ValueError("a fit needs rows, each with a time above 0")
    relative = terms / times[:, None]
    # Columns in units of the prior, so that what draws to it weighs each term alike
    unit = np.where(prior > 0, prior, 1.0)
    columns = relative * unit
    weights = weights / np.sqrt(np.mean(weights**2))
    pull = np.sqrt(strength) * np.diag((prior > 0).astype(float))
    aim = np.sqrt(strength) * (prior > 0)
    robust = np.ones(len(times))
    for _ in range(TURNS):
        share = weights * robust
        weighed = columns * share[:, None]
        # Of terms without a prior, those that rows do not tell apart share alike; one that no row has is held at 0
        size = np.sqrt((weighed**2).sum(axis=0))
        trace = np.diag(np.where(prior > 0, 0.0, np.where(size > 0, TRACE * size, 1.0)))
        rows, aims = np.vstack([weighed, pull + trace]), np.concatenate([share, aim])
        scale = np.sqrt((rows**2).sum(axis=0))
        found, _ = nnls(rows / scale, aims, maxiter=50 * len(scale))
        coefficients = found / scale * unit
        errors = np.log(np.maximum(relative @ coefficients, TINY))
        deviation = max(TO_DEVIATION * float(np.median(np.abs(errors))), LEAST_DEVIATION)
        robust = np.sqrt(np.minimum(1.0, TUNING * deviation / np.maximum(np.abs(errors), TINY)))
    return np.asarray(coefficients)
