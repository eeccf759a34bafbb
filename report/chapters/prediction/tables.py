"""Tables of what is predicted for typical networks, and of how far predictions are off."""

from typing import Any

from measure.cache.predictions import ALL, BATCH_CLASSES, BY_DEVICE, BY_FAMILY, FIVE_KNOWN, ONE_KNOWN, OURS, Setting
from measure.domain.names import model_name
from measure.domain.values import significant
from measure.predicting.prediction import Prediction
from report import display
from report.chapters.prediction.facts import FIT, checks, common_devices, predict
from report.markdown import escape, percent
from report.paper import Paper
from report.paper.chips import short_name
from report.paper.frames import each, matching
from report.pipe import NONE, known, pipe

TYPICAL = ("resnet50", "mobilenet_v2", "vit_b_16")  # convolutions, depthwise convolutions, attention


@display.table
def typical(paper: Paper) -> str:
    """Predict typical networks on common chips, in ms, the fastest chip first; those without an interval are last."""
    rows: list[tuple[str, dict[str, Prediction]]] = []
    for device in common_devices(paper):
        calls = {model: call for model in TYPICAL if (call := predict(paper, model, device))}
        if calls:
            rows.append((device.name, {model: basis.predict(demand) for model, (demand, basis) in calls.items()}))
    rows.sort(key=lambda row: next((each.low_s is None, each.likely_s) for each in row[1].values()))
    lines = []
    for name, found in display.required(rows, FIT):
        timed = next(iter(found.values())).timed_models
        marked = f"{escape(short_name(name))}{'' if timed else ' †'}"
        lines.append([marked, *map(_milliseconds, found.values()), str(timed)])
    models = [*rows[0][1]]
    return pipe(f"Chip | {' | '.join(f'{model_name(model)} >' for model in models)} | Networks timed >", lines)


def _milliseconds(call: Prediction) -> str:
    likely = significant(1e3 * call.likely_s, 2)
    if call.low_s is None or call.high_s is None:
        return likely
    return f"{likely} ({significant(1e3 * call.low_s, 2)}–{significant(1e3 * call.high_s, 2)})"


@display.table
def fits(paper: Paper) -> str:
    """List the errors of each device's own fit, each family by the others, in all and by batch size."""
    rows = display.required(matching(checks(paper, BY_FAMILY), method=OURS), FIT)
    medians = [_medians(paper, BY_FAMILY, batches) for batches in BATCH_CLASSES]
    lines = [
        [*_check(paper, row, row.models), *(of_class.get(row.setting, NONE) for of_class in medians)]
        for row in each(rows)
    ]
    classes = " | ".join(f"Batch {name} >" for name in BATCH_CLASSES)
    return pipe(f"Device | Precision | Networks > | Error > | Nine in ten > | Covered > | {classes}", lines)


@display.table
def devices(paper: Paper) -> str:
    """List each device that was left out: by its datasheet, with ResNet-50's time known, and with five times."""
    rows = display.required(matching(checks(paper, BY_DEVICE), method=OURS), FIT)
    times = [_medians(paper, known_times) for known_times in (ONE_KNOWN, FIVE_KNOWN)]
    lines = [
        [
            *_check(paper, row, row.calls), significant(row.median_ratio, 2),
            *(each_of.get(row.setting, NONE) for each_of in times),
        ]
        for row in each(rows.sort_values("median_error"))
    ]  # fmt: skip
    header = "Device | Precision | Times > | Error > | Nine in ten > | Covered > | Factor > | One time known > | Five >"
    return pipe(header, lines)


def _check(paper: Paper, row: Any, count: int) -> list[str]:
    """Return what both tables list of a device: its name, its precision, a count, its errors."""
    names = {machine.folder: machine.name for machine in paper.machines}
    name = escape(names.get(row.device, short_name(row.device)))
    errors = percent(row.median_error), percent(row.p90_error), known(row.coverage, percent)
    return [name, row.precision, str(count), *errors]


def _medians(paper: Paper, left_out: str, batches: str = ALL) -> dict[Setting, str]:
    rows = matching(checks(paper, left_out, batches), method=OURS)
    return dict(zip(rows.setting, rows.median_error.map(percent), strict=True))
