"""The chips' datasheet roofs: ``data/chips.csv``, checked and read."""

from pathlib import Path
from typing import Any

import pandas as pd

from measure.errors import UserError
from report.load.hand_tables import read_lines
from report.text.frame_rows import each

KINDS = {"cpu": "CPU", "gpu": "GPU", "asic": "ASIC", "soc": "SoC", "fpga": "FPGA"}
"""Kinds of chip and how the paper writes them."""

TEXT = (
    "chip",
    "alias",
    "vendor",
    "kind",
    "precision",
    "unit",
    "memory_type",
    "derivation",
    "verified",
    "source",
    "note",
)
NUMBERS = ("year", "peak_flop_per_s", "sparse_peak_flop_per_s", "bandwidth_byte_per_s", "power_w")
MAY_BE_EMPTY = {"alias", "sparse_peak_flop_per_s", "memory_type", "power_w", "derivation", "note"}
PRECISIONS = ("fp64", "fp32", "tf32", "bf16", "fp16", "fp8", "fp6", "fp4", "int16", "int8", "int4")
CHOICES = {
    "kind": tuple(KINDS),
    "precision": PRECISIONS,
    "unit": ("vector", "tensor"),
    "verified": ("yes", "no"),
}
PLAUSIBLE = {
    "year": (1970, 2100),
    "peak_flop_per_s": (1e9, 1e18),
    "sparse_peak_flop_per_s": (1e9, 1e18),
    "bandwidth_byte_per_s": (1e8, 1e15),
    "power_w": (0.1, 1e5),
}
"""Beyond these a number is more likely in another unit than true: FLOP/s, B/s and W are meant, without a prefix."""

SHARED_PRECISIONS = (("bf16", "fp16"), ("fp32",))
"""Precisions at which the chips of a kind can be compared, the one that networks run at first."""


def _cell(name: str, text: str) -> Any:
    """The value of a cell. Raises ValueError saying what it is instead."""
    if text == "":
        if name not in MAY_BE_EMPTY:
            raise ValueError("is empty")
        return None if name in NUMBERS else ""
    if name in NUMBERS:
        try:
            number = float(text)
        except ValueError:
            raise ValueError(f"is {text!r}, not a number") from None
        if not 0 < number < float("inf"):
            raise ValueError(f"is {text}, not a positive number")
        low, high = PLAUSIBLE[name]
        if not low <= number <= high:
            raise ValueError(f"is {text}, which is not plausible (from {low:g} to {high:g})")
        return number
    if name in CHOICES and text not in CHOICES[name]:
        raise ValueError(f"is {text!r}, not one of {', '.join(CHOICES[name])}")
    return text


def read(path: Path, keys: frozenset[str]) -> pd.DataFrame:
    """One row is a chip's roof at one precision and unit, with its ridge point (FLOP/B) derived.

    ``keys`` are the bibliography's. A file that is not there is an empty table. Raises UserError naming file, line
    and column where a cell does not parse, and naming chip and key where a source is not in the bibliography.
    """
    rows: list[dict[str, Any]] = []
    lines_of: dict[tuple[str, ...], int] = {}
    lines = read_lines(path)
    if path.exists():
        _, header = next(lines, (1, []))
        if sorted(header) != sorted(TEXT + NUMBERS):
            wrong = sorted(set(header) ^ set(TEXT + NUMBERS)) or sorted(header)
            raise UserError(
                f"{path}, line 1: the columns must be {', '.join(TEXT + NUMBERS)}, each once; see {wrong[0]!r}"
            )
        for line, cells in lines:
            rows.append(_row(f"{path}, line {line}", header, cells, keys))
            key = tuple(rows[-1][name] for name in ("chip", "precision", "unit"))
            first = lines_of.setdefault(key, line)
            if first != line:
                raise UserError(
                    f"{path}, line {line}: {' '.join(key)} stands in line {first} already; delete one of the two"
                )
    frame = pd.DataFrame(rows, columns=[*TEXT, *NUMBERS]).astype(dict.fromkeys(NUMBERS, float))
    frame["ridge_flop_per_byte"] = frame.peak_flop_per_s / frame.bandwidth_byte_per_s
    return frame


def _row(place: str, header: list[str], cells: list[str], keys: frozenset[str]) -> dict[str, Any]:
    if len(cells) != len(header):
        raise UserError(
            f"{place}: {len(cells)} cells where the header has {len(header)}; mend the line or delete it"
        )
    row = {}
    for name, text in zip(header, cells, strict=True):
        try:
            row[name] = _cell(name, text.strip())
        except ValueError as problem:
            raise UserError(
                f"{place}, column {name}: the cell {problem}; mend the line or delete it"
            ) from None
    sparse = row["sparse_peak_flop_per_s"]
    if sparse is not None and sparse < row["peak_flop_per_s"]:
        raise UserError(
            f"{place}, {row['chip']} at {row['precision']}: the sparse peak is below the dense one; "
            "exchange the two, or mend the one that is wrong"
        )
    for key in row["source"].split(";"):
        if key not in keys:
            raise UserError(
                f"{place}, {row['chip']} at {row['precision']}: the source {key!r} is not in the bibliography; "
                "add its entry to bib/references.bib"
            )
    return row


def fastest(chips: pd.DataFrame) -> pd.DataFrame:
    """For each chip its fastest dense row of those given; at equal rates bf16 before the others."""
    ranked = chips.assign(other=chips.precision != "bf16")
    ranked = ranked.sort_values(["peak_flop_per_s", "other"], ascending=[False, True], kind="stable")
    return (
        ranked.drop_duplicates("chip").drop(columns="other").sort_values("peak_flop_per_s", ascending=False)
    )


def headline(chips: pd.DataFrame) -> pd.DataFrame:
    """For each chip its fastest floating-point rate at 16 bits or more; its fastest rate where it prints none."""
    floating = chips[chips.precision.isin(["bf16", "fp16", "tf32", "fp32", "fp64"])]
    others = chips[~chips.chip.isin(floating.chip)]
    return fastest(pd.concat([floating, others]))


def comparable(chips: pd.DataFrame, kind: str) -> tuple[pd.DataFrame, str | None]:
    """The chips of a kind at one precision and unit, and what these are in words.

    16-bit floating point on tensor units before vector units, then fp32: the first that at least half of the kind's
    chips have. Where there is none, each chip at its fastest rate, and None in place of the words.
    """
    own = chips[chips.kind == kind]
    for precisions in SHARED_PRECISIONS:
        for unit in ("tensor", "vector"):
            rows = own[own.precision.isin(precisions) & (own.unit == unit)]
            if 2 * rows.chip.nunique() >= own.chip.nunique() > 0:
                width = "16-bit floating point" if len(precisions) > 1 else precisions[0]
                return fastest(rows), f"{width} on {unit} units"
    return fastest(own), None


def datasheet(chips: pd.DataFrame, name: str) -> pd.DataFrame:
    """The rows of the chip that a driver reports under this name: equal to ``chip`` or to one of ``alias``."""
    wanted = name.strip().casefold()

    known = [
        {name.strip().casefold() for name in (row.chip, *row.alias.split(";")) if name} for row in each(chips)
    ]
    # An empty list would choose columns rather than rows.
    return chips[pd.Series([wanted in names for names in known], chips.index, dtype=bool)]


def on_chip(chips: pd.DataFrame) -> "pd.Series[bool]":
    """Whether a row's bandwidth is that of memory on the chip, which no DRAM roof compares with."""
    return chips.memory_type.str.contains("on chip", case=False)


def measured_power(chips: pd.DataFrame) -> "pd.Series[bool]":
    """Whether a row's power is a measured maximum and not, as others, the limit that its vendor states."""
    return chips.note.str.contains("power is measured max", case=False)
