"""Where the time of a forward pass or a training step goes, kernel by kernel or operator by operator."""

import re
from math import log

import pandas as pd

from report.analysis import available, counted_kernels, operator_shares
from report.analysis.available import DataMissingError, finding
from report.analysis.operator_groups import OTHER, group_of_kernel
from report.analysis.operator_shares import CELL, GAP, PHASES
from report.load.paper import BASE_PRECISION, Machine, Paper
from report.text.frame_rows import each, highest, lowest
from report.text.quantities import listing, number, percent, si, significant

NAMED = 4
"""So many groups are named in a sentence."""

LEAST_SAID = 0.005
"""A group with a smaller share in the median is not named."""

TOO_FAR = 2.0
"""A printed step's FLOP that differ from those on the other GPUs by more than this factor contradict them."""


def share(value: float) -> str:
    """A share that may be negative."""
    return percent(value).replace("-", "−")


def among(rows: pd.DataFrame) -> str:
    """The groups with most of the time in the cells of one phase and batch size, in the median of its models."""
    models = rows.model.nunique()
    medians = rows.pivot_table(index="model", columns="group", values="share", fill_value=0.0).median()
    longest = medians.drop(OTHER, errors="ignore").sort_values(ascending=False)
    longest = longest[longest >= LEAST_SAID].head(NAMED)
    told = listing([f"{percent(value)} in {group}" for group, value in longest.items()])
    where = f"{PHASES[rows.phase.iloc[0]]} at batch size {rows.batch.iloc[0]}"
    return f"in {where} ({number(models, 'model')}) {told}"


@finding
def spent(paper: Paper) -> str:
    """Which groups of operators the time goes into, and what no rule matches, on each machine shown."""

    def part(of: Machine) -> str:
        rows = operator_shares.groups(paper, of)
        told = [among(own) for _, own in rows.groupby(["phase", "batch"])]
        unmatched = rows.time_s[rows.group == OTHER].sum() / rows.time_s.sum()
        of_what = "kernels" if of.kind == "gpu" else "operators"
        text = (
            f"On the {available.title(of)}, of the time of all {of_what} there is spent, in the median, "
            f"{'; '.join(told)}."
        )
        if unmatched == 0:
            return f"{text} Every operator is matched by a rule."
        return f"{text} The share that no rule matches is {percent(unmatched)}."

    return available.told_of_each(paper, part)


@finding
def gaps(paper: Paper) -> str:
    """In what part of a call nothing runs, under the profiler and without, on each machine shown."""

    def part(of: Machine) -> str:
        rows = operator_shares.parts(paper, of)
        rows = rows[rows.group == GAP]
        most, least = highest(rows, "part"), lowest(rows, "part")
        text = (
            f"On the {available.title(of)} the times of the groups sum to {share(1 - rows.part.median())} of a call "
            f"under the profiler in the median of {number(len(rows), 'cell')}"
        )
        if len(rows) > 1:
            text += (
                f", from {share(1 - most.part)} in {most.model} ({PHASES[most.phase]} at batch size {most.batch}) to "
                f"{share(1 - least.part)} in {least.model} ({PHASES[least.phase]} at batch size {least.batch})"
            )
        text += "; the rest is the framework's, and the profiler's own."
        busy = operator_shares.profiled(of)
        busy = busy[busy.busy_s.notna()]
        if busy.empty:
            return text
        busy = busy.assign(idle=1 - busy.busy_s / busy.plain_s)
        what = "no kernel runs" if of.kind == "gpu" else "no operator runs"
        most = highest(busy, "idle")
        return (
            f"{text} Of a call without the profiler {what} in about {share(busy.idle.median())} in the median, and in "
            f"at most {share(most.idle)} ({most.model}, {PHASES[most.phase]} at batch size {most.batch}); a negative "
            "share says that operators take longer under the profiler than the whole call without it."
        )

    return available.told_of_each(paper, part)


@finding
def launched(paper: Paper) -> str:
    """Which kernels run on GPUs, and whether their names tell what they work for."""
    found = [of for of in paper.shown if not of.kernels.empty]
    if not found:
        raise DataMissingError(
            "No kernel has been timed: operators launch kernels on a GPU, and python -m measure --device cuda "
            "--sections workload operators times them there."
        )
    return " ".join(kernels_of(paper, of) for of in found)


def kernels_of(paper: Paper, of: Machine) -> str:
    """How many kernels there are, the longest, and how much of the time their names alone would sort the same way."""
    rows = operator_shares.launched(paper, of)
    whole = rows.time_s.sum()
    by_name = rows.kernel.map(group_of_kernel)
    alike, unmatched = (
        rows.time_s[which].sum() / whole for which in (by_name == rows.group, by_name == OTHER)
    )
    times = rows.groupby("kernel").time_s.sum()
    plain = str(times.idxmax()).replace("(anonymous namespace)::", "").removeprefix("void ")
    return (
        f"On the {available.title(of)} {number(len(times), 'different kernel')} run; the longest is "
        f"{re.split('[<(]', plain)[0]}, with {percent(times.max() / whole)} of the time. By their names alone, kernels "
        f"with {percent(alike)} of the time would be in the groups of the operators that launch them, and with "
        f"{percent(unmatched)} in none."
    )


@finding
def waiting(paper: Paper) -> str:
    """What share of the time of the pictured models is in groups that the memory bounds, on each machine shown."""

    def part(of: Machine) -> str:
        roof = available.roof(of)
        rows = operator_shares.on_roof(paper, of)
        rows = rows.merge(operator_shares.pictured(rows), on=CELL)
        told = []
        for (model, batch, phase), own in rows.groupby(CELL):
            left = own[own.intensity < roof.ridge_flop_per_byte]
            told.append(f"{percent(left.share.sum())} in {model} ({PHASES[str(phase)]} at {batch})")
        best = highest(rows.assign(peak_share=rows.flop_per_s / roof.peak_flop_per_s), "peak_share")
        return (
            f"On the {available.title(of)}, groups whose intensity lies below the ridge point take {listing(told)} of "
            f"the time of all operators. The fastest group is {best.group} in {best.model}, at "
            f"{si(best.flop_per_s, 'FLOP/s')}, {percent(best.peak_share)} of the peak."
        )

    return available.told_of_each(paper, part)


@finding
def counted(paper: Paper) -> str:
    """What hardware counters say of bytes and FLOP, and what they do not, on each machine that has them."""
    return " ".join(counters_of(paper, of) for of in counted_kernels.machines(paper))


def counters_of(paper: Paper, of: Machine) -> str:
    """Bytes against ideal and unfused ones, FLOP against formulas, and what is not known."""
    read = counted_kernels.cells(of)
    cells = counted_kernels.with_bytes(paper, of)
    text = f"On the {available.title(of)}, hardware counters were read of {number(len(read), 'cell')}."
    known = cells[cells.dram_byte.notna()]
    if not known.empty:
        above, below = known.dram_byte / known.ideal_byte, known.dram_byte / known.unfused_byte
        text += (
            f" From and to memory went {significant(above.median(), 2)} times the ideal bytes in the median, and "
            f"{percent(below.median())} of the unfused ones."
        )
    worked = cells[cells.flop.notna() & (cells.asked_flop > 0)]
    if not worked.empty:
        text += (
            f" The FLOP counted are {percent((worked.flop / worked.asked_flop).median(), 3)} of those by formulas in "
            "the median."
        )
    for gap in sorted(set(read.tensor_gap.dropna())):
        text += (
            f" The FLOP of tensor cores are not known, because {gap}: so neither are FLOP/s and intensity."
        )
    unmatched = counted_kernels.unmatched(paper, of)
    return (
        f"{text} Kernels that no rule matches took {percent(unmatched) if unmatched else 'none'} of the time."
    )


@finding
def printed(paper: Paper) -> str:
    """Whether the study's rows agree with themselves, and with one another: a step is the same work on every GPU."""
    rows = paper.training_steps
    if rows.empty:
        raise DataMissingError(
            "The table data/published/training_steps.csv holds no training step of a study; restore it."
        )
    within = (rows.flop_per_s / rows.dram_byte_per_s / rows.intensity_flop_per_byte - 1).abs()
    farthest = highest(rows.assign(within=within), "within")
    text = (
        f"The study prints {number(len(rows), 'row')}. In each, the rate of arithmetic over the DRAM rate should be "
        f"the intensity: they differ by {percent(within.median())} in the median and by at most "
        f"{percent(within.max())} ({farthest.model_key} on the {farthest.gpu}). A step asks for the same FLOP on every "
        "GPU, and rate times time says how many."
    )
    rows = rows.assign(flop=rows.flop_per_s * rows.time_s)
    middle = rows.groupby("model_key").flop.transform("median")
    factor = (rows.flop / middle).where(rows.flop > middle, middle / rows.flop)
    odd = rows.assign(middle=middle, factor=factor)[factor > TOO_FAR].sort_values("factor", ascending=False)
    if odd.empty:
        return f"{text} All rows of a model agree within a factor of {significant(TOO_FAR, 1)}."
    told = [
        f"that of {row.model_key} on the {row.gpu} comes to {si(row.flop, 'FLOP')}, where the median of the GPUs is "
        f"{si(row.middle, 'FLOP')}"
        for row in each(odd)
    ]
    verdict = "this row contradicts" if len(odd) == 1 else "these contradict"
    return f"{text} By that, {listing(told)}: {verdict} the others."


@finding
def candidates(paper: Paper) -> str:
    """The FLOP of a training step that the study's rates imply, beside exact counts of what it may have trained."""
    rows = paper.training_steps
    asked = paper.workloads[
        (paper.workloads.batch == operator_shares.STUDIED_BATCH)
        & (paper.workloads.precision == BASE_PRECISION)
        & paper.workloads.backward_flop.notna()
        & paper.workloads.model.isin(operator_shares.STUDIED)
    ]
    if rows.empty or asked.empty:
        raise DataMissingError(
            "The training steps of the study's models have not been counted; python -m measure --sections workload "
            f"--models {' '.join(operator_shares.STUDIED)} --batch-sizes {operator_shares.STUDIED_BATCH} counts them."
        )
    implied = (rows.flop_per_s * rows.time_s).groupby(rows.model_key).median()
    exact = {row.model: row.forward_flop + row.backward_flop for row in each(asked)}
    told = [
        f"{model} asks for {si(exact[model], 'FLOP')}"
        + (f" (by the study's counters {si(implied[model], 'FLOP')})" if model in implied else "")
        for model in operator_shares.STUDIED
        if model in exact
    ]
    mobilenets = [model for model in exact if model.startswith("mobilenet")]
    meant = next((implied[model] for model in mobilenets if model in implied), None)
    nearest = ""
    if meant is not None and len(mobilenets) > 1:
        model = min(mobilenets, key=lambda model: abs(log(exact[model] / meant)))
        nearest = f" Of the MobileNets, {model} is the nearer to the study's counters."
    return (
        f"By exact counts, a training step at batch size {operator_shares.STUDIED_BATCH} of {listing(told)}, products "
        f"alone.{nearest} Counters of vector instructions miss what tensor cores do, and see the algorithm that a "
        "library chose, which may take fewer operations."
    )
