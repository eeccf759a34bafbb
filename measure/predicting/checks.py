"""Predicts what was timed from a fit that it was left out of, and beside it what simpler estimates say."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from measure.cache.predictions import (
    ALL_BATCHES,
    BATCH_CLASSES,
    BY_DEVICE,
    BY_FAMILY,
    BY_MODEL,
    BY_SOURCE,
    LIKE_FLOP,
    LIKE_PARAMETERS,
    LIKE_REGRESSION,
    LIKE_RESNET50,
    LIKE_ROOFLINE,
    ONE_KNOWN,
    OURS,
    PUT_ASIDE,
    PredictionError,
    Setting,
)
from measure.predicting.fitting import Numbers, fit
from measure.predicting.model import of_pool, of_setting
from measure.predicting.sample import Mask, Sample, Texts, numbered

FOLDS = 10
"""Models or families are left out a tenth at a time."""

SEED = 22
"""Shuffles what is left out together."""

KNOWN = "resnet50"
"""The model whose time is taken for known."""

LOW, HIGH = 0.05, 0.95
"""The interval of a prediction: what 5 % of latencies lie below, and 5 % above."""

Estimate = Callable[[Sample, Sample], Numbers]
"""Learns from one sample and returns the latencies (s) of another."""


@dataclass(frozen=True, eq=False)
class Checked:
    """What was left out of a fit and predicted: ``ratios`` are latencies over predictions."""

    left_out: str
    method: str
    setting: Setting
    rows: Sample
    ratios: Numbers


def by_terms_of_setting(prior: Numbers) -> Estimate:
    """Return the estimate by terms that are fitted to one setting."""
    return lambda known, asked: of_setting(known, prior).predict(asked.terms, asked.make_ups)


def by_terms_of_pool(known: Sample, asked: Sample) -> Numbers:
    return of_pool(known).predict(asked.terms, asked.make_ups)


def by_flop(known: Sample, asked: Sample) -> Numbers:
    """Return FLOP over the peak, times what it is off by in the median."""
    return asked.flop_s * np.median(known.latency_s / known.flop_s)


def by_parameters(known: Sample, asked: Sample) -> Numbers:
    """Return the time of reading the parameters for each input, times what it is off by in the median."""
    return asked.parameter_s * np.median(known.latency_s / known.parameter_s)


def by_roofline(known: Sample, asked: Sample) -> Numbers:
    """Return the kinds of layer each at its roof, times what that is off by in the median."""
    return asked.kinds_s.sum(axis=1) * np.median(known.latency_s / known.kinds_s.sum(axis=1))


def by_regression(known: Sample, asked: Sample) -> Numbers:
    """Return a line through the times of the FLOP at the peak, fitted as the terms are."""

    def line(rows: Sample) -> Numbers:
        return np.column_stack([rows.flop_s, np.full(len(rows), 1e-3)])

    return line(asked) @ fit(line(known), known.latency_s, known.weights(), np.zeros(2))


def by_resnet50(known: Sample, asked: Sample) -> Numbers:
    """Return the time of ResNet50 under the setting, scaled by FLOP; not a number where it was not timed."""
    own = known.where(known.architecture == KNOWN)
    return asked.flop_s * (np.median(own.latency_s / own.flop_s) if len(own) else np.nan)


BASELINES: dict[str, Estimate] = {
    LIKE_FLOP: by_flop, LIKE_PARAMETERS: by_parameters, LIKE_ROOFLINE: by_roofline, LIKE_REGRESSION: by_regression,
}  # fmt: skip


def folds(labels: Texts, count: int = FOLDS) -> Iterator[Mask]:
    """Yield which rows are left out together: those whose labels fall into one of so many parts."""
    names = sorted(set(labels))
    order = np.random.default_rng(SEED).permutation(len(names))
    part = {name: place % count for name, place in zip(names, order, strict=True)}
    parts = np.array([part[label] for label in labels])
    for each in sorted(set(parts)):
        yield parts == each


def left_out_of_setting(timed: Sample, left_out: str, estimate: Estimate) -> Numbers:
    """Return latencies over predictions of the calls of one setting, each predicted without its model or family."""
    ratios = np.full(len(timed), np.nan)
    for out in folds(timed.architecture if left_out == BY_MODEL else timed.family):
        if out.all():
            break
        ratios[out] = timed.latency_s[out] / estimate(timed.where(~out), timed.where(out))
    return ratios


def of_setting_checked(setting: Setting, timed: Sample, prior: Numbers) -> Iterator[Checked]:
    """Yield the checks of one setting's own fit, and of the baselines beside it."""
    for left_out in (BY_MODEL, BY_FAMILY):
        for method, estimate in {OURS: by_terms_of_setting(prior), **BASELINES}.items():
            yield Checked(left_out, method, setting, timed, left_out_of_setting(timed, left_out, estimate))
        asked = timed.where(timed.architecture != KNOWN)
        known = timed.where(timed.architecture == KNOWN)
        if len(known) and len(asked):
            ratios = asked.latency_s / by_resnet50(known, asked)
            yield Checked(left_out, LIKE_RESNET50, setting, asked, ratios)


def of_pool_checked(timed: Sample, aside: Sample | None) -> Iterator[Checked]:
    """Yield the checks of a fit to many devices: without a device, with one known time of it, and without a source.

    ``aside`` are the calls on devices that no fit has seen, if they are to be predicted.
    """
    for device in sorted(set(timed.device)):
        out = timed.device == device
        if not out.all():
            yield from _predicted(timed.where(~out), timed.where(out), BY_DEVICE)
    for source in sorted(set(timed.source)):
        out = timed.source == source
        if not out.all():
            yield from _predicted(timed.where(~out), timed.where(out), BY_SOURCE)
    if aside is not None:
        yield from _predicted(timed, aside, PUT_ASIDE)


def _predicted(known: Sample, asked: Sample, left_out: str) -> Iterator[Checked]:
    """Yield each setting of what was left out, predicted by all methods; of a device with one known time, too."""
    for method, estimate in {OURS: by_terms_of_pool, **BASELINES}.items():
        ratios = asked.latency_s / estimate(known, asked)
        for setting, rows in settings(asked):
            yield Checked(left_out, method, setting, asked.where(rows), ratios[rows])
            if left_out == BY_DEVICE:
                yield from _with_one_known(method, setting, asked.where(rows), ratios[rows])


def _with_one_known(method: str, setting: Setting, rows: Sample, ratios: Numbers) -> Iterator[Checked]:
    """Yield the same once the time of ResNet50 on the device is known: what it is off by, all are taken to be."""
    own = rows.architecture == KNOWN
    if own.any() and not own.all():
        others = rows.where(~own)
        yield Checked(ONE_KNOWN, method, setting, others, ratios[~own] / np.median(ratios[own]))


def settings(timed: Sample) -> Iterator[tuple[Setting, Mask]]:
    """Yield the settings of a sample, in the order in which they first occur, with their rows."""
    numbers = numbered(timed.setting)
    for number in range(numbers.max() + 1):
        rows = numbers == number
        yield timed.setting[rows.argmax()], rows


def interval(ratios: Numbers) -> tuple[float, float]:
    """Return what 5 % of latencies lie below, as ratio to the prediction, and what 5 % lie above."""
    low, high = np.quantile(ratios, [LOW, HIGH])
    return float(low), float(high)


def summarised(checked: Checked, others: Numbers | None) -> Iterator[PredictionError]:
    """Yield the errors of a check, of all batch sizes together and by their classes.

    ``others`` are ratios that an interval is taken from which these had no part in; None: these are cut in two halves,
    and each half's interval is asked of the other.
    """
    valid = np.isfinite(checked.ratios)
    if not valid.any():
        return
    rows, ratios = checked.rows.where(valid), checked.ratios[valid]
    within = None if checked.method != OURS else _within(rows, ratios, others)
    for name, (least, most) in {ALL_BATCHES: (1, 10**9), **BATCH_CLASSES}.items():
        chosen = (rows.batch >= least) & (rows.batch <= most)
        if not chosen.any() or (name != ALL_BATCHES and chosen.all()):
            continue
        models, covered = set(rows.architecture[chosen]), None if within is None else float(within[chosen].mean())
        yield error_row(
            checked.left_out, checked.method, checked.setting, name, models, int(chosen.sum()), ratios[chosen], covered
        )


def error_row(
    left_out: str,
    method: str,
    setting: Setting,
    batches: str,
    models: set[str],
    calls: int,
    ratios: Numbers,
    coverage: float | None,
) -> PredictionError:
    """Return the row of latencies whose ``ratios`` to their predictions are these."""
    errors = np.abs(1.0 / ratios - 1.0)
    low, high = interval(ratios)
    return PredictionError(
        *setting, left_out=left_out, method=method, batches=batches, models=len(models), calls=calls,
        median_error=float(np.median(errors)), p90_error=float(np.quantile(errors, 0.9)), coverage=coverage,
        median_ratio=float(np.median(ratios)), low_ratio=low, high_ratio=high,
    )  # fmt: skip


def _within(rows: Sample, ratios: Numbers, others: Numbers | None) -> Mask:
    """Return which latencies lie within the interval that ratios of others, or of the other half, give."""
    if others is not None:
        low, high = interval(others)
        return np.asarray((ratios >= low) & (ratios <= high))
    found = np.zeros(len(ratios), dtype=bool)
    for half in folds(rows.architecture, 2):
        if not half.all():
            low, high = interval(ratios[~half])
            found[half] = (ratios[half] >= low) & (ratios[half] <= high)
    return found
