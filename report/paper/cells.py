"""The cells of inference and of training: times with intervals, and the rates and bounds that follow from the workload.

The ratio of backward to forward time is taken sample by sample: both times come from the same steps, so disturbances
cancel. Ratios are joined over rounds like latencies (``measure.domain.statistics.estimate_rounds``).
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from itertools import starmap
from math import log, nan
from statistics import stdev
from typing import Any

import numpy as np
import pandas as pd

from measure.domain.cell import Cell
from measure.domain.energy import RoundEnergy, estimate_energy, mean_time
from measure.domain.latency import CellSample, group_rounds, launch_bound
from measure.domain.records import CELL
from measure.domain.roofs import Roof, Roofline
from measure.domain.statistics import estimate_rounds
from measure.domain.words import BACKWARD, EAGER, FORWARD, INFERENCE, STAGES, STEP, UPDATE, stored_as, was_disturbed
from report.paper.frames import compact, each, matching
from report.paper.roofs import TIMES, LastCache

RoofOf = Callable[[str], Roofline | None]  # a machine's roof at a precision
CELL_COLUMNS = list(CELL)
INFERENCE_CELL = ["model", "batch", "precision"]  # the key of a machine's cells of inference in eager mode
ENERGY = ["energy_j", "energy_low_j", "energy_high_j", "energy_s", "energy_rounds", "energy_scatter"]
"""Of one call: energy, its interval and mean time; the rounds with energy and their scatter."""
SPEED_UP = ["speed_up", "speed_up_low", "speed_up_high"]  # a ratio over eager mode and the ends of its interval
STEP_CELL = [column for column in CELL if column != "phase"]  # a step and its stages are one cell of training
TIME_RATIO = ["time_ratio", "time_ratio_low", "time_ratio_high"]
MEMORY_PARTS = {
    "parameters": "parameter_byte", "gradients": "gradient_byte", "momentum": "momentum_byte",
    "saved activations": "saved_byte",
}  # fmt: skip
"""The memory of a training step (SGD with momentum) by kind, and the column of each."""


def merge_runs(runs: pd.DataFrame, samples: pd.DataFrame) -> pd.DataFrame:
    """One row per cell: its decisive round, with the number of ``rounds`` with a result and a call's energy (J).

    ``flags`` are the cell's, joined by ``;``. Rules: ``measure.domain.latency.Rounds``. ``energy_s`` is the mean time
    of the calls behind the energy: the pauses of a busy host use energy, and the median leaves them out.
    ``energy_scatter`` is the standard deviation of the logarithms of its rounds' energies.
    """
    flagged = runs.assign(flags=runs["flags"].astype(object).fillna(""))
    timed = samples[[*CellSample._fields]].itertuples(index=False, name=None)
    found: list[Any] = list(group_rounds(each(flagged), starmap(CellSample, timed)).values())
    cells = runs.loc[[rounds.deciding.Index for rounds in found]].drop(columns=["round", "flags"])
    cells["rounds"] = [len(rounds.latencies) for rounds in found]
    energies = [estimate_energy(rounds.energies) for rounds in found]
    spent = [
        (each.median, each.low, each.high, mean_time(rounds.energies), len(rounds.energies), _scatter(rounds.energies))
        if each
        else [None] * len(ENERGY)
        for each, rounds in zip(energies, found, strict=True)
    ]
    cells[ENERGY] = pd.DataFrame(spent, cells.index, ENERGY, dtype=float)
    cells["flags"] = pd.Series([";".join(sorted(rounds.flags)) for rounds in found], cells.index, dtype=object)
    return cells.reset_index(drop=True)


def _scatter(rounds: Sequence[RoundEnergy]) -> float:
    logarithms = [log(each.energy_j / each.calls) for each in rounds]
    return stdev(logarithms) if len(logarithms) > 1 else nan


def estimate_cells(samples: pd.DataFrame, column: str, key: Sequence[str], names: Sequence[str]) -> pd.DataFrame:
    """One row per cell (``key``): the median of a column over its rounds, and the ends of its interval.

    ``names`` are the three columns returned.
    """
    rounds: dict[tuple[Any, ...], dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for *cell, round_, value in zip(*(samples[name].tolist() for name in (*key, "round", column)), strict=True):
        rounds[tuple(cell)][round_].append(value)
    rows = []
    for name, of_cell in rounds.items():
        estimate = estimate_rounds([*of_cell.values()])
        rows.append((*name, estimate.median, estimate.low, estimate.high))
    found = pd.DataFrame(rows, columns=[*key, *names])
    return found.astype(dict.fromkeys(names, float))  # also without any interval


def is_loaded(cells: pd.DataFrame) -> pd.Series:
    """True for cells measured under load in every round."""
    return cells["flags"].map(was_disturbed).astype(bool)


def half_width(cells: Any) -> Any:
    """Return half the interval's width over the latency, for a cell or a frame of cells."""
    return (cells.latency_high_s - cells.latency_low_s) / 2 / cells.latency_s


def estimate_latencies(samples: pd.DataFrame) -> pd.DataFrame:
    """One row per cell: its median latency with interval (s), and the ``scatter`` of its rounds.

    Scatter is the standard deviation of the log medians; empty for one round. A GPU's cells have event times. A single
    round of them has no interval if it may only take the time to launch kernels (``measure.domain.latency``).
    """
    medians = np.log(samples.astype({"latency_s": float}).groupby([*CELL_COLUMNS, "round"]).latency_s.median())
    scatter = medians.groupby(level=CELL_COLUMNS).std().rename("scatter").reset_index()
    cells = estimate_cells(samples, "latency_s", CELL_COLUMNS, TIMES).merge(scatter, on=CELL_COLUMNS, how="left")
    if samples.event_s.notna().any():
        keys = pd.Series(list(starmap(Cell, cells[[*Cell._fields]].itertuples(index=False, name=None))))
        bound = launch_bound(dict(zip(keys, cells.latency_s, strict=True)))
        cells.loc[cells.scatter.isna() & keys.map(bound.__contains__), TIMES[1:]] = nan
    return cells


def with_workload(cells: pd.DataFrame, counted: pd.DataFrame) -> pd.DataFrame:
    """Add the columns of the cells' workloads, at the precision in which weights are stored.

    ``counted`` has the models at their measured shapes (``report.paper.workloads``).
    """
    workloads = counted.rename(columns={"precision": "stored"})
    stored = cells.drop(columns="input_shape", errors="ignore").assign(stored=cells.precision.map(stored_as))
    return stored.merge(workloads, on=["model", "batch", "stored"], how="left").drop(columns="stored")


def operator_bounds(
    operators: pd.DataFrame, precision: str, roof: Roofline, cache: LastCache | None = None
) -> pd.DataFrame:
    """One row per model, batch size and stage: ``bound_s``, the least time of its operators run one after the other.

    An operator takes at least its FLOP at the peak or its bytes at the memory bandwidth, the longer of the two
    (Williams et al. 2009). FLOP are products only, as in the peak; other FLOP and recomputation are left out, so they
    cannot push the bound too high. Bytes are all inputs and outputs. A ``cache`` that holds them may serve them, at its
    own bandwidth; without one an operator may beat its bound.
    """
    rows = matching(operators, precision=stored_as(precision))
    if cache is not None:
        is_held = rows.byte <= cache.byte
        bandwidth = np.where(is_held, cache.byte_per_s, roof.bandwidth_byte_per_s)
        roof = Roofline(np.full(len(rows), roof.peak_flop_per_s), bandwidth)
    rows = rows.assign(bound_s=rows.calls * roof.least_s(rows.flop, rows.byte))
    return rows.groupby(["model", "batch", "stage"])[["bound_s"]].sum().reset_index()


def under_roofs(
    cells: pd.DataFrame, operators: pd.DataFrame, bounds: Mapping[str, str], roof_of: RoofOf, cache: LastCache | None
) -> Roofline:
    """Add columns to cells, ``bounds`` by their stages: the least time of the operators, NaN where unknown.

    Return the roof above each cell, as columns; NaN without a measured roof at its precision (``roof_of``).
    """
    roofs = {precision: roof for precision in cells.precision.unique() if (roof := roof_of(precision))}
    least = {
        (row.model, row.batch, row.stage, precision): row.bound_s
        for precision, roof in roofs.items()
        for row in each(operator_bounds(operators, precision, roof, cache))
    }
    for stage, column in bounds.items():
        keys = zip(cells.model, cells.batch, cells.precision, strict=True)
        cells[column] = [least.get((model, batch, stage, precision), nan) for model, batch, precision in keys]
    peaks = cells.precision.map({precision: roof.peak_flop_per_s for precision, roof in roofs.items()})
    bandwidths = cells.precision.map({precision: roof.bandwidth_byte_per_s for precision, roof in roofs.items()})
    return Roofline(peaks.astype(float), bandwidths.astype(float))


def layered_s(cells: pd.DataFrame, operators: pd.DataFrame, roof: Roof) -> pd.Series:
    """Return the least time of each cell of inference under a roof, drawn layer by layer; NaN where unknown."""
    found = cells.copy()
    under_roofs(found, operators, {INFERENCE: "least_s"}, roof.at, None)
    return found.least_s


def _over_eager(runs: pd.DataFrame, samples: pd.DataFrame) -> pd.DataFrame:
    """One row per cell of a variant: its speed-up over eager mode, from the ratios of paired rounds.

    Rounds with the same number and session are paired, so slow drift cancels. Rounds without a session share one.
    """
    rounds = samples.groupby([*CELL_COLUMNS, "round"], as_index=False).latency_s.median()
    together = [*(column for column in CELL_COLUMNS if column != "variant"), "round", "session"]
    sessions = runs[[*CELL_COLUMNS, "round", "session"]].assign(session=runs.session.astype(object).fillna(""))
    rounds = rounds.merge(sessions, on=[*CELL_COLUMNS, "round"])
    eager = matching(rounds, variant=EAGER)[[*together, "latency_s"]].rename(columns={"latency_s": "eager_s"})
    pairs = rounds[rounds.variant != EAGER].merge(eager, on=together)
    return estimate_cells(pairs.assign(ratio=pairs.eager_s / pairs.latency_s), "ratio", CELL_COLUMNS, SPEED_UP)


def derive_inference(
    runs: pd.DataFrame, samples: pd.DataFrame, counted: pd.DataFrame, operators: pd.DataFrame, roof_of: RoofOf,
    cache: LastCache | None = None,
) -> pd.DataFrame:  # fmt: skip
    """One row per cell of inference: its latency with interval, its rates and bounds.

    ``attained`` is the achieved rate over the roof (``roof_of`` a precision) at the model's footprint intensity.
    ``model_bound_s`` is the least time of the whole model on its compulsory bytes, ``operator_bound_s`` the sum over
    its ``operators`` (``operator_bounds``, with the last ``cache`` if it was measured). All are empty without a
    measured roof, the last also without counted operators. ``speed_up`` is a variant's speed over eager mode, with the
    ends of its interval; empty in eager mode, and if no session has rounds of both.
    """
    taken, wanted = (matching(rows, phase=INFERENCE) for rows in (samples, runs))
    cells = merge_runs(wanted, taken).merge(estimate_latencies(taken), on=CELL_COLUMNS, how="left")
    cells = with_workload(cells, counted)
    cells[TIMES] = cells[TIMES].astype(float)
    roof = under_roofs(cells, operators, {INFERENCE: "operator_bound_s"}, roof_of, cache)
    cells["flop_per_s"] = cells.forward_flop / cells.latency_s
    cells["throughput_per_s"] = cells.batch / cells.latency_s
    cells["model_bound_s"] = roof.least_s(cells.forward_flop, cells.compulsory_byte)
    cells["attained"] = cells.flop_per_s / roof.attainable(cells.footprint_intensity)
    return compact(cells.merge(_over_eager(wanted, taken), on=CELL_COLUMNS, how="left"))


def derive_steps(
    runs: pd.DataFrame, samples: pd.DataFrame, counted: pd.DataFrame, operators: pd.DataFrame, roof_of: RoofOf,
    cache: LastCache | None = None,
) -> pd.DataFrame:  # fmt: skip
    """One row per cell of training (eager, SGD with momentum): its times and bounds.

    ``latency_s`` is the step's time, ``forward_s``, ``backward_s`` and ``update_s`` its stages', all with intervals;
    ``time_ratio`` is backward to forward time, with its interval, ``flop_ratio`` backward to forward FLOP.
    ``flop_bound_s`` is the step's FLOP at the peak of the roof (``roof_of`` a precision); ``forward_bound_s`` and
    ``backward_bound_s`` sum the operators' least times (``operator_bounds``), ``update_bound_s`` is the least time of
    the update's bytes, ``operator_bound_s`` the sum of the three. All are empty without a measured roof or the counts.
    """
    whole = (matching(rows, phase=STEP, variant=EAGER) for rows in (runs, samples))
    wanted = merge_runs(*whole).drop(columns="phase")
    taken = samples[samples.phase.isin([STEP, *STAGES]) & (samples.variant == EAGER)]
    cells = with_workload(_timed(wanted, taken), counted)
    cells["peak_byte"] = cells.peak_byte.astype(float)
    cells["flop_ratio"] = cells.backward_flop / cells.forward_flop
    roof = under_roofs(cells, operators, {FORWARD: "forward_bound_s", BACKWARD: "backward_bound_s"}, roof_of, cache)
    cells["flop_bound_s"] = (cells.forward_flop + cells.backward_flop) / roof.peak_flop_per_s
    cells["update_bound_s"] = update_byte(cells) / roof.bandwidth_byte_per_s
    cells["operator_bound_s"] = cells.forward_bound_s + cells.backward_bound_s + cells.update_bound_s
    return compact(cells)


def update_byte(rows: pd.DataFrame) -> pd.Series:
    """Return the bytes of an SGD update with momentum: weights and momentum read and written, gradients read."""
    return 2 * rows.parameter_byte + 2 * rows.momentum_byte + rows.gradient_byte


def _timed(cells: pd.DataFrame, samples: pd.DataFrame) -> pd.DataFrame:
    """Add the times of the step and its stages, and the ratio of backward to forward."""
    times = estimate_latencies(samples)
    parts = [matching(times, phase=STEP).drop(columns="phase")]
    for stage in (FORWARD, BACKWARD, UPDATE):
        names = {column: column.replace("latency", stage) for column in TIMES}
        parts.append(matching(times, phase=stage)[[*STEP_CELL, *TIMES]].rename(columns=names))
    parts.append(_ratios(samples))
    timed = reduce(lambda left, right: left.merge(right, on=STEP_CELL, how="left"), parts, cells)
    numbers = [column for part in parts for column in part if column not in STEP_CELL]
    return timed.astype(dict.fromkeys(numbers, float))


def _ratios(samples: pd.DataFrame) -> pd.DataFrame:
    """One row per cell: backward to forward time, with interval."""
    forward, backward = (matching(samples, phase=stage) for stage in (FORWARD, BACKWARD))
    paired = forward.merge(backward, on=[*STEP_CELL, "round", "sample"], suffixes=("", "_backward"))
    paired = paired.assign(ratio=paired.latency_s_backward / paired.latency_s)
    return estimate_cells(paired, "ratio", STEP_CELL, TIME_RATIO)
