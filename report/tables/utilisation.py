"""The tables of utilisation: shares of the roofs, the terms of latencies, and what would shorten the largest."""

from pandas import isna

from report.analysis import available, remedies, variants, waterfall
from report.analysis.available import or_missing
from report.analysis.effect import median_of
from report.analysis.operator_groups import GROUPS
from report.analysis.predictors import common_batches
from report.analysis.waterfall import BOUND, BY_OPERATOR, FRAMEWORK, RESIDUAL
from report.load.paper import Paper
from report.tables.pipe import LEFT, NONE, RIGHT, pipe
from report.text.frame_rows import each, highest, lowest
from report.text.prose import escape
from report.text.quantities import SPACE, percent, si, significant

INEFFICIENCY = "inefficiency"
"""Of all groups of operators together."""

SHOWN = (BOUND, BY_OPERATOR, INEFFICIENCY, FRAMEWORK, RESIDUAL)

NOT_MEASURED = "not measured"


def signed(share: float) -> str:
    """A share that may be negative, as a percentage to the nearest whole."""
    return f"{round(100 * share)}{SPACE}%".replace("-", "−")


@or_missing
def shares(paper: Paper) -> str:
    """Utilisation of each model at the batch sizes that most were measured at: of the attainable rate, and of peak."""
    cells = available.shown_cells(paper)
    if cells.attained.isna().all():
        available.roof(paper.shown[0])
    columns = [
        (device, batch)
        for device, own in cells[cells.attained.notna()].groupby("device")
        for batch in common_batches(own)
    ]
    told = {
        (row.model, row.device, row.batch): "; ".join(
            dict.fromkeys((percent(row.attained), percent(row.peak_share)))
        )
        for row in each(cells[cells.attained.notna()])
    }
    header = [("Model", LEFT), *((f"{device}, {batch}", RIGHT) for device, batch in columns)]
    return pipe(
        header,
        [
            [escape(model), *(told.get((model, *column), NONE) for column in columns)]
            for model in sorted(cells.model.unique())
        ],
    )


@or_missing
def terms(paper: Paper) -> str:
    """The terms of every profiled cell as shares of its latency, those of operators together, and what lies within."""
    rows = available.rows_of_each(paper, lambda of: waterfall.terms(paper, of))
    rows = rows.assign(part=rows.term.where(~rows.term.isin(GROUPS), INEFFICIENCY))
    cell = ["device", "model", "batch"]
    parts = rows.groupby([*cell, "part"]).share.sum()
    header = [("Device", LEFT), ("Model", LEFT), ("Batch", RIGHT), ("Latency", RIGHT), ("Bound", RIGHT)]
    header += [("Operator by operator", RIGHT), ("Inefficiency", RIGHT), ("Framework", RIGHT)]
    return pipe(
        [*header, ("Residual", RIGHT), ("System", RIGHT), ("Profiler", RIGHT)],
        [
            [
                row.device, escape(row.model), str(row.batch), si(row.latency_s, "s"),
                *(signed(parts.get((row.device, row.model, row.batch, part), 0)) for part in SHOWN),
                NONE if isna(row.system_share) else signed(row.system_share),
                signed(row.profiled_s / row.plain_s - 1),
            ]
            for row in each(rows.drop_duplicates(cell).sort_values(cell))
        ],
    )  # fmt: skip


@or_missing
def tried(paper: Paper) -> str:
    """What each variant brings over eager mode at each precision and batch size: the speed-ups of the models."""
    rows = available.rows_of_each(paper, variants.compared)
    key = ["device", "variant", "precision", "batch"]
    header = [("Device", LEFT), ("Variant", LEFT), ("Precision", LEFT), ("Batch", RIGHT), ("Models", RIGHT)]
    header += [("Speed-up", RIGHT), ("Least", LEFT), ("Most", LEFT)]
    return pipe(
        header,
        [
            [
                *(escape(str(own[column].iloc[0])) for column in key), str(len(own)), str(median_of(own.speed_up)),
                *(f"{significant(row.speed_up)} ({escape(row.model)})"
                  for row in (lowest(own, "speed_up"), highest(own, "speed_up"))),
            ]
            for _, own in rows.groupby(key)
        ],
    )  # fmt: skip


@or_missing
def remedy(paper: Paper) -> str:
    """The largest term of each cell, with its share and remedy, a column a device and batch size that was profiled."""
    rows = available.rows_of_each(paper, lambda of: remedies.largest(paper, of))
    columns = sorted(set(zip(rows.device, rows.batch, strict=True)))
    texts = {
        (row.model, row.device, row.batch): f"{row.term}, {percent(row.share)}: {row.remedy}"
        for row in each(rows)
    }
    models = sorted(available.shown_cells(paper).model.unique())
    return pipe(
        [("Model", LEFT), *((f"{device}, batch size {batch}", LEFT) for device, batch in columns)],
        [
            [escape(model), *(escape(texts.get((model, *column), NOT_MEASURED)) for column in columns)]
            for model in models
        ],
    )
