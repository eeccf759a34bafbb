"""A model of latencies: a sum of terms with fitted coefficients, which overlaps with the launches of a host."""

import numpy as np

from measure.predicting.prediction_terms import Numbers
from measure.predicting.records import HOST_MEMORY, LAUNCHES, TERMS, UNFUSED

TURNS = 15  # the factors and the weights of outliers settle within this many rounds
TUNING = 1.345  # Huber's constant: 95 % of the efficiency of least squares if the errors are normal
TINY = 1e-12

# Standard deviations of logarithms, chosen on devices left out. DEVICE and HOST: the time of a device and of its host's
# launches over the expected one. OF_POOL and OF_DEVICE: each coefficient of a pool and of a device besides. NOISE: one
# time
DEVICE, HOST, OF_POOL, OF_DEVICE, NOISE = 0.5, 0.6, 0.6, 0.3, 0.08

# The expectation without measurements, ``(terms,)``: layers run at their roofs; compilers would save a third of the
# traffic of the layers that they fuse; an operator takes 3 µs to launch, and a host moves 10 GB/s
AT_THE_ROOF = np.array([{UNFUSED: 0.3, LAUNCHES: 3.0, HOST_MEMORY: 0.1}.get(term, 1.0) for term in TERMS])


def likely(coefficients: Numbers, terms: Numbers, launch_s: Numbers) -> Numbers:
    """Return the likely latencies (s) ``(rows,)`` of ``terms`` ``(rows, terms)`` and of a host's launches ``(rows,)``.

    A host launches while the device works, and neither hides the other wholly: their squares add up.
    """
    return np.hypot(np.maximum(terms @ coefficients, TINY), launch_s)


def fit(
    expected: Numbers, terms: Numbers, launch_s: Numbers, times: Numbers, spread: float = OF_DEVICE,
    weights: Numbers | float = 1.0, has_own_host: bool = False,
) -> tuple[Numbers, float]:  # fmt: skip
    """Return the coefficients ``(terms,)`` that make ``likely`` give ``times`` ``(rows,)`` (s), and a launch factor.

    The factor is 1 unless the rows have a host of their own. Both are the likeliest, given that coefficients are spread
    around the ``expected`` ones, together and by ``spread`` each: one row shows a common factor, many show each
    coefficient. Gauss-Newton steps in logarithms, with less weight on outliers (P. J. Huber, Robust Estimation of a
    Location Parameter, Annals of Mathematical Statistics 35 (1964), 73-101).
    """
    count = len(expected)
    covariance = np.diag([*np.full(count, spread**2), HOST**2])
    covariance[:count, :count] += DEVICE**2
    precision = NOISE**2 * np.linalg.inv(covariance)
    logs = np.zeros(count + 1)
    for _ in range(TURNS):
        parts, host_s = terms * expected * np.exp(logs[:count]), np.exp(logs[count]) * launch_s
        device_s = np.maximum(parts.sum(axis=1), TINY)
        found = np.hypot(device_s, host_s)
        errors = np.log(times / found)
        slopes = np.column_stack([parts * device_s[:, None], host_s**2 * has_own_host]) / found[:, None] ** 2
        weighted = slopes * (weights * np.minimum(1.0, TUNING * NOISE / np.maximum(np.abs(errors), TINY)))[:, None]
        step = np.linalg.solve(weighted.T @ slopes + precision, weighted.T @ errors - precision @ logs)
        logs = logs + np.clip(step, -1.0, 1.0)
    return expected * np.exp(logs[:count]), float(np.exp(logs[count]))
