"""A model of latencies: a sum of terms with fitted coefficients, which overlaps with the launches of a host."""

import numpy as np

from measure.cache.predictions import HOST_MEMORY, LAUNCHES, TERMS, UNFUSED, UPDATE
from measure.predicting.demand import Numbers

TURNS = 10  # the weights of outliers settle within this many rounds
TUNING = 1.345  # Huber's constant: 95 % of the efficiency of least squares if the errors are normal
TO_DEVIATION = 1.4826  # standard deviation over median absolute error if the errors are normal
LEAST_DEVIATION = 1e-3  # rows that fit better than this all count in full
TRACE = 1e-4  # the pull on a coefficient without a prior, as a share of its rows: too small to move what they determine
TINY = 1e-12
SEEN = 0.2  # a row says nothing of a device whose part of the latency is below this share: its host hides it

PULL = 0.3  # a pool's say on each coefficient of a device, in timed calls; chosen on devices left out with known times
# Standard deviations, as logarithms, of devices around their pool: of the device's time, and of the time of its host's
# launches; and of one time around what these let expect
SPREAD, NOISE = np.array([0.5, 0.6]), 0.15

# The prior without measurements, ``(terms,)``: layers run at their roofs, and nothing else costs time
AT_THE_ROOF = np.array([0.0 if term in (UNFUSED, LAUNCHES, HOST_MEMORY, UPDATE) else 1.0 for term in TERMS])


def likely(coefficients: Numbers, terms: Numbers, launch_s: Numbers) -> Numbers:
    """Return the likely latencies (s) ``(rows,)`` of ``terms`` ``(rows, terms)`` and of a host's launches ``(rows,)``.

    A host launches while the device works, and neither hides the other wholly: the sum is that of their squares.
    """
    return np.hypot(np.maximum(terms @ coefficients, TINY), launch_s)


def device_part(launch_s: Numbers, times: Numbers) -> Numbers:
    """Return the part (s) of latencies that is the device's, ``(rows,)``, at least the share ``SEEN``."""
    return np.sqrt(np.maximum(times**2 - launch_s**2, (SEEN * times) ** 2))


def fit(
    terms: Numbers, launch_s: Numbers, times: Numbers, weights: Numbers, prior: Numbers, pull: float = 1.0
) -> Numbers:
    """Fit coefficients ``(terms,)`` so that ``likely`` gives ``times`` ``(rows,)`` (s), all above 0.

    Minimises relative errors by non-negative least squares (C. L. Lawson and R. J. Hanson, Solving Least Squares
    Problems, 1974, chapter 23), and repeats with less weight on outliers (P. J. Huber, Robust Estimation of a Location
    Parameter, Annals of Mathematical Statistics 35 (1964), 73-101). The weight of ``pull`` mean rows that no host hides
    draws each coefficient to its ``prior`` ``(terms,)``: it stays there if no row has its term. A prior of 0 is none.
    """
    from scipy.optimize import nnls

    device_s = device_part(launch_s, times)
    weights = weights / np.sqrt(np.mean(weights**2))
    weights = weights * (device_s / times) ** 2  # the relative error of a latency over that of the device's part
    # Columns in units of the prior, so that the pull to it weighs each term alike
    unit = np.where(prior > 0, prior, 1.0)
    columns = terms / device_s[:, None] * unit
    aim = pull * (prior > 0)
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
        errors = np.log(likely(coefficients, terms, launch_s) / times)
        deviation = max(TO_DEVIATION * float(np.median(np.abs(errors))), LEAST_DEVIATION)
        robust = np.sqrt(np.minimum(1.0, TUNING * deviation / np.maximum(np.abs(errors), TINY)))
    return np.asarray(coefficients)


def adapt(
    coefficients: Numbers, terms: Numbers, launch_s: Numbers, times: Numbers, has_own_host: bool = False
) -> tuple[Numbers, float]:
    """Return coefficients for a device with timed calls, at least one, from those of its pool.

    One call tells a common factor, many tell each coefficient. A device that ``has_own_host`` also gets a factor on
    ``launch_s``, else 1. The factors are the likeliest, given that those of devices are spread around their pool
    (Gauss-Newton steps with Huber's weights).
    """
    work_s = np.maximum(terms @ coefficients, TINY)
    precision = np.diag((NOISE / SPREAD) ** 2)
    logs = np.zeros(len(SPREAD))
    for _ in range(TURNS):
        device_s, host_s = np.exp(logs[0]) * work_s, np.exp(logs[1]) * launch_s
        expected = np.hypot(device_s, host_s)
        errors = np.log(times / expected)
        share = (device_s / expected) ** 2
        slopes = np.column_stack([share, (1 - share) * has_own_host])
        weighted = slopes * np.minimum(1.0, TUNING * NOISE / np.maximum(np.abs(errors), TINY))[:, None]
        logs = logs + np.linalg.solve(weighted.T @ slopes + precision, weighted.T @ errors - precision @ logs)
    device, host = np.exp(logs)
    prior = np.maximum(coefficients * device, TINY)  # what the pool lacks stays near 0
    return fit(terms, host * launch_s, times, np.ones(len(times)), prior, PULL), float(host)
