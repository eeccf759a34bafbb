"""The least time that operators take under a roof, one after the other.

An operator takes at least the longer of its FLOP at the peak and its bytes at the bandwidth of memory (Williams et al.
2009); operators that run one after the other take at least the sum. Its FLOP are its products' alone, which is what a
peak is measured with: other FLOP, and what is computed again in the backward pass, are left out, so that the bound is
never too high for them. Its bytes are what it reads and writes, none of them from a cache: where a cache holds them, an
operator may take less.
"""

from collections.abc import Mapping

import pandas as pd

from measure.domain.roofs import Roofline
from measure.domain.words import stored_as
from report.paper.rows import each, matching


def timed(operators: pd.DataFrame, precision: str, roof: Roofline) -> pd.DataFrame:
    """Return the rows of ``Operator`` that a precision stores, with ``bound_s``, the least time of all calls of a row.

    ``memory_bound`` says whether it is the time of the bytes.
    """
    rows = matching(operators, precision=stored_as(precision))
    return rows.assign(
        bound_s=rows.calls * roof.least_s(rows.flop, rows.byte), memory_bound=roof.is_memory_bound(rows.flop, rows.byte)
    )


def summed(operators: pd.DataFrame, precision: str, roof: Roofline) -> pd.DataFrame:
    """One row is a stage of a model at a batch size: the least time of its operators, ``bound_s``."""
    rows = timed(operators, precision, roof)
    return rows.groupby(["model", "batch", "stage"])[["bound_s"]].sum().reset_index()


def of_cells(
    cells: pd.DataFrame, operators: pd.DataFrame, stage: str, roofs: Mapping[str, Roofline | None]
) -> pd.Series:
    """Return the least time of each cell's operators in a stage under the roof at its precision, NaN where unknown."""
    rows = matching(operators, stage=stage)
    bounds = {
        (row.model, row.batch, precision): row.bound_s
        for precision, roof in roofs.items()
        if roof
        for row in each(summed(rows, precision, roof))
    }
    keys = zip(cells.model, cells.batch, cells.precision, strict=True)
    return pd.Series([bounds.get(key) for key in keys], index=cells.index, dtype=float)
