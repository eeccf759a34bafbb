"""How much faster one machine is than another, and variants are than eager mode."""

from typing import Any

import pandas as pd

from measure.domain.values import significant
from report.analysis import available, speed_ups
from report.analysis.available import Missing, finding, on_each_machine, or_missing
from report.load.paper import Machine, Paper
from report.text.frame_rows import extremes, of_models
from report.text.prose import number


@finding
def of_machines(paper: Paper) -> str:
    """Say the speed-ups of the other machines over the first, and how near the ratio of their roofs comes."""
    told, count = speed_ups.told(paper)
    pairs = " ".join(_pair(paper.shown[0], machine, cells) for machine, cells in told)
    if count == len(told):
        return pairs
    return f"Of {count} other machines these are the slowest, one in the middle and the fastest. {pairs}"


def _pair(first: Machine, machine: Machine, cells: pd.DataFrame) -> str:
    low, high = extremes(cells, "speed_up")
    text = f"The {available.title(machine)} shares {number(len(cells), 'cell')} with the {available.title(first)}"
    if len(cells) == 1:
        text += f" and runs it {significant(high.speed_up)} times as fast ({high.model}, batch size {high.batch})."
    else:
        text += (
            f" and runs them {significant(cells.speed_up.median())} times as fast in the median. The ends are "
            f"{significant(low.speed_up)} times ({low.model}, batch size {low.batch}) and "
            f"{significant(high.speed_up)} times ({high.model}, batch size {high.batch})."
        )
    roofs = [or_missing(available.roof)(side) for side in (first, machine)]
    gaps = [roof for roof in roofs if isinstance(roof, Missing)]
    if gaps:
        return f"{text} What the ratio of roofs predicts is not known: {' '.join(gaps)}"
    share = cells.speed_up / cells.predicted
    return (
        f"{text} The ratio of their roofs at the models' intensities predicts {significant(cells.predicted.median())} "
        f"times in the median. The speed-up is {significant(share.median())} of that in the median; the ends are "
        f"{significant(share.min())} and {significant(share.max())}."
    )


@on_each_machine
def of_variants(paper: Paper, machine: Machine) -> str:
    """Say what each variant that was measured brings."""
    gains = [_gain(str(name), rows) for name, rows in speed_ups.over_eager(machine).groupby("variant")]
    return f"On the {available.title(machine)}, against the same cells in eager mode, {' Running with '.join(gains)}"


def _gain(name: str, rows: pd.DataFrame) -> str:
    least, most = map(_speed_up, extremes(rows, "speed_up"))
    gains = of_models(rows, "speed_up")
    text = f"{name} multiplies the speed of {number(len(gains), 'model')} by"
    if len(rows) == 1:
        return f"{text} {most}."
    return f"{text} {significant(gains.median())} in the median. The ends are {least} and {most}."


def _speed_up(row: Any) -> str:
    return f"{significant(row.speed_up)} ({row.model} at {row.precision} and batch size {row.batch})"
