"""The chips' datasheet roofs: ``data/chips.csv``, checked and read."""

from pathlib import Path

import pandas as pd

from measure.domain.chips import chip_names, datasheet_roof, fold_name
from measure.domain.roofs import Roof
from measure.errors import UserError, quote
from measure.published.records import CHIP_KINDS, Chip
from report.paper import curated
from report.paper.frames import each

LINK = ("link", "link_byte_per_s", "node_gpus")  # of the chip as a whole: the same in all its rows
KINDS = CHIP_KINDS  # kinds of chip and how the paper writes them
FLOATING = ("fp64", "fp32", "tf32", "bf16", "fp16")  # floating-point precisions of 16 bits or more

"""Precisions at which the chips of a kind can be compared, the one that networks run at first."""


def read(path: Path, keys: frozenset[str]) -> pd.DataFrame:
    """Return the roofs, one row per chip, precision and unit, with the ridge point (FLOP/B).

    ``keys`` are the bibliography's. A missing file is an empty table. Raises UserError as ``curated.read`` does, and
    for a row whose link is not that of the chip's first row.
    """
    chips = curated.frame(path, Chip, keys)
    if (chips.groupby("chip")[[*LINK]].nunique(dropna=False) > 1).any(axis=None):
        _refuse_links(path, keys)
    chips["ridge_flop_per_byte"] = chips.peak_flop_per_s / chips.bandwidth_byte_per_s
    return chips


def _refuse_links(path: Path, keys: frozenset[str]) -> None:
    """Raise UserError for the first row whose link differs from that of an earlier row of its chip."""
    first: dict[str, tuple[int, Chip]] = {}
    for line, row in curated.read(path, Chip, keys):
        other_line, other = first.setdefault(row.chip, (line, row))
        for name in LINK:
            if getattr(row, name) != getattr(other, name):
                raise UserError(
                    f"{path}, line {line}, column {name}: {quote(row.chip)} has another one in line {other_line}; "
                    "write the same in all rows of a chip"
                )


def fastest(chips: pd.DataFrame) -> pd.DataFrame:
    """Keep the fastest dense row per chip; bf16 wins a tie."""
    ranked = chips.assign(other=chips.precision != "bf16")
    ranked = ranked.sort_values(["peak_flop_per_s", "other"], ascending=[False, True], kind="stable")
    return ranked.drop_duplicates("chip").drop(columns="other")


def headline(chips: pd.DataFrame) -> pd.DataFrame:
    """Keep the fastest floating-point rate at 16 bits or more per chip; chips without one are dropped."""
    return fastest(chips[chips.precision.isin(FLOATING)])


def of_dies(chips: pd.DataFrame) -> pd.DataFrame:
    """Keep one chip per die, so medians, intervals and rates of growth count a die once.

    It is the die's first chip: later boards get newer memory or are binned. Among chips of one year the highest
    peak wins, then the first in the table.
    """
    dies = chips.assign(die=chips.die.where(chips.die != "", chips.chip))
    ranked = dies.sort_values(["year", "peak_flop_per_s"], ascending=[True, False], kind="stable")
    return chips[chips.chip.isin(ranked.drop_duplicates("die").chip)]


def short_name(chip: str) -> str:
    return chip.removeprefix("NVIDIA ").removeprefix("GeForce ").removeprefix("AMD ")


def brief_name(chip: str) -> str:
    """Return a short name that fits beside a curve."""
    return short_name(chip).replace(" Blackwell Server", "")


def datasheet(chips: pd.DataFrame, name: str) -> pd.DataFrame:
    """Return the rows of a chip by its name at the driver: equal to ``chip`` or to one of ``alias``."""
    wanted = fold_name(name)
    # An empty list would choose columns rather than rows.
    return chips[pd.Series([wanted in chip_names(row) for row in each(chips)], chips.index, dtype=bool)]


def chip_named(chips: pd.DataFrame, name: str) -> str | None:
    """Return the chip that a machine reports by this name; None if the table lacks it."""
    return next(iter(datasheet(chips, name).chip), None)


def roof_of(chips: pd.DataFrame, name: str | None) -> Roof | None:
    """Return a chip's datasheet roof; None if ``chips`` lacks it."""
    rows = chips[chips.chip == name]
    return datasheet_roof(each(rows)) if len(rows) else None


def on_chip(chips: pd.DataFrame) -> "pd.Series[bool]":
    """True for rows with the bandwidth of on-chip memory, which no DRAM roof compares with."""
    return chips.memory_type.str.contains("on chip", case=False)
