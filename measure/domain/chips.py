"""Names, fastest units and roofs of chips, from rows of ``data/chips.csv``: ``Chip``, or rows of a frame."""

from collections.abc import Iterable
from typing import Any

from measure.domain.roofs import Roof

SIXTEEN_BITS = ("fp16", "bf16")
RATES = {"fp64": ("fp64",), "fp32": ("fp32", "tf32"), "fp16": SIXTEEN_BITS, "bf16": SIXTEEN_BITS}


def fold_name(name: str) -> str:
    """Return a chip's name in lower case without outer blanks, for comparing."""
    return name.strip().casefold()


def chip_names(row: Any) -> set[str]:
    """Return all folded names of a chip: ``chip``, and each of ``alias``."""
    return {fold_name(name) for name in (row.chip, *row.alias.split(";")) if name}


def rows_by_name(rows: Iterable[Any]) -> dict[str, list[Any]]:
    """Group the rows of chips by each of their folded names."""
    found: dict[str, list[Any]] = {}
    for row in rows:
        for name in chip_names(row):
            found.setdefault(name, []).append(row)
    return found


def fastest_units(rows: Iterable[Any]) -> dict[str, Any]:
    """Return the row with the highest dense peak at each precision of one chip."""
    found: dict[str, Any] = {}
    for row in rows:
        found[row.precision] = max(found.get(row.precision, row), row, key=lambda each: each.peak_flop_per_s)
    return found


def reachable_peak(roof: Roof, precision: str) -> float | None:
    """Return a chip's highest rate that arithmetic at a precision may reach; None if its datasheet has no such rate.

    torch may run fp32 in TF32, and a datasheet may name one of the formats of 16 bits for both. No arithmetic is faster
    than this rate; that the chip has units for the precision does not follow.
    """
    return max((roof.flop_per_s[rate] for rate in RATES[precision] if rate in roof.flop_per_s), default=None)


def datasheet_roof(rows: Iterable[Any]) -> Roof:
    """Return the roof of one chip from its rows (at least one). The fastest unit gives the peak."""
    fastest = fastest_units(rows)
    peaks = {precision: row.peak_flop_per_s for precision, row in fastest.items()}
    bandwidth = max(row.bandwidth_byte_per_s for row in fastest.values())
    caches = (row.cache_byte for row in fastest.values() if (row.cache_byte or 0) > 0)  # in a frame, NaN is unknown
    return Roof(peaks, bandwidth, cache_byte=max(caches, default=None))
