"""Tables of how far predictions are off, of coefficients, and of what is predicted for typical models."""

from measure.cache.predictions import (
    BATCH_CLASSES,
    BY_DEVICE,
    BY_FAMILY,
    BY_MODEL,
    BY_SOURCE,
    LIKE_FLOP,
    LIKE_PARAMETERS,
    LIKE_REGRESSION,
    LIKE_ROOFLINE,
    ONE_KNOWN,
    OURS,
)
from measure.domain.values import significant
from measure.domain.words import EAGER, INFERENCE, PRECISION_BYTE
from report.analysis import predictions
from report.analysis.available import DataMissingError, or_missing
from report.analysis.predictions import Check
from report.load.paper import Paper
from report.tables.pipe import NONE, pipe
from report.text.frame_rows import each as rows_of
from report.text.prose import escape, percent, si

TYPICAL = ("resnet50", "mobilenet_v2", "vit_b_16")
"""Models for whose like the table of chips speaks: convolutions, depthwise ones, attention."""

TYPICAL_BATCH, TYPICAL_PRECISION = 64, "fp16"
WIDTH = PRECISION_BYTE[TYPICAL_PRECISION]

KNOWN = {BY_DEVICE: "datasheet", ONE_KNOWN: "one time", BY_SOURCE: "datasheet, other sources"}
"""What is known of a device that was left out, or of all that a source timed."""

BESIDE = {LIKE_ROOFLINE: "Roofline", LIKE_REGRESSION: "Line", LIKE_FLOP: "FLOP", LIKE_PARAMETERS: "Parameters"}
"""The simpler estimates under the same check, as the heads of columns call them."""

CHIPS = (
    "NVIDIA T4", "NVIDIA V100 SXM2", "NVIDIA A10", "NVIDIA L4", "NVIDIA A100 SXM 40GB", "NVIDIA L40S",
    "NVIDIA H100 SXM",
    "NVIDIA H200 SXM", "NVIDIA B200 SXM", "AMD Instinct MI300X", "NVIDIA GeForce RTX 3090", "NVIDIA GeForce RTX 4090",
    "NVIDIA GeForce RTX 5090", "AMD Radeon RX 7900 XTX",
)  # fmt: skip
"""Those that clouds rent and laboratories buy: the page's chooser has all."""


def _error(check: Check | None) -> list[str]:
    return [NONE, NONE] if check is None else [percent(check.median), percent(check.nine_in_ten)]


def _covered(check: Check | None) -> str:
    return NONE if check is None or check.covered is None else percent(check.covered)


def _median(check: Check | None) -> str:
    return NONE if check is None else percent(check.median)


@or_missing
def fits(paper: Paper) -> str:
    """List the errors of each device's own fit without the model, and without its family."""
    families = {check.setting: check for check in predictions.of_settings(paper, BY_FAMILY)}
    lines = [
        [
            escape(predictions.title(paper, check.setting)), escape(predictions.conditions(check.setting)),
            str(check.models), *_error(check), _covered(check), *_error(families.get(check.setting)),
        ]
        for check in predictions.of_settings(paper)
    ]  # fmt: skip
    return pipe("Device | Run as | Models > | Median > | 9 in 10 > | Covered > | Family: median > | 9 in 10 >", lines)


@or_missing
def pools(paper: Paper) -> str:
    """List the errors of predictions for devices, and for the devices of a source, that the fit has not seen."""
    lines = [
        [
            known, escape(f"{check.setting.device}, {predictions.conditions(check.setting)}"), *_error(check),
            _covered(check), *(_median(predictions.beside(paper, check).get(method)) for method in BESIDE),
        ]
        for left_out, known in KNOWN.items()
        for check in predictions.pooled(paper, left_out)
    ]  # fmt: skip
    return pipe(
        f"Known | Predicted | Median > | 9 in 10 > | Covered > | {' | '.join(f'{each} >' for each in BESIDE.values())}",
        lines,
    )


@or_missing
def devices(paper: Paper) -> str:
    """List each device that was left out: by its datasheet alone, and with ResNet50's time known."""
    times = {check.setting: check for check in predictions.of_devices(paper, ONE_KNOWN)}
    checks = sorted(predictions.of_devices(paper, BY_DEVICE), key=lambda check: (check.setting.phase, check.median))
    lines = [
        [
            escape(predictions.title(paper, check.setting)), escape(predictions.conditions(check.setting)),
            str(check.latencies), *_error(check), _covered(check), significant(check.ratio, 2),
            *_error(times.get(check.setting)),
        ]
        for check in checks
    ]  # fmt: skip
    header = (
        "Device | Run as | Latencies > | Median > | 9 in 10 > | Covered > | Factor > | One time: median > | 9 in 10 >"
    )
    return pipe(header, lines)


@or_missing
def batches(paper: Paper) -> str:
    """List the median errors of each device's own fit by batch size, without the model."""
    by_class = {
        name: {check.setting: check for check in predictions.checks(paper, BY_MODEL, name) if check.method == OURS}
        for name in BATCH_CLASSES
    }
    lines = [
        [
            escape(predictions.title(paper, check.setting)), escape(predictions.conditions(check.setting)),
            *(_median(by_class[name].get(check.setting)) for name in BATCH_CLASSES),
        ]
        for check in predictions.of_settings(paper)
        if any(check.setting in found for found in by_class.values())
    ]  # fmt: skip
    return pipe(f"Device | Run as | {' | '.join(f'{name} >' for name in BATCH_CLASSES)}", lines or [[NONE] * 6])


@or_missing
def coefficients(paper: Paper) -> str:
    """List the coefficients of the devices that the figure of kinds shows, and of all GPUs at 16 bits."""
    shown = set(predictions.kinds(paper).setting)
    rows = paper.predictions.coefficients
    rows = rows[rows.setting.isin(shown) & (rows.value > 0)]
    lines = [
        [
            escape(row.term), escape(predictions.title(paper, row.setting)),
            escape(predictions.conditions(row.setting)), significant(row.value),
            f"{significant(row.low)} to {significant(row.high)}",
        ]
        for row in rows_of(rows.sort_values(["term", "device"]))
    ]  # fmt: skip
    return pipe("Term | Device | Run as | Coefficient > | Interval >", lines)


@or_missing
def typical(paper: Paper) -> str:
    """Predict typical models on common chips: the least time and the likely one, with its 90 % interval as factors."""
    found = paper.predictions
    demands = {
        model: demand
        for (model, _, batch, stored, trains), (_, demand) in found.counted.items()
        if model in TYPICAL and batch == TYPICAL_BATCH and PRECISION_BYTE[stored] == WIDTH and not trains
    }
    models = [model for model in TYPICAL if model in demands]
    devices = [device for device in found.devices if device.name in CHIPS]
    known = {
        device.name: [
            told
            for model in models
            if (told := found.predictor.predict(demands[model], device, TYPICAL_PRECISION, EAGER, INFERENCE))
        ]
        for device in devices
    }
    rows = sorted((each[0].likely_s, name, each) for name, each in known.items() if each)
    if not rows:
        raise DataMissingError("No typical model is predicted: count them, and fit with `python -m measure fit`.")
    lines = []
    for _, name, each in rows:
        low, high = each[0].low_s, each[0].high_s
        interval = NONE if low is None or high is None else _factors(low, high, each[0].likely_s)
        times = [si(time_s, "s", 2) for one in each for time_s in (one.least_s, one.likely_s)]
        lines.append([escape(name), *times, interval])
    heads = " | ".join(f"{escape(model)} > | likely >" for model in models)
    return pipe(f"Chip | {heads} | Interval >", lines)


def _factors(low: float, high: float, likely: float) -> str:
    return f"{significant(low / likely, 2)} to {significant(high / likely, 2)}"
