"""How this paper's counts and those of other programs compare with what torchvision publishes."""

from typing import Any

import pandas as pd

from measure.domain.values import significant
from report.analysis import available
from report.analysis.available import DataMissingError, finding
from report.load import counting_programs
from report.load.paper import Paper
from report.text.frame_rows import each
from report.text.prose import listing, number, percent, si

NAMED = 3
"""So many lines of models are named in a sentence."""


def _scores(paper: Paper) -> tuple[Any, pd.DataFrame]:
    """Return the row of this program, and those of the others that counted anything."""
    scores = counting_programs.scores(available.counted(paper))
    ours = scores[scores.program == counting_programs.OURS]
    if ours.empty:
        raise DataMissingError(
            "The table data/workload/counting_programs.csv lacks this program's counts; `python "
            "benchmarks/counting_programs.py` fills it."
        )
    return ours.iloc[0], scores[(scores.program != counting_programs.OURS) & (scores.counted > 0)]


@finding
def exactness(paper: Paper) -> str:
    """Say whether this paper's own counts are the published ones."""
    row, _ = _scores(paper)
    if row.equal == row.same_parameters == row.models:
        return (
            f"Of all {number(row.models, 'classification model')} of torchvision, our multiply-adds are the published "
            "ones within their rounding, and our parameters are the published ones exactly."
        )
    return (
        f"Of {number(row.models, 'classification model')} of torchvision, our multiply-adds are the published ones "
        f"within their rounding for {row.equal}, and our parameters exactly for {row.same_parameters:.0f}; the others "
        "are errors of ours or of the published counts."
    )


@finding
def ranking(paper: Paper) -> str:
    """Say how many models each other program gets right, the best first."""
    _, others = _scores(paper)
    if others.empty:
        return "No other counting program was installed when the models were counted."
    others = others.sort_values("right", ascending=False, kind="stable")
    first, last = others.iloc[0], others.iloc[-1]
    text = (
        f"{counting_programs.name(first.program)} comes within {percent(counting_programs.TOLERANCE, 1)} of what is "
        f"published, or within its rounding, for {first.right} of these models"
    )
    if len(others) == 1:
        return f"{text}."
    least = f"{counting_programs.name(last.program)} for {last.right}"
    return f"Of {len(others)} other programs {text}, the most, and {least}."


@finding
def weighing(paper: Paper, program: str) -> str:
    """Name the lines of models from which a program deviates most, and the one from which it does least."""
    results = available.counted(paper)
    rows = results[(results.program == program) & results.deviation.notna()]
    name = counting_programs.name(program)
    if rows.empty:
        raise DataMissingError(
            f"{name} was not installed when the models were counted; python "
            "benchmarks/counting_programs.py compares it."
        )
    medians = rows.groupby("line").deviation.median()
    medians = medians.loc[medians.abs().sort_values(ascending=False, kind="stable").index]
    lines = [f"{line} ({counting_programs.signed(deviation)})" for line, deviation in medians.items()]
    text = f"In the median of each line of models, what {name} counts is farthest from what is published for"
    if len(lines) <= NAMED:
        return f"{text} {listing(lines)}."
    return f"{text} {listing(lines[:NAMED])}, and nearest for {lines[-1]}."


@finding
def pace(paper: Paper) -> str:
    """Say the time and memory that this program takes for all that it counts, and others for the forward pass alone."""
    ours, others = _scores(paper)
    text = (
        f"Forward, backward, bytes, memory and layers of these models are counted in {si(ours.count_s, 's')}, in a "
        f"process that holds {si(ours.peak_byte, 'B')} at most."
    )
    if others.empty:
        return text
    times = [
        f"{counting_programs.name(row.program)} {significant(row.count_s / ours.count_s)}"
        for row in each(others.sort_values("count_s"))
    ]
    return f"{text} The multiply-adds of the forward pass alone take {listing(times)} times as long."


@finding
def place(paper: Paper) -> str:
    """Name the machine that the programs ran on."""
    (environment,) = available.counted(paper).environment_id.unique()
    machines = [machine for machine in paper.machines if machine.environment.environment_id == environment]
    where = f"the {available.title(machines[0])}" if machines else "a machine that the cache does not hold"
    return (
        f"All were counted in one run on {where} (environment {environment}), each in a process of its own, at "
        "batch size 1 and the size of each model's default weights."
    )
