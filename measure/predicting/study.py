"""Fits all settings and pools of what was timed, and checks the fits: the tables of ``data/prediction``.

Predicts what was timed from a fit that it was left out of, and beside it what simpler estimates say.

What a fit says: its coefficients, and what each kind of layer costs, with the intervals of a bootstrap.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from measure.cache.predictions import (
    ALL_BATCHES,
    ARITHMETIC,
    BATCH_CLASSES,
    BY_DEVICE,
    BY_FAMILY,
    BY_MODEL,
    BY_SOURCE,
    HALF,
    LIKE_FLOP,
    LIKE_PARAMETERS,
    LIKE_REGRESSION,
    LIKE_RESNET50,
    LIKE_ROOFLINE,
    MEMORY,
    ONE_KNOWN,
    OURS,
    POOLS,
    PRODUCT_KINDS,
    PUT_ASIDE,
    TERMS,
    UNFUSED,
    Coefficient,
    KindCost,
    PredictionError,
    Setting,
)
from measure.domain.words import EAGER, FULL_PRECISION, LAYER_KINDS, stored_as
from measure.predicting.demand import FUSED, PLACE, Numbers, fit
from measure.predicting.model import AT_THE_ROOF, LatencyModel, of_pool, of_setting
from measure.predicting.timings import Mask, Sample, Texts, TimedCall, numbered, sample

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


RESAMPLES = 100
"""So many bootstrap samples tell an interval."""

MEMORIES = [TERMS.index(term) for term in MEMORY]


def bootstrapped(timed: Sample, resampled: Texts, refit: Callable[[Sample], LatencyModel]) -> Numbers:
    """Return the coefficients of fits to samples, one a row, that are drawn by whole models or devices."""
    random = np.random.default_rng(SEED)
    rows_of = [np.flatnonzero(resampled == name) for name in sorted(set(resampled))]
    drawn = []
    for _ in range(RESAMPLES):
        rows = np.concatenate([rows_of[place] for place in random.integers(0, len(rows_of), len(rows_of))])
        drawn.append(refit(timed.where(rows)).coefficients)
    return np.array(drawn)


def coefficients(setting: Setting, timed: Sample, best: Numbers, drawn: Numbers) -> Iterator[Coefficient]:
    """Yield a fit's coefficients with their intervals."""
    lows, highs = np.quantile(drawn, [LOW, HIGH], axis=0)
    models = len(set(timed.architecture))
    for term, value, low, high in zip(TERMS, best, lows, highs, strict=True):
        yield Coefficient(*setting, term, models, len(timed), float(value), float(low), float(high))


def of_kinds(setting: Setting, timed: Sample, best: Numbers, drawn: Numbers) -> Iterator[KindCost]:
    """Yield what each kind of layer costs that was timed; each call weighs alike, whatever its latency."""
    for kind in LAYER_KINDS:
        at_roof = timed.kinds_s[:, PLACE[kind]]
        has = at_roof > 0
        if has.any():
            least = float((at_roof / timed.latency_s).sum())
            parts = _terms_of(kind, timed)
            over = parts.T @ (1.0 / timed.latency_s) / least
            low, high = np.quantile(drawn @ over, [LOW, HIGH])
            share = np.median((parts @ best)[has] / (timed.terms @ best)[has])
            models = len(set(timed.architecture[has]))
            yield KindCost(*setting, kind, models, float(best @ over), float(low), float(high), float(share))


def _terms_of(kind: str, timed: Sample) -> Numbers:
    """Return the terms of a kind of layer alone: its arithmetic, its memory, and of what is not fused its part."""
    parts = np.zeros_like(timed.terms)
    names = [MEMORY[PLACE[kind]], *([ARITHMETIC[PRODUCT_KINDS.index(kind)]] if kind in PRODUCT_KINDS else [])]
    for place in map(TERMS.index, names):
        parts[:, place] = timed.terms[:, place]
    if PLACE[kind] in FUSED:
        unfused = TERMS.index(UNFUSED)
        all_of_it = timed.terms[:, [MEMORIES[place] for place in FUSED]].sum(axis=1)
        own = timed.terms[:, MEMORIES[PLACE[kind]]]
        parts[:, unfused] = timed.terms[:, unfused] * own / np.where(all_of_it > 0, all_of_it, 1.0)
    return parts


ASIDE = ("AMD Radeon RX 7800 XT", "NVIDIA TITAN RTX")
"""Devices that no fit and no choice of terms has seen: put aside before the first fit, predicted at the end."""

POOLED = (EAGER, "torch.compile")
"""The variants whose latencies a pool is fitted to."""

MANY, SOME, SIZES = 100, 20, 2
"""A setting is fitted by itself where so many models were timed, or some at so many batch sizes."""


@dataclass(frozen=True, eq=False)
class Fitted:
    """A setting, what was timed in it, and the model that is fitted to that; a pool is a setting, too."""

    setting: Setting
    timed: Sample
    model: LatencyModel


def pool_of(chip_kind: str, precision: str, phase: str) -> Setting:
    """Return the setting for all devices of a kind, at precisions of as many bits."""
    bits = FULL_PRECISION if stored_as(precision) == FULL_PRECISION else HALF
    return Setting(POOLS.get(chip_kind, f"any {chip_kind}"), "", "", bits, "", phase)


def pool_of_call(call: TimedCall) -> Setting:
    return pool_of(call.chip_kind, call.setting.precision, call.setting.phase)


def pools(calls: list[TimedCall]) -> dict[Setting, Fitted]:
    """Return the fits to all devices of a kind, by pool."""
    members: dict[Setting, list[TimedCall]] = {}
    for call in calls:
        if call.setting.device not in ASIDE and call.setting.variant in POOLED:
            members.setdefault(pool_of_call(call), []).append(call)
    samples = {pool: sample(found) for pool, found in members.items()}
    return {pool: Fitted(pool, timed, of_pool(timed)) for pool, timed in samples.items()}


def own_fits(calls: list[TimedCall], pooled: Mapping[Setting, Fitted]) -> Iterator[tuple[Fitted, Numbers]]:
    """Yield the fit of each setting in which enough models were timed, and its pool's coefficients, its prior."""
    by_setting: dict[Setting, list[TimedCall]] = {}
    for call in calls:
        if call.setting.device not in ASIDE:
            by_setting.setdefault(call.setting, []).append(call)
    for setting, chosen in by_setting.items():
        models, sizes = {call.architecture for call in chosen}, {call.batch for call in chosen}
        if len(models) >= MANY or (len(models) >= SOME and len(sizes) >= SIZES):
            pool = pooled.get(pool_of_call(chosen[0]))
            prior = AT_THE_ROOF if pool is None else pool.model.coefficients
            timed = sample(chosen)
            yield Fitted(setting, timed, of_setting(timed, prior)), prior


@dataclass(frozen=True)
class Study:
    """The rows of the tables of ``data/prediction``."""

    coefficients: list[Coefficient]
    kinds: list[KindCost]
    errors: list[PredictionError]


def study(calls: list[TimedCall], say: Callable[[str], None], aside: bool = False) -> Study:
    """Fit and check everything; ``say`` is told of each fit as it begins.

    The devices of ``ASIDE`` are predicted if asked for.
    """
    pooled = pools(calls)
    found = Study([], [], [])
    for fitted, prior in own_fits(calls, pooled):
        say(", ".join(filter(None, fitted.setting)))
        _tell(found, fitted, fitted.timed.architecture, partial(of_setting, prior=prior))
        for check in of_setting_checked(fitted.setting, fitted.timed, prior):
            found.errors.extend(summarised(check, None))
    for pool, fitted in pooled.items():
        say(", ".join(filter(None, pool)))
        _tell(found, fitted, fitted.timed.device, of_pool)
        unseen = [call for call in calls if aside and call.setting.device in ASIDE and pool_of_call(call) == pool]
        checked = of_pool_checked(fitted.timed, sample(unseen) if unseen else None)
        found.errors.extend(_of_pool(list(checked), pool))
    return found


def _tell(found: Study, fitted: Fitted, resampled: Texts, refit: Callable[[Sample], LatencyModel]) -> None:
    """Add a fit's coefficients and what kinds of layer cost, with the intervals of one bootstrap."""
    drawn = bootstrapped(fitted.timed, resampled, refit)
    best = fitted.model.coefficients
    found.coefficients.extend(coefficients(fitted.setting, fitted.timed, best, drawn))
    found.kinds.extend(of_kinds(fitted.setting, fitted.timed, best, drawn))


POINTS = np.linspace(0.0, 1.0, 101)
"""The quantiles that stand for a setting's ratios."""


def _of_pool(found: list[Checked], pool: Setting) -> Iterator[PredictionError]:
    """Yield the errors of each setting that a pool predicts, and of all together, each with the same say.

    The interval that a setting is asked for is that of the other devices.
    """
    valid = [check for check in found if np.isfinite(check.ratios).all()]
    groups: dict[tuple[str, str], list[Checked]] = {}
    for check in valid:
        groups.setdefault((check.left_out, check.method), []).append(check)
    for (left_out, method), alike in groups.items():
        # What was put aside is asked for the interval that any other device would be told
        tellers = groups.get((BY_DEVICE, method), []) if left_out == PUT_ASIDE else alike
        told = [(check.setting.device, _even(check)) for check in tellers]
        within = []
        for check in alike:
            others = [ratios for device, ratios in told if device != check.setting.device]
            rows = list(summarised(check, np.concatenate(others) if others else None))
            within.append(rows[0].coverage)
            yield from rows
        covered = None if None in within else float(np.mean(np.array(within, dtype=float)))
        models = {name for check in alike for name in check.rows.architecture}
        latencies, even = sum(len(check.rows) for check in alike), np.concatenate([_even(check) for check in alike])
        yield error_row(left_out, method, pool, ALL_BATCHES, models, latencies, even, covered)


def _even(check: Checked) -> Numbers:
    """Return the ratios of a check by their quantiles, so that each setting has the same say."""
    return np.asarray(np.quantile(check.ratios, POINTS))
