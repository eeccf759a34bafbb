"""What the workload table says of the models that studies print, as the rules of the comparison need it."""

from typing import Any

import pandas as pd

from report.load.counting_programs import OURS
from report.load.paper import BASE_PRECISION, Paper
from report.text.frame_rows import each, matching
from report.text.prose import command


def workload(paper: Paper, model: str, batch: int) -> Any | None:
    """Return the row of a model at a batch size and the base precision; None where it was not counted."""
    rows = matching(paper.workloads, model=model, batch=batch, precision=BASE_PRECISION)
    return None if rows.empty else rows.iloc[0]


def counting(model: str, batch: int) -> str:
    """Return the command that counts a model, for a sentence."""
    return command(f"python -m measure --sections workload --models {model} --batch-sizes {batch}")


def step_flop(row: Any | None) -> float | None:
    """Return the products of a training step; None where it, or its backward pass, was not counted."""
    return None if row is None or pd.isna(row.backward_flop) else float(row.forward_flop + row.backward_flop)


def whole_step_flop(row: Any | None) -> float | None:
    """Return the same with everything but products added."""
    products = step_flop(row)
    if row is None or products is None:
        return None
    return products + float(row.forward_other_flop + row.backward_other_flop)


def by_program(paper: Paper, model: str, input_shape: str | None = None) -> dict[str, float]:
    """Return the multiply-adds of one input by each counting program, where they were given this shape (None: any)."""
    rows = matching(paper.counting_programs, model=model, input_shape=input_shape)
    return {str(row.program): float(row.forward_mac) for row in each(rows) if pd.notna(row.forward_mac)}


def forward_flop(paper: Paper, model: str) -> float | None:
    """Return the products of one input, by the workload table or the comparison of programs; None of neither."""
    row = workload(paper, model, 1)
    if row is not None:
        return float(row.forward_flop)
    counted = by_program(paper, model)
    return 2 * counted[OURS] if OURS in counted else None
