"""Fits settings and pools of timed calls, and checks each fit by predicting calls that it leaves out."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import product

import numpy as np

from measure.cache import predictions as tables
from measure.cache.predictions import ALL, LAUNCHES, TERMS, Coefficient, NetworkFactor, PredictionError, Setting
from measure.domain.words import FULL_PRECISION, stored_as
from measure.predicting.demand import TOKENS, Numbers
from measure.predicting.model import AT_THE_ROOF, adapt, device_part, fit, likely
from measure.predicting.timings import Costs, FitRows, Mask, Places, Texts, TimedCall, fit_rows

FOLDS, SEED = 10, 22  # families or models are left out a tenth at a time, shuffled by the seed
KNOWN, KNOWN_TIMES, DRAWS = "resnet50", 5, 4  # the model of one known time, and several known times drawn at random
NINE = 0.9  # the share of latencies within an interval, and of the errors below the upper one
FEWEST = 4  # other devices or models whose ratios make an interval
# An interval of n models is that of a share of NINE * (1 + 1/n): a new model is as likely to be of any rank among these
# (V. Vovk, A. Gammerman and G. Shafer, Algorithmic Learning in a Random World, 2005, chapter 2). The ratios of a new
# device do not all lie at one rank, so n devices need less: as much as held nine in ten of those left out.
OF_MODELS, OF_DEVICES = NINE, 0.1
HELD = 0.85  # an interval counts if it covered this share of the latencies that it was checked with
POINTS = np.linspace(0.0, 1.0, 101)  # the quantiles that represent ratios, so that settings and devices count alike
WHOLE = ALL, ALL  # all batch sizes and all sorts of networks
PARTS = list(product((ALL, *tables.BATCH_CLASSES), (ALL, *tables.SORTS)))
GPUS = tables.POOLS["gpu"]  # whose networks have factors: those of CPUs and systems on a chip were timed on two devices
SOME = 20  # models from which a setting is checked by itself
SEEN = 0.55  # a latency tells its network's factor if the device's part is this share of it, 30 % of its square
# Devices that no fit and no choice of terms has seen: set aside before the first fit
ASIDE = ("AMD Radeon RX 7800 XT", "NVIDIA TITAN RTX")

# From known rows to the latencies (s) of the rows asked for, (rows,)
Estimate = Callable[[FitRows, FitRows], Numbers]
Part = tuple[str, str]  # a class of batch sizes and a sort of networks


@dataclass(frozen=True, eq=False)
class Checked:
    """Rows that a fit left out, and the ``ratios`` ``(rows,)`` of their latencies to its predictions."""

    left_out: str
    method: str
    setting: Setting
    rows: FitRows
    ratios: Numbers

    def of(self, part: Part) -> "Checked":
        """Return the predicted rows of a class of batch sizes and a sort of networks."""
        batches, sort = part
        least, most = tables.BATCH_CLASSES.get(batches, (1, 10**9))
        chosen = (self.rows.batch >= least) & (self.rows.batch <= most) & np.isfinite(self.ratios)
        chosen &= (self.rows.sort == sort) | (sort == ALL)
        return replace(self, rows=self.rows.where(chosen), ratios=self.ratios[chosen])


def study(
    calls: Sequence[TimedCall], costs: Costs, say: Callable[[str], None]
) -> tuple[list[Coefficient], list[NetworkFactor], list[PredictionError]]:
    """Fit and check everything. ``say`` gets the name of each fit."""
    groups = {setting: fit_rows(chosen, costs) for setting, chosen in group(calls).items()}
    pools = {setting: rows for setting, rows in groups.items() if not setting.source}
    best = {pool: fit_pool(timed) for pool, timed in pools.items()}
    factors = {pool: network_factors(timed, best[pool]) for pool, timed in pools.items() if pool.device == GPUS}
    pool_by_setting = {call.setting: pool_of_call(call) for call in calls}
    networks = [
        NetworkFactor(pool.device, pool.precision, pool.phase, network, factor)
        for pool, of_networks in factors.items()
        for network, factor in of_networks.items()
    ]
    measured_here = [cost for cost in costs.items() if cost[0].source == tables.HERE]
    coefficients = [Coefficient(*setting, LAUNCHES, 1, host_us) for setting, host_us in measured_here]
    errors: list[PredictionError] = []
    for setting, timed in groups.items():
        say(", ".join(filter(None, setting)))
        models = len(set(timed.architecture))
        if setting in pools:
            found = best[setting]
            unseen = [call for call in calls if call.setting.device in ASIDE and pool_of_call(call) == setting]
            checks = check_pool(timed, fit_rows(unseen, costs) if unseen else None, setting in factors)
            errors.extend(pool_errors(checks, setting))
        else:
            pool = pool_by_setting[setting]
            refit = partial(fit_setting, best.get(pool, AT_THE_ROOF))
            found = refit(timed.scaled(factors.get(pool, {})))
            if models >= SOME:
                known = timed
                if pool in factors and (elsewhere := pools[pool].device != setting.device).any():
                    known = timed.scaled(network_factors(pools[pool].where(elsewhere), best[pool]))
                for check in check_setting(setting, known, timed, refit):
                    errors.extend(setting_errors(check))
        values = zip(TERMS, found.tolist(), strict=True)
        coefficients.extend(Coefficient(*setting, term, models, value) for term, value in values)
    return coefficients, networks, errors


@cache
def pool_of(chip_kind: str, precision: str, phase: str) -> Setting:
    """Return the setting of all devices of a kind, at precisions of equal width."""
    bits = FULL_PRECISION if stored_as(precision) == FULL_PRECISION else tables.HALF
    return Setting(tables.POOLS.get(chip_kind, f"any {chip_kind}"), "", "", bits, "", phase)


def pool_of_call(call: TimedCall) -> Setting:
    return pool_of(call.chip_kind, call.setting.precision, call.setting.phase)


def group(calls: Iterable[TimedCall]) -> dict[Setting, list[TimedCall]]:
    """Group calls by setting, and once more by pool; without the devices of ``ASIDE``."""
    groups: dict[Setting, list[TimedCall]] = defaultdict(list)
    for call in calls:
        if call.setting.device not in ASIDE:
            if call.chip_kind != TOKENS:  # programs that serve are predicted by their pool alone
                groups[call.setting].append(call)
            if call.setting.device != call.machine or call.chip_kind != "gpu":  # a pool of GPUs is of datasheets
                groups[pool_of_call(call)].append(call)
    return groups


def fit_pool(timed: FitRows) -> Numbers:
    """Fit the calls of several settings, each weighted by the square root of its number of calls."""
    return fit(timed.terms, timed.launch_s, timed.latency_s, timed.weights(), AT_THE_ROOF)


def fit_setting(of_pool: Numbers, timed: FitRows) -> Numbers:
    """Fit the calls of one setting, from the coefficients of its pool; every row counts alike."""
    return adapt(of_pool, timed.terms, timed.launch_s, timed.latency_s)[0]


def network_factors(timed: FitRows, of_pool: Numbers) -> dict[str, float]:
    """Return each network's factor on the device's part of its times: the median of all devices, drawn to 1.

    A device counts once, and as fast as it is: over the median of its networks. Launches hide nothing of what counts.
    """
    device_s = device_part(timed.launch_s, timed.latency_s)
    off = np.log(device_s / predict(of_pool, replace(timed, launch_s=0 * timed.launch_s)))
    by_device: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for place in np.flatnonzero(device_s > SEEN * timed.latency_s):
        by_device[timed.device[place]][timed.architecture[place]].append(off[place])
    by_network: dict[str, list[float]] = defaultdict(list)
    for networks in by_device.values():
        usual = np.median(np.concatenate([*networks.values()]))
        for network, logs in networks.items():
            by_network[network].append(float(np.median(logs) - usual))
    return {name: float(np.exp(np.median(logs) * len(logs) / (len(logs) + 1))) for name, logs in by_network.items()}


def predict(coefficients: Numbers, asked: FitRows) -> Numbers:
    return likely(coefficients, asked.terms, asked.launch_s)


def _scaled(time: str) -> Estimate:
    """Return an estimate by a time of each row, times the median factor of the known rows."""
    return lambda known, asked: np.median(known.latency_s / getattr(known, time)) * getattr(asked, time)


BASELINES = {tables.LIKE_FLOP: _scaled("flop_s"), tables.LIKE_ROOFLINE: _scaled("roof_s")}


def folds(labels: Texts) -> Iterator[Mask]:
    """Yield masks ``(rows,)`` of the rows to leave out together: those with labels of one of ``FOLDS`` parts.

    Yields nothing for labels that are all equal: no row would be left.
    """
    names = sorted(set(labels))
    order = np.random.default_rng(SEED).permutation(len(names))
    part = {name: place % FOLDS for name, place in zip(names, order, strict=True)}
    parts = np.array([part[label] for label in labels])
    for each in sorted(set(parts)) if len(names) > 1 else ():
        yield parts == each


def check_setting(
    setting: Setting, timed: FitRows, plain: FitRows, refit: Callable[[FitRows], Numbers]
) -> Iterator[Checked]:
    """Yield the checks of one setting's own fit and of the baselines, each family by the others.

    The others are ``timed``, with the factors that other devices give. A family left out is ``plain``, without them.
    """
    estimates: dict[str, Estimate] = {tables.OURS: lambda known, asked: predict(refit(known), asked), **BASELINES}
    for method, estimate in estimates.items():
        ratios = np.full(len(timed), np.nan)
        for out in folds(timed.family):
            ratios[out] = timed.latency_s[out] / estimate(timed.where(~out), plain.where(out))
        yield Checked(tables.BY_FAMILY, method, setting, timed, ratios)


def check_pool(timed: FitRows, aside: FitRows | None, has_factors: bool) -> Iterator[Checked]:
    """Yield the checks of a pool without each device, and of devices set ``aside``."""
    for device in sorted(set(timed.device)):
        out = timed.device == device
        if not out.all():
            yield from _check_others(timed.where(~out), timed.where(out), tables.BY_DEVICE, has_factors)
    if aside is not None:
        yield from _check_others(timed, aside, tables.PUT_ASIDE, has_factors)


def _check_others(known: FitRows, plain: FitRows, left_out: str, has_factors: bool) -> Iterator[Checked]:
    """Yield each setting that was left out, predicted by all methods; a device also with some known times."""
    of_pool = fit_pool(known)
    asked = plain.scaled(network_factors(known, of_pool)) if has_factors else plain
    estimates = {(left_out, tables.OURS): predict(of_pool, asked)}
    estimates |= {(left_out, method): estimate(known, asked) for method, estimate in BASELINES.items()}
    if left_out == tables.BY_DEVICE and has_factors:
        estimates[tables.BY_BOTH, tables.OURS] = predict(of_pool, plain)
    for setting in dict.fromkeys(asked.setting):
        chosen = np.array([each == setting for each in asked.setting])
        rows = asked.where(chosen)
        for (part, method), likely_s in estimates.items():
            yield Checked(part, method, setting, rows, rows.latency_s / likely_s[chosen])
        if left_out == tables.BY_DEVICE:
            random = np.random.default_rng(SEED)
            several = [random.permutation(len(rows))[:KNOWN_TIMES] for _ in range(DRAWS)]
            yield from _check_known(tables.ONE_KNOWN, rows, [np.flatnonzero(rows.architecture == KNOWN)], of_pool)
            yield from _check_known(tables.FIVE_KNOWN, rows, several, of_pool)


def _check_known(left_out: str, rows: FitRows, draws: Sequence[Places], of_pool: Numbers) -> Iterator[Checked]:
    """Yield the check of one setting's other networks once the times at some places are known, for all draws."""
    asked, ratios = [], []
    for places in draws:
        rest = np.flatnonzero(~np.isin(rows.architecture, rows.architecture[places]))
        if len(places) and len(rest):
            seen, others = rows.where(places), rows.where(rest)
            # Known times start from the reference host, for they have to tell their own
            start_s = seen.launch_s / seen.host
            adapted, host = adapt(of_pool, seen.terms, start_s, seen.latency_s, has_own_host=True)
            asked.append(rest)
            ratios.append(others.latency_s / likely(adapted, others.terms, host * others.launch_s / others.host))
    if asked:
        yield Checked(left_out, tables.OURS, rows.setting[0], rows.where(np.concatenate(asked)), np.concatenate(ratios))


def setting_errors(check: Checked) -> Iterator[PredictionError]:
    """Yield the errors of a setting's own fit, together and by part; an interval is checked with models left out."""
    for part in PARTS if check.method == tables.OURS else (WHOLE,):
        chosen = check.of(part)
        ratios, models = chosen.ratios, chosen.rows.architecture
        if len(ratios):
            held = np.full(len(ratios), np.nan)
            for out in folds(models):
                held[out] = holds(interval(ratios[~out], len(set(models[~out])), OF_MODELS), ratios[out])
            within = interval(ratios, len(set(models)), OF_MODELS)
            yield _error_row(check, check.setting, part, models, ratios, held, within)


def pool_errors(checks: Iterable[Checked], pool: Setting) -> Iterator[PredictionError]:
    """Yield the errors of each setting that a pool predicts, and those of all by part.

    An interval is made of other devices, each of which counts alike.
    """
    groups: dict[tuple[str, str], list[Checked]] = defaultdict(list)
    for check in checks:
        groups[check.left_out, check.method].append(check)
    for (left_out, method), alike in groups.items():
        # A device set aside gets the interval that any new device would get, and so does a network
        is_new = left_out in (tables.PUT_ASIDE, tables.BY_BOTH)
        source = groups.get((tables.BY_DEVICE, method), []) if is_new else alike
        for part in PARTS if method == tables.OURS else (WHOLE,):
            made_of, asked = (ratios_by_device(check.of(part) for check in every) for every in (source, alike))
            others = {out: [made_of[device] for device in made_of if device != out] for out in asked}
            within = {out: interval(np.ravel(rest), len(rest), OF_DEVICES) for out, rest in others.items()}
            held = {out: holds(within[out], ratios) for out, ratios in asked.items()}
            for check in alike if part == WHOLE else ():
                out, models, ratios = check.setting.device, check.rows.architecture, check.ratios
                yield _error_row(check, check.setting, part, models, ratios, holds(within[out], ratios), within[out])
            if asked:
                models = np.concatenate([check.of(part).rows.architecture for check in alike])
                ratios = np.ravel([*asked.values()])
                of_all = interval(ratios, len(asked), OF_DEVICES)
                yield _error_row(alike[0], pool, part, models, ratios, np.ravel([*held.values()]), of_all)


def ratios_by_device(checks: Iterable[Checked]) -> dict[str, Numbers]:
    """Return the quantiles of the ratios of each device ``(points,)``, each of its settings counting alike."""
    found: dict[str, list[Numbers]] = defaultdict(list)
    for check in checks:
        if len(check.ratios):
            found[check.setting.device].append(np.quantile(check.ratios, POINTS))
    return {device: np.quantile(of_settings, POINTS) for device, of_settings in found.items()}


def interval(ratios: Numbers, count: int, beyond: float) -> float:
    """Return the factor that nine in ten further ratios of latency to prediction lie within; NaN if few are known.

    ``ratios`` are of ``count`` models or devices; ``beyond`` is ``OF_MODELS`` or ``OF_DEVICES``.
    """
    if count < FEWEST:
        return np.nan
    return float(np.exp(np.quantile(np.abs(np.log(ratios)), min(NINE + beyond / count, 1.0))))


def holds(within: float, ratios: Numbers) -> Numbers:
    """Return whether each ratio lies within a factor, as 1 or 0; NaN without one."""
    return np.where(np.isnan(within), np.nan, np.abs(np.log(ratios)) <= np.log(within))


def _error_row(
    check: Checked, setting: Setting, part: Part, models: Texts, ratios: Numbers, held: Numbers, within: float
) -> PredictionError:
    """Summarise ratios; ``models`` names the model of each call, ``held`` tells which ratios an interval held."""
    errors, coverage = np.abs(1.0 / ratios - 1.0), float(np.mean(held))
    return PredictionError(
        *setting, check.left_out, check.method, *part, len(set(models)), len(models), float(np.median(errors)),
        float(np.quantile(errors, NINE)), None if np.isnan(coverage) else coverage, float(np.median(ratios)),
        within if coverage >= HELD and not np.isnan(within) else None,
    )  # fmt: skip
