"""How far latencies are from the roofs, and why: what the terms of the waterfalls say."""

import pandas as pd

from measure.domain.values import significant
from measure.domain.words import INFERENCE
from report.analysis import available, remedies, waterfall
from report.analysis.available import DataMissingError, finding, on_each_machine
from report.analysis.effect import median_of
from report.analysis.operator_groups import GROUPS
from report.analysis.predictors import comparable
from report.analysis.waterfall import BOUND, BY_OPERATOR, FRAMEWORK
from report.findings.utilisation import named
from report.load import operator_bounds
from report.load.cells import INFERENCE_CELL
from report.load.paper import BASE_PRECISION, Machine, Paper
from report.text.frame_rows import at_ends, extremes, highest
from report.text.prose import by_number, exact, listing, number, percent, signed_percent

TOLD = 2
"""So many values are told of."""


def counts(values: pd.Series, noun: str) -> str:
    """Say how often the most frequent values occur: ``fusion in 3 of 5 cells and larger batch in 2``."""
    first, *others = [f"{value} in {count}" for value, count in values.value_counts().head(TOLD).items()]
    return listing([f"{first} of {number(len(values), noun)}", *others])


@on_each_machine
def waiting(paper: Paper, machine: Machine) -> str:
    """Say what part of the least time, operator by operator, waits for memory."""
    cells, roof = available.cells(machine), available.roof(machine)
    rows = operator_bounds.timed(available.operators(paper, INFERENCE), BASE_PRECISION, roof)
    same = comparable(cells)
    rows = rows[rows.batch.isin(same.batch) & rows.model.isin(same.model)]
    sums = rows.assign(memory_s=rows.bound_s.where(rows.memory_bound, 0.0)).groupby(["batch", "model"])
    shares = (sums.memory_s.sum() / sums.bound_s.sum()).rename("share").reset_index()
    by_batch = shares.groupby("batch").share.median()
    medians = at_ends(dict(zip(by_batch.index, by_batch, strict=True)))
    parts = [f"{percent(median)} at {batch}" for batch, median in medians.items()]
    least, most = extremes(shares, "share")
    return (
        f"On the {available.title(machine)}, of the least time of all operators one after the other, those that "
        f"wait for memory take in the median of {number(shares.model.nunique(), 'model')}, by batch size, "
        f"{listing(parts)}. They take most in {most.model} at {most.batch} ({percent(most.share)}) and least in "
        f"{least.model} at {least.batch} ({percent(least.share)})."
    )


def _shares(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the terms' shares, a row a model and a column a term."""
    return rows.pivot_table(index="model", columns="term", values="share", aggfunc="sum", fill_value=0.0)


@on_each_machine
def gaps(paper: Paper, machine: Machine) -> str:
    """Say why the models are not at their bounds."""
    return " ".join(_gap(machine, rows) for _, rows in waterfall.terms(paper, machine).groupby("batch"))


def _gap(machine: Machine, rows: pd.DataFrame) -> str:
    """Say how far the cells of one batch size are from the bounds of their models, and what the rest is."""
    shares = _shares(rows)
    groups = shares[[group for group in GROUPS if group in shares]]
    times = 1 / shares[BOUND]
    text = (
        f"On the {available.title(machine)} at batch size {rows.batch.iloc[0]}, a latency is "
        f"{significant(times.median())} times the bound of the whole model in the median of "
        f"{number(len(shares), 'model')}"
    )
    if len(shares) > 1:
        ends = [
            f"{significant(end)} ({model})"
            for end, model in ((times.min(), times.idxmin()), (times.max(), times.idxmax()))
        ]
        text += f". The ends are {listing(ends)}"
    others = {
        "running operator by operator": shares[BY_OPERATOR].median(),
        "the inefficiency of operators": groups.sum(axis=1).median(),
        "the framework": shares[FRAMEWORK].median(),
    }
    most = max(others, key=lambda name: others[name])
    return (
        f"{text}. The bound is {signed_percent(shares[BOUND].median())} of the latency in the median; what adds most "
        f"to it is {most}, {signed_percent(others[most])}. The operators that lose most are "
        f"{counts(groups.idxmax(axis=1), 'model')}."
    )


@on_each_machine
def at_lower_precision(paper: Paper, machine: Machine) -> str:
    """Say what becomes of the terms where arithmetic is faster."""
    lower = machine.lower_precision
    at_base, at_lower = (waterfall.terms(paper, machine, precision) for precision in (BASE_PRECISION, lower))
    common = at_base.merge(at_lower[["model", "batch"]].drop_duplicates())
    if common.empty:
        raise DataMissingError(
            f"No cell of the {available.title(machine)} was profiled at both {BASE_PRECISION} and {lower}; "
            f"{waterfall.command(machine, lower)} profiles those that were measured."
        )
    return " ".join(
        lowered(machine, rows, at_lower[(at_lower.batch == batch) & at_lower.model.isin(rows.model)])
        for batch, rows in common.groupby("batch")
    )


def lowered(machine: Machine, at_base: pd.DataFrame, at_lower: pd.DataFrame) -> str:
    """Say how far the same models are from their bounds at both precisions, at one batch size."""
    base, lower = (1 / _shares(rows)[BOUND] for rows in (at_base, at_lower))
    farther = median_of(lower / base)
    outcome = {1: "farther from its roof", -1: "nearer its roof", 0: "no nearer its roof, as far as these models tell"}
    return (
        f"On the {available.title(machine)} at batch size {at_lower.batch.iloc[0]}, a latency at "
        f"{machine.lower_precision} is {significant(lower.median())} times the bound of the whole model in the median "
        f"of {number(len(lower), 'model')}, at {BASE_PRECISION} {significant(base.median())} times: "
        f"{outcome[farther.side]}."
    )


@finding
def system(paper: Paper) -> str:
    """Say what the operating system takes of the calls on the processor that was measured last."""
    machine = available.machine(paper, "cpu")
    known = waterfall.profiled(machine).dropna(subset="system_share")
    if known.empty:
        raise DataMissingError(
            f"What the operating system takes of a call on the {available.title(machine)} has not been measured; "
            f"{waterfall.command(machine, flags=' --force')} measures it."
        )
    same = comparable(known)
    parts = [f"{percent(rows.system_share.median())} at {batch}" for batch, rows in same.groupby("batch")]
    most = highest(known, "system_share")
    return (
        f"On the {available.title(machine)} the operating system takes, of the threads' time in the median of "
        f"{number(same.model.nunique(), 'model')}, by batch size, {listing(parts)}. It takes most, "
        f"{percent(most.system_share)}, in {most.model} at {most.batch}, where a call causes "
        f"{exact(round(float(significant(most.page_faults))), 'page faults')}."
    )


@on_each_machine
def largest(paper: Paper, machine: Machine) -> str:
    """Say the largest terms, what was measured to help, and what is left to try."""
    rows = remedies.largest(paper, machine)
    text = f"On the {available.title(machine)} the largest term is {counts(rows.term, 'cell')}."
    helped, hypotheses = (rows[rows.basis == basis] for basis in (remedies.MEASURED, remedies.HYPOTHESIS))
    if helped.empty:
        text += f" Nothing that was measured makes any of {number(len(rows), 'cell')} faster."
    else:
        text += (
            f" Something that was measured makes {len(helped)} of {number(len(rows), 'cell')} faster, by a factor of "
            f"{median_of(helped.gain)} in the median. What helps most is {counts(helped.remedy, 'cell')}."
        )
    if not hypotheses.empty:
        text += f" For the others there are hypotheses to try: {counts(hypotheses.remedy, 'cell')}."
    return text


@on_each_machine
def profiled(paper: Paper, machine: Machine) -> str:
    """Say what the profiler costs, how far its process is from the cell's rounds, and which cells it has not seen."""
    cells = waterfall.profiled(machine)
    residual = 1 - cells.plain_s / cells.latency_s
    cells = cells.assign(cost=cells.profiled_s / cells.plain_s, residual=residual.abs())
    slower = [
        f"{int((residuals < 0).sum())} of {number(len(residuals), 'cell')} at batch size {batch}"
        for batch, residuals in residual.groupby(cells.batch)
    ]
    dearest, farthest = highest(cells, "cost"), highest(cells, "residual")
    return (
        f"Under the profiler, a call on the {available.title(machine)} takes {median_of(cells.cost)} times as long as "
        f"without in the median of {number(len(cells), 'cell')}, at most {significant(dearest.cost)} times "
        f"({dearest.model} at batch size {dearest.batch}). The residual is {percent(cells.residual.median())} of "
        f"the latency in the median, at most {percent(farthest.residual)} ({farthest.model} at batch size "
        f"{farthest.batch}). It is negative, the profiled process slower than the cell's rounds, in "
        f"{listing(slower)}. {_absent(machine, cells)}"
    )


def _absent(machine: Machine, cells: pd.DataFrame) -> str:
    """Say which measured cells at the batch sizes that were profiled have no profile."""
    measured = available.cells(machine)
    measured = measured[measured.batch.isin(cells.batch)]
    sides = measured.merge(cells[INFERENCE_CELL], on=INFERENCE_CELL, how="left", indicator="found")
    absent = sides[sides.found == "left_only"]
    where = f"at the same batch {by_number(cells.batch.nunique(), 'size', 'sizes')}"
    if absent.empty:
        return f"Every cell that was measured {where} was profiled."
    have, them = by_number(len(absent), "has", "have"), by_number(len(absent), "it", "them")
    return (
        f"Of {number(len(measured), 'cell')} measured {where}, {len(absent)} {have} no "
        f"profile{named(sorted(set(absent.model)))}; {waterfall.command(machine)} takes {them}."
    )
