"""Fits settings and pools of timed calls, and checks each fit by predicting calls that it leaves out."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial

import numpy as np

from measure.cache import predictions as tables
from measure.cache.predictions import TERMS, Coefficient, KindCost, PredictionError, Setting
from measure.domain.words import EAGER, FULL_PRECISION, PRODUCT_KINDS, stored_as
from measure.predicting.demand import FUSED, PLACE, Numbers
from measure.predicting.model import AT_THE_ROOF, LatencyModel, fit, fit_pool, fit_setting
from measure.predicting.timings import FitRows, Mask, Texts, TimedCall, fit_rows, number_labels

FOLDS, SEED = 10, 22  # models or families are left out a tenth at a time, shuffled by the seed
RESAMPLES = 100  # of the bootstrap
KNOWN = "resnet50"  # the model whose latency counts as known
LOW, HIGH = 0.05, 0.95  # the quantiles at the ends of a prediction interval
POINTS = np.linspace(0.0, 1.0, 101)  # the quantiles that represent a setting's ratios, so that settings count alike
POOLED = (EAGER, "torch.compile")  # the variants in a pool
MANY, SOME, SIZES = 100, 20, 2  # a setting gets its own fit from MANY models, or from SOME at this many batch sizes
# Devices that no fit and no choice of terms has seen: set aside before the first fit, predicted at the end
ASIDE = ("AMD Radeon RX 7800 XT", "NVIDIA TITAN RTX")

Fit = Callable[[FitRows], LatencyModel]
Estimate = Callable[[FitRows, FitRows], Numbers]  # from known rows to the latencies (s) of the rows asked for, (rows,)


@dataclass(frozen=True, eq=False)
class Checked:
    """Rows that a fit left out, and the ``ratios`` ``(rows,)`` of their latencies to its predictions."""

    left_out: str
    method: str
    setting: Setting
    rows: FitRows
    ratios: Numbers


@dataclass(frozen=True)
class Study:
    """The rows of the tables in ``data/prediction``."""

    coefficients: list[Coefficient]
    kinds: list[KindCost]
    errors: list[PredictionError]


def study(calls: Sequence[TimedCall], say: Callable[[str], None], aside: bool = False) -> Study:
    """Fit and check everything. ``say`` gets the name of each fit; ``aside`` also predicts the devices of ``ASIDE``."""
    groups = {setting: fit_rows(chosen) for setting, chosen in group(calls).items()}
    pools = {setting: rows for setting, rows in groups.items() if not setting.source}
    models = {pool: fit_pool(timed) for pool, timed in pools.items()}
    pool_by_setting = {call.setting: pool_of_call(call) for call in calls}
    found = Study([], [], [])

    def add(setting: Setting, timed: FitRows, model: LatencyModel, resampled: Texts, refit: Fit) -> None:
        say(", ".join(filter(None, setting)))
        drawn = bootstrap(timed, resampled, refit)
        values = np.vstack([model.coefficients, np.quantile(drawn, [LOW, HIGH], axis=0)])
        for term, value in zip(TERMS, values.T.tolist(), strict=True):
            found.coefficients.append(Coefficient(*setting, term, len(set(timed.architecture)), len(timed), *value))
        found.kinds.extend(kind_costs(setting, timed, model.coefficients, drawn))

    for setting, timed in groups.items():
        names = len(set(timed.architecture))
        if setting not in pools and (names >= MANY or (names >= SOME and len(set(timed.batch)) >= SIZES)):
            of_pool = models.get(pool_by_setting[setting])
            refit = partial(fit_setting, prior=AT_THE_ROOF if of_pool is None else of_pool.coefficients)
            add(setting, timed, refit(timed), timed.architecture, refit)
            for check in check_setting(setting, timed, refit):
                found.errors.extend(summarise(check, None))
    for pool, timed in pools.items():
        add(pool, timed, models[pool], timed.device, fit_pool)
        unseen = [call for call in calls if aside and call.setting.device in ASIDE and pool_of_call(call) == pool]
        found.errors.extend(pool_errors(check_pool(timed, fit_rows(unseen) if unseen else None), pool))
    return found


@cache
def pool_of(chip_kind: str, precision: str, phase: str) -> Setting:
    """Return the setting of all devices of a kind, at precisions of equal width."""
    bits = FULL_PRECISION if stored_as(precision) == FULL_PRECISION else tables.HALF
    return Setting(tables.POOLS.get(chip_kind, f"any {chip_kind}"), "", "", bits, "", phase)


def pool_of_call(call: TimedCall) -> Setting:
    return pool_of(call.chip_kind, call.setting.precision, call.setting.phase)


def group(calls: Iterable[TimedCall]) -> dict[Setting, list[TimedCall]]:
    """Group calls by setting, and once more by pool; without the devices of ``ASIDE``."""
    groups: dict[Setting, list[TimedCall]] = {}
    for call in calls:
        if call.setting.device not in ASIDE:
            groups.setdefault(call.setting, []).append(call)
            if call.setting.variant in POOLED:
                groups.setdefault(pool_of_call(call), []).append(call)
    return groups


def bootstrap(timed: FitRows, resampled: Texts, refit: Fit) -> Numbers:
    """Return coefficients ``(draws, terms)`` of fits to samples of whole models or devices, as ``resampled`` names."""
    random = np.random.default_rng(SEED)
    rows_of = [np.flatnonzero(resampled == name) for name in sorted(set(resampled))]
    drawn = []
    for _ in range(RESAMPLES):
        rows = np.concatenate([rows_of[place] for place in random.integers(0, len(rows_of), len(rows_of))])
        drawn.append(refit(timed.where(rows)).coefficients)
    return np.array(drawn)


def kind_costs(setting: Setting, timed: FitRows, best: Numbers, drawn: Numbers) -> Iterator[KindCost]:
    """Yield the cost of each kind of layer by coefficients ``best`` ``(terms,)``, with the intervals of ``drawn``.

    Every call counts alike, whatever its latency.
    """
    memories, unfused = [TERMS.index(term) for term in tables.MEMORY], TERMS.index(tables.UNFUSED)
    for kind, place in PLACE.items():
        at_roof = timed.kinds_s[:, place]
        has = at_roof > 0
        if not has.any():
            continue
        # The terms of this kind alone: its memory, its arithmetic, and its part of the unfused memory
        parts = np.zeros_like(timed.terms)
        own = [memories[place], *([TERMS.index(f"{kind} arithmetic")] if kind in PRODUCT_KINDS else [])]
        parts[:, own] = timed.terms[:, own]
        if place in FUSED:
            all_fused = timed.terms[:, [memories[fused] for fused in FUSED]].sum(axis=1)
            own_unfused = timed.terms[:, unfused] * timed.terms[:, memories[place]]
            parts[:, unfused] = own_unfused / np.where(all_fused > 0, all_fused, 1.0)
        over = parts.T @ (1.0 / timed.latency_s) / float((at_roof / timed.latency_s).sum())
        low, high = np.quantile(drawn @ over, [LOW, HIGH])
        share = float(np.median((parts @ best)[has] / (timed.terms @ best)[has]))
        models = len(set(timed.architecture[has]))
        yield KindCost(*setting, kind, models, float(best @ over), float(low), float(high), share)


def by_terms(refit: Fit) -> Estimate:
    return lambda known, asked: refit(known).predict(asked.terms, asked.make_ups)


def by_scale(quantity: Callable[[FitRows], Numbers]) -> Estimate:
    """Estimate a latency by a quantity ``(rows,)`` times its median factor among the known rows."""
    return lambda known, asked: quantity(asked) * np.median(known.latency_s / quantity(known))


def by_regression(known: FitRows, asked: FitRows) -> Numbers:
    """Fit a line through the times of the FLOP at the peak, as the terms are fitted."""
    line, asked_line = (np.column_stack([rows.flop_s, np.full(len(rows), 1e-3)]) for rows in (known, asked))
    return asked_line @ fit(line, known.latency_s, known.weights(), np.zeros(2))


BASELINES: dict[str, Estimate] = {
    tables.LIKE_FLOP: by_scale(lambda rows: rows.flop_s),
    tables.LIKE_PARAMETERS: by_scale(lambda rows: rows.parameter_s),
    tables.LIKE_ROOFLINE: by_scale(lambda rows: rows.kinds_s.sum(axis=1)),
    tables.LIKE_REGRESSION: by_regression,
}


def folds(labels: Texts, count: int = FOLDS) -> Iterator[Mask]:
    """Yield masks ``(rows,)`` of the rows to leave out together: those with labels of one of ``count`` parts.

    Yields nothing for labels that are all equal: no row would be left.
    """
    names = sorted(set(labels))
    order = np.random.default_rng(SEED).permutation(len(names))
    part = {name: place % count for name, place in zip(names, order, strict=True)}
    parts = np.array([part[label] for label in labels])
    for each in sorted(set(parts)) if len(names) > 1 else ():
        yield parts == each


def leave_out(timed: FitRows, labels: Texts, estimate: Estimate) -> Numbers:
    """Return latencies over predictions ``(rows,)``, each row predicted without those of its label, else NaN."""
    ratios = np.full(len(timed), np.nan)
    for out in folds(labels):
        ratios[out] = timed.latency_s[out] / estimate(timed.where(~out), timed.where(out))
    return ratios


def check_setting(setting: Setting, timed: FitRows, refit: Fit) -> Iterator[Checked]:
    """Yield the checks of one setting's own fit, and of the baselines."""
    is_known = timed.architecture == KNOWN
    for left_out, labels in ((tables.BY_MODEL, timed.architecture), (tables.BY_FAMILY, timed.family)):
        for method, estimate in {tables.OURS: by_terms(refit), **BASELINES}.items():
            yield Checked(left_out, method, setting, timed, leave_out(timed, labels, estimate))
        if is_known.any() and not is_known.all():
            asked = timed.where(~is_known)
            ratios = asked.latency_s / BASELINES[tables.LIKE_FLOP](timed.where(is_known), asked)
            yield Checked(left_out, tables.LIKE_RESNET50, setting, asked, ratios)


def check_pool(timed: FitRows, aside: FitRows | None) -> Iterator[Checked]:
    """Yield the checks of a pool without each device, without each source, and of devices set ``aside``."""
    for left_out, labels in ((tables.BY_DEVICE, timed.device), (tables.BY_SOURCE, timed.source)):
        for label in sorted(set(labels)):
            out = labels == label
            if not out.all():
                yield from _check_others(timed.where(~out), timed.where(out), left_out)
    if aside is not None:
        yield from _check_others(timed, aside, tables.PUT_ASIDE)


def _check_others(known: FitRows, asked: FitRows, left_out: str) -> Iterator[Checked]:
    """Yield each setting that was left out, predicted by all methods; a device also with one known time."""
    numbers = number_labels(asked.setting)
    for method, estimate in {tables.OURS: by_terms(fit_pool), **BASELINES}.items():
        all_ratios = asked.latency_s / estimate(known, asked)
        for number in range(numbers.max() + 1):
            chosen = numbers == number
            rows, ratios, setting = asked.where(chosen), all_ratios[chosen], asked.setting[chosen.argmax()]
            yield Checked(left_out, method, setting, rows, ratios)
            is_known = rows.architecture == KNOWN
            if left_out == tables.BY_DEVICE and is_known.any() and not is_known.all():
                scaled = ratios[~is_known] / np.median(ratios[is_known])
                yield Checked(tables.ONE_KNOWN, method, setting, rows.where(~is_known), scaled)


def pool_errors(checks: Iterable[Checked], pool: Setting) -> Iterator[PredictionError]:
    """Yield the errors of each setting that a pool predicts, with the interval of the other devices, then of all.

    In the errors of all settings together each setting counts alike.
    """
    groups: dict[tuple[str, str], list[Checked]] = {}
    for check in checks:
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
            coverages += [row.coverage for row in rows[:1] if row.coverage is not None]
            yield from rows
        coverage = float(np.mean(coverages)) if coverages else None
        models = np.concatenate([check.rows.architecture for check in alike])
        ratios = np.concatenate([np.quantile(check.ratios, POINTS) for check in alike])
        yield _error_row(alike[0], pool, tables.ALL_BATCHES, models, ratios, coverage)


def summarise(check: Checked, others: Numbers | None) -> Iterator[PredictionError]:
    """Yield the errors of a check, of all batch sizes together and by their classes.

    The interval comes from ``others``, ratios of other rows; None: from the other half of the models.
    """
    valid = np.isfinite(check.ratios)
    if not valid.any():
        return
    rows, ratios = check.rows.where(valid), check.ratios[valid]
    if others is None:
        parts = [(half, ratios[~half]) for half in folds(rows.architecture, 2)]
    else:
        parts = [(np.ones(len(ratios), dtype=bool), others)]
    within = np.zeros(len(ratios), dtype=bool)
    for part, seen in parts:
        low, high = np.quantile(seen, [LOW, HIGH])
        within[part] = (ratios[part] >= low) & (ratios[part] <= high)
    for name, (least, most) in {tables.ALL_BATCHES: (1, 10**9), **tables.BATCH_CLASSES}.items():
        chosen = (rows.batch >= least) & (rows.batch <= most)
        if chosen.any() and (name == tables.ALL_BATCHES or not chosen.all()):
            coverage = float(within[chosen].mean()) if check.method == tables.OURS else None
            yield _error_row(check, check.setting, name, rows.architecture[chosen], ratios[chosen], coverage)


def _error_row(
    check: Checked, setting: Setting, batches: str, models: Texts, ratios: Numbers, coverage: float | None
) -> PredictionError:
    """Summarise ratios; ``models`` names the model of each predicted call."""
    errors = np.abs(1.0 / ratios - 1.0)
    low, high = np.quantile(ratios, [LOW, HIGH])
    return PredictionError(
        *setting, check.left_out, check.method, batches, len(set(models)), len(models), float(np.median(errors)),
        float(np.quantile(errors, 0.9)), coverage, float(np.median(ratios)), float(low), float(high),
    )  # fmt: skip
