"""What variants bring over eager mode."""

from typing import Any

import pandas as pd

from report.analysis import available, variants
from report.analysis.available import on_each_machine
from report.load.paper import Machine, Paper
from report.text.frame_rows import extremes
from report.text.quantities import listing, number, significant


@on_each_machine
def tried(paper: Paper, machine: Machine) -> str:
    """Say what each variant that was measured brings."""
    gains = [_gain(str(name), rows) for name, rows in variants.compared(machine).groupby("variant")]
    return f"On the {available.title(machine)}, against the same cells in eager mode, {listing(gains)}."


def _gain(name: str, rows: pd.DataFrame) -> str:
    least, most = map(_speed_up, extremes(rows, "speed_up"))
    text = f"{name} multiplies the speed of {number(len(rows), 'cell')} by"
    if len(rows) == 1:
        return f"{text} {most}"
    return f"{text} {significant(rows.speed_up.median())} in the median, from {least} to {most}"


def _speed_up(row: Any) -> str:
    return f"{significant(row.speed_up)} ({row.model} at {row.precision} and batch size {row.batch})"
