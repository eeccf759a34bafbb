"""A GPU that this program measured, and its host: one input at a time, kernels launched, compiled networks, a step."""

from collections import defaultdict
from dataclasses import replace
from functools import cache
from typing import Any

import pandas as pd

from measure.domain.advice import COMPILE
from measure.domain.names import model_name
from measure.domain.words import INFERENCE, STEP
from report.chapters.cause.calls import recordings
from report.facts import Facts, missing, sourced
from report.options import gpu_command, measure_command
from report.paper import ALONE, BASE_PRECISION, Machine, Paper
from report.paper.frames import each, matching
from report.stats.correlations import rank_correlation
from report.stats.value import NOTHING, Name, Source, Value, count_of, exact, extremes, median_of

GRAPH_COMMAND = measure_command("--device cuda --sections inference --variants eager cuda_graph")
CUDA_GRAPH = "cuda_graph"


class Single(Facts):
    device: Name  #: The measured GPU.
    precision: Name  #: The precision of single inputs.
    networks: Value  #: Networks timed with one input.
    flop: Value  #: Rank correlation of the networks' times and their FLOP.
    calls: Value  #: Rank correlation of the networks' times and the operators that they call.
    per_call: Value  #: Time over operators called.


class BaseSingle(Facts):
    precision: Name  #: The first precision, fp32.
    per_call: Value  #: Time over operators called, of single inputs at fp32.
    networks: Value  #: Networks timed with one input at both precisions.
    slower: Value  #: Networks among them that are slower at the lower precision.
    slowed: Value  #: Time of a single input at the lower precision over its time at fp32.


class OtherSingle(Facts):
    """The same comparison on the second GPU measured."""

    device: Name  #: The second GPU.
    networks: Value  #: Networks timed there with one input at both precisions.
    slower: Value  #: Networks among them that are slower at the lower precision.
    slowed: Value  #: Time of a single input there at the lower precision over its time at fp32.


class Launched(Facts):
    network: Name  #: The network with the largest difference in kernels between the precisions.
    calls: Value  #: Operators that the network calls.
    lower: Value  #: Kernels that the network launches at the lower precision.
    base: Value  #: Kernels that the network launches at fp32.


class Compiled(Facts):
    device: Name  #: The measured GPU.
    batch: Value  #: The largest batch size of compiled networks.
    networks: Value  #: Networks compiled at that size.
    least: Value  #: The least gain from compiling at the largest batch size, with its network.
    most: Value  #: The largest gain from compiling at the largest batch size, with its network.
    single_least: Value  #: The least gain from compiling for a single input.
    single_most: Value  #: The largest gain from compiling for a single input.


class Captured(Facts):
    networks: Value  #: Networks captured as CUDA graphs for a single input.
    least: Value  #: The least gain from one launch of all kernels for a single input, with its network.
    most: Value  #: The largest gain from one launch of all kernels for a single input, with its network.


class LoweredStep(Facts):
    """A training step profiled at two precisions: the GPU and network where the host hides most of the gain."""

    device: Name  #: The measured GPU.
    precision: Name  #: The lower precision.
    network: Name  #: The network with most of its gain hidden by the host.
    kernels: Value  #: The GPU's working time at fp32 over its working time at the lower precision.
    step: Value  #: Time of the step at fp32 over its time at the lower precision.
    busy: Value  #: Share of the step at the lower precision that the GPU works.


class Host(Facts):
    single: Single  # at the lower precision
    base: BaseSingle
    other: OtherSingle
    launched: Launched
    compiled: Compiled
    lowered: LoweredStep


def of(paper: Paper) -> Host:
    paper = paper.undisturbed  # a finding of the first page
    machine = paper.machine("gpu")
    if machine is None:
        return missing(Host)
    source = Source(f"machines/{machine.folder}/samples.csv", "inference, eager, batch size 1", gpu_command())
    lower = _precision(machine)
    return Host(
        sourced(_single(paper, machine, lower), source),
        sourced(_base(paper, lower) if lower != BASE_PRECISION else missing(BaseSingle), source),
        _other(paper),
        sourced(_launched(paper, machine, lower), Source("traces/*/operators.csv", "inference", gpu_command())),
        sourced(_compiled(machine), replace(source, rows="inference, compile over eager")),
        sourced(_lowered(paper), Source("machines/*/profiles.csv", "phase step", gpu_command())),
    )


@cache
def singles(paper: Paper, precision: str | None = None) -> pd.DataFrame:
    """Return one row per network with a single input on the GPU, at a precision (default: the lower one).

    The columns are ``machine``, ``model``, ``name``, ``precision``, ``flop``, ``calls`` (operators called) and
    ``latency_s`` with its ends.
    """
    machine = paper.machine("gpu")
    if machine is None:
        return pd.DataFrame()
    cells = matching(machine.cells, status="ok")
    cells = matching(cells, precision=precision or _precision(machine), batch=ALONE)
    counted = matching(paper.operators, stage=INFERENCE)
    calls = counted.groupby(["model", "batch", "precision"]).calls.sum().groupby("model").first()  # alike at any batch
    rows = cells.assign(
        machine=machine.name, name=cells.model.map(model_name), flop=cells.forward_flop, calls=cells.model.map(calls)
    )
    return rows.dropna(subset=["flop", "calls"])


def _precision(machine: Machine) -> str:
    """Return the lower precision, or fp32 if nothing ran at the lower one."""
    lower = machine.lower_precision
    return lower if lower in set(matching(machine.cells, status="ok").precision) else BASE_PRECISION


def _single(paper: Paper, machine: Machine, precision: str) -> Single:
    rows = singles(paper, precision)
    if rows.empty:
        return missing(Single)
    flop, calls = (rank_correlation(rows[each].astype(float), rows.latency_s, rows.model) for each in ("flop", "calls"))
    return Single(
        Name(machine.name), Name(precision), count_of(len(rows), "networks"), flop, calls,
        median_of(rows.latency_s / rows.calls, "s"),
    )  # fmt: skip


def _base(paper: Paper, lower: str) -> BaseSingle:
    rows = singles(paper, BASE_PRECISION)
    if rows.empty:
        return missing(BaseSingle)
    return BaseSingle(Name(BASE_PRECISION), median_of(rows.latency_s / rows.calls, "s"), *_slowed(paper, lower))


def _slowed(paper: Paper, lower: str) -> tuple[Value, Value, Value]:
    """Return the networks at both precisions, those slower at the lower one, and the median ratio of their times."""
    at_base, at_lower = (singles(paper, each).set_index("model").latency_s for each in (BASE_PRECISION, lower))
    ratios = (at_lower / at_base).dropna()
    return count_of(len(ratios), "networks"), count_of((ratios > 1).sum(), "networks"), median_of(ratios)


def _other(paper: Paper) -> OtherSingle:
    machine = next(iter([machine for machine in paper.machines if machine.chip_kind == "gpu"][1:]), None)
    alone = replace(paper, machines=(machine,)) if machine else paper
    if machine is None or singles(alone, BASE_PRECISION).empty or singles(alone).empty:
        return missing(OtherSingle)
    source = Source(f"machines/{machine.folder}/samples.csv", "inference, eager, batch size 1", gpu_command())
    return sourced(OtherSingle(Name(machine.name), *_slowed(alone, _precision(machine))), source)


def _launched(paper: Paper, machine: Machine, lower: str) -> Launched:
    found: dict[tuple[str, str], dict[str, tuple[int, int]]] = defaultdict(dict)
    for one in recordings(paper):
        rows = [row for row in one.trace.operators if row.stage == INFERENCE]
        steps = len({row.step for row in rows})
        if one.source == f"machines/{machine.folder}" and steps:
            found[one.network, one.batch][one.precision] = tuple(
                sum(getattr(row, column) for row in rows) // steps for column in ("calls", "kernels")
            )
    both = {network: of for (network, _), of in found.items() if {lower, BASE_PRECISION} <= of.keys()}
    if not both:
        return missing(Launched)
    network = max(both, key=lambda name: both[name][lower][1] / both[name][BASE_PRECISION][1])
    (calls, kernels), (_, of_base) = both[network][lower], both[network][BASE_PRECISION]
    return Launched(Name(network), exact(calls), exact(kernels), exact(of_base))


def gains(machine: Machine, variant: str) -> dict[Any, pd.Series]:
    """Return the gain of each network over eager mode at the lower precision, by batch size.

    Gains have no interval: both timings may be from different sessions.
    """
    sample = ["model", "batch", "precision"]
    ran = matching(machine.variants, status="ok", variant=variant, precision=machine.lower_precision)
    both = matching(machine.cells, status="ok").merge(ran, on=sample, suffixes=("", "_other"))
    both = both.assign(gain=both.latency_s / both.latency_s_other, name=both.model.map(model_name))
    return {batch: rows.set_index("name").gain for batch, rows in both.groupby("batch")}


def captured(paper: Paper) -> Captured:
    machine = paper.undisturbed.machine("gpu")
    if machine is None:
        return missing(Captured)
    source = Source(f"machines/{machine.folder}/samples.csv", "inference, cuda_graph over eager", GRAPH_COMMAND)
    alone = gains(machine, CUDA_GRAPH).get(ALONE, pd.Series())
    return sourced(Captured(count_of(len(alone) or None, "networks"), *extremes(alone, fewest=2)), source)


def _compiled(machine: Machine) -> Compiled:
    at = gains(machine, COMPILE)
    if not at:
        return missing(Compiled)
    largest = max(at)
    single = extremes(at[ALONE], fewest=2) if ALONE in at and largest > ALONE else (NOTHING, NOTHING)
    return Compiled(
        Name(machine.name), exact(largest), count_of(len(at[largest]), "networks"),
        *extremes(at[largest], fewest=2), *single,
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
