"""Fits settings and pools of timed calls, and checks each fit by predicting calls that it leaves out."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from measure.cache import predictions as tables
from measure.cache.predictions import TERMS, Coefficient, KindCost, PredictionError, Setting
from measure.domain.words import EAGER, FULL_PRECISION, PRODUCT_KINDS, stored_as
from measure.predicting.demand import FUSED, PLACE, Numbers
from measure.predicting.model import AT_THE_ROOF, LatencyModel, fit, fit_pool, fit_setting
from measure.predicting.timings import FitRows, Mask, Texts, TimedCall, fit_rows, number_labels

FOLDS, SEED = 10, 22
"""Models or families are left out a tenth at a time, shuffled by the seed."""

RESAMPLES = 100
"""The bootstrap samples behind an interval."""

KNOWN = "resnet50"
"""The model whose latency counts as known."""

LOW, HIGH = 0.05, 0.95
"""The ends of a prediction interval, as quantiles."""

POINTS = np.linspace(0.0, 1.0, 101)
"""The quantiles that represent a setting's ratios, so that each setting counts alike."""

ASIDE = ("AMD Radeon RX 7800 XT", "NVIDIA TITAN RTX")
"""Devices that no fit and no choice of terms has seen: set aside before the first fit, predicted at the end."""

POOLED = (EAGER, "torch.compile")
"""The variants in a pool."""

MANY, SOME, SIZES = 100, 20, 2
"""A setting gets its own fit from so many models, or from some at so many batch sizes."""

Estimate = Callable[[FitRows, FitRows], Numbers]
"""Learns from known rows and returns the latencies (s) of the rows asked for, ``(rows,)``."""


@dataclass(frozen=True, eq=False)
class Checked:
    """Rows that a fit left out, and the ``ratios`` ``(rows,)`` of their latencies to its predictions."""

    left_out: str
    method: str
    setting: Setting
    rows: FitRows
    ratios: Numbers


@dataclass(frozen=True, eq=False)
class Fitted:
    """A setting or a pool, its timed calls, and the model fitted to them."""

    setting: Setting
    timed: FitRows
    model: LatencyModel


@dataclass(frozen=True)
class Study:
    """The rows of the tables in ``data/prediction``."""

    coefficients: list[Coefficient]
    kinds: list[KindCost]
    errors: list[PredictionError]


def study(calls: Sequence[TimedCall], say: Callable[[str], None], aside: bool = False) -> Study:
    """Fit and check everything; ``say`` gets each fit's name, and ``aside`` also predicts the devices of ``ASIDE``."""
    pooled = pools(calls)
    found = Study([], [], [])

    def add(fitted: Fitted, resampled: Texts, refit: Callable[[FitRows], LatencyModel]) -> None:
        say(", ".join(filter(None, fitted.setting)))
        drawn = bootstrap(fitted.timed, resampled, refit)
        found.coefficients.extend(coefficients(fitted, drawn))
        found.kinds.extend(kind_costs(fitted, drawn))

    for fitted, prior in own_fits(calls, pooled):
        refit = partial(fit_setting, prior=prior)
        add(fitted, fitted.timed.architecture, refit)
        for check in check_setting(fitted.setting, fitted.timed, refit):
            found.errors.extend(summarise(check, None))
    for pool, fitted in pooled.items():
        add(fitted, fitted.timed.device, fit_pool)
        unseen = [call for call in calls if aside and call.setting.device in ASIDE and pool_of_call(call) == pool]
        found.errors.extend(pool_errors(list(check_pool(fitted.timed, fit_rows(unseen) if unseen else None)), pool))
    return found


def pool_of(chip_kind: str, precision: str, phase: str) -> Setting:
    """Return the setting of all devices of a kind, at precisions of equal width."""
    bits = FULL_PRECISION if stored_as(precision) == FULL_PRECISION else tables.HALF
    return Setting(tables.POOLS.get(chip_kind, f"any {chip_kind}"), "", "", bits, "", phase)


def pool_of_call(call: TimedCall) -> Setting:
    return pool_of(call.chip_kind, call.setting.precision, call.setting.phase)


def pools(calls: Sequence[TimedCall]) -> dict[Setting, Fitted]:
    """Fit all devices of a kind together, by pool."""
    members: dict[Setting, list[TimedCall]] = {}
    for call in calls:
        if call.setting.device not in ASIDE and call.setting.variant in POOLED:
            members.setdefault(pool_of_call(call), []).append(call)
    timed = {pool: fit_rows(found) for pool, found in members.items()}
    return {pool: Fitted(pool, rows, fit_pool(rows)) for pool, rows in timed.items()}


def own_fits(calls: Sequence[TimedCall], pooled: Mapping[Setting, Fitted]) -> Iterator[tuple[Fitted, Numbers]]:
    """Yield the fit of each setting with enough models, and its prior: its pool's coefficients, ``(terms,)``."""
    by_setting: dict[Setting, list[TimedCall]] = {}
    for call in calls:
        if call.setting.device not in ASIDE:
            by_setting.setdefault(call.setting, []).append(call)
    for setting, chosen in by_setting.items():
        models, sizes = {call.architecture for call in chosen}, {call.batch for call in chosen}
        if len(models) >= MANY or (len(models) >= SOME and len(sizes) >= SIZES):
            pool = pooled.get(pool_of_call(chosen[0]))
            prior = AT_THE_ROOF if pool is None else pool.model.coefficients
            timed = fit_rows(chosen)
            yield Fitted(setting, timed, fit_setting(timed, prior)), prior


def bootstrap(timed: FitRows, resampled: Texts, refit: Callable[[FitRows], LatencyModel]) -> Numbers:
    """Return coefficients ``(draws, terms)`` of fits to samples of whole models or devices, as ``resampled`` names."""
    random = np.random.default_rng(SEED)
    rows_of = [np.flatnonzero(resampled == name) for name in sorted(set(resampled))]
    drawn = []
    for _ in range(RESAMPLES):
        rows = np.concatenate([rows_of[place] for place in random.integers(0, len(rows_of), len(rows_of))])
        drawn.append(refit(timed.where(rows)).coefficients)
    return np.array(drawn)


def coefficients(fitted: Fitted, drawn: Numbers) -> Iterator[Coefficient]:
    """Yield a fit's coefficients with the intervals of ``drawn`` ``(draws, terms)``."""
    lows, highs = np.quantile(drawn, [LOW, HIGH], axis=0)
    models = len(set(fitted.timed.architecture))
    for term, value, low, high in zip(TERMS, fitted.model.coefficients, lows, highs, strict=True):
        yield Coefficient(*fitted.setting, term, models, len(fitted.timed), float(value), float(low), float(high))


def kind_costs(fitted: Fitted, drawn: Numbers) -> Iterator[KindCost]:
    """Yield the cost of each kind of layer; every call counts alike, whatever its latency.

    ``drawn`` are coefficients ``(draws, terms)`` for the intervals.
    """
    timed, best = fitted.timed, fitted.model.coefficients
    memories, unfused = [TERMS.index(term) for term in tables.MEMORY], TERMS.index(tables.UNFUSED)
    for kind, place in PLACE.items():
        at_roof = timed.kinds_s[:, place]
        has = at_roof > 0
        if not has.any():
            continue
        # The terms of this kind alone: its memory, its arithmetic, and its part of the unfused memory
        parts = np.zeros_like(timed.terms)
        parts[:, memories[place]] = timed.terms[:, memories[place]]
        if kind in PRODUCT_KINDS:
            arithmetic = TERMS.index(f"{kind} arithmetic")
            parts[:, arithmetic] = timed.terms[:, arithmetic]
        if place in FUSED:
            all_fused = timed.terms[:, [memories[fused] for fused in FUSED]].sum(axis=1)
            own = timed.terms[:, unfused] * timed.terms[:, memories[place]]
            parts[:, unfused] = own / np.where(all_fused > 0, all_fused, 1.0)
        over = parts.T @ (1.0 / timed.latency_s) / float((at_roof / timed.latency_s).sum())
        low, high = np.quantile(drawn @ over, [LOW, HIGH])
        share = np.median((parts @ best)[has] / (timed.terms @ best)[has])
        models = len(set(timed.architecture[has]))
        yield KindCost(*fitted.setting, kind, models, float(best @ over), float(low), float(high), float(share))


def by_terms(refit: Callable[[FitRows], LatencyModel]) -> Estimate:
    return lambda known, asked: refit(known).predict(asked.terms, asked.make_ups)


def by_scale(quantity: Callable[[FitRows], Numbers]) -> Estimate:
    """Estimate a latency by a quantity ``(rows,)`` times its median factor among the known rows."""
    return lambda known, asked: quantity(asked) * np.median(known.latency_s / quantity(known))


def by_regression(known: FitRows, asked: FitRows) -> Numbers:
    """Fit a line through the times of the FLOP at the peak, as the terms are fitted."""
    line, asked_line = (np.column_stack([rows.flop_s, np.full(len(rows), 1e-3)]) for rows in (known, asked))
    return asked_line @ fit(line, known.latency_s, known.weights(), np.zeros(2))


by_flop = by_scale(lambda rows: rows.flop_s)

BASELINES: dict[str, Estimate] = {
    tables.LIKE_FLOP: by_flop,
    tables.LIKE_PARAMETERS: by_scale(lambda rows: rows.parameter_s),
    tables.LIKE_ROOFLINE: by_scale(lambda rows: rows.kinds_s.sum(axis=1)),
    tables.LIKE_REGRESSION: by_regression,
}


def folds(labels: Texts, count: int = FOLDS) -> Iterator[Mask]:
    """Yield masks ``(rows,)`` of the rows to leave out together: those with labels of one of ``count`` parts."""
    names = sorted(set(labels))
    order = np.random.default_rng(SEED).permutation(len(names))
    part = {name: place % count for name, place in zip(names, order, strict=True)}
    parts = np.array([part[label] for label in labels])
    for each in sorted(set(parts)):
        yield parts == each


def leave_out(timed: FitRows, labels: Texts, estimate: Estimate) -> Numbers:
    """Return latencies over predictions ``(rows,)``, each row predicted without those of its label, else NaN."""
    ratios = np.full(len(timed), np.nan)
    for out in folds(labels):
        if not out.all():
            ratios[out] = timed.latency_s[out] / estimate(timed.where(~out), timed.where(out))
    return ratios


def check_setting(setting: Setting, timed: FitRows, refit: Callable[[FitRows], LatencyModel]) -> Iterator[Checked]:
    """Yield the checks of one setting's own fit, and of the baselines."""
    is_known = timed.architecture == KNOWN
    for left_out, labels in ((tables.BY_MODEL, timed.architecture), (tables.BY_FAMILY, timed.family)):
        for method, estimate in {tables.OURS: by_terms(refit), **BASELINES}.items():
            yield Checked(left_out, method, setting, timed, leave_out(timed, labels, estimate))
        if is_known.any() and not is_known.all():
            asked = timed.where(~is_known)
            ratios = asked.latency_s / by_flop(timed.where(is_known), asked)
            yield Checked(left_out, tables.LIKE_RESNET50, setting, asked, ratios)


def check_pool(timed: FitRows, aside: FitRows | None) -> Iterator[Checked]:
    """Yield the checks of a pool without each device, with one known time of it, and without each source.

    ``aside`` are calls on devices that no fit has seen.
    """
    for left_out, labels in ((tables.BY_DEVICE, timed.device), (tables.BY_SOURCE, timed.source)):
        for label in sorted(set(labels)):
            out = labels == label
            if not out.all():
                yield from _predict(timed.where(~out), timed.where(out), left_out)
    if aside is not None:
        yield from _predict(timed, aside, tables.PUT_ASIDE)


def _predict(known: FitRows, asked: FitRows, left_out: str) -> Iterator[Checked]:
    """Yield each setting that was left out, predicted by all methods; of a device also with one known time."""
    for method, estimate in {tables.OURS: by_terms(fit_pool), **BASELINES}.items():
        ratios = asked.latency_s / estimate(known, asked)
        numbers = number_labels(asked.setting)
        for number in range(numbers.max() + 1):
            chosen = numbers == number
            rows, own_ratios, setting = asked.where(chosen), ratios[chosen], asked.setting[chosen.argmax()]
            yield Checked(left_out, method, setting, rows, own_ratios)
            own = rows.architecture == KNOWN
            if left_out == tables.BY_DEVICE and own.any() and not own.all():
                scaled = own_ratios[~own] / np.median(own_ratios[own])
                yield Checked(tables.ONE_KNOWN, method, setting, rows.where(~own), scaled)


def pool_errors(found: Sequence[Checked], pool: Setting) -> Iterator[PredictionError]:
    """Yield the errors of each setting that a pool predicts, and of all together, where each setting counts alike.

    A setting is held against the interval of the other devices.
    """
    groups: dict[tuple[str, str], list[Checked]] = {}
    for check in found:
        if np.isfinite(check.ratios).all():
            groups.setdefault((check.left_out, check.method), []).append(check)
    for (left_out, method), alike in groups.items():
        # A device set aside gets the interval that any new device would get
        source = groups.get((tables.BY_DEVICE, method), []) if left_out == tables.PUT_ASIDE else alike
        by_device = [(check.setting.device, np.quantile(check.ratios, POINTS)) for check in source]
        coverages = []
        for check in alike:
            others = [ratios for device, ratios in by_device if device != check.setting.device]
            rows = list(summarise(check, np.concatenate(others) if others else None))
            coverages.append(rows[0].coverage)
            yield from rows
        known = [coverage for coverage in coverages if coverage is not None]
        coverage = float(np.mean(known)) if len(known) == len(coverages) else None
        models = {name for check in alike for name in check.rows.architecture}
        ratios = np.concatenate([np.quantile(check.ratios, POINTS) for check in alike])
        count = sum(len(check.rows) for check in alike)
        yield error_row(left_out, method, pool, tables.ALL_BATCHES, len(models), count, ratios, coverage)


def summarise(check: Checked, others: Numbers | None) -> Iterator[PredictionError]:
    """Yield the errors of a check, of all batch sizes together and by their classes.

    The interval comes from ``others``, ratios of other rows; None: from the other half of the models.
    """
    valid = np.isfinite(check.ratios)
    if not valid.any():
        return
    rows, ratios = check.rows.where(valid), check.ratios[valid]
    within = _is_within(rows, ratios, others) if check.method == tables.OURS else None
    for name, (least, most) in {tables.ALL_BATCHES: (1, 10**9), **tables.BATCH_CLASSES}.items():
        chosen = (rows.batch >= least) & (rows.batch <= most)
        if not chosen.any() or (name != tables.ALL_BATCHES and chosen.all()):
            continue
        models, coverage = len(set(rows.architecture[chosen])), None if within is None else float(within[chosen].mean())
        of_rows = name, models, int(chosen.sum()), ratios[chosen]
        yield error_row(check.left_out, check.method, check.setting, *of_rows, coverage)


def error_row(
    left_out: str, method: str, setting: Setting, batches: str, models: int, calls: int, ratios: Numbers,
    coverage: float | None,
) -> PredictionError:  # fmt: skip
    """Return the row of errors for ``ratios`` of latencies to predictions."""
    errors = np.abs(1.0 / ratios - 1.0)
    low, high = np.quantile(ratios, [LOW, HIGH])
    return PredictionError(
        *setting, left_out=left_out, method=method, batches=batches, models=models, calls=calls,
        median_error=float(np.median(errors)), p90_error=float(np.quantile(errors, 0.9)), coverage=coverage,
        median_ratio=float(np.median(ratios)), low_ratio=float(low), high_ratio=float(high),
    )  # fmt: skip


def _is_within(rows: FitRows, ratios: Numbers, others: Numbers | None) -> Mask:
    """Return which latencies lie within the interval of other rows' ratios, or of the other half's."""
    if others is not None:
        low, high = np.quantile(others, [LOW, HIGH])
        return np.asarray((ratios >= low) & (ratios <= high))
    found = np.zeros(len(ratios), dtype=bool)
    for half in folds(rows.architecture, 2):
        if not half.all():
            low, high = np.quantile(ratios[~half], [LOW, HIGH])
            found[half] = (ratios[half] >= low) & (ratios[half] <= high)
    return found
