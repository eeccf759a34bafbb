"""Numbers as the paper prints them: SI prefixes, units, a no-break space between, and lists of words."""

from collections.abc import Sequence
from decimal import ROUND_HALF_UP, Decimal
from math import isinf

from measure.domain.words import operation

SPACE = "\u00a0"
"""Stands between a number and its unit, so that no line breaks there."""

PREFIXES = {-4: "p", -3: "n", -2: "µ", -1: "m", 0: "", 1: "k", 2: "M", 3: "G", 4: "T", 5: "P", 6: "E"}


def significant(value: float, digits: int = 3) -> str:
    """Format a number at so many significant digits, without an exponent: 1979.2 is ``1980``, 0.0456 is ``0.0456``.

    Raises ValueError for what is infinite.
    """
    if isinf(value):
        raise ValueError(f"{value} is no quantity")
    if value == 0:
        return "0"
    exact = Decimal(repr(float(value)))
    place = exact.adjusted() - digits + 1
    rounded = exact.quantize(Decimal((0, (1,), place)), ROUND_HALF_UP)
    if rounded.adjusted() > exact.adjusted():  # 9.996 became 10.00, a digit too many
        rounded = exact.quantize(Decimal((0, (1,), place + 1)), ROUND_HALF_UP)
    return f"{rounded:f}"


def si(value: float, unit: str, digits: int = 3) -> str:
    """Format a quantity with an SI prefix: ``si(989.4e12, "FLOP/s")`` is ``989 TFLOP/s``."""
    rounded = Decimal(significant(value, digits))
    step = 0 if value == 0 else min(max(rounded.adjusted() // 3, min(PREFIXES)), max(PREFIXES))
    return f"{significant(value / 1000.0**step, digits)}{SPACE}{PREFIXES[step]}{unit}".rstrip(SPACE)


def place_of(low: float, high: float) -> int | None:
    """Return the power of ten to whose place an interval lets a value be known; None where both ends are equal.

    By the rule of the Particle Data Group (Review of Particle Physics, Introduction, 5.3): of the interval's half, two
    digits are given where its first three are 354 or less, one digit up to 949, and from there on it counts as 1000.
    """
    half = (Decimal(repr(float(high))) - Decimal(repr(float(low)))) / 2
    if half <= 0:
        return None
    first_three = int(half.scaleb(2 - half.adjusted()))
    return half.adjusted() - (1 if first_three <= 354 else 0)


def digits_to(value: float, place: int | None) -> int:
    """Return the significant digits of a value that is given to a place, 6 at most; 3 where that is None."""
    return 3 if place is None else min(max(1, Decimal(repr(float(value))).adjusted() - place + 1), 6)


def intensity(value: float, unit: str = "FLOP/B", digits: int = 3) -> str:
    """Format an operational intensity or a ridge point; never with a prefix, so that all compare at a glance."""
    return f"{significant(value, digits)}{SPACE}{unit}"


def throughput(value: float, digits: int = 3) -> str:
    """Format inputs (images or clips) per second, with thousands set apart and no prefix."""
    text = significant(value, digits)
    return f"{float(text):,.{len(text.partition('.')[2])}f}{SPACE}inputs/s"


def percent(share: float, digits: int = 2) -> str:
    """Format a share as a percentage: 0.4567 is ``46 %``."""
    return f"{significant(100 * share, digits)}{SPACE}%"


def change(share: float, low: float, high: float) -> str:
    """Format a change as a percentage, with its interval: ``26 % (20 to 33 %)``."""
    middle, least, most = (percent(value).replace("-", "−") for value in (share, low, high))
    return f"{middle} ({least.partition(SPACE)[0]}{SPACE}to{SPACE}{most})"


def exact(count: int, unit: str) -> str:
    """Format a whole number in full, with its thousands set apart: ``4,089,184,256 FLOP``."""
    return f"{count:,}{SPACE}{unit}"


def number(count: int, noun: str, plural: str | None = None) -> str:
    """Format a count with its noun in the right number: ``1 model``, ``24 models``, ``no cell``."""
    word = noun if count in (0, 1) else plural or noun + "s"
    return f"{count or 'no'}{SPACE}{word}"


def listing(words: Sequence[str], most: int | None = None) -> str:
    """Join words as in a sentence: ``a``, ``a and b``, ``a, b and c``; of more than ``most`` the first are said."""
    if most is not None and len(words) > most:
        words = [*words[:most], f"{len(words) - most} more"]
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} and {words[-1]}"


def rate_unit(precision: str) -> str:
    """Return the unit of a peak."""
    return f"{operation(precision)}/s"


def ridge_unit(precision: str) -> str:
    return f"{operation(precision)}/B"


def signed_percent(share: float) -> str:
    """Format a share that may be negative as a percentage, with a minus sign in place of the hyphen."""
    return percent(share).replace("-", "−")


def by_number(count: int, one: str, several: str) -> str:
    """Return the word that agrees with a count: ``by_number(3, "has", "have")`` is ``have``."""
    return one if count == 1 else several


def capitalised(text: str) -> str:
    """Return the text with its first letter as a capital and the rest as it is."""
    return f"{text[:1].upper()}{text[1:]}"
