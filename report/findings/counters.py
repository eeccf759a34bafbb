"""How this paper's counts and those of other programs compare with what torchvision publishes."""

from typing import Any

import pandas as pd

from report.analysis import available
from report.analysis.available import finding
from report.load import counting_programs
from report.load.paper import Paper
from report.text.frame_rows import each
from report.text.quantities import listing, number, percent, si, significant

NAMED = 3
"""So many lines of models are named in a sentence."""


def _scores(paper: Paper) -> tuple[Any, pd.DataFrame]:
    """The row of this program, and those of the others."""
    scores = counting_programs.scores(available.counted(paper))
    ours = scores[scores.counter == counting_programs.OURS]
    if ours.empty:
        raise available.DataMissingError(
            "The table data/workload/counters.csv lacks this program's counts; python benchmarks/counters.py fills it."
        )
    return ours.iloc[0], scores[scores.counter != counting_programs.OURS]


@finding
def exactness(paper: Paper) -> str:
    """Whether this paper's own counts are the published ones."""
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
    """How many models each other counter gets right, the best first."""
    _, others = _scores(paper)
    others = others[others.counted > 0]
    if others.empty:
        return "No other counter was installed when the models were counted."
    others = others.sort_values("right", ascending=False, kind="stable")
    parts = [f"{counting_programs.name(row.counter)} for {row.right}" for row in each(others)]
    return (
        f"Within {percent(counting_programs.TOLERANCE, 1)} of what is published, or within its rounding, are "
        f"{listing(parts)} of these models."
    )


@finding
def weighing(paper: Paper, counter: str) -> str:
    """The lines of models from which a counter deviates most, and the one from which it does least."""
    results = available.counted(paper)
    own = results[(results.counter == counter) & results.deviation.notna()]
    name = counting_programs.name(counter)
    if own.empty:
        raise available.DataMissingError(
            f"{name} was not installed when the models were counted; python benchmarks/counters.py compares it."
        )
    medians = own.groupby("line").deviation.median()
    medians = medians.loc[medians.abs().sort_values(ascending=False, kind="stable").index]
    told = [f"{line} ({counting_programs.signed(deviation)})" for line, deviation in medians.items()]
    text = f"In the median of each line of models, what {name} counts is farthest from what is published for"
    if len(told) <= NAMED:
        return f"{text} {listing(told)}."
    return f"{text} {listing(told[:NAMED])}, and nearest for {told[-1]}."


@finding
def pace(paper: Paper) -> str:
    """The time and memory that this program takes for all that it counts, and others for the forward pass alone."""
    ours, others = _scores(paper)
    text = (
        f"Forward, backward, bytes, memory and layers of these models are counted in {si(ours.count_s, 's')}, in a "
        f"process that holds {si(ours.peak_byte, 'B')} at most."
    )
    others = others[others.counted > 0].sort_values("count_s")
    if others.empty:
        return text
    told = [
        f"{counting_programs.name(row.counter)} {significant(row.count_s / ours.count_s)}"
        for row in each(others)
    ]
    return f"{text} The multiply-adds of the forward pass alone take {listing(told)} times as long."


@finding
def place(paper: Paper) -> str:
    """The machine that the counters ran on."""
    results = available.counted(paper)
    (environment,) = results.environment_id.unique()
    named = [m for m in paper.machines if m.environment.environment_id == environment]
    where = f"the {available.title(named[0])}" if named else "a machine that the cache does not hold"
    return (
        f"All were counted in one run on {where} (environment {environment}), each in a process of its own, at "
        "batch size 1 and the size of each model's default weights."
    )
