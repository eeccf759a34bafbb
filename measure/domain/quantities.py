"""Numbers as people read them on a terminal.

The time, as tables write it.
"""

from datetime import UTC, datetime

PREFIXES = (("P", 1e15), ("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3), ("", 1.0))

UNITS_OF_TIME = (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6))


def si(value: float, unit: str) -> str:
    """Return a quantity with three significant digits and a prefix: ``8.18 GFLOP``, ``178 MB``, ``960 FLOP``."""
    prefix, size = _scale(value, PREFIXES)
    return f"{_digits(value / size) if size > 1 else f'{value:.3g}'} {prefix}{unit}".rstrip()


def latency(seconds: float) -> str:
    """Return a latency with three significant digits: ``1.23 s``, ``45.6 ms``, ``789 µs``."""
    unit, size = _scale(seconds, UNITS_OF_TIME)
    return f"{_digits(seconds / size)} {unit}"


def plain(value: float) -> str:
    """Return a number with three significant digits, without an exponent: ``0.496``, ``22.1``, ``42,800``."""
    rounded = float(f"{value:.3g}")
    return f"{rounded:,.0f}" if rounded >= 1000 else f"{value:.3g}"


def duration(seconds: float) -> str:
    """Return a time that is waited for: ``40 s``, ``12 min``, ``1 h 05 min``."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"


def percent(share: float) -> str:
    return f"{100 * share:.2g} %" if share < 0.995 else f"{100 * share:.0f} %"


def _scale(value: float, scales: tuple[tuple[str, float], ...]) -> tuple[str, float]:
    """Return the first scale, of descending ones, whose three digits do not begin with a zero; else the last."""
    return next((pair for pair in scales if value >= 0.9995 * pair[1]), scales[-1])


def _digits(value: float) -> str:
    return f"{value:#.3g}".rstrip(".")


def now() -> str:
    """Return the time in UTC, as ISO 8601 to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")
