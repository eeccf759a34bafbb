"""The cells of inference: rounds joined to one latency with its interval, and what follows from the workload."""

from collections.abc import Callable, Sequence
from typing import Any

import pandas as pd

from measure.cache.records import CELL, EAGER, INFERENCE, stored_as
from measure.timing.statistics import estimate_rounds
from report.load import operator_bounds, workloads
from report.text.frame_rows import each

CELL_COLUMNS = list(CELL)
INFERENCE_CELL = ["model", "batch", "precision"]
"""What tells a machine's cells of inference in eager mode apart."""

NUMBERS = ["latency_s", "latency_low_s", "latency_high_s", "sample_count"]


def joined(runs: pd.DataFrame) -> pd.DataFrame:
    """One row is a cell: its first failed round if one failed, else its first; ``rounds`` that were measured, and

    ``flags``, those of any round, joined by ``;``.
    """
    ordered = runs.assign(worked=runs.status == "ok").sort_values(["worked", "round"], kind="stable")
    cells = ordered.drop_duplicates(CELL_COLUMNS).drop(columns=["worked", "round", "flags"])
    kept = [
        (*key, int((rounds.status == "ok").sum()), _flags(rounds["flags"]))
        for key, rounds in runs.groupby(CELL_COLUMNS)
    ]
    counted = pd.DataFrame(kept, columns=[*CELL_COLUMNS, "rounds", "flags"])
    return cells.merge(counted, on=CELL_COLUMNS, how="left")


def _flags(flags: pd.Series) -> str:
    return ";".join(sorted({flag for text in flags.dropna() for flag in str(text).split(";")}))


def estimated(samples: pd.DataFrame, column: str, key: Sequence[str], names: Sequence[str]) -> pd.DataFrame:
    """One row is a cell, named by ``key``: the median of a column over all rounds, and the ends of its interval.

    ``names`` are what these three are called; ``sample_count`` is the number of samples.
    """
    rows: list[tuple[Any, ...]] = []
    for cell, own in samples.groupby(list(key)):
        estimate = estimate_rounds([list(values) for _, values in own.groupby("round")[column]])
        rows.append((*cell, estimate.median, estimate.low, estimate.high, len(own)))
    return pd.DataFrame(rows, columns=[*key, *names, "sample_count"])


def latencies(samples: pd.DataFrame) -> pd.DataFrame:
    """One row is a cell: its median latency with interval (s), from the samples of all rounds, and their number."""
    return estimated(samples, "latency_s", CELL_COLUMNS, NUMBERS[:3])


def with_workload(cells: pd.DataFrame, counted: pd.DataFrame) -> pd.DataFrame:
    """The cells with the columns of their workloads, those that a precision stores."""
    asked = workloads.as_measured(counted).rename(columns={"precision": "stored"})
    return (
        cells.assign(stored=cells.precision.map(stored_as))
        .merge(asked, on=["model", "batch", "stored"], how="left")
        .drop(columns="stored")
    )


def of_variants(runs: pd.DataFrame, samples: pd.DataFrame) -> pd.DataFrame:
    """One row is a cell of inference in another variant than eager: its latency with interval (s)."""
    taken = samples[(samples.phase == INFERENCE) & (samples.variant != EAGER)]
    wanted = runs[(runs.phase == INFERENCE) & (runs.variant != EAGER)]
    if wanted.empty:
        return pd.DataFrame(columns=[*runs.columns, "rounds", *NUMBERS])
    return joined(wanted).merge(latencies(taken), on=CELL_COLUMNS, how="left")


def derive(
    runs: pd.DataFrame,
    samples: pd.DataFrame,
    counted: pd.DataFrame,
    operators: pd.DataFrame,
    roof_of: Callable[[str], Any],
) -> pd.DataFrame:
    """One row is a cell of inference, eager: its latency with interval, and what follows from its workload.

    ``attained`` is the achieved rate over the roof above the model's footprint intensity, ``peak_share`` the same
    over the flat part of the roof (``roof_of`` a precision). ``model_bound_s`` is the least time under the roof of the
    model as a whole, on its compulsory bytes, ``operator_bound_s`` that of its ``operators`` one after the other
    (``report.load.operator_bounds``). All are empty where no roof was measured, the last also where operators were not
    counted.
    """
    wanted = runs[(runs.phase == INFERENCE) & (runs.variant == EAGER)]
    inference = latencies(samples[(samples.phase == INFERENCE) & (samples.variant == EAGER)])
    cells = with_workload(joined(wanted).merge(inference, on=CELL_COLUMNS, how="left"), counted)
    roofs = [roof_of(precision) for precision in cells.precision]
    cells["flop_per_s"] = cells.forward_flop / cells.latency_s
    cells["throughput_per_s"] = cells.batch / cells.latency_s
    cells["peak_flop_per_s"] = [roof.peak_flop_per_s if roof else None for roof in roofs]
    cells["ridge_flop_per_byte"] = [roof.ridge_flop_per_byte if roof else None for roof in roofs]
    cells["attainable_flop_per_s"] = [
        roof.attainable(value) if roof else None
        for roof, value in zip(roofs, cells.footprint_intensity, strict=True)
    ]
    cells["model_bound_s"] = [
        roof.least_s(flop, byte) if roof else None
        for roof, flop, byte in zip(roofs, cells.forward_flop, cells.compulsory_byte, strict=True)
    ]
    bounds = _operator_bounds(operators, dict(zip(cells.precision, roofs, strict=True)))
    cells["operator_bound_s"] = [
        bounds.get(key) for key in zip(cells.model, cells.batch, cells.precision, strict=True)
    ]
    numbers = [*NUMBERS[:3], "peak_flop_per_s", "ridge_flop_per_byte", "attainable_flop_per_s"]
    numbers += ["model_bound_s", "operator_bound_s"]
    cells[numbers] = cells[numbers].astype(float)
    cells["attained"] = cells.flop_per_s / cells.attainable_flop_per_s
    cells["peak_share"] = cells.flop_per_s / cells.peak_flop_per_s
    cells["memory_bound"] = cells.footprint_intensity < cells.ridge_flop_per_byte
    return cells


def _operator_bounds(operators: pd.DataFrame, roofs: dict[str, Any]) -> dict[tuple[Any, ...], float]:
    """The operators' least time in inference, by model, batch size and precision, where there is a roof."""
    rows = operators[operators.stage == INFERENCE]
    return {
        (row.model, row.batch, precision): row.bound_s
        for precision, roof in roofs.items()
        if roof
        for row in each(operator_bounds.summed(rows, precision, roof))
    }
