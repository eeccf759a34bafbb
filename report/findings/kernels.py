"""Where the time of a forward pass or a training step goes, kernel by kernel or operator by operator."""

import re
from collections.abc import Mapping
from math import log
from typing import Any

from measure.domain.values import significant
from report.analysis import available, counted_kernels, operator_shares
from report.analysis.available import DataMissingError, finding, lacking, missing, on_each_machine
from report.analysis.operator_groups import OTHER, group_of_kernel
from report.analysis.operator_shares import CELL, GAP, PHASES, STUDIED, STUDIED_BATCH
from report.load.paper import BASE_PRECISION, Machine, Paper
from report.text.frame_rows import at_ends, each, extremes, highest, matching
from report.text.prose import by_number, listing, number, percent, si, signed_percent

TOO_FAR = 2.0
"""A printed step's FLOP that differ from those on the other GPUs by more than this factor contradict them."""


def _phase(row: Any) -> str:
    return f"{PHASES[row.phase]} at batch size {row.batch}"


@on_each_machine
def spent(paper: Paper, machine: Machine) -> str:
    """Say which group of operators has the largest part of the time in each phase, and what no rule matches."""
    rows = operator_shares.groups(paper, machine)
    shares: dict[tuple[Any, str], dict[Any, float]] = {}
    for (phase, batch), cells in rows.groupby(["phase", "batch"]):
        medians = cells.pivot_table(index="model", columns="group", values="share", fill_value=0.0).median()
        named = medians.drop(OTHER, errors="ignore")
        if not named.empty:
            shares.setdefault((phase, str(named.idxmax())), {})[batch] = named.max()
    parts = [f"to {group} in {PHASES[phase]} ({_by_batch(found)})" for (phase, group), found in shares.items()]
    unmatched = rows.time_s[rows.group == OTHER].sum() / rows.time_s.sum()
    text = (
        f"On the {available.title(machine)}, in the median of the models, the largest part of the time of all "
        f"{'kernels' if machine.chip_kind == 'gpu' else 'operators'} goes {listing(parts) or 'to no known group'}."
    )
    if unmatched:
        return f"{text} The share that no rule matches is {percent(unmatched)}."
    return f"{text} Every operator is matched by a rule."


def _by_batch(shares: Mapping[int, float]) -> str:
    """Say shares at the smallest and the largest batch size."""
    return " and ".join(f"{percent(share)} at batch size {batch}" for batch, share in at_ends(shares).items())


@on_each_machine
def gaps(paper: Paper, machine: Machine) -> str:
    """Say in what part of a call nothing runs, under the profiler and without."""
    rows = matching(operator_shares.parts(paper, machine), group=GAP)
    least, most = extremes(rows, "part")
    text = (
        f"On the {available.title(machine)} the times of the groups sum to {signed_percent(1 - rows.part.median())} of "
        f"a call under the profiler in the median of {number(len(rows), 'cell')}"
    )
    if len(rows) > 1:
        text += (
            f", from {signed_percent(1 - most.part)} in {most.model} ({_phase(most)}) to "
            f"{signed_percent(1 - least.part)} in {least.model} ({_phase(least)})"
        )
    text += "; the rest is the framework's, and the profiler's own."
    busy = operator_shares.profiled(machine).dropna(subset="busy_s")
    if busy.empty:
        return text
    busy = busy.assign(idle=1 - busy.busy_s / busy.plain_s)
    what = "no kernel runs" if machine.chip_kind == "gpu" else "no operator runs"
    most = highest(busy, "idle")
    return (
        f"{text} Of a call without the profiler {what} in about {signed_percent(busy.idle.median())} in the median, "
        f"and in at most {signed_percent(most.idle)} ({most.model}, {_phase(most)}); a negative share says that "
        "operators take longer under the profiler than the whole call without it."
    )


@finding
def launched(paper: Paper) -> str:
    """Say which kernels run on GPUs, and whether their names tell what they work for."""
    machines = [machine for machine in paper.shown if not machine.kernels.empty]
    if not machines:
        raise DataMissingError(
            "No kernel has been timed: operators launch kernels on a GPU, and `python -m measure --device cuda "
            "--sections workload operators` times them there."
        )
    return " ".join(_launched(paper, machine) for machine in machines)


def _launched(paper: Paper, machine: Machine) -> str:
    rows = operator_shares.launched(paper, machine)
    whole = rows.time_s.sum()
    by_name = rows.kernel.map(group_of_kernel)
    alike, unmatched = (rows.time_s[which].sum() / whole for which in (by_name == rows.group, by_name == OTHER))
    times = rows.groupby("kernel").time_s.sum()
    plain = str(times.idxmax()).replace("(anonymous namespace)::", "").removeprefix("void ")
    return (
        f"On the {available.title(machine)} {number(len(times), 'different kernel')} run; the longest is "
        f"{re.split('[<(]', plain)[0]}, with {percent(times.max() / whole)} of the time. By their names alone, kernels "
        f"with {percent(alike)} of the time would be in the groups of the operators that launch them, and with "
        f"{percent(unmatched)} in none."
    )


@on_each_machine
def waiting(paper: Paper, machine: Machine) -> str:
    """Say what share of the time of the pictured models is in groups that the memory bounds."""
    roof = available.roof(machine)
    rows = operator_shares.on_roof(paper, machine)
    rows = rows.merge(operator_shares.pictured(rows), on=CELL)
    left = rows.assign(below=rows.share.where(rows.intensity < roof.ridge_flop_per_byte, 0.0))
    cells = left.groupby(CELL, as_index=False)[["below"]].sum()
    ends = dict.fromkeys(
        f"{percent(row.below)} in {row.model} ({PHASES[row.phase]} at {row.batch})" for row in extremes(cells, "below")
    )
    best = highest(rows, "flop_per_s")
    return (
        f"On the {available.title(machine)}, groups whose intensity lies below the ridge point take "
        f"{' to '.join(ends)} of the time of all operators. The fastest group is {best.group} in {best.model}, at "
        f"{si(best.flop_per_s, 'FLOP/s')}, {percent(best.flop_per_s / roof.peak_flop_per_s)} of the peak."
    )


@finding
def counted(paper: Paper) -> str:
    """Say what hardware counters tell of bytes and FLOP, and what they do not, on each machine that has them."""
    return " ".join(_counted(paper, machine) for machine in counted_kernels.machines(paper))


def _counted(paper: Paper, machine: Machine) -> str:
    """Hold bytes against ideal and unfused ones and FLOP against formulas, and say what is not known."""
    read, cells = counted_kernels.cells(machine), counted_kernels.with_bytes(paper, machine)
    text = f"On the {available.title(machine)}, hardware counters were read of {number(len(read), 'cell')}."
    known = cells[cells.dram_byte.notna()]
    if not known.empty:
        above, below = known.dram_byte / known.ideal_byte, known.dram_byte / known.unfused_byte
        text += (
            f" From and to memory went {significant(above.median(), 2)} times the ideal bytes in the median, and "
            f"{percent(below.median())} of the unfused ones."
        )
    worked = cells[cells.flop.notna() & (cells.asked_flop > 0)]
    if not worked.empty:
        ratio = percent((worked.flop / worked.asked_flop).median(), 3)
        text += f" The FLOP counted are {ratio} of those by formulas in the median."
    for gap in sorted(set(read.tensor_gap.dropna())):
        text += f" The FLOP of tensor cores are not known, because {gap}: so neither are FLOP/s and intensity."
    unmatched = counted_kernels.unmatched(paper, machine)
    return f"{text} Kernels that no rule matches took {percent(unmatched) if unmatched else 'none'} of the time."


@finding
def printed(paper: Paper) -> str:
    """Say whether the study's rows agree with themselves, and with one another: a step is the same work everywhere."""
    rows = paper.training_steps
    if rows.empty:
        raise lacking("published/training_steps", "training step of a study")
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
    parts = [
        f"that of {row.model_key} on the {row.gpu} comes to {si(row.flop, 'FLOP')}, where the median of the GPUs is "
        f"{si(row.middle, 'FLOP')}"
        for row in each(odd)
    ]
    verdict = by_number(len(odd), "this row contradicts", "these contradict")
    return f"{text} By that, {listing(parts)}: {verdict} the others."


@finding
def candidates(paper: Paper) -> str:
    """Hold the FLOP that the study's rates imply for a step against exact counts of what it may have trained."""
    rows, asked = paper.training_steps, paper.workloads
    asked = matching(asked, batch=STUDIED_BATCH, precision=BASE_PRECISION)
    asked = asked[asked.backward_flop.notna() & asked.model.isin(STUDIED)]
    if rows.empty or asked.empty:
        raise missing(
            "The training steps of the study's models have not been counted", sections=["workload"],
            flags=f"--models {' '.join(STUDIED)} --batch-sizes {STUDIED_BATCH}", does="counts them",
        )  # fmt: skip
    implied = (rows.flop_per_s * rows.time_s).groupby(rows.model_key).median()
    exact = {row.model: row.forward_flop + row.backward_flop for row in each(asked)}
    least, most = (end(exact, key=lambda model: exact[model]) for end in (min, max))
    span = dict.fromkeys(f"{si(exact[model], 'FLOP')} ({model})" for model in (least, most))
    seen = {model: implied[model] / exact[model] for model in STUDIED if model in exact and model in implied}
    told = dict.fromkeys(f"{significant(seen[end(seen, key=seen.__getitem__)])} times" for end in (min, max) if seen)
    by_counters = f"; the study's counters see {' to '.join(told)} as many" if told else ""
    mobilenets = [model for model in exact if model.startswith("mobilenet")]
    meant = next((implied[model] for model in mobilenets if model in implied), None)
    nearest = ""
    if meant is not None and len(mobilenets) > 1:
        model = min(mobilenets, key=lambda model: abs(log(exact[model] / meant)))
        nearest = f" Of the MobileNets, {model} is the nearer to the study's counters."
    return (
        f"By exact counts, a training step at batch size {STUDIED_BATCH} asks for {' to '.join(span)}, products "
        f"alone{by_counters}.{nearest} "
        "Counters of vector instructions miss what tensor cores do, and see the algorithm that a library chose, which "
        "may take fewer operations."
    )
