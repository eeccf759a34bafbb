"""What variants bring over eager mode."""

import pandas as pd
from IPython.display import Markdown

from measure.cache.variants import VARIANTS
from report.analysis import available, variants
from report.analysis.available import finding
from report.load.paper import Machine, Paper
from report.text.frame_rows import highest, lowest
from report.text.quantities import listing, number, significant

_CLAUSES = [f"`{each.name}` {each.words}" for each in sorted(VARIANTS, key=lambda each: not each.tried_on)]

WAYS = Markdown(f"{', '.join(_CLAUSES[:-1])}, and {_CLAUSES[-1]}")
"""What each variant does; those that are worth a trial come first."""


def gain(name: str, rows: pd.DataFrame) -> str:
    """What one variant brings."""
    least, most = lowest(rows, "speed_up"), highest(rows, "speed_up")

    def told(row: pd.Series) -> str:
        return f"{significant(row.speed_up)} ({row.model} at {row.precision} and batch size {row.batch})"

    if len(rows) == 1:
        return f"{name} multiplies the speed of {number(1, 'cell')} by {told(most)}"
    return (
        f"{name} multiplies the speed of {number(len(rows), 'cell')} by {significant(rows.speed_up.median())} in the "
        f"median, from {told(least)} to {told(most)}"
    )


@finding
def tried(paper: Paper) -> str:
    """The variants that were measured, on each machine shown."""

    def part(of: Machine) -> str:
        told = [gain(str(name), rows) for name, rows in variants.compared(of).groupby("variant")]
        return f"On the {available.title(of)}, against the same cells in eager mode, {listing(told)}."

    return available.told_of_each(paper, part)
