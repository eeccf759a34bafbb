"""Fits all settings and pools of what was timed, and checks the fits: the tables of ``data/prediction``."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from measure.cache.predictions import HALF, POOLS, TERMS, Coefficient, PredictionError, Setting
from measure.cache.words import EAGER, FULL_PRECISION, stored_as
from measure.predicting import checks
from measure.predicting.checks import HIGH, LOW, Checked
from measure.predicting.fitting import Numbers
from measure.predicting.model import AT_THE_ROOF, LatencyModel, of_pool, of_setting
from measure.predicting.sample import Sample, Texts, sample
from measure.predicting.timings import TimedCall

ASIDE = ("AMD Radeon RX 7800 XT", "NVIDIA TITAN RTX")
"""Devices that no fit and no choice of terms has seen: put aside before the first fit, to be predicted at the end."""

POOLED = (EAGER, "torch.compile")
"""The variants whose latencies a pool is fitted to."""

MANY, SOME, SIZES = 100, 20, 2
"""A setting is fitted by itself where so many models were timed, or some at so many batch sizes."""

RESAMPLES = 100
"""So many bootstrap samples tell the interval of a coefficient."""


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


def coefficients(fitted: Fitted, resampled: Texts, refit: Callable[[Sample], LatencyModel]) -> Iterator[Coefficient]:
    """Yield a fit's coefficients with their 90 % intervals, by a bootstrap that draws whole models or devices."""
    drawn = []
    random = np.random.default_rng(checks.SEED)
    names = sorted(set(resampled))
    rows_of = {name: np.flatnonzero(resampled == name) for name in names}
    for _ in range(RESAMPLES):
        rows = np.concatenate([rows_of[names[each]] for each in random.integers(0, len(names), len(names))])
        drawn.append(refit(fitted.timed.where(rows)).coefficients)
    lows, highs = np.quantile(np.array(drawn), [LOW, HIGH], axis=0)
    models = len(set(fitted.timed.architecture))
    for term, value, low, high in zip(TERMS, fitted.model.coefficients, lows, highs, strict=True):
        yield Coefficient(*fitted.setting, term, models, len(fitted.timed), float(value), float(low), float(high))


def study(
    calls: list[TimedCall], say: Callable[[str], None], aside: bool = False
) -> tuple[list[Coefficient], list[PredictionError]]:
    """Return the coefficients of all fits and the errors of all checks; ``say`` is told of each fit as it begins.

    The devices of ``ASIDE`` are predicted if asked for.
    """
    pooled = pools(calls)
    told: list[Coefficient] = []
    errors: list[PredictionError] = []
    for fitted, prior in own_fits(calls, pooled):
        say(", ".join(filter(None, fitted.setting)))
        told += coefficients(fitted, fitted.timed.architecture, partial(of_setting, prior=prior))
        for check in checks.of_setting_checked(fitted.setting, fitted.timed, prior):
            errors += checks.summarised(check, None)
    for pool, fitted in pooled.items():
        say(", ".join(filter(None, pool)))
        told += coefficients(fitted, fitted.timed.device, of_pool)
        unseen = [call for call in calls if aside and call.setting.device in ASIDE and pool_of_call(call) == pool]
        found = checks.of_pool_checked(fitted.timed, sample(unseen) if unseen else None)
        errors += _of_pool(list(found), pool)
    return told, errors


POINTS = np.linspace(0.0, 1.0, 101)
"""The quantiles that stand for a setting's ratios, so that each setting has the same say."""


def _of_pool(found: list[Checked], pool: Setting) -> Iterator[PredictionError]:
    """Yield the errors of each setting that a pool predicts, and of all together, each with the same say.

    The interval that a setting is asked for is that of the other devices.
    """
    for left_out, method in dict.fromkeys((check.left_out, check.method) for check in found):
        alike = [
            check
            for check in found
            if (check.left_out, check.method) == (left_out, method) and np.isfinite(check.ratios).all()
        ]
        even = [np.quantile(check.ratios, POINTS) for check in alike]
        within = []
        for check in alike:
            others = [each for each, other in zip(even, alike, strict=True) if other.setting[0] != check.setting[0]]
            rows = list(checks.summarised(check, np.concatenate(others) if others else None))
            within.append(rows[0].coverage)
            yield from rows
        if alike:
            ratios = np.concatenate(even)
            away = np.abs(1.0 / ratios - 1.0)
            low, high = checks.interval(ratios)
            yield PredictionError(
                left_out, method, *pool, checks.ALL_BATCHES,
                len({name for check in alike for name in check.rows.architecture}),
                sum(len(check.rows) for check in alike), float(np.median(away)), float(np.quantile(away, 0.9)),
                None if None in within else float(np.mean(np.array(within, dtype=float))), low, high,
            )  # fmt: skip
