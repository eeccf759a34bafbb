"""The cells of training: a step and its stages in time, their rates, and the least times that the roof gives them.

The ratio of the backward pass's time to the forward pass's is taken sample by sample: both times of a sample are of
the same steps, so that what slows a step down for a while cancels. The ratios of all rounds are joined as latencies
are (``measure.domain.statistics.estimate_rounds``).
"""

from collections.abc import Callable
from functools import reduce

import pandas as pd

from measure.cache.records import CELL
from measure.domain.roofs import Roofline
from measure.domain.words import BACKWARD, EAGER, FORWARD, STAGES, STEP, UPDATE
from report.paper.cells import above, bounds_of_cells, estimate_cells, estimate_latencies, merge_runs, with_workload
from report.paper.roofs import TIMES
from report.paper.rows import matching

KEY = [column for column in CELL if column != "phase"]
"""What tells the cells of training apart: a step and its stages are one cell."""

RATIOS = ["time_ratio", "time_ratio_low", "time_ratio_high"]


def derive(
    runs: pd.DataFrame,
    samples: pd.DataFrame,
    counted: pd.DataFrame,
    operators: pd.DataFrame,
    roof_of: Callable[[str], Roofline | None],
) -> pd.DataFrame:
    """One row is a cell of training, eager, with SGD and momentum: its times, and what follows from its workload.

    ``latency_s`` is the step's, ``forward_s``, ``backward_s`` and ``update_s`` are its stages', all with intervals;
    ``time_ratio`` is backward to forward, with its interval, ``flop_ratio`` the same of the FLOP counted.
    ``forward_peak_share`` and ``backward_peak_share`` are rates over the flat part of the roof (``roof_of`` a
    precision). ``flop_bound_s`` is the step's FLOP at that peak; ``forward_bound_s`` and ``backward_bound_s`` are the
    least times of the operators one after the other (``cells.operator_bounds``), ``update_bound_s`` that of the
    bytes that the update must move, ``operator_bound_s`` the sum of the three. All are empty where no roof was
    measured or what they are made of was not counted.
    """
    whole = (matching(rows, phase=STEP, variant=EAGER) for rows in (runs, samples))
    wanted = merge_runs(*whole).drop(columns="phase")
    taken = samples[samples.phase.isin([STEP, *STAGES]) & (samples.variant == EAGER)]
    cells = with_workload(_timed(wanted, taken), counted)
    cells["peak_byte"] = cells.peak_byte.astype(float)
    cells["flop_ratio"] = cells.backward_flop / cells.forward_flop
    roofs = {precision: roof_of(precision) for precision in cells.precision.unique()}
    roof = above(cells, roofs)
    for stage in (FORWARD, BACKWARD):
        cells[f"{stage}_peak_share"] = cells[f"{stage}_flop"] / cells[f"{stage}_s"] / roof.peak_flop_per_s
        cells[f"{stage}_bound_s"] = bounds_of_cells(cells, operators, stage, roofs)
    cells["flop_bound_s"] = (cells.forward_flop + cells.backward_flop) / roof.peak_flop_per_s
    cells["update_bound_s"] = update_byte(cells) / roof.bandwidth_byte_per_s
    cells["operator_bound_s"] = cells.forward_bound_s + cells.backward_bound_s + cells.update_bound_s
    return cells


def update_byte(rows: pd.DataFrame) -> pd.Series:
    """Return what SGD with momentum must move: weights and momentum are read and written, gradients are read."""
    return 2 * rows.parameter_byte + 2 * rows.momentum_byte + rows.gradient_byte


def _timed(cells: pd.DataFrame, samples: pd.DataFrame) -> pd.DataFrame:
    """Return the cells with the times of the step and its stages, and the ratio of the latter."""
    times = estimate_latencies(samples)
    parts = [matching(times, phase=STEP).drop(columns="phase")]
    for stage in (FORWARD, BACKWARD, UPDATE):
        names = {column: column.replace("latency", stage) for column in TIMES}
        parts.append(matching(times, phase=stage)[[*KEY, *TIMES]].rename(columns=names))
    parts.append(_ratios(samples))
    timed = reduce(lambda left, right: left.merge(right, on=KEY, how="left"), parts, cells)
    numbers = [column for part in parts for column in part if column not in KEY]
    return timed.astype(dict.fromkeys(numbers, float))


def _ratios(samples: pd.DataFrame) -> pd.DataFrame:
    """One row is a cell: backward to forward in time, with interval."""
    forward, backward = (matching(samples, phase=stage) for stage in (FORWARD, BACKWARD))
    paired = forward.merge(backward, on=[*KEY, "round", "sample"], suffixes=("", "_backward"))
    paired = paired.assign(ratio=paired.latency_s_backward / paired.latency_s)
    return estimate_cells(paired, "ratio", KEY, RATIOS).drop(columns="sample_count")


MEMORY_PARTS = {
    "parameters": "parameter_byte",
    "gradients": "gradient_byte",
    "momentum": "momentum_byte",
    "saved activations": "saved_byte",
}
"""What a training step with SGD with momentum keeps, and its column."""
