"""What the workload table says of the models that studies print, as the rules of the comparison need it."""

from typing import Any

import pandas as pd

from report.load.counting_programs import OURS
from report.load.paper import BASE_PRECISION, Paper
from report.text.frame_rows import each

COUNTED = "counted"


def workload(paper: Paper, model: str, batch: int) -> Any | None:
    """The row of a model at a batch size and the base precision; None where it was not counted."""
    rows = paper.workloads
    rows = rows[(rows.model == model) & (rows.batch == batch) & (rows.precision == BASE_PRECISION)]
    return None if rows.empty else rows.iloc[0]


def command(model: str, batch: int) -> str:
    """What counts it."""
    return f"python -m measure --sections workload --models {model} --batch-sizes {batch}"


def step_flop(row: Any) -> float | None:
    """The products of a training step; None where the backward pass was not counted."""
    return None if pd.isna(row.backward_flop) else float(row.forward_flop + row.backward_flop)


def whole_step_flop(row: Any) -> float | None:
    """The same with everything but products added."""
    products = step_flop(row)
    return None if products is None else products + float(row.forward_other_flop + row.backward_other_flop)


def counters(paper: Paper, model: str, input_shape: str | None) -> dict[str, float]:
    """The multiply-adds of one input by other counters, by counter, where they were given this shape (None: any)."""
    rows = paper.counters
    if rows.empty:
        return {}
    rows = rows[(rows.model == model) & rows.forward_mac.notna()]
    if input_shape is not None:
        rows = rows[rows.input_shape == input_shape]
    return {str(row.counter): float(row.forward_mac) for row in each(rows)}


def forward_flop(paper: Paper, model: str) -> float | None:
    """The products of one input: of the workload table, else of the comparison of counters; None of neither."""
    row = workload(paper, model, 1)
    if row is not None:
        return float(row.forward_flop)
    counted = counters(paper, model, None)
    return 2 * counted[OURS] if OURS in counted else None
