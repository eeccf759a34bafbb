"""Fits all settings and pools of what was timed, and checks the fits: the tables of ``data/prediction``."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from measure.cache.predictions import (
    ALL_BATCHES,
    BY_DEVICE,
    HALF,
    POOLS,
    PUT_ASIDE,
    Coefficient,
    KindCost,
    PredictionError,
    Setting,
)
from measure.cache.words import EAGER, FULL_PRECISION, stored_as
from measure.predicting import checks, costs
from measure.predicting.checks import Checked
from measure.predicting.fitting import Numbers
from measure.predicting.model import AT_THE_ROOF, LatencyModel, of_pool, of_setting
from measure.predicting.sample import Sample, Texts, sample
from measure.predicting.timings import TimedCall

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
        for check in checks.of_setting_checked(fitted.setting, fitted.timed, prior):
            found.errors.extend(checks.summarised(check, None))
    for pool, fitted in pooled.items():
        say(", ".join(filter(None, pool)))
        _tell(found, fitted, fitted.timed.device, of_pool)
        unseen = [call for call in calls if aside and call.setting.device in ASIDE and pool_of_call(call) == pool]
        checked = checks.of_pool_checked(fitted.timed, sample(unseen) if unseen else None)
        found.errors.extend(_of_pool(list(checked), pool))
    return found


def _tell(found: Study, fitted: Fitted, resampled: Texts, refit: Callable[[Sample], LatencyModel]) -> None:
    """Add a fit's coefficients and what kinds of layer cost, with the intervals of one bootstrap."""
    drawn = costs.bootstrapped(fitted.timed, resampled, refit)
    best = fitted.model.coefficients
    found.coefficients.extend(costs.coefficients(fitted.setting, fitted.timed, best, drawn))
    found.kinds.extend(costs.of_kinds(fitted.setting, fitted.timed, best, drawn))


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
            rows = list(checks.summarised(check, np.concatenate(others) if others else None))
            within.append(rows[0].coverage)
            yield from rows
        covered = None if None in within else float(np.mean(np.array(within, dtype=float)))
        models = {name for check in alike for name in check.rows.architecture}
        latencies, even = sum(len(check.rows) for check in alike), np.concatenate([_even(check) for check in alike])
        yield checks.error_row(left_out, method, pool, ALL_BATCHES, models, latencies, even, covered)


def _even(check: Checked) -> Numbers:
    """Return the ratios of a check by their quantiles, so that each setting has the same say."""
    return np.asarray(np.quantile(check.ratios, POINTS))
