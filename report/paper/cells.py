"""The cells of inference: latency with interval, and the rates and bounds that follow from the workload."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from measure.cache.records import CELL
from measure.domain.latency import group_rounds
from measure.domain.roofs import Roofline
from measure.domain.statistics import estimate_rounds
from measure.domain.words import EAGER, INFERENCE, stored_as
from report.paper.roofs import TIMES
from report.paper.rows import each, matching

CELL_COLUMNS = list(CELL)
INFERENCE_CELL = ["model", "batch", "precision"]  # the key of a machine's cells of inference in eager mode
SPEED_UP = ["speed_up", "speed_up_low", "speed_up_high"]  # a ratio over eager mode and the ends of its interval


def merge_runs(runs: pd.DataFrame, samples: pd.DataFrame) -> pd.DataFrame:
    """One row is a cell: the round that decides its outcome, with the number of ``rounds`` that have a result.

    ``flags`` are those of the cell, joined by ``;``. The rules are those of ``measure.domain.latency.Rounds``.
    """
    flagged = runs.assign(flags=runs["flags"].astype(object).fillna(""))
    found: list[Any] = list(group_rounds(each(flagged), each(samples)).values())
    cells = runs.loc[[rounds.deciding.Index for rounds in found]].drop(columns=["round", "flags"])
    cells["rounds"] = [len(rounds.latencies) for rounds in found]
    cells["flags"] = pd.Series([";".join(sorted(rounds.flags)) for rounds in found], cells.index, dtype=object)
    return cells.reset_index(drop=True)


def estimate_cells(samples: pd.DataFrame, column: str, key: Sequence[str], names: Sequence[str]) -> pd.DataFrame:
    """One row is a cell, named by ``key``: the median of a column over its rounds, and the ends of its interval.

    ``names`` are the columns of these three; ``sample_count`` is the number of samples.
    """
    rounds: dict[tuple[Any, ...], list[list[float]]] = {}
    for (*cell, _), values in samples.groupby([*key, "round"])[column]:
        rounds.setdefault(tuple(cell), []).append(list(values))
    rows = []
    for name, of_cell in rounds.items():
        estimate = estimate_rounds(of_cell)
        rows.append((*name, estimate.median, estimate.low, estimate.high, sum(map(len, of_cell))))
    found = pd.DataFrame(rows, columns=[*key, *names, "sample_count"])
    return found.astype(dict.fromkeys(names, float))  # also without any interval


def half_width(cells: Any) -> Any:
    """Return half the width of the interval over the latency, of a cell or of a frame of cells."""
    return (cells.latency_high_s - cells.latency_low_s) / 2 / cells.latency_s


def estimate_latencies(samples: pd.DataFrame) -> pd.DataFrame:
    """One row is a cell: its median latency with interval (s), and the number of its samples.

    ``scatter`` is the standard deviation of the logarithms of its rounds' medians; empty for one round.
    """
    medians = np.log(samples.astype({"latency_s": float}).groupby([*CELL_COLUMNS, "round"]).latency_s.median())
    scatter = medians.groupby(level=CELL_COLUMNS).std().rename("scatter").reset_index()
    return estimate_cells(samples, "latency_s", CELL_COLUMNS, TIMES).merge(scatter, on=CELL_COLUMNS, how="left")


def with_workload(cells: pd.DataFrame, counted: pd.DataFrame) -> pd.DataFrame:
    """Add the columns of the cells' workloads, at the precision in which weights are stored.

    ``counted`` has the models at their measured shapes (``report.paper.workloads``).
    """
    asked = counted.rename(columns={"precision": "stored"})
    stored = cells.drop(columns="input_shape").assign(stored=cells.precision.map(stored_as))
    return stored.merge(asked, on=["model", "batch", "stored"], how="left").drop(columns="stored")


def above(cells: pd.DataFrame, roofs: Mapping[str, Roofline | None]) -> Roofline:
    """Return the roof above each cell, as columns; NaN without a measured roof at its precision."""
    measured = {precision: roof for precision, roof in roofs.items() if roof}
    peaks = {precision: roof.peak_flop_per_s for precision, roof in measured.items()}
    bandwidths = {precision: roof.bandwidth_byte_per_s for precision, roof in measured.items()}
    return Roofline(cells.precision.map(peaks).astype(float), cells.precision.map(bandwidths).astype(float))


def operator_bounds(operators: pd.DataFrame, precision: str, roof: Roofline) -> pd.DataFrame:
    """One row is a stage of a model at a batch size: the least time of its operators one after the other, ``bound_s``.

    An operator takes at least the longer of its FLOP at the peak and its bytes at the bandwidth of memory (Williams et
    al. 2009). Its FLOP are its products' alone, which is what a peak is measured with: other FLOP, and what is computed
    again in the backward pass, are left out, so that the bound is never too high for them. Its bytes are what it reads
    and writes, none of them from a cache: where a cache holds them, an operator may take less.
    """
    rows = matching(operators, precision=stored_as(precision))
    rows = rows.assign(bound_s=rows.calls * roof.least_s(rows.flop, rows.byte))
    return rows.groupby(["model", "batch", "stage"])[["bound_s"]].sum().reset_index()


def bounds_of_cells(
    cells: pd.DataFrame, operators: pd.DataFrame, stage: str, roofs: Mapping[str, Roofline | None]
) -> pd.Series:
    """Return the least time of each cell's operators in a stage under the roof at its precision, NaN where unknown."""
    rows = matching(operators, stage=stage)
    bounds = {
        (row.model, row.batch, precision): row.bound_s
        for precision, roof in roofs.items()
        if roof
        for row in each(operator_bounds(rows, precision, roof))
    }
    keys = zip(cells.model, cells.batch, cells.precision, strict=True)
    return pd.Series([bounds.get(key) for key in keys], index=cells.index, dtype=float)


def _over_eager(runs: pd.DataFrame, samples: pd.DataFrame) -> pd.DataFrame:
    """One row is a cell of a variant: its speed-up over eager mode, from the ratios of rounds taken together.

    Rounds of one number in one sitting are taken together, so that slow drift is in both. Rounds without a sitting
    share one.
    """
    rounds = samples.groupby([*CELL_COLUMNS, "round"], as_index=False).latency_s.median()
    together = [*(column for column in CELL_COLUMNS if column != "variant"), "round", "sitting"]
    sittings = runs[[*CELL_COLUMNS, "round", "sitting"]].assign(sitting=runs.sitting.astype(object).fillna(""))
    rounds = rounds.merge(sittings, on=[*CELL_COLUMNS, "round"])
    eager = matching(rounds, variant=EAGER)[[*together, "latency_s"]].rename(columns={"latency_s": "eager_s"})
    pairs = rounds[rounds.variant != EAGER].merge(eager, on=together)
    return estimate_cells(pairs.assign(ratio=pairs.eager_s / pairs.latency_s), "ratio", CELL_COLUMNS, SPEED_UP).drop(
        columns="sample_count"
    )


def derive(
    runs: pd.DataFrame,
    samples: pd.DataFrame,
    counted: pd.DataFrame,
    operators: pd.DataFrame,
    roof_of: Callable[[str], Roofline | None],
) -> pd.DataFrame:
    """One row is a cell of inference: its latency with interval, its rates and bounds.

    ``attained`` is the achieved rate over the roof (``roof_of`` a precision) at the model's footprint intensity.
    ``model_bound_s`` is the least time of the whole model on its compulsory bytes, ``operator_bound_s`` that of its
    ``operators`` one after the other (``operator_bounds``). All are empty without a measured roof, the last also
    without counted operators. ``speed_up`` is a variant's speed over that of eager mode, with the ends of its interval;
    empty in eager mode, and without rounds of both in one sitting.
    """
    taken, wanted = (matching(rows, phase=INFERENCE) for rows in (samples, runs))
    cells = merge_runs(wanted, taken).merge(estimate_latencies(taken), on=CELL_COLUMNS, how="left")
    cells = with_workload(cells, counted)
    cells[TIMES] = cells[TIMES].astype(float)
    roofs = {precision: roof_of(precision) for precision in cells.precision.unique()}
    roof = above(cells, roofs)
    cells["flop_per_s"] = cells.forward_flop / cells.latency_s
    cells["throughput_per_s"] = cells.batch / cells.latency_s
    cells["model_bound_s"] = roof.least_s(cells.forward_flop, cells.compulsory_byte)
    cells["operator_bound_s"] = bounds_of_cells(cells, operators, INFERENCE, roofs)
    cells["attained"] = cells.flop_per_s / roof.attainable(cells.footprint_intensity)
    # pandas warns of frames that grew column by column; a copy has its columns in one place
    return cells.merge(_over_eager(wanted, taken), on=CELL_COLUMNS, how="left").copy()
