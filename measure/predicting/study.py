"""Fits settings and pools of timed calls, and checks each fit by predicting calls that it leaves out."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial

import numpy as np

from measure.cache import predictions as tables
from measure.cache.predictions import LAUNCHES, TERMS, Coefficient, NetworkFactor, PredictionError, Setting
from measure.domain.statistics import FEWEST_MODELS
from measure.domain.words import EAGER, FULL_PRECISION, stored_as
from measure.predicting.demand import Numbers
from measure.predicting.model import AT_THE_ROOF, adapt, device_part, fit, likely
from measure.predicting.timings import TOKENS, FitRows, Hosts, Mask, Texts, TimedCall, fit_rows, joined, number_labels

FOLDS, SEED = 10, 22  # models or families are left out a tenth at a time, shuffled by the seed
RESAMPLES = 40  # of the bootstrap
KNOWN, KNOWN_TIMES, DRAWS = "resnet50", 5, 4  # the model of one known time, and several known times drawn at random
LOW, HIGH, NINE = 0.05, 0.95, 0.9  # the quantiles at the ends of a 90 % interval, and of errors of either sign
POINTS = np.linspace(0.0, 1.0, 101)  # the quantiles that represent ratios, so that settings and devices count alike
POOLED = (EAGER, "torch.compile")  # the variants in a pool
GPUS = tables.POOLS["gpu"]  # whose networks have factors: those of CPUs and systems on a chip were timed on two devices
SOME = 20  # models from which a setting is checked by itself
SEEN = 0.55  # a latency tells its network's factor if the device's part is this share of it, 30 % of its square
# Devices that no fit and no choice of terms has seen: set aside before the first fit
ASIDE = ("AMD Radeon RX 7800 XT", "NVIDIA TITAN RTX")

Fit = Callable[[FitRows], Numbers]
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

    coefficients: list[Coefficient] = field(default_factory=list)
    networks: list[NetworkFactor] = field(default_factory=list)
    errors: list[PredictionError] = field(default_factory=list)

    def add(self, setting: Setting, timed: FitRows, values: Numbers) -> None:
        """Add coefficients ``(3, terms)``: the values and both ends of their intervals."""
        of_all = len(set(timed.architecture)), len(timed)
        for term, value in zip(TERMS, values.T.tolist(), strict=True):
            self.coefficients.append(Coefficient(*setting, term, *of_all, *value))


def study(
    calls: Sequence[TimedCall], costs: Iterable[tuple[Setting, float]], hosts: Hosts, say: Callable[[str], None]
) -> Study:
    """Fit and check everything. ``say`` gets the name of each fit."""
    groups = {setting: fit_rows(chosen, hosts) for setting, chosen in group(calls).items()}
    pools = {setting: rows for setting, rows in groups.items() if not setting.source}
    best = {pool: fit_pool(timed) for pool, timed in pools.items()}
    pool_by_setting = {call.setting: pool_of_call(call) for call in calls}
    found = Study()
    factors = {pool: network_factors(timed, best[pool]) for pool, timed in pools.items() if pool.device == GPUS}
    for pool, of_networks in factors.items():
        for network, factor in of_networks.items():
            devices = len(set(pools[pool].device[pools[pool].architecture == network]))
            found.networks.append(NetworkFactor(pool.device, pool.precision, pool.phase, network, devices, factor))
    for setting, host_us in costs:
        found.coefficients.append(Coefficient(*setting, LAUNCHES, 1, 1, host_us, host_us, host_us))
    for setting, timed in groups.items():
        say(", ".join(filter(None, setting)))
        if setting in pools:
            found.add(setting, timed, bootstrap(timed, timed.device, fit_pool))
            unseen = [call for call in calls if call.setting.device in ASIDE and pool_of_call(call) == setting]
            checks = check_pool(timed, fit_rows(unseen, hosts) if unseen else None, setting in factors)
            found.errors.extend(pool_errors(checks, setting))
            continue
        pool = pool_by_setting[setting]
        refit = partial(fit_setting, best.get(pool, AT_THE_ROOF))
        known = timed.scaled(factors.get(pool, {}))
        found.add(setting, timed, bootstrap(known, timed.architecture, refit))
        if len(set(timed.architecture)) >= SOME:
            known = timed
            if pool in factors and (elsewhere := pools[pool].device != setting.device).any():
                known = timed.scaled(network_factors(pools[pool].where(elsewhere), best[pool]))
            for check in check_setting(setting, known, timed, refit):
                found.errors.extend(summarise(check))
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
            if call.setting.device == call.machine and call.chip_kind == "gpu":
                continue  # a pool of GPUs is of datasheets
            if call.setting.variant in POOLED or call.chip_kind == TOKENS:
                groups.setdefault(pool_of_call(call), []).append(call)
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
    seen = device_s > SEEN * timed.latency_s
    by_network: dict[str, list[float]] = {}
    for device in sorted(set(timed.device[seen])):
        of_device = seen & (timed.device == device)
        usual, networks = np.median(off[of_device]), timed.architecture[of_device]
        order = np.argsort(networks, kind="stable")
        names, starts = np.unique(networks[order], return_index=True)
        for name, rows in zip(names, np.split(off[of_device][order], starts[1:]), strict=True):
            by_network.setdefault(name, []).append(float(np.median(rows) - usual))
    return {name: float(np.exp(np.median(logs) * len(logs) / (len(logs) + 1))) for name, logs in by_network.items()}


def predict(coefficients: Numbers, asked: FitRows) -> Numbers:
    return likely(coefficients, asked.terms, asked.launch_s)


def bootstrap(timed: FitRows, resampled: Texts, refit: Fit) -> Numbers:
    """Return coefficients ``(3, terms)``: fitted, and the ends of the interval over samples of whole ``resampled``."""
    random = np.random.default_rng(SEED)
    rows_of = [np.flatnonzero(resampled == name) for name in sorted(set(resampled))]
    drawn = []
    for _ in range(RESAMPLES):
        rows = np.concatenate([rows_of[place] for place in random.integers(0, len(rows_of), len(rows_of))])
        drawn.append(refit(timed.where(rows)))
    return np.vstack([refit(timed), np.quantile(drawn, [LOW, HIGH], axis=0)])


def by_terms(refit: Fit) -> Estimate:
    return lambda known, asked: predict(refit(known), asked)


def _scaled(of_rows: Callable[[FitRows], Numbers]) -> Estimate:
    """Return an estimate by a time of each row, times the median factor of the known rows."""
    return lambda known, asked: np.median(known.latency_s / of_rows(known)) * of_rows(asked)


def _by_regression(known: FitRows, asked: FitRows) -> Numbers:
    """Fit a line through the times of the FLOP at the peak, as the terms are fitted."""
    line, asked_line = (np.column_stack([rows.flop_s, np.full(len(rows), 1e-3)]) for rows in (known, asked))
    return asked_line @ fit(line, np.zeros(len(known)), known.latency_s, known.weights(), np.zeros(2))


BASELINES: dict[str, Estimate] = {
    tables.LIKE_FLOP: _scaled(lambda rows: rows.flop_s),
    tables.LIKE_PARAMETERS: _scaled(lambda rows: rows.parameter_s),
    tables.LIKE_ROOFLINE: _scaled(lambda rows: rows.roof_s),
    tables.LIKE_REGRESSION: _by_regression,
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


def leave_out(timed: FitRows, asked: FitRows, labels: Texts, estimate: Estimate) -> Numbers:
    """Return latencies over predictions ``(rows,)``, each row of ``asked`` by those of other labels, else NaN."""
    ratios = np.full(len(timed), np.nan)
    for out in folds(labels):
        ratios[out] = timed.latency_s[out] / estimate(timed.where(~out), asked.where(out))
    return ratios


def check_setting(setting: Setting, timed: FitRows, plain: FitRows, refit: Fit) -> Iterator[Checked]:
    """Yield the checks of one setting's own fit, and of the baselines.

    Its rows are ``timed``, with the factors that other devices give, and ``plain``: of a family left out nobody knows.
    """
    for left_out, labels, asked in (
        (tables.BY_MODEL, timed.architecture, timed),
        (tables.BY_FAMILY, timed.family, plain),
    ):
        for method, estimate in {tables.OURS: by_terms(refit), **BASELINES}.items():
            yield Checked(left_out, method, setting, timed, leave_out(timed, asked, labels, estimate))


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
    numbers = number_labels(asked.setting)
    settings = [numbers == number for number in range(numbers.max() + 1)]
    estimates = [(left_out, tables.OURS, predict(of_pool, asked))]
    estimates += [(left_out, method, estimate(known, asked)) for method, estimate in BASELINES.items()]
    if left_out == tables.BY_DEVICE and has_factors:
        estimates.append((tables.BY_BOTH, tables.OURS, predict(of_pool, plain)))
    for part, method, likely_s in estimates:
        for chosen in settings:
            ratios = asked.latency_s[chosen] / likely_s[chosen]
            yield Checked(part, method, asked.setting[chosen.argmax()], asked.where(chosen), ratios)
    for rows in map(asked.where, settings if left_out == tables.BY_DEVICE else ()):
        random = np.random.default_rng(SEED)
        several = [random.permutation(len(rows))[:KNOWN_TIMES] for _ in range(DRAWS)]
        for name, draws in (
            (tables.ONE_KNOWN, [np.flatnonzero(rows.architecture == KNOWN)]),
            (tables.FIVE_KNOWN, several),
        ):
            told = []  # the rows asked for and their ratios, by draw
            for places in draws:
                rest = rows.where(~np.isin(rows.architecture, rows.architecture[places]))
                if len(places) and len(rest):
                    seen = rows.where(places)
                    adapted, host = adapt(of_pool, seen.terms, seen.launch_s, seen.latency_s, has_own_host=True)
                    told.append((rest, rest.latency_s / likely(adapted, rest.terms, host * rest.launch_s)))
            if told:
                yield Checked(
                    name,
                    tables.OURS,
                    rows.setting[0],
                    joined([rest for rest, _ in told]),
                    np.concatenate([ratios for _, ratios in told]),
                )


def pool_errors(checks: Iterable[Checked], pool: Setting) -> Iterator[PredictionError]:
    """Yield the errors of each setting that a pool predicts, with the interval of the other devices, then of all."""
    groups: dict[tuple[str, str], list[Checked]] = {}
    for check in checks:
        groups.setdefault((check.left_out, check.method), []).append(check)
    for (left_out, method), alike in groups.items():
        # A device set aside gets the interval that any new device would get, and so does a network
        is_new = left_out in (tables.PUT_ASIDE, tables.BY_BOTH)
        source = groups.get((tables.BY_DEVICE, method), []) if is_new else alike
        together: dict[tuple[str, str], list[tuple[Checked, PredictionError]]] = {}
        for check in alike:
            others = [other for other in source if other.setting.device != check.setting.device]
            for row in summarise(check, others):
                together.setdefault((row.batches, row.sort), []).append((check, row))
                yield row
        for part, found in together.items():
            models = [check.rows.architecture[part_of(check.rows, *part)] for check, _ in found]
            coverages = [row.coverage for _, row in found if row.coverage is not None]
            coverage = float(np.mean(coverages)) if coverages else None
            ratios = ratios_by_device([check for check, _ in found], part)
            yield _error_row(found[0][0], pool, part, np.concatenate(models), ratios, coverage)


def ratios_by_device(checks: Iterable[Checked], part: tuple[str, str]) -> Numbers:
    """Return the ratios of a part of the checks, of each device as many: quantiles of those of its settings."""
    found: dict[str, list[Numbers]] = {}
    for check in checks:
        ratios = check.ratios[part_of(check.rows, *part)]
        if len(ratios):
            found.setdefault(check.setting.device, []).append(np.quantile(ratios, POINTS))
    return np.array([np.quantile(of_settings, POINTS) for of_settings in found.values()]).ravel()


def part_of(rows: FitRows, batches: str, sort: str) -> Mask:
    """Return the mask ``(rows,)`` of a class of batch sizes and a sort of networks."""
    least, most = tables.BATCH_CLASSES.get(batches, (1, 10**9))
    return (rows.batch >= least) & (rows.batch <= most) & ((rows.sort == sort) | (sort == tables.ALL))


def summarise(check: Checked, others: Sequence[Checked] | None = None) -> Iterator[PredictionError]:
    """Yield the errors of a check, together and, of our method, by classes of batch sizes and sorts of networks.

    The interval comes from ``others``, checks of other devices; None: from the other half of the models.
    """
    is_ours = check.method == tables.OURS
    for batches in (tables.ALL, *tables.BATCH_CLASSES) if is_ours else (tables.ALL,):
        for sort in (tables.ALL, *tables.SORTS) if is_ours else (tables.ALL,):
            chosen = part_of(check.rows, batches, sort) & np.isfinite(check.ratios)
            if not chosen.any():
                continue
            ratios, models = check.ratios[chosen], check.rows.architecture[chosen]
            if others is None:
                halves = folds(models, 2) if len(set(models)) >= FEWEST_MODELS else ()  # fewer get no interval
                pairs = [(ratios[half], interval(ratios[~half], len(set(models[~half])))) for half in halves]
            else:
                seen = ratios_by_device(others, (batches, sort))
                pairs = [(ratios, interval(seen))] if len(seen) else []
            held = [np.abs(np.log(asked)) <= np.log(within) for asked, within in pairs]
            coverage = float(np.concatenate(held).mean()) if held and is_ours else None
            of_models = len(set(models)) if others is None else None
            yield _error_row(check, check.setting, (batches, sort), models, ratios, coverage, of_models)


def interval(ratios: Numbers, models: int | None = None) -> float:
    """Return the factor that nine in ten further ratios of latency to prediction lie within.

    If ratios are of a few ``models``, a new model is as likely to be of any rank among these, which needs a higher
    quantile (V. Vovk, A. Gammerman and G. Shafer, Algorithmic Learning in a Random World, 2005, chapter 2).
    """
    share = NINE if models is None else min(NINE * (1 + 1 / models), 1.0)
    return float(np.exp(np.quantile(np.abs(np.log(ratios)), share)))


def _error_row(
    check: Checked, setting: Setting, part: tuple[str, str], models: Texts, ratios: Numbers, coverage: float | None,
    of_models: int | None = None,
) -> PredictionError:  # fmt: skip
    """Summarise ratios; ``models`` names the model of each predicted call; ``of_models`` as in ``interval``."""
    errors = np.abs(1.0 / ratios - 1.0)
    return PredictionError(
        *setting, check.left_out, check.method, *part, len(set(models)), len(models), float(np.median(errors)),
        float(np.quantile(errors, NINE)), coverage, float(np.median(ratios)), interval(ratios, of_models),
    )  # fmt: skip
