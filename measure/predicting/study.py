"""Fit pools of timed calls, and check each fit on calls that it leaves out.

Timed calls are frames with one row per call: the ``TERMS`` and ``launch_s`` (s), ``latency_s``, the times of the
simpler estimates (``BASELINES``), and the columns that group them. Checked rows also have ``left_out``, ``method`` and
``ratio``, the latency over its prediction.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd

from measure.predicting import records as tables
from measure.predicting.model import AT_THE_ROOF, SPREADS, TIMINGS, Effects, Level, fit, fit_levels, likely
from measure.predicting.prediction_terms import SERVING, Numbers
from measure.predicting.records import (
    ALL,
    COMPILED,
    DENSE_ARITHMETIC,
    DIE,
    FACTORS,
    LAUNCHES,
    METHODS,
    OPTION,
    OTHER,
    OURS,
    POOL,
    PRODUCT,
    TERMS,
    TF32_CONVOLUTIONS,
    VECTOR,
    Coefficient,
    NetworkFactor,
    PredictionError,
    Setting,
)
from measure.predicting.timings import Costs, TimedCall, host_costs, hosts_of

FOLDS, SEED = 10, 22  # families or models are left out a tenth at a time, shuffled by the seed
# Known times are of the first one or five of these that were timed on a device
KNOWN = (
    "resnet50", "vgg16", "densenet121", "squeezenet1_0", "mobilenet_v2", "mobilenetv2_100", "mnasnet1_0", "resnet18",
)  # fmt: skip
NINE = 0.9  # the share of latencies within an interval, and of the errors below the upper one
FEWEST = 4  # an interval needs the ratios of so many other devices or models
# An interval of n models holds a share of NINE * (1 + 1/n): a new model is as likely to be of any rank among these
# (V. Vovk, A. Gammerman and G. Shafer, Algorithmic Learning in a Random World, 2005, chapter 2). The ratios of a new
# device do not all lie at one rank, so n devices need less. This share held nine in ten of the devices left out.
BEYOND = {"network": NINE, "device": 0.1}
HELD = 0.85  # an interval counts if it covered this share of the latencies that it was checked with
POINTS = np.linspace(0.0, 1.0, 101)  # the quantiles that represent ratios, so that settings and devices count alike
FAULTY = 5.0  # timings of a device whose median time is off by this factor from all others' fit are left out
SEEN = 0.55  # a latency shows its network's factor if the device's part is this share of it, 30 % of its square
Group = tuple[str, str, str, str]  # the part left out, the method, the batch sizes, the sort of network
# Devices that no fit has seen: set aside before the first one
ASIDE = ("AMD Radeon RX 7800 XT", "NVIDIA TITAN RTX")
# Simpler estimates: a time of each row, times the median factor of the fitted rows
BASELINES = {tables.LIKE_FLOP: "flop_s", tables.LIKE_ROOFLINE: "roof_s"}


def rows_of(calls: Iterable[TimedCall], costs: Costs) -> pd.DataFrame:
    """Return one row per timed call. ``host`` is the host's time over the reference's, 1 for a host without a cost.

    Pools are of datasheets, so they leave out the row of a measured GPU under its machine's name.
    """
    rows, reference = [], hosts_of(host_costs(costs))
    for call in calls:
        setting, work, roof = call.setting, call.work, call.roof
        usual_us = reference["", setting.phase]
        host_us = costs.get(call.host, usual_us)
        terms, launch_s = work.terms(roof, call.chip_kind, host_us, setting.variant == COMPILED, call.copied)
        flop_s, byte_s = work.arithmetic_s(roof), work.memory_s(roof)
        rows.append({
            **dict(zip(TERMS, terms, strict=True)), "launch_s": launch_s, "latency_s": call.latency_s,
            "host": host_us / usual_us,
            "flop_s": flop_s.sum(), "least_s": work.least_s(roof), "roof_s": np.maximum(flop_s, byte_s).sum(),
            "batches": tables.batch_class(work.batch), "sort": work.sort, "network": work.network,
            "family": work.family or work.network, "device": setting.device, "setting": setting,
            "pool": tables.pool_of(call.chip_kind, setting.precision, setting.phase), "kind": call.chip_kind,
            "options": setting.ran_with,
            "die": call.die, "timings": "|".join(setting[:3]),
            "in_pool": setting.device != call.machine or call.chip_kind != "gpu",
        })  # fmt: skip
    return pd.DataFrame(rows)


def grouped(rows: pd.DataFrame, by: Any) -> dict[Any, pd.DataFrame]:
    """Return the rows of each setting, pool or other group, in their order."""
    return dict(list(rows.groupby(by, sort=False)))


def study(
    calls: Iterable[TimedCall], costs: Costs, say: Callable[[str], None]
) -> tuple[list[Coefficient], list[NetworkFactor], list[PredictionError]]:
    """Fit and check everything. ``say`` gets the name of each fit, and of timings that are left out as faulty."""
    rows = rows_of(calls, costs)
    coefficients: list[Coefficient] = []
    networks: list[NetworkFactor] = []
    errors: list[PredictionError] = []
    for pool, timed in grouped(rows, "pool").items():
        fitted = timed[timed.in_pool & ~timed.device.isin(ASIDE)]
        if fitted.empty:
            continue
        say(", ".join(filter(None, pool)))
        effects = fit_pool(fitted)
        while worst := faulty(fitted, without := fits_without(fitted, effects)):
            say(f"left out, {worst[1]:.2g} times as long as all others let expect: {', '.join(filter(None, worst[0]))}")
            timed, fitted = (rows[rows.setting != worst[0]] for rows in (timed, fitted))
            effects = fit_pool(fitted)
        coefficients += coefficients_of(pool, effects, fitted)
        factors = network_factors(fitted, effects)
        networks += [NetworkFactor(pool.device, pool.precision, pool.phase, *each) for each in factors.items()]
        families = list(check_families(fitted, effects))
        devices = check_devices(timed[timed.in_pool], effects, without)
        errors += errors_of(pool, pd.concat([*devices, *families]))
        errors += [error for setting, part in settings_of(families) for error in errors_of(setting, part)]
        # A GPU under the roof that was measured on it is compared with its chip, and is in no pool
        for name, own in grouped(timed[~timed.in_pool], "device").items():
            say(name)
            others = fitted[fitted.die != dict(zip(timed.device, timed.die, strict=True))[name]]
            coefficients += own_coefficients(pool, effects, scaled(own, factors))
            checks = list(check_machine(effects, scaled(own, network_factors(others, effects)), own))
            errors += [error for setting, part in settings_of(checks) for error in errors_of(setting, part)]
    return coefficients, networks, errors


def fits_without(fitted: pd.DataFrame, effects: Effects) -> dict[str, Effects]:
    """Return the effects without each device in turn, if there are others; each fit starts from ``effects`` of all."""
    names = sorted(set(fitted.device))
    return {name: fit_pool(fitted[fitted.device != name], effects) for name in names if len(names) > 1}


def faulty(fitted: pd.DataFrame, without: Mapping[str, Effects]) -> tuple[Setting, float] | None:
    """Return the setting that is off the most from the fit of all other devices, and its median ratio to that.

    None if no setting is off by ``FAULTY``, or if too few devices were timed to tell which one is wrong.
    """
    off: dict[Setting, float] = {}
    for name, effects in without.items() if len(without) >= FEWEST else ():
        own = fitted[fitted.device == name]
        terms, launch_s, times = parts(own)
        ratios = pd.Series(times / likely(coefficients_at(effects, own), terms, launch_s), own.index)
        off |= {setting: float(ratios[rows.index].median()) for setting, rows in grouped(own, "setting").items()}
    worst = max(off, key=lambda setting: abs(np.log(off[setting])), default=None)
    return None if worst is None or abs(np.log(off[worst])) <= np.log(FAULTY) else (worst, off[worst])


def settings_of(checks: list[pd.DataFrame]) -> Iterator[tuple[Setting, pd.DataFrame]]:
    return iter(grouped(pd.concat(checks), "setting").items()) if checks else iter(())


def coefficients_of(pool: Setting, effects: Effects, rows: pd.DataFrame) -> Iterator[Coefficient]:
    """Yield the rows of a pool: its coefficients, and the factors of options and dies on them."""
    columns = terms_of(rows)
    models: dict[tuple[str, str], int] = {(POOL, ""): rows.network.nunique()}
    models |= {(DIE, str(die)): of.network.nunique() for die, of in rows.groupby("die")}
    for option in FACTORS:
        models[OPTION, option] = rows[[option in each for each in rows.options]].network.nunique()
    for (level, label), logs in effects.items():
        if level != TIMINGS:
            values = np.exp(logs) * (AT_THE_ROOF if level == POOL else 1.0)
            for term, value in zip(TERMS, values, strict=True):
                if TERMS.index(term) in columns:
                    yield Coefficient(*_name(pool), level, label, term, models[level, label], float(value))


def own_coefficients(pool: Setting, effects: Effects, rows: pd.DataFrame) -> Iterator[Coefficient]:
    """Yield the factors of a measured GPU under its own roof, on the coefficients of its pool and options."""
    name = rows.device.iloc[0]
    for term, value in zip(TERMS, own_factors(effects, rows), strict=True):
        yield Coefficient(*_name(pool), DIE, name, term, rows.network.nunique(), float(value))


def own_factors(effects: Effects, rows: pd.DataFrame) -> Numbers:
    """Return the factors ``(terms,)`` of one device on the coefficients that pool and options give its rows."""
    terms, launch_s, times = parts(rows)
    expected = coefficients_at(effects, rows, dies=False)
    return fit(np.ones(len(TERMS)), terms * expected, launch_s, times)[0]


def _name(pool: Setting) -> tuple[str, str, str]:
    return pool.device, pool.precision, pool.phase


def parts(rows: pd.DataFrame) -> tuple[Numbers, Numbers, Numbers]:
    """Return terms ``(rows, terms)``, launches and latencies ``(rows,)`` as a fit takes them."""
    return rows[[*TERMS]].to_numpy(float), rows.launch_s.to_numpy(float), rows.latency_s.to_numpy(float)


def weights(rows: pd.DataFrame) -> Numbers:
    """Weigh rows so that a setting counts as the square root of its rows: ``(rows,)``, 1 in the mean."""
    found = rows.groupby("setting").latency_s.transform("size").to_numpy(float) ** -0.5
    return found / found.mean()


def fit_pool(rows: pd.DataFrame, first: Effects | None = None) -> Effects:
    """Fit the levels of a pool, from the effects of other rows on if given.

    Programs that serve have no factor of the die, which told nothing on devices left out, and launch alike whatever the
    format of the weights.
    """
    is_served, columns = rows.kind.iloc[0] in SERVING, terms_of(rows)
    labels: list[tuple[str, list[str | None]]] = [(POOL, [""] * len(rows))]
    labels += [] if is_served else [(DIE, list(rows.die))]
    # TF32 is a peak, and no factor on it
    options = [option for option in FACTORS if option != TF32_CONVOLUTIONS]
    labels += [(OPTION, [option if option in each else None for each in rows.options]) for option in options]
    labels.append((TIMINGS, list(rows.timings)))
    launches = TERMS.index(LAUNCHES)
    of_options = [place for place in columns if not is_served or place != launches]
    levels = [
        Level(name, of_rows, *SPREADS[name], of_options if name == OPTION else columns)
        for name, of_rows in labels
        if any(each is not None for each in of_rows)
    ]
    return fit_levels(*parts(rows), levels, weights(rows), first=first)


def terms_of(rows: pd.DataFrame) -> list[int]:
    """Return the places of the terms that a pool has."""
    if rows.kind.iloc[0] in SERVING:
        return [TERMS.index(term) for term in (DENSE_ARITHMETIC, PRODUCT, OTHER, LAUNCHES, VECTOR)]
    return [place for place, term in enumerate(TERMS) if term != VECTOR]


def coefficients_at(effects: Effects, rows: pd.DataFrame, dies: bool = True) -> Numbers:
    """Return the coefficients ``(rows, terms)`` of the pool, of each row's options and, with ``dies``, of its die."""
    none = np.zeros(len(TERMS))

    def logs(options: tuple[str, ...], die: str) -> Numbers:
        of_die = effects.get((DIE, die), none) if dies else none
        return effects[POOL, ""] + of_die + sum((effects.get((OPTION, each), none) for each in options), none)

    found = {key: logs(*key) for key in set(zip(rows.options, rows.die, strict=True))}
    return AT_THE_ROOF * np.exp([found[key] for key in zip(rows.options, rows.die, strict=True)])


def scaled(rows: pd.DataFrame, factors: dict[str, float]) -> pd.DataFrame:
    """Multiply the terms of each row by the factor of its network, 1 if there is none."""
    return rows.assign(**rows[[*TERMS]].mul(rows.network.map(factors).fillna(1.0), axis=0))


def network_factors(rows: pd.DataFrame, effects: Effects) -> dict[str, float]:
    """Return each network's factor on the device's part of its times on GPUs: the median of all devices, drawn to 1.

    A device counts once, relative to the median of its networks. Times that launches hide do not count.
    """
    rows = rows[rows.kind == "gpu"]  # too few CPUs and systems on a chip were timed
    if rows.empty:
        return {}
    terms, launch_s, times = parts(rows)
    device_s = np.sqrt(np.maximum(times**2 - launch_s**2, (SEEN * times) ** 2))
    off = rows.assign(off=np.log(device_s / likely(coefficients_at(effects, rows), terms, np.zeros(len(rows)))))
    off = off[device_s > SEEN * times]
    usual = off.groupby("device").off.median()
    by_network = off.groupby(["device", "network"], sort=False).off.median().sub(usual, level="device")
    logs = by_network.groupby("network", sort=False).agg(["median", "size"])
    return dict(np.exp(logs["median"] * logs["size"] / (logs["size"] + 1)))


def folds(labels: Any, count: int = FOLDS) -> list[Any]:
    """Split labels at random into ``count`` parts; return the mask ``(rows,)`` of each part."""
    places, names = pd.factorize(labels, sort=True)
    part = np.random.default_rng(SEED).permutation(len(names))[places] % count
    return [part == each for each in np.unique(part)]


def check(
    left_out: str, coefficients: Numbers, rows: pd.DataFrame, fitted: pd.DataFrame, methods: Iterable[str] = METHODS
) -> Iterator[pd.DataFrame]:
    """Yield rows that a fit left out, with their ratios to its predictions and to the baselines of ``fitted`` rows."""
    for method in methods:
        if time := BASELINES.get(method):
            likely_s = (fitted.latency_s / fitted[time]).median() * rows[time].to_numpy(float)
        else:
            terms, launch_s, _ = parts(rows)
            likely_s = np.maximum(likely(coefficients, terms, launch_s), rows.least_s.to_numpy(float))
        yield rows.assign(left_out=left_out, method=method, ratio=rows.latency_s / likely_s)


def check_machine(effects: Effects, scaled_rows: pd.DataFrame, rows: pd.DataFrame) -> Iterator[pd.DataFrame]:
    """Yield the checks of a measured GPU's own factors: a tenth of the families at a time, predicted from the others.

    The fit takes ``scaled_rows``, with the factors that other devices give. The families left out have none.
    """
    if rows.network.nunique() < tables.SOME:
        return
    for out in folds(scaled_rows.family):
        if not out.all():
            others = scaled_rows[~out]
            found = own_factors(effects, others) * coefficients_at(effects, rows[out], dies=False)
            yield from check(tables.BY_FAMILY, found, rows[out], others)


def check_families(timed: pd.DataFrame, effects: Effects) -> Iterator[pd.DataFrame]:
    """Yield the checks of a pool without a tenth of the families at a time, on devices with many networks.

    Families that many devices timed are left out apart: some devices timed three families.
    """
    many = timed.groupby("setting").network.transform("nunique") >= tables.SOME
    devices = timed.groupby("family").device.nunique().sort_values(ascending=False, kind="stable")
    part = timed.family.map({family: at % FOLDS for at, family in enumerate(devices.index)})
    for out in (part == each for each in range(part.max() + 1)):
        if not out.all() and (out & many).any():
            rows, others = timed[out & many], timed[~out]
            found = coefficients_at(fit_pool(others, effects), rows)
            for setting, own in grouped(rows, "setting").items():
                yield from check(
                    tables.BY_FAMILY, found[rows.setting == setting], own, others[others.setting == setting]
                )


def check_devices(
    timed: pd.DataFrame, effects: Effects, without: Mapping[str, Effects]
) -> Iterator[pd.DataFrame]:  # fmt: skip
    """Yield the checks of a pool without each device, with and without some times on it.

    Devices set aside are in no fit: ``effects`` predict them, and the fits ``without`` each device predict the others.
    """
    for name in sorted(set(timed.device), key=lambda name: (name in ASIDE, name)):
        fitted, plain = timed[~timed.device.isin([*ASIDE, name])], timed[timed.device == name]
        if fitted.empty:
            continue
        found = effects if name in ASIDE else without[name]
        of_rows = coefficients_at(found, plain)
        on_device = scaled(plain, network_factors(fitted, found))
        yield from check(tables.PUT_ASIDE if name in ASIDE else tables.BY_DEVICE, of_rows, on_device, fitted)
        if name in ASIDE:
            continue
        if (plain.kind == "gpu").all():
            yield from check(tables.BY_BOTH, of_rows, plain, fitted, [OURS])
        for rows in grouped(on_device, "setting").values():
            by_network = rows.drop_duplicates("network", keep="last").set_index("network", drop=False)
            timed_there = [network for network in KNOWN if network in by_network.index]
            for left_out, count in ((tables.ONE_KNOWN, 1), (tables.FIVE_KNOWN, tables.KNOWN_TIMES)):
                seen = by_network.loc[timed_there[:count]]
                others = rows[~rows.network.isin(seen.network)]
                if len(seen) == count and len(others):
                    # One time cannot tell a host from a chip, so the host is known; five start from the reference
                    finds_host = count > 1
                    start = 1.0 / rows.host.iloc[0] if finds_host else 1.0
                    terms, launch_s, times = parts(seen.assign(launch_s=start * seen.launch_s))
                    of_setting = coefficients_at(found, others)
                    adapted, host = fit(of_setting[0], terms, launch_s, times, has_own_host=finds_host)
                    others = others.assign(launch_s=host * start * others.launch_s)
                    yield from check(left_out, adapted, others, seen, [OURS])


def errors_of(whole: Setting, checks: pd.DataFrame) -> Iterator[PredictionError]:
    """Yield the errors of a setting or a pool, ours also by part, and the errors of the settings in a pool.

    An interval is made of a setting's networks, or of a pool's devices. Each of them counts alike. Settings without
    some families have errors by part too, which are not of the pool.
    """
    ours = checks[checks.method == OURS]
    views = [checks.assign(batches=ALL, sort=ALL), ours.assign(sort=ALL), ours.assign(batches=ALL), ours]
    groups = grouped(pd.concat(views), ["left_out", "method", "batches", "sort"])
    for group, rows in groups.items():
        left_out, *part = group
        # A device set aside gets the interval that any new device would get, and so does a network
        is_new = left_out in (tables.PUT_ASIDE, tables.BY_BOTH)
        others = groups.get((tables.BY_DEVICE, *part), rows[:0]) if is_new else rows
        if whole != checks.pool.iloc[0]:
            yield error_of(whole, group, rows, rows, others, "network")
            continue
        devices = ratios_by_device(others)
        yield error_of(whole, group, rows, ratios_by_device(rows), devices, "device")
        if part[1:] == [ALL, ALL] and left_out != tables.BY_FAMILY:
            for setting, own in grouped(rows, "setting").items():
                yield error_of(setting, group, own, own, devices[devices.device != setting.device], "device")


def error_of(
    setting: Setting, group: Group, rows: pd.DataFrame, checks: pd.DataFrame, others: pd.DataFrame, label: str
) -> PredictionError:
    """Return the errors of ``checks``, which represent ``rows``, with the interval of the ratios of ``others``.

    Coverage compares each ratio with an interval without its own device, or without its tenth of the networks.
    """
    ratios, labels, held = checks.ratio.to_numpy(float), checks[label], np.full(len(checks), np.nan)
    for out in folds(labels, len(checks) if label == "device" else FOLDS):
        within = interval(others[~others[label].isin(labels[out].unique())], label)
        held[out] = np.nan if np.isnan(within) else np.abs(np.log(ratios[out])) <= np.log(within)
    errors, coverage, within = np.abs(1.0 / ratios - 1.0), float(np.mean(held)), interval(others, label)
    return PredictionError(
        *setting, *group, rows.network.nunique(), len(rows), float(np.median(errors)), float(np.quantile(errors, NINE)),
        None if np.isnan(coverage) else coverage, float(np.median(ratios)), within if coverage >= HELD else None,
    )  # fmt: skip


def ratios_by_device(checks: pd.DataFrame) -> pd.DataFrame:
    """Return the ``POINTS`` of each ``device``'s ratios in rows of their own. The settings of a device count alike."""
    settings = checks.groupby(["device", "setting"], sort=False).ratio.quantile(POINTS)
    return settings.groupby("device", sort=False).quantile(POINTS).reset_index()


def interval(checks: pd.DataFrame, label: str) -> float:
    """Return the factor that nine in ten ratios of a further network or device lie within; NaN if these are few."""
    count = checks[label].nunique()
    if count < FEWEST:
        return np.nan
    return float(np.exp(np.quantile(np.abs(np.log(checks.ratio)), min(NINE + BEYOND[label] / count, 1.0))))
