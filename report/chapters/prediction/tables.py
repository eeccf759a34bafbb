"""Tables of predictions for typical networks, and of their errors."""

import pandas as pd

from measure.domain.names import model_name
from measure.domain.values import significant
from measure.predicting.prediction import DATASHEET, Prediction, origin
from measure.predicting.records import BY_DEVICE, BY_FAMILY, FIVE_KNOWN, ONE_KNOWN, OURS
from report import display
from report.chapters.prediction.facts import FIT, TYPICAL, checks, common_devices, predict
from report.markdown import escape, percent
from report.markdown_table import NONE, known, markdown_table
from report.paper import Paper
from report.paper.chips import short_name
from report.paper.frames import each, matching


@display.table
def typical(paper: Paper) -> str:
    """Predict typical networks on common chips, in ms. The first network ranks the chips."""
    rows: list[tuple[str, dict[str, Prediction]]] = []
    for device in common_devices(paper):
        calls = {model: call for model in TYPICAL if (call := predict(paper, model, device))}
        if calls:
            rows.append((device.name, {model: basis.predict(demand) for model, (demand, basis) in calls.items()}))
    rows.sort(key=lambda row: next(each.rank for each in row[1].values()))
    lines = []
    for name, found in display.required(rows, FIT):
        first = next(iter(found.values()))
        marked = f"{escape(short_name(name))}{' †' if first.basis == DATASHEET else ''}"
        lines.append([marked, *map(_milliseconds, found.values()), origin(first.basis, first.timed_models)])
    models = [*rows[0][1]]
    return markdown_table(f"Chip | {' | '.join(f'{model_name(model)} >' for model in models)} | From", lines)


def _milliseconds(call: Prediction) -> str:
    likely = significant(1e3 * call.likely_s, 2)
    if call.low_s is None or call.high_s is None:
        return likely
    return f"{likely} ({significant(1e3 * call.low_s, 2)}–{significant(1e3 * call.high_s, 2)})"


@display.table
def errors(paper: Paper) -> str:
    """List each device's errors by the timings that the fit had; the last three columns are for the first way."""
    ways = (BY_DEVICE, ONE_KNOWN, FIVE_KNOWN, BY_FAMILY)
    found = [matching(checks(paper, left_out), method=OURS) for left_out in ways]
    medians = [dict(zip(rows.setting, rows.median_error.map(percent), strict=True)) for rows in found]
    names = {machine.folder: machine.name for machine in paper.machines}
    lines = [
        [
            escape(names.get(row.device, short_name(row.device))), _setting(row.precision, row.options), str(row.calls),
            *(of_way.get(row.setting, NONE) for of_way in medians),
            percent(row.p90_error), known(row.coverage, percent), significant(row.median_ratio, 2),
        ]
        for row in each(display.required(pd.concat(found), FIT).drop_duplicates("setting"))
    ]  # fmt: skip
    header = "Device | Setting | Times > | Datasheet > | One time > | Five > | Own fit >"
    return markdown_table(f"{header} | Nine in ten > | Covered > | Factor >", lines)


def _setting(precision: str, options: str) -> str:
    return ", ".join([precision, *filter(None, options.split(";"))])
