"""Printed figures of published studies, compared with our counts, datasheets and timings.

A figure agrees with ours within its rounding, or 1 % if that is more. Otherwise it is compared with numbers that the
study may have taken for it: first as closely, then within 3 %.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from math import prod
from typing import Any

import pandas as pd

from measure.domain.names import model_name
from measure.domain.workload_records import OURS
from measure.published.records import BACKWARD_TO_FORWARD, FLOP
from report import display
from report.markdown import escape
from report.markdown_table import markdown_table
from report.paper import BASE_PRECISION, Paper
from report.paper.frames import each, highest, matching
from report.stats.value import Value, exact

AGREEMENT, LIKENESS = 0.01, 0.03
NOT_BINARY = 1e-9  # tolerance of the limits: decimal fractions are not exact in binary

AGREES, OPEN, UNKNOWN = "agrees", "open", "unknown"
VERDICTS = {
    AGREES: "agrees", OPEN: "within our interval", "sparse": "sparse peak", "precision": "another precision's peak",
    "doubled": "twice the peak", "datasheet": "another datasheet's number", "operations": "more than products",
    "summary": "torchsummary's total in MiB", "quotient": "FLOP over that total", "linear": "linear layers alone",
    "gradient": "one gradient of two", "repeated": "same for several networks", "machine": "other machine",
    "misprint": "bandwidth times time", "network": "another network's count", "counters": "what counters saw",
    "forward": "multiply-adds, forward alone", "milliseconds": "milliseconds", UNKNOWN: "not known",
}  # fmt: skip
"""The words of the tables, which the chapter explains."""

MEBI = 1024**2 / 1000**2
USUAL_SHAPE, USUAL_BATCH, NUMBER_BYTE = "3x224x224", 32, 4
CANDIDATES = {"vit_b_32": ("vit_b_16",), "mobilenet_v3_large": ("mobilenet_v2",)}
"""Other networks that a study may have meant if it does not say which ViT or MobileNet it used."""

CORES, CHANNELS = re.compile(r"(\d+) cores? x ([\d.]+) GHz"), re.compile(r"(\d+) ch")
LISTED_PEAK, LISTED_BANDWIDTH = re.compile(r"lists? ([\d.]+) TFLOP/s"), re.compile(r"lists? ([\d.]+) GB/s")
"""In a chip's note: another number for its peak or bandwidth."""

Causes = list[tuple[str, Any]]
"""Possible causes of a figure, the likeliest first: a key of ``VERDICTS``, and the number that it explains."""


@dataclass(frozen=True)
class Comparison:
    """A printed figure, ours, and the verdict: a key of ``VERDICTS``. ``study`` is a letter."""

    study: str
    subject: str
    quantity: str
    unit: str
    printed: float
    ours: Value
    verdict: str


@cache
def of(paper: Paper) -> dict[str, list[Comparison]]:
    """Return the printed figures with a counterpart of ours, by tables of ``data/published``."""
    tables = {"chips": _chips, "models": _models, "training": _passes, "training_steps": _steps,
              "step_estimates": _estimates}  # fmt: skip
    return {name: [each for each in compare(paper) if each.verdict] for name, compare in tables.items()}


@display.table
def held(paper: Paper, table: str) -> str:
    rows = [
        [
            escape(each.study), escape(each.subject), escape(each.quantity), exact(each.printed, each.unit),
            each.ours.interval if each.ours.low else each.ours, VERDICTS[each.verdict],
        ]
        for each in display.required(of(paper.reference)[table])
    ]  # fmt: skip
    return markdown_table("Study | Chip or network | Quantity | Printed > | Ours > | Printed is", rows)


def judge(printed: float, rounding: float, ours: Value, causes: Causes, otherwise: str = UNKNOWN) -> str:
    """Return the verdict on a figure; empty without ours, unless a cause explains the figure."""

    def is_near(low: float, high: float, share: float) -> bool:
        off = max(rounding, share * abs(low if printed < low else high)) * (1 + NOT_BINARY)
        return low - off <= printed <= high + off

    if ours.number is not None and is_near(ours.number, ours.number, AGREEMENT):
        return AGREES
    if ours.low is not None and ours.high is not None and is_near(ours.low, ours.high, 0):
        return OPEN
    near = (cause for share in (AGREEMENT, LIKENESS) for cause, value in causes if is_near(value, value, share))
    return next(near, "" if ours.number is None else otherwise)


def _compared(
    row: Any, column: str, subject: str, quantity: str, unit: str, ours: Any, causes: Causes, otherwise: str = UNKNOWN
) -> Comparison:
    """Judge a column of a row; ``ours`` is a Value or an exact number."""
    printed, ours = float(getattr(row, column)), ours if isinstance(ours, Value) else exact(ours, unit)
    verdict = judge(printed, getattr(row, f"{column}_rounding"), ours, causes, otherwise)
    return Comparison(row.study, subject, quantity, unit, printed, ours, verdict)


def _counted(paper: Paper, model: str, batch: float) -> Any | None:
    return next(each(matching(paper.workloads, model=model, batch=batch, precision=BASE_PRECISION)), None)


def _programs_flop(paper: Paper, model: str) -> dict[str, float]:
    """Return the FLOP of one input by each counting program."""
    rows = matching(paper.counting_programs, model=model).dropna(subset="forward_mac")
    return {str(row.program): 2 * float(row.forward_mac) for row in each(rows)}


def _chips(paper: Paper) -> Iterator[Comparison]:
    """Compare peaks and bandwidths with datasheets, for as many cores and channels as the study means."""
    for row in each(paper.published.chips):
        name = row.chip_key or next((chip for chip in paper.chips.chip if row.chip.startswith(chip)), "")
        rates = matching(paper.chips, chip=name).sort_values("peak_flop_per_s", ascending=False)
        if rates.empty:
            continue
        subject = f"{row.chip}, {row.precision}" if row.precision else row.chip
        cores, channels = (_part(pattern, row.printed, rates.derivation) for pattern in (CORES, CHANNELS))
        is_meant = rates.precision == (row.precision or BASE_PRECISION)
        dense = cores * rates.peak_flop_per_s[is_meant].max()  # NaN of none
        causes = _listed(rates.note, LISTED_PEAK, 1e12)
        causes += [("sparse", cores * peak) for peak in rates.sparse_peak_flop_per_s[is_meant]]
        causes += [("doubled", 2 * dense), *(("precision", cores * peak) for peak in rates.peak_flop_per_s[~is_meant])]
        yield _compared(row, "peak_flop_per_s", subject, "peak", "FLOP/s", dense, causes)
        ours, causes = channels * rates.bandwidth_byte_per_s.iloc[0], _listed(rates.note, LISTED_BANDWIDTH, 1e9)
        yield _compared(row, "bandwidth_byte_per_s", subject, "bandwidth", "B/s", ours, causes)


def _part(pattern: re.Pattern[str], printed: str, derivations: Iterable[str]) -> float:
    """Return the printed product over the datasheet's; 1 if either is not a product."""
    stated = pattern.search(printed)
    derived = next(filter(None, map(pattern.search, derivations)), None)
    return prod(map(float, stated.groups())) / prod(map(float, derived.groups())) if stated and derived else 1.0


def _listed(notes: Iterable[str], pattern: re.Pattern[str], scale: float) -> Causes:
    return [("datasheet", scale * float(number)) for note in notes for number in pattern.findall(note)]


def _models(paper: Paper) -> Iterator[Comparison]:
    """Compare FLOP, footprint and intensity of one input, for networks that we count at the usual size of input."""
    for row in each(paper.published.models):
        model, counted = row.model_key, _counted(paper, row.model_key, 1)
        programs = _programs_flop(paper, model)
        flop, causes = programs.get(OURS), [("operations", flop) for flop in programs.values()]
        if counted is not None and counted.input_shape != USUAL_SHAPE:
            continue
        if counted is not None:
            flop, everything = counted.forward_flop, counted.forward_flop + counted.forward_other_flop
            causes.insert(0, ("operations", float(everything)))
            total = float(counted.parameter_byte + counted.input_byte) + 2 * output_byte(paper, model)
            others = (
                ("footprint", "B", "footprint_byte", counted.footprint_byte, [("summary", total / MEBI)]),
                ("intensity", "FLOP/B", "intensity_flop_per_byte", counted.footprint_intensity,
                 [("quotient", row.flop / row.footprint_byte)]),
            )  # fmt: skip
            for quantity, unit, column, ours, of_column in others:
                yield _compared(row, column, model_name(model), quantity, unit, ours, of_column)
        yield _compared(row, "flop", model_name(model), "FLOP", "FLOP", flop, causes)


def output_byte(paper: Paper, model: str) -> float:
    """Return the bytes of all layers' outputs for one input, layers that work in place included.

    A layer in place has no activations of its own. Half of its traffic is output, or a third for a sum of two inputs,
    which moves three numbers for each FLOP.
    """
    rows = matching(paper.layers, model=model, batch=1, precision=BASE_PRECISION)
    columns = ("activation_byte", "traffic_byte", "forward_other_flop", "parameter_byte")
    activations, traffic, other, fixed = (rows[name].astype(float) for name in columns)
    written = (traffic - fixed) / (2 + (traffic == 3 * NUMBER_BYTE * other))
    return float(activations.where(activations > 0, written).sum())


def _passes(paper: Paper) -> Iterator[Comparison]:
    """Compare forward and backward passes: FLOP with our counts, ratios of times with our timings."""
    rows = paper.published.training
    for row in each(rows):
        model, turn = row.model, 1 if row.ratio_means == BACKWARD_TO_FORWARD else -1
        subject = model_name(model) + (f", batch {row.batch:.0f}" if pd.notna(row.batch) else "")
        if row.quantity != FLOP:
            timed = _time_ratio(paper, model, None if pd.isna(row.batch) else row.batch, turn)
            yield _compared(row, "ratio_as_printed", subject, f"time, {row.ratio_means}", "", timed, [], "machine")
            continue
        batch = row.batch if pd.notna(row.batch) else USUAL_BATCH
        counted = _counted(paper, model, batch)
        if counted is None or pd.isna(counted.backward_flop):
            continue
        forward, backward = float(counted.forward_flop), float(counted.backward_flop)
        linear = matching(paper.layers, model=model, batch=batch, precision=BASE_PRECISION, layer_kind="linear")
        causes: Causes = [("linear", linear.backward_flop.astype(float).sum()), ("gradient", forward)]
        if pd.notna(row.forward):
            yield _compared(row, "forward", subject, "FLOP, forward", "FLOP", forward, [])
            yield _compared(row, "backward", subject, "FLOP, backward", "FLOP", backward, causes)
        is_repeated = len(matching(rows, study=row.study, quantity=FLOP, ratio_as_printed=row.ratio_as_printed)) > 1
        otherwise = "repeated" if is_repeated else UNKNOWN
        causes = [(cause, (flop / forward) ** turn) for cause, flop in causes if flop]
        ours = (backward / forward) ** turn
        yield _compared(row, "ratio_as_printed", subject, f"FLOP, {row.ratio_means}", "", ours, causes, otherwise)


def _time_ratio(paper: Paper, model: str, batch: float | None, turn: int) -> Value:
    """Return the ratio of times measured here, at the study's batch size, else at the largest."""
    steps = [matching(each.steps, model=model, precision=BASE_PRECISION, batch=batch) for each in paper.machines]
    found = (each.dropna(subset=["time_ratio_low", "time_ratio_high"]) for each in steps)
    rows = next((each for each in found if len(each)), None)
    if rows is None:
        return Value(None)
    step = highest(rows, "batch")
    low, high = sorted((step.time_ratio_low**turn, step.time_ratio_high**turn))
    return Value(step.time_ratio**turn, "", low, high, counted="samples")


def _steps(paper: Paper) -> Iterator[Comparison]:
    """Compare steps under hardware counters: rate times time with our count, intensity with rate over bandwidth."""
    for row in each(paper.published.training_steps):
        subject, causes, ours = f"{model_name(row.model_key)}, {row.gpu}", Causes(), Value(None)
        for model in (row.model_key, *CANDIDATES.get(row.model_key, ())):
            if (counted := _counted(paper, model, row.batch)) is None:
                continue
            products = float(counted.forward_flop + counted.backward_flop)
            whole = products + float(counted.forward_other_flop + counted.backward_other_flop)
            if model == row.model_key:
                ours, causes = exact(products, "FLOP"), [("operations", whole)]
            else:
                causes += [("network", products), ("network", whole)]
        flop = row.flop_per_s * row.time_s
        verdict = judge(flop, 0, ours, causes, "counters" if flop < (ours.number or 0) else UNKNOWN)
        if abs(row.flop_per_s - row.dram_byte_per_s * row.time_s) <= row.flop_per_s_rounding:
            verdict = "misprint"
        yield Comparison(row.study, subject, "FLOP, rate × time", "FLOP", flop, ours, verdict)
        intensity = row.flop_per_s / row.dram_byte_per_s
        yield _compared(row, "intensity_flop_per_byte", subject, "intensity", "FLOP/B", intensity, [])


def _estimates(paper: Paper) -> Iterator[Comparison]:
    """Compare theoretical steps: the FLOP that they begin with, and FLOP over peak."""
    batches = {(row.study, row.model): row.batch for row in each(paper.published.training_steps)}
    for row in each(paper.published.step_estimates):
        subject, batch = f"{model_name(row.model_key)}, {row.gpu}", batches.get((row.study, row.model), 0)
        counted = _counted(paper, row.model_key, batch)
        if counted is not None:
            flop, forward = float(counted.forward_flop + counted.backward_flop), _programs_flop(paper, row.model_key)
            causes: Causes = [("forward", float(counted.forward_flop) / 2)]
            causes += [("forward", batch * count / 2) for count in forward.values()]
            yield _compared(row, "flop", subject, "FLOP", "FLOP", flop, causes)
        least = row.flop / row.peak_flop_per_s
        yield _compared(row, "time_s_as_printed", subject, "time", "s", least, [("milliseconds", 1000 * least)])
