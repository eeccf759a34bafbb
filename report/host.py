"""A GPU that was measured here and its host: one input at a time, and a training step at two precisions."""

from functools import cache

import pandas as pd

from measure.domain.names import model_name
from measure.domain.words import INFERENCE, STEP
from report.facts import Facts, missing, sourced
from report.options import measure_command
from report.paper import BASE_PRECISION, Machine, Paper
from report.paper.frames import each, matching
from report.stats.correlations import rank_correlation
from report.stats.value import Name, Source, Value, count_of, exact, median_of

COMMAND = measure_command("--device cuda --sections workload inference training operators")


class Single(Facts):
    """One input at a time on a GPU measured here, at the lower precision at which it ran."""

    device: Name  #: The GPU.
    precision: Name  #: That precision.
    networks: Value  #: Networks timed.
    flop: Value  #: Rank correlation of their times and their FLOP.
    calls: Value  #: Rank correlation of their times and the operators that they call.
    per_call: Value  #: Time over operators called.


class LoweredStep(Facts):
    """A training step profiled at two precisions, on the GPU and of the network whose host hides most of the gain."""

    device: Name  #: The GPU.
    precision: Name  #: The lower precision.
    network: Name  #: The network.
    kernels: Value  #: Time in which the GPU works at fp32 over that at the lower precision.
    step: Value  #: Time of the step at fp32 over that at the lower precision.
    busy: Value  #: Share of the step at the lower precision in which the GPU works.


class Host(Facts):
    """A GPU that was measured here, and its host."""

    single: Single
    lowered: LoweredStep


def of(paper: Paper) -> Host:
    paper = paper.calm  # a finding of the first page
    machine = paper.machine("gpu")
    if machine is None:
        return missing(Host)
    source = Source(f"machines/{machine.folder}/samples.csv", "inference, eager, the smallest batch size", COMMAND)
    profiles = Source("machines/*/profiles.csv", "phase step", COMMAND)
    return Host(sourced(_single(paper, machine), source), sourced(_lowered(paper), profiles))


@cache
def singles(paper: Paper) -> pd.DataFrame:
    """One row is a network at the GPU's smallest batch size, at the lower precision.

    The columns are ``model``, ``name``, ``flop``, ``calls`` (operators called) and ``latency_s`` with its ends.
    """
    machine = paper.machine("gpu")
    if machine is None:
        return pd.DataFrame()
    cells = matching(machine.cells, status="ok")
    cells = matching(cells, precision=_precision(machine), batch=cells.batch.min())
    counted = matching(paper.operators, stage=INFERENCE)
    calls = counted.groupby(["model", "batch", "precision"]).calls.sum().groupby("model").first()  # alike at any batch
    rows = cells.assign(name=cells.model.map(model_name), flop=cells.forward_flop, calls=cells.model.map(calls))
    return rows.dropna(subset=["flop", "calls"])


def _precision(machine: Machine) -> str:
    """Return the lower precision, at which kernels are quickest, or fp32 where nothing ran at it."""
    lower = machine.lower_precision
    return lower if lower in set(matching(machine.cells, status="ok").precision) else BASE_PRECISION


def _single(paper: Paper, machine: Machine) -> Single:
    rows = singles(paper)
    if rows.empty:
        return missing(Single)
    flop, calls = (rank_correlation(rows[each].astype(float), rows.latency_s, rows.model) for each in ("flop", "calls"))
    return Single(
        Name(machine.name), Name(_precision(machine)), count_of(len(rows), "networks"), flop, calls,
        median_of(rows.latency_s / rows.calls, "s"),
    )  # fmt: skip


def _lowered(paper: Paper) -> LoweredStep:
    found = []
    for machine in paper.machines:
        rows = matching(machine.profiles, status="ok", phase=STEP)
        lower = matching(rows, precision=machine.lower_precision)
        both = matching(rows, precision=BASE_PRECISION).merge(lower, on=["model", "batch"], suffixes=("", "_lower"))
        both = both.assign(kernels=both.busy_s / both.busy_s_lower, step=both.plain_s / both.plain_s_lower)
        found += [(machine, row) for row in each(both)] if machine.chip_kind == "gpu" else []
    if not found:
        return missing(LoweredStep)
    machine, row = max(found, key=lambda one: one[1].kernels / one[1].step)
    return LoweredStep(
        Name(machine.name), Name(machine.lower_precision), Name(model_name(row.model)),
        exact(row.kernels), exact(row.step), exact(row.busy_s_lower / row.plain_s_lower, "%"),
    )  # fmt: skip
