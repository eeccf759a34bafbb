"""Student's t distribution, and the two functions that fit a spread to many small samples, without a library.

Degrees of freedom need not be whole, and may be infinite: then t is the normal distribution.
"""

from math import erfc, exp, inf, lgamma, log, log1p, sqrt

TINY = 1e-300


def two_sided_p(t: float, freedom: float) -> float:
    """The probability that |T| is at least |t|, T having Student's distribution with so many degrees of freedom."""
    if freedom == inf:
        return erfc(abs(t) / sqrt(2))
    return _incomplete_beta(freedom / 2, 0.5, freedom / (freedom + t * t))


def critical(confidence: float, freedom: float) -> float:
    """The t that |T| stays below with this probability: an interval's half width in standard errors."""
    low, high = 0.0, 1.0
    while two_sided_p(high, freedom) > 1 - confidence:
        low, high = high, 2 * high
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if two_sided_p(middle, freedom) > 1 - confidence else (low, middle)
    return high


def _incomplete_beta(a: float, b: float, x: float) -> float:
    """The regularised incomplete beta function I_x(a, b).

    By its continued fraction (DLMF 8.17.22), which converges fast for x below (a + 1)/(a + b + 2), else by
    I_x(a, b) = 1 - I_{1-x}(b, a).
    """
    if x <= 0 or x >= 1:
        return float(x >= 1)
    if x > (a + 1) / (a + b + 2):
        return 1 - _incomplete_beta(b, a, 1 - x)
    front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log1p(-x)) / a
    # Lentz's method: numerators and denominators are carried as ratios.
    c, d = 1.0, 1 / (1 - (a + b) * x / (a + 1) or TINY)
    fraction = d
    for m in range(1, 10_000):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        step = 1.0
        for numerator in (even, odd):
            d = 1 / (1 + numerator * d or TINY)
            c = 1 + numerator / c or TINY
            step = c * d
            fraction *= step
        if abs(step - 1) < 1e-15:
            break
    return front * fraction


def digamma(x: float) -> float:
    """The logarithmic derivative of the gamma function, x > 0 (DLMF 5.5.2 up to 10, then 5.11.2)."""
    below = 0.0
    while x < 10:
        below -= 1 / x
        x += 1
    y = 1 / (x * x)
    return below + log(x) - 1 / (2 * x) - y * (1 / 12 - y * (1 / 120 - y * (1 / 252 - y / 240)))


def trigamma(x: float) -> float:
    """The derivative of ``digamma``, x > 0 (the same two formulas, differentiated)."""
    below = 0.0
    while x < 10:
        below += 1 / (x * x)
        x += 1
    y = 1 / (x * x)
    return below + 1 / x + y / 2 + y / x * (1 / 6 - y * (1 / 30 - y * (1 / 42 - y / 30)))


def inverse_trigamma(value: float) -> float:
    """The x > 0 whose ``trigamma`` is the value (> 0), which falls from infinity to 0 as x grows."""
    low, high = 1e-12, 1.0
    while trigamma(high) > value:
        low, high = high, 2 * high
    for _ in range(50):
        middle = sqrt(low * high)
        low, high = (middle, high) if trigamma(middle) > value else (low, middle)
    return high
