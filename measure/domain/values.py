"""How both programs print numbers, quantities and times."""

from datetime import UTC, datetime
from decimal import ROUND_HALF_UP, Decimal
from math import isinf

SPACE = "\u00a0"  # between a number and its unit in the paper: no line break; the terminal uses a plain space
PREFIXES = {-6: "a", -5: "f", -4: "p", -3: "n", -2: "µ", -1: "m", 0: "", 1: "k", 2: "M", 3: "G", 4: "T", 5: "P", 6: "E"}


def significant(value: float, digits: int = 3) -> str:
    """Format a number with so many significant digits and no exponent: 1979.2 is ``1980``. ValueError for infinity."""
    if isinf(value):
        raise ValueError(f"{value} is not a quantity")
    if value == 0:
        return "0"
    exact = Decimal(repr(float(value)))
    place = exact.adjusted() - digits + 1
    rounded = exact.quantize(Decimal((0, (1,), place)), ROUND_HALF_UP)
    if rounded.adjusted() > exact.adjusted():  # 9.996 became 10.00, a digit too many
        rounded = exact.quantize(Decimal((0, (1,), place + 1)), ROUND_HALF_UP)
    return f"{rounded:f}"


def si(value: float, unit: str, digits: int = 3, space: str = " ") -> str:
    """Format a quantity with an SI prefix: ``8.18 GFLOP``. A whole number below 1000 is printed in full: ``96 B``."""
    if isinstance(value, int) and abs(value) < 1000:
        return f"{value}{space}{unit}".rstrip(space)
    step = prefix_step(value, digits)
    return f"{significant(value / 1000.0**step, digits)}{space}{PREFIXES[step]}{unit}".rstrip(space)


def prefix_step(value: float, digits: int = 3) -> int:
    """Return the power of 1000 of a number's prefix after rounding: 999,600 takes mega."""
    if value == 0:
        return 0
    return min(max(Decimal(significant(value, digits)).adjusted() // 3, min(PREFIXES)), max(PREFIXES))


def latency(seconds: float) -> str:
    return si(float(seconds), "s")


def percent(share: float, digits: int = 2, space: str = " ") -> str:
    """Format a share as a percentage: 0.4567 is ``46 %``."""
    return f"{significant(100 * share, digits)}{space}%"


def plain(value: float) -> str:
    """Format a number with three significant digits and neither exponent nor trailing zeros: ``42,800``, ``22.1``."""
    return f"{float(significant(value)):,.15g}"


def duration(seconds: float) -> str:
    """Format a waiting time: ``40 s``, ``12 min``, ``1 h 05 min``."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"


def now() -> str:
    """Return the time in UTC, as ISO 8601 to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")
