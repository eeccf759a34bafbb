"""How far latencies are from the roofs, and why: what the terms of the waterfalls say."""

import pandas as pd

from measure.cache.records import INFERENCE
from report.analysis import available, remedies, waterfall
from report.analysis.available import DataMissingError, finding
from report.analysis.effect import median_of
from report.analysis.operator_groups import GROUPS
from report.analysis.predictors import common_batches
from report.analysis.waterfall import BOUND, BY_OPERATOR, FRAMEWORK
from report.findings.utilisation import named
from report.load import operator_bounds
from report.load.cells import INFERENCE_CELL
from report.load.paper import BASE_PRECISION, LOWER_PRECISION, Machine, Paper
from report.text.frame_rows import highest, lowest
from report.text.quantities import exact, listing, number, percent, significant


def counts(values: pd.Series, noun: str) -> str:
    """How often each value occurs, the most frequent first: ``fusion in 3 cells and larger batch in 2``."""
    told = [f"{value} in {count}" for value, count in values.value_counts().items()]
    return listing([f"{told[0]} of {number(len(values), noun)}", *told[1:]])


def share(value: float) -> str:
    """A share that may be negative."""
    return percent(value).replace("-", "−")


@finding
def waiting(paper: Paper) -> str:
    """What part of the least time, operator by operator, waits for memory, on each machine shown."""

    def part(of: Machine) -> str:
        cells, roof = available.cells(of), available.roof(of)
        rows = operator_bounds.timed(available.operators(paper, INFERENCE), BASE_PRECISION, roof)
        rows = rows[rows.batch.isin(common_batches(cells)) & rows.model.isin(cells.model)]
        sums = rows.assign(memory_s=rows.bound_s.where(rows.memory_bound, 0.0)).groupby(["batch", "model"])
        shares = (sums.memory_s.sum() / sums.bound_s.sum()).rename("share").reset_index()
        parts = [f"{percent(own.share.median())} at {batch}" for batch, own in shares.groupby("batch")]
        most, least = highest(shares, "share"), lowest(shares, "share")
        return (
            f"On the {available.title(of)}, of the least time of all operators one after the other, those that "
            f"wait for memory take in the median of {number(shares.model.nunique(), 'model')}, by batch size, "
            f"{listing(parts)}; most in {most.model} at {most.batch} ({percent(most.share)}), least in {least.model} "
            f"at {least.batch} ({percent(least.share)})."
        )

    return available.told_of_each(paper, part)


def _shares(rows: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The terms' shares, a row a model and a column a term; and of these those of the groups of operators."""
    shares = rows.pivot_table(index="model", columns="term", values="share", aggfunc="sum", fill_value=0.0)
    return shares, shares[[group for group in GROUPS if group in shares]]


def gap(of: Machine, rows: pd.DataFrame) -> str:
    """How far the cells of one batch size are from the bounds of their models, and what the rest is."""
    shares, groups = _shares(rows)
    times = 1 / shares[BOUND]
    text = (
        f"On the {available.title(of)} at batch size {rows.batch.iloc[0]}, a latency is "
        f"{significant(times.median())} times the bound of the whole model in the median of "
        f"{number(len(shares), 'model')}"
    )
    if len(shares) > 1:
        text += f", from {significant(times.min())} ({times.idxmin()}) to {significant(times.max())} ({times.idxmax()})"
    return (
        f"{text}. The bound is {share(shares[BOUND].median())} of the latency in the median; running operator by "
        f"operator adds {share(shares[BY_OPERATOR].median())}, the inefficiency of operators "
        f"{share(groups.sum(axis=1).median())}, the framework {share(shares[FRAMEWORK].median())}. The operators that "
        f"lose most are {counts(groups.idxmax(axis=1), 'model')}."
    )


@finding
def gaps(paper: Paper) -> str:
    """Why the models are not at their bounds, on each machine shown."""

    def part(of: Machine) -> str:
        return " ".join(gap(of, own) for _, own in waterfall.terms(paper, of).groupby("batch"))

    return available.told_of_each(paper, part)


@finding
def at_lower_precision(paper: Paper) -> str:
    """What becomes of the terms where arithmetic is faster, on each machine shown."""

    def part(of: Machine) -> str:
        at_base, at_lower = (
            waterfall.terms(paper, of, precision) for precision in (BASE_PRECISION, LOWER_PRECISION)
        )
        common = at_base.merge(at_lower[["model", "batch"]].drop_duplicates())
        if common.empty:
            raise DataMissingError(
                f"No cell of the {available.title(of)} was profiled at both {BASE_PRECISION} and {LOWER_PRECISION}; "
                f"{waterfall.command(of, LOWER_PRECISION)} profiles those that were measured."
            )
        return " ".join(
            lowered(of, own, at_lower[(at_lower.batch == batch) & at_lower.model.isin(own.model)])
            for batch, own in common.groupby("batch")
        )

    return available.told_of_each(paper, part)


def lowered(of: Machine, at_base: pd.DataFrame, at_lower: pd.DataFrame) -> str:
    """How far the same models are from their bounds at both precisions, at one batch size."""
    (base, base_groups), (lower, lower_groups) = _shares(at_base), _shares(at_lower)
    times, before = ((1 / shares[BOUND]).median() for shares in (lower, base))

    def told(now: pd.Series, then: pd.Series, at: str = "") -> str:
        return f"{share(now.median())} ({at}{share(then.median())})"

    bound = told(lower[BOUND], base[BOUND], f"at {BASE_PRECISION} ")
    return (
        f"On the {available.title(of)} at batch size {at_lower.batch.iloc[0]} and {LOWER_PRECISION}, a latency is "
        f"{significant(times)} times the bound of the whole model in the median of {number(len(lower), 'model')}, and "
        f"{significant(before)} times at {BASE_PRECISION}. Of the latency the bound is {bound}, the inefficiency of "
        f"operators {told(lower_groups.sum(axis=1), base_groups.sum(axis=1))} and the framework "
        f"{told(lower[FRAMEWORK], base[FRAMEWORK])}."
    )


@finding
def system(paper: Paper) -> str:
    """What the operating system takes of the calls on the processor that was measured last."""
    of = available.machine(paper, "cpu")
    cells = waterfall.profiled(of)
    known = cells[cells.system_share.notna()]
    if known.empty:
        raise DataMissingError(
            f"What the operating system takes of a call on the {available.title(of)} has not been measured; "
            f"{waterfall.command(of)} --force measures it."
        )
    parts = [
        f"{percent(own.system_share.median())} at {batch} ({number(len(own), 'model')})"
        for batch, own in known.groupby("batch")
    ]
    most = highest(known, "system_share")
    return (
        f"On the {available.title(of)} the operating system takes, of the threads' time in the median, by batch size, "
        f"{listing(parts)}; the most in {most.model} at {most.batch}, {percent(most.system_share)}, where a call "
        f"causes {exact(round(float(significant(most.page_faults))), 'page faults')}."
    )


@finding
def largest(paper: Paper) -> str:
    """The largest terms, and the remedies that the rules give, on each machine shown."""

    def part(of: Machine) -> str:
        rows = remedies.largest(paper, of)
        return (
            f"On the {available.title(of)} the largest term is {counts(rows.term, 'cell')}; the remedy is "
            f"{counts(rows.remedy, 'cell')}."
        )

    return available.told_of_each(paper, part)


@finding
def profiled(paper: Paper) -> str:
    """What the profiler costs, how far its process is from the cell's rounds, and which cells it has not seen."""

    def part(of: Machine) -> str:
        cells = waterfall.profiled(of)
        residual = 1 - cells.plain_s / cells.latency_s
        cells = cells.assign(cost=cells.profiled_s / cells.plain_s, residual=residual.abs())
        slower = [
            f"{int((own < 0).sum())} of {number(len(own), 'cell')} at batch size {batch}"
            for batch, own in residual.groupby(cells.batch)
        ]
        dearest, farthest = highest(cells, "cost"), highest(cells, "residual")
        return (
            f"Under the profiler, a call on the {available.title(of)} takes {median_of(cells.cost)} times as long as "
            f"without in the median of {number(len(cells), 'cell')}, at most {significant(dearest.cost)} times "
            f"({dearest.model} at batch size {dearest.batch}). The residual is {percent(cells.residual.median())} of "
            f"the latency in the median, at most {percent(farthest.residual)} ({farthest.model} at batch size "
            f"{farthest.batch}). It is negative, the profiled process slower than the cell's rounds, in "
            f"{listing(slower)}. {absent(of, cells)}"
        )

    return available.told_of_each(paper, part)


def absent(of: Machine, cells: pd.DataFrame) -> str:
    """Which measured cells at the batch sizes that were profiled have no profile."""
    measured = available.cells(of)
    measured = measured[measured.batch.isin(cells.batch)]
    profiled = measured.merge(cells[INFERENCE_CELL], on=INFERENCE_CELL, how="left", indicator="found")
    missing = profiled[profiled.found == "left_only"]
    where = f"at the same batch {'size' if cells.batch.nunique() == 1 else 'sizes'}"
    if missing.empty:
        return f"Every cell that was measured {where} was profiled."
    return (
        f"Of {number(len(measured), 'cell')} measured {where}, {len(missing)} "
        f"{'has' if len(missing) == 1 else 'have'} no profile{named(sorted(set(missing.model)))}; "
        f"{waterfall.command(of)} takes {'it' if len(missing) == 1 else 'them'}."
    )
