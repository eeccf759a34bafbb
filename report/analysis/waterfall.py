"""From the roofline to reality: what a measured latency is made of, in terms that sum to it.

The terms of a cell of latency L, whose operators take t_k under the profiler and at least b_k under the roof:

- the bound B of the whole model, on its compulsory bytes;
- what running it operator by operator adds: the sum of b_k, less B;
- the inefficiency of each group of operators: the sum of t_k - b_k over the group;
- the framework, what a call takes beside its operators (dispatch, launches, idle): P less the sum of t_k, where P is a
  plain call in the process that was profiled;
- the residual L - P, by which that process and the cell's rounds differ.

On a processor the profiler makes operators longer, and what is between them. Both are taken as within the calls under
it: t_k is a plain call's time P times the operator's share of a call under the profiler, and so the framework is never
negative. A GPU's kernels run as long with the profiler as without; there t_k is their time. Other terms may be
negative: b_k takes bytes from memory that a cache may serve, and on a GPU kernels run while the host goes on. What a
call takes longer under the profiler than without is no part of L.
"""

from functools import cache

import pandas as pd

from measure.domain.words import EAGER, INFERENCE
from report.analysis import available
from report.analysis.operator_groups import grouped, kinds_of
from report.load import operator_bounds
from report.load.cells import INFERENCE_CELL
from report.load.paper import BASE_PRECISION, Machine, Paper
from report.text.frame_rows import matching

BOUND, BY_OPERATOR, FRAMEWORK, RESIDUAL = "model bound", "operator by operator", "framework", "residual"
"""The terms beside those of groups of operators, which are called by their group."""

OBSERVED = ["plain_s", "profiled_s", "system_s", "page_faults"]
"""The columns of a profile that say something of a call beside its operators."""


def profiled(machine: Machine, precision: str = BASE_PRECISION) -> pd.DataFrame:
    """Return the measured cells with bounds and a profile, with what that observed of a call; at least one.

    ``system_share`` is the part of the time of all threads, on a processor, that the operating system takes of a plain
    call; empty where that is not known.
    """
    cells = available.cells(machine, precision)
    available.roof(machine, precision)
    profiles = matching(machine.profiles, status="ok", phase=INFERENCE, variant=EAGER)
    what = f"The time of the operators on the {available.title(machine)} at {precision} has not been measured"
    flags = f"--precisions {precision}"
    gap = available.missing_on(machine, what, "workload", "operators", flags=flags, does="measures it")
    observed = profiles[[*INFERENCE_CELL, *OBSERVED]]
    cells = cells[cells.operator_bound_s.notna()].merge(observed, on=INFERENCE_CELL)
    cells = available.at_least_one(cells, gap).astype(dict.fromkeys(OBSERVED, float))
    threads = machine.environment.threads if machine.chip_kind == "cpu" else None
    return cells.assign(system_share=cells.system_s / ((threads or float("nan")) * cells.plain_s))


def command(machine: Machine, precision: str = BASE_PRECISION, flags: str = "") -> str:
    """Return the command that counts operators and takes the profiles that are missing, for a sentence."""
    device = machine.environment.device
    return f"`python -m measure --device {device} --sections workload operators --precisions {precision}{flags}`"


@cache
def terms(paper: Paper, machine: Machine, precision: str = BASE_PRECISION) -> pd.DataFrame:
    """One row is a term of a profiled cell, beside the cell's times; at least one cell.

    The ``time_s`` of a cell's terms sum to its ``latency_s``; ``share`` is a term's part of it.
    """
    cells = profiled(machine, precision)
    groups = _plain(_groups(paper, machine, cells, precision), cells, machine)
    cells = cells.merge(groups.groupby(INFERENCE_CELL, as_index=False).spent_s.sum(), on=INFERENCE_CELL)
    parts = {
        BOUND: cells.model_bound_s,
        BY_OPERATOR: cells.operator_bound_s - cells.model_bound_s,
        FRAMEWORK: cells.plain_s - cells.spent_s,
        RESIDUAL: cells.latency_s - cells.plain_s,
    }
    columns = [*INFERENCE_CELL, "latency_s", "plain_s", "profiled_s", "system_share"]
    lost = groups.assign(time_s=groups.spent_s - groups.bound_s).merge(cells[columns], on=INFERENCE_CELL)
    found = [cells[columns].assign(term=term, time_s=time_s) for term, time_s in parts.items()]
    rows = pd.concat([*found, lost[[*columns, "term", "time_s"]]])
    return rows.assign(share=rows.time_s / rows.latency_s).reset_index(drop=True)


def _plain(groups: pd.DataFrame, cells: pd.DataFrame, machine: Machine) -> pd.DataFrame:
    """Return the groups with the time that they take of a plain call."""
    if machine.chip_kind == "gpu":
        return groups
    timed = groups.merge(cells[[*INFERENCE_CELL, "plain_s", "profiled_s"]], on=INFERENCE_CELL)
    plain_s = timed.spent_s * timed.plain_s / timed.profiled_s
    return groups.assign(spent_s=plain_s.to_numpy())


def _groups(paper: Paper, machine: Machine, cells: pd.DataFrame, precision: str) -> pd.DataFrame:
    """One row is a group of operators (``term``) of a cell: the time that they took, and that they take at least."""
    times = matching(machine.operators, phase=INFERENCE, variant=EAGER)
    times = times.assign(term=grouped(times, kinds_of(times, paper.layers)))
    counted = available.operators(paper, INFERENCE, precision)
    counted = counted.assign(term=grouped(counted, counted.layer_kind))
    least = operator_bounds.timed(counted, precision, available.roof(machine, precision))
    key = [*INFERENCE_CELL, "term"]
    sums = (
        times.groupby(key).time_s.sum().rename("spent_s"),
        least.assign(precision=precision).groupby(key).bound_s.sum(),
    )
    both = pd.concat(sums, axis=1)
    return both.fillna(0.0).reset_index().merge(cells[INFERENCE_CELL], on=INFERENCE_CELL)
