"""From the roofline to reality: what a measured latency is made of, in terms that sum to it.

The terms of a cell of latency L, whose operators take t_k under the profiler and at least b_k under the roof:

- the bound B of the whole model, on its compulsory bytes;
- what running it operator by operator adds: the sum of b_k, less B;
- the inefficiency of each group of operators: the sum of t_k - b_k over the group;
- the framework, what a call takes beside its operators (dispatch, launches, idle): P less the sum of t_k, where P is a
  plain call in the process that was profiled;
- the residual L - P, by which that process and the cell's rounds differ.

A term may be negative: b_k takes bytes from memory that a cache may serve, t_k holds what the profiler adds within an
operator, and on a GPU kernels run while the host goes on. What a call takes longer under the profiler than without is
no part of L.
"""

from functools import cache

import pandas as pd

from measure.cache.records import EAGER, INFERENCE
from report.analysis import available
from report.analysis.available import DataMissingError
from report.analysis.operator_groups import grouped, kinds_of
from report.load import operator_bounds
from report.load.cells import INFERENCE_CELL
from report.load.paper import BASE_PRECISION, Machine, Paper

BOUND, BY_OPERATOR, FRAMEWORK, RESIDUAL = "model bound", "operator by operator", "framework", "residual"
"""The terms beside those of groups of operators, which are called by their group."""

OBSERVED = ["plain_s", "profiled_s", "system_s", "page_faults"]
"""What a profile says of a call beside its operators."""


def profiled(of: Machine, precision: str = BASE_PRECISION) -> pd.DataFrame:
    """The measured cells with bounds and a profile, with what that observed of a call; at least one.

    ``system_share`` is the part of the time of all threads, on a processor, that the operating system takes of a plain
    call; empty where that is not known.
    """
    profiles = of.profiles[
        (of.profiles.status == "ok") & (of.profiles.phase == INFERENCE) & (of.profiles.variant == EAGER)
    ]
    cells = available.cells(of, precision)
    available.roof(of, precision)
    cells = cells[cells.operator_bound_s.notna()].merge(
        profiles[[*INFERENCE_CELL, *OBSERVED]], on=INFERENCE_CELL
    )
    if cells.empty:
        raise DataMissingError(
            f"The time of the operators on the {available.title(of)} at {precision} has not been measured; "
            f"{command(of, precision)} measures it."
        )
    cells = cells.astype(dict.fromkeys(OBSERVED, float))
    threads = of.environment.threads if of.kind == "cpu" else None
    return cells.assign(system_share=cells.system_s / ((threads or float("nan")) * cells.plain_s))


def command(of: Machine, precision: str = BASE_PRECISION) -> str:
    """The command that counts operators and takes the profiles that are missing."""
    return f"python -m measure --device {of.environment.device} --sections workload operators --precisions {precision}"


@cache
def terms(paper: Paper, of: Machine, precision: str = BASE_PRECISION) -> pd.DataFrame:
    """One row is a term of a profiled cell, beside the cell's times; at least one cell.

    The ``time_s`` of a cell's terms sum to its ``latency_s``; ``share`` is a term's part of it.
    """
    cells = profiled(of, precision)
    groups = _groups(paper, of, cells, precision)
    cells = cells.merge(groups.groupby(INFERENCE_CELL, as_index=False).spent_s.sum(), on=INFERENCE_CELL)
    parts = {
        BOUND: cells.model_bound_s,
        BY_OPERATOR: cells.operator_bound_s - cells.model_bound_s,
        FRAMEWORK: cells.plain_s - cells.spent_s,
        RESIDUAL: cells.latency_s - cells.plain_s,
    }
    columns = [*INFERENCE_CELL, "latency_s", "plain_s", "profiled_s", "system_share"]
    lost = groups.assign(time_s=groups.spent_s - groups.bound_s).merge(cells[columns], on=INFERENCE_CELL)
    rows = pd.concat(
        [
            *(cells[columns].assign(term=term, time_s=time_s) for term, time_s in parts.items()),
            lost[[*columns, "term", "time_s"]],
        ]
    )
    return rows.assign(share=rows.time_s / rows.latency_s).reset_index(drop=True)


def _groups(paper: Paper, of: Machine, cells: pd.DataFrame, precision: str) -> pd.DataFrame:
    """One row is a group of operators (``term``) of a cell: the time that they took, and that they take at least."""
    times = of.operators[(of.operators.phase == INFERENCE) & (of.operators.variant == EAGER)]
    times = times.assign(term=grouped(times, kinds_of(times, paper.layers)))
    counted = available.operators(paper, INFERENCE, precision)
    counted = counted.assign(term=grouped(counted, counted.kind))
    least = operator_bounds.timed(counted, precision, available.roof(of, precision)).assign(
        precision=precision
    )
    key = [*INFERENCE_CELL, "term"]
    both = pd.concat(
        [
            times.groupby(key).time_s.sum().rename("spent_s"),
            least.groupby(key).bound_s.sum(),
        ],
        axis=1,
    )
    return both.fillna(0.0).reset_index().merge(cells[INFERENCE_CELL], on=INFERENCE_CELL)
