"""The tables of utilisation: shares of the roofs, the terms of latencies, and what would shorten the largest."""

from typing import Any

import pandas as pd

from measure.domain.values import SPACE, significant
from report.analysis import available, remedies, speed_ups, waterfall
from report.analysis.available import or_missing
from report.analysis.effect import median_of
from report.analysis.long_lists import listed
from report.analysis.operator_groups import GROUPS
from report.analysis.predictors import common_batches
from report.analysis.remedies import INEFFICIENCY
from report.analysis.waterfall import BOUND, BY_OPERATOR, FRAMEWORK, RESIDUAL
from report.load.paper import Paper
from report.tables.pipe import MEASURED_IN, NONE, NOT_MEASURED, known, others, pipe
from report.text.frame_rows import each, highest, lowest
from report.text.prose import escape, percent, si

SHOWN = (BOUND, BY_OPERATOR, INEFFICIENCY, FRAMEWORK, RESIDUAL)


def _signed(share: float) -> str:
    """Return a share that may be negative, as a percentage to the nearest whole."""
    return f"{round(100 * share)}{SPACE}%".replace("-", "−")


def _by_model(cells: pd.DataFrame, texts: dict[Any, str], columns: dict[Any, str], otherwise: str) -> str:
    """Return a table of texts by model, device and batch size: a row a model, a column for the other two."""
    shown, left = listed(cells.groupby("model", as_index=False)[["attained"]].median(), "attained")
    rows = [[escape(model), *(texts.get((model, *column), otherwise) for column in columns)] for model in shown.model]
    header = " | ".join(["Model", *columns.values()])
    return pipe(header, rows + others(header, left, MEASURED_IN), of="Device")


@or_missing
def shares(paper: Paper) -> str:
    """List each model's utilisation at the batch sizes that most were measured at: of the attainable rate, of peak."""
    cells = available.shown_cells(paper)
    if cells.attained.isna().all():
        available.roof(paper.shown[0])
    known_cells = cells[cells.attained.notna()]
    columns = {
        (str(device), batch): f"{device}, {batch} >"
        for device, rows in known_cells.groupby("device")
        for batch in common_batches(rows)
    }
    texts = {
        (row.model, row.device, row.batch): "; ".join(dict.fromkeys((percent(row.attained), percent(row.peak_share))))
        for row in each(known_cells)
    }
    return _by_model(cells, texts, columns, NONE)


@or_missing
def terms(paper: Paper) -> str:
    """List the terms of profiled cells as shares of their latencies, those of operators together."""
    found = available.rows_of_each(paper, lambda machine: waterfall.terms(paper, machine))
    found = found.assign(shown=found.term.where(~found.term.isin(GROUPS), INEFFICIENCY))
    cell = ["device", "model", "batch"]
    sums = found.groupby([*cell, "shown"]).share.sum()
    cells, left = listed(found.drop_duplicates(cell).sort_values(cell), "latency_s")
    rows = [
        [
            row.device, escape(row.model), str(row.batch), si(row.latency_s, "s"),
            *(_signed(sums.get((row.device, row.model, row.batch, term), 0)) for term in SHOWN),
            known(row.system_share, _signed), _signed(row.profiled_s / row.plain_s - 1),
        ]
        for row in each(cells)
    ]  # fmt: skip
    header = "Device | Model | Batch > | Latency > | Bound > | Operator by operator > | Inefficiency > | Framework >"
    header += " | Residual > | System > | Profiler >"
    return pipe(header, rows + others(header, left, MEASURED_IN), of="Device")


@or_missing
def tried(paper: Paper) -> str:
    """List the speed-ups of each variant over eager mode at each precision and batch size."""
    found = available.rows_of_each(paper, speed_ups.over_eager)
    rows = [
        [
            *(escape(str(value)) for value in key), str(len(cells)), str(median_of(cells.speed_up)),
            *(f"{significant(end.speed_up)} ({escape(end.model)})"
              for end in (lowest(cells, "speed_up"), highest(cells, "speed_up"))),
        ]
        for key, cells in found.groupby(["device", "variant", "precision", "batch"])
    ]  # fmt: skip
    return pipe("Device | Variant | Precision | Batch > | Models > | Speed-up > | Least | Most", rows, of="Device")


def _remedy(row: Any) -> str:
    """Say what helps a cell: by how much, where that was measured, else that it is to be tried."""
    if row.basis == remedies.MEASURED:
        return f"{row.remedy}, {significant(row.gain, 2)} times as fast"
    return f"{row.remedy} helps" if row.basis == remedies.NONE else f"try {row.remedy}"


@or_missing
def remedy(paper: Paper) -> str:
    """List the largest term of each cell, with its share and remedy, a column a device and batch size."""
    found = available.rows_of_each(paper, lambda machine: remedies.largest(paper, machine))
    columns = {
        (device, batch): f"{device}, batch size {batch}"
        for device, batch in sorted(set(zip(found.device, found.batch, strict=True)))
    }
    texts = {
        (row.model, row.device, row.batch): escape(f"{row.term}, {percent(row.share)}: {_remedy(row)}")
        for row in each(found)
    }
    return _by_model(available.shown_cells(paper), texts, columns, NOT_MEASURED)
