"""The numbers of the chapter on prediction."""

from dataclasses import replace
from functools import cache
from math import hypot

import pandas as pd

from measure.domain.models import DECODE, PREFILL
from measure.domain.words import EAGER, INFERENCE, PRECISION_BYTE
from measure.predicting import records as tables
from measure.predicting.prediction import DATASHEET, GPU, Basis, usual_setting
from measure.predicting.prediction_terms import MICROSECOND, CallWork, PredictedDevice
from measure.predicting.records import ALL, BY_DEVICE, BY_FAMILY, OURS, pool_of
from report.facts import Facts, missing, sourced
from report.paper import LOWER_PRECISIONS, Paper, published
from report.paper.chips import short_name
from report.paper.frames import matching
from report.stats.value import Name, Source, Value, count_of, exact, extremes, median_of

FIT = "python -m measure fit"
PROMPT, ANSWER, AT_ONCE = 4096, 1024, 8  # tokens (as predict's own) and requests of a served model
PRECISION, BATCH = "fp16", 64  # of the calls in the table and in the calculation
EXAMPLE = "resnet50"  # the network of the calculation
FAR = 0.2  # a median error that the text calls out
TYPICAL = (EXAMPLE, "mobilenet_v2", "vit_b_16")  # convolutions, depthwise convolutions, attention

COMMON = (
    "NVIDIA T4", "NVIDIA A10", "NVIDIA L4", "NVIDIA A100 SXM 40GB", "NVIDIA H100 SXM", "NVIDIA H200 SXM",
    "NVIDIA B200 SXM", "AMD Instinct MI300X", "NVIDIA GeForce RTX 4090", "NVIDIA GeForce RTX 5090",
)  # fmt: skip
"""Chips that clouds rent and laboratories buy. If a reader chose fewer chips, the table has those instead."""


class Family(Facts):
    """Errors of forward passes in eager mode on GPUs with a whole library of timings."""

    gpus: Value  #: GPUs with a whole library of timings.
    least: Value  #: The lowest typical error for families left out, with its GPU.
    most: Value  #: The highest typical error for families left out, with its GPU.
    roofline: Value  #: The lowest typical error of a roofline of each kind of layer, scaled to the GPU.
    flop: Value  #: The lowest typical error of FLOP over peak, scaled to the GPU.


class Untimed(Facts):
    """Errors on GPUs left out of the fit, at 16 bits; each GPU counts alike."""

    gpus: Value  #: GPUs left out in turn.
    error: Value  #: Typical error on such a GPU, for networks that others timed.
    least: Value  #: The smallest median error on a GPU left out, with its name.
    most: Value  #: The largest median error on a GPU left out, with its name.
    within: Value  #: The 90th percentile of errors on a typical GPU.
    covered: Value  #: Share of their times within the 90 % interval, the mean over the GPUs.
    covered_least: Value  #: The smallest such share on a GPU, with its name.
    far: Value  #: GPUs left out whose median error is over a fifth, with their names.
    both: Value  #: Typical error on such a GPU without the factors of its networks.
    one_time: Value  #: Typical error on such a GPU given the time of ResNet-50.
    gpus_five: Value  #: GPUs left out in turn that have the times of five networks.
    before_five: Value  #: Typical error on these GPUs without the five times.
    five_times: Value  #: Typical error on these GPUs given the five times.
    remaining: Value  #: The error given one time over the error without it, on a typical GPU.
    flop: Value  #: Typical error of FLOP over peak, scaled to the other GPUs.
    aside: Value  #: Error on the GPUs set aside before the first fit.


class PredictedCalculation(Facts):
    """The likely time of ``EXAMPLE`` on a GPU that nobody timed."""

    chip: Name  #: The GPU of the calculation.
    batch: Value  #: The batch size of the calculation.
    flop: Value  #: FLOP of the call.
    peak: Value  #: The GPU's peak.
    over_peak: Value  #: By the fit, time of the network's arithmetic over its time at the peak.
    byte: Value  #: Bytes of the call, layer by layer.
    bandwidth: Value  #: The GPU's bandwidth.
    over_bandwidth: Value  #: By the fit, time of the network's bytes over their time at the bandwidth.
    arithmetic: Value  #: The term of arithmetic.
    bytes: Value  #: The term of bytes.
    work: Value  #: The terms of arithmetic and bytes together.
    host: Value  #: An operator's launch on the reference host.
    launches: Value  #: Operators of the call.
    fixed: Value  #: The time of all launches, which no chip shortens.
    likely: Value  #: The likely time of the call.
    low: Value  #: The lower end of the likely time's 90 % interval.
    high: Value  #: The upper end of the likely time's 90 % interval.


class PredictedProblems(Facts):
    bytes: Value  #: The term of bytes at twice the bandwidth.
    likely: Value  #: The likely time at twice the bandwidth.
    gain: Value  #: How many times as fast the network is with twice the bandwidth.


class Tokens(Facts):
    """Errors of predicted tokens per second on chips left out of the fit."""

    chips: Value  #: Chips left out in turn.
    decode: Value  #: Typical error of a decoded token.
    prefill: Value  #: Typical error of a prompt.


class ServedLoad(Facts):
    """What the table of served models is made for."""

    prompt: Value  #: Tokens of a prompt.
    answer: Value  #: Tokens of an answer.
    requests: Value  #: Requests at once.


class PredictionFacts(Facts):
    family: Family
    untimed: Untimed
    tokens: Tokens
    served: ServedLoad
    calculation: PredictedCalculation
    problems: PredictedProblems
    is_untimed_listed: bool  #: The table of typical times has a chip without a timing
    is_extrapolated_listed: bool  #: The table has a time without an interval
    chooser: bool


def of(paper: Paper) -> PredictionFacts:
    groups = _family(paper), _untimed(paper), _tokens(paper), _served(paper), *_calculation(paper)
    listed = [
        basis.predict(demand)
        for device in common_devices(paper) for model in TYPICAL
        for demand, basis in filter(None, [predict(paper, model, device)])
    ]  # fmt: skip
    facts = PredictionFacts(
        *groups,
        is_untimed_listed=any(not call.timed_models for call in listed),
        is_extrapolated_listed=any(call.low_s is None for call in listed),
        chooser=not paper.predictions.errors.empty,
    )
    return sourced(facts, Source("prediction/errors.csv", f"eager, {INFERENCE}", FIT))


@cache
def checks(paper: Paper, left_out: str) -> pd.DataFrame:
    """Return one row per method, device and options, in the newest software of each source and precision.

    The rows are errors of forward passes in eager mode of whatever the fit ``left_out``, with the chip's ``kind``.
    """
    rows = matching(paper.predictions.errors, left_out=left_out, batches=ALL, phase=INFERENCE, variant=EAGER)
    kinds = {device.name: device.chip_kind for device in paper.predictions.devices}
    rows = rows.assign(kind=rows.device.map(kinds), version=rows.software.map(published.version))
    newest = rows[rows.kind.notna()].sort_values("version", kind="stable")
    return newest.drop_duplicates(["method", "device", "source", "precision", "options"], keep="last")


def of_gpus(paper: Paper, left_out: str, method: str = OURS) -> pd.DataFrame:
    """Return each GPU's errors at 16 bits by its short name; if families were left out, of whole libraries alone."""
    rows = matching(checks(paper, left_out), kind=GPU, method=method)
    rows = rows[rows.precision.isin(LOWER_PRECISIONS)]
    if left_out == BY_FAMILY:
        rows = rows[rows.models >= published.LIBRARY]
    columns = ["median_error", "p90_error", "coverage"]
    return rows.groupby(rows.device.map(short_name))[columns].median()


def _family(paper: Paper) -> Family:
    errors, *simpler = (
        of_gpus(paper, BY_FAMILY, method).median_error for method in (OURS, tables.LIKE_ROOFLINE, tables.LIKE_FLOP)
    )
    return Family(count_of(len(errors), "GPUs"), *extremes(errors, "%"), *(extremes(each, "%")[0] for each in simpler))


def _untimed(paper: Paper) -> Untimed:
    rows, with_one, with_five = (
        of_gpus(paper, left_out) for left_out in (BY_DEVICE, tables.ONE_KNOWN, tables.FIVE_KNOWN)
    )
    with_five = with_five[with_five.index.isin(rows.index)]

    def typical(frame: pd.DataFrame, column: str = "median_error") -> Value:
        return median_of(frame[column], "%", "GPUs")

    far = sorted(rows.index[rows.median_error > FAR])
    pool = pool_of(GPU, PRECISION, INFERENCE)._asdict()
    aside = matching(paper.predictions.errors, left_out=tables.PUT_ASIDE, method=OURS, batches=ALL, **pool).median_error
    return Untimed(
        count_of(len(rows), "GPUs"), typical(rows), *extremes(rows.median_error, "%", fewest=2),
        typical(rows, "p90_error"),
        exact(rows.coverage.mean(), "%"), extremes(rows.coverage, "%", fewest=2)[0],
        replace(count_of(len(far), "GPUs"), name=", ".join(far)), typical(of_gpus(paper, tables.BY_BOTH)),
        typical(with_one), count_of(len(with_five), "GPUs"), typical(rows.loc[with_five.index]), typical(with_five),
        median_of(with_one.median_error / rows.median_error, counted="GPUs"),
        typical(of_gpus(paper, BY_DEVICE, tables.LIKE_FLOP)),
        exact(aside.iloc[0] if len(aside) else None, "%"),
    )  # fmt: skip


def _tokens(paper: Paper) -> Tokens:
    checked = matching(paper.predictions.errors, left_out=BY_DEVICE, method=OURS, batches=ALL)
    checked = matching(checked, precision=PRECISION)  # weights of four bits are in the fit, and in no prediction
    decode, prefill = (matching(checked, variant=variant).median_error for variant in (DECODE, PREFILL))
    return Tokens(count_of(len(decode), "chips"), exact(decode.median(), "%"), exact(prefill.median(), "%"))


def _served(paper: Paper) -> ServedLoad:
    if paper.predictions.errors.empty:
        return missing(ServedLoad)
    return ServedLoad(*map(exact, (PROMPT, ANSWER, AT_ONCE)))


@cache
def predict(paper: Paper, model: str, device: PredictedDevice) -> tuple[CallWork, Basis] | None:
    """Return a forward pass at ``PRECISION`` and ``BATCH``, and the basis of its prediction on a device.

    None if it was not counted or nothing was fitted.
    """
    demand = paper.predictions.calls.get((model, BATCH, PRECISION_BYTE[PRECISION], INFERENCE))
    basis = demand and paper.predictions.predictor.basis(
        device, PRECISION, usual_setting(PRECISION), INFERENCE, demand.sort
    )
    return (demand, basis) if demand and basis else None


def common_devices(paper: Paper) -> list[PredictedDevice]:
    """Return the chosen chips if they are few, else the ``COMMON`` ones."""
    chosen = set(paper.chips.chip)
    names = chosen if len(chosen) <= len(COMMON) else chosen.intersection(COMMON)
    return [device for device in paper.predictions.devices if device.name in names]


def _calculation(paper: Paper) -> tuple[PredictedCalculation, PredictedProblems]:
    calls = filter(None, (predict(paper, EXAMPLE, each) for each in common_devices(paper) if each.chip_kind == GPU))
    untimed = ((*call, call[1].predict(call[0])) for call in calls if call[1].name == DATASHEET)
    # A prediction that the roof does not correct: the calculation has the fit alone
    fitted = (each for each in untimed if each[2].low_s and each[2].likely_s > each[2].least_s)
    demand, basis, found = next(fitted, (None, None, None))
    if not (demand and basis and found):
        return missing(PredictedCalculation), missing(PredictedProblems)
    terms, fixed_s = basis.parts(demand)
    arithmetic_s, bytes_s = (
        float(terms[[tables.TERMS.index(term) for term in kind]].sum()) for kind in (tables.ARITHMETIC, tables.MEMORY)
    )
    flop, byte = float(demand.flop.sum()), float(demand.byte.sum())
    peak, bandwidth = basis.roof.peak_flop_per_s, basis.roof.bandwidth_byte_per_s
    calculation = PredictedCalculation(
        chip=Name(short_name(found.chip)),
        batch=exact(BATCH), flop=exact(flop, "FLOP"), peak=exact(peak, "FLOP/s"),
        over_peak=exact(arithmetic_s * peak / flop), byte=exact(byte, "B"), bandwidth=exact(bandwidth, "B/s"),
        over_bandwidth=exact(bytes_s * bandwidth / byte),
        arithmetic=exact(arithmetic_s, "s"),
        bytes=exact(bytes_s, "s"), work=exact(arithmetic_s + bytes_s, "s"),
        host=exact(MICROSECOND * basis.host_us, "s"), launches=exact(demand.calls), fixed=exact(fixed_s, "s"),
        likely=exact(found.likely_s, "s"), low=exact(found.low_s, "s"), high=exact(found.high_s, "s"),
    )  # fmt: skip
    faster_s = hypot(arithmetic_s + bytes_s / 2, fixed_s)
    problems = exact(bytes_s / 2, "s"), exact(faster_s, "s"), exact(found.likely_s / faster_s)
    return calculation, PredictedProblems(*problems)
