"""Fit settings and pools of timed calls, and check each fit on calls that it leaves out.

Timed calls are frames with one row per call: the ``TERMS`` and ``launch_s`` (s), ``latency_s``, the times of the
simpler estimates (``BASELINES``), and the columns that group them. Checked rows also have ``left_out``, ``method`` and
``ratio``, the latency over its prediction.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import pandas as pd

from measure.predicting import records as tables
from measure.predicting.model import AT_THE_ROOF, OF_POOL, fit, likely
from measure.predicting.prediction_terms import SERVING, Numbers
from measure.predicting.records import ALL, METHODS, OURS, TERMS, Coefficient, NetworkFactor, PredictionError, Setting
from measure.predicting.timings import COMPILED, Costs, TimedCall, hosts_of

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
    rows, reference = [], hosts_of(costs.items())
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
            "in_pool": setting.device != call.machine or call.chip_kind != "gpu",
        })  # fmt: skip
    return pd.DataFrame(rows)


def grouped(rows: pd.DataFrame, by: Any) -> dict[Any, pd.DataFrame]:
    """Return the rows of each setting, pool or other group, in their order."""
    return dict(list(rows.groupby(by, sort=False)))


def study(
    calls: Iterable[TimedCall], costs: Costs, say: Callable[[str], None]
) -> tuple[list[Coefficient], list[NetworkFactor], list[PredictionError]]:
    """Fit and check everything. ``say`` gets the name of each fit."""
    rows = rows_of(calls, costs)
    pooled, fitted = rows[rows.in_pool], rows[~rows.device.isin(ASIDE)]
    coefficients = [
        Coefficient(*setting, tables.LAUNCHES, 1, host_us)
        for setting, host_us in costs.items()
        if setting.source == tables.HERE
    ]
    networks: list[NetworkFactor] = []
    errors: list[PredictionError] = []
    pools: dict[Setting, Numbers] = {}
    factors: dict[Setting, dict[str, float]] = {}
    groups: dict[Setting, pd.DataFrame] = grouped(fitted[fitted.in_pool], "pool")
    groups |= grouped(fitted[fitted.kind != SERVING], "setting")
    for setting, timed in groups.items():
        say(", ".join(filter(None, setting)))
        models, pool, checks = timed.network.nunique(), timed.pool.iloc[0], []
        if setting == pool:
            found = pools[pool] = fit_pool(timed)
            factors[pool] = network_factors(timed, found)
            networks += [NetworkFactor(pool.device, pool.precision, pool.phase, *of) for of in factors[pool].items()]
            checks = list(check_pool(pooled[pooled.pool == pool]))
        else:
            of_pool = pools.get(pool, AT_THE_ROOF)
            found, _ = fit(of_pool, *parts(scaled(timed, factors.get(pool, {}))))
            if models >= tables.SOME:
                others = fitted[fitted.in_pool & (fitted.pool == pool) & (fitted.device != setting.device)]
                checks = list(check_setting(of_pool, scaled(timed, network_factors(others, of_pool)), timed))
        if checks:
            errors += errors_of(setting, pd.concat(checks))
        coefficients += [Coefficient(*setting, term, models, value) for term, value in zip(TERMS, found, strict=True)]
    return coefficients, networks, errors


def parts(rows: pd.DataFrame) -> tuple[Numbers, Numbers, Numbers]:
    """Return terms ``(rows, terms)``, launches and latencies ``(rows,)`` as a fit takes them."""
    return rows[[*TERMS]].to_numpy(float), rows.launch_s.to_numpy(float), rows.latency_s.to_numpy(float)


def weights(rows: pd.DataFrame) -> Numbers:
    """Weigh rows so that a setting counts as the square root of its rows: ``(rows,)``, 1 in the mean."""
    found = rows.groupby("setting").latency_s.transform("size").to_numpy(float) ** -0.5
    return found / found.mean()


def fit_pool(rows: pd.DataFrame) -> Numbers:
    return fit(AT_THE_ROOF, *parts(rows), OF_POOL, weights(rows))[0]


def scaled(rows: pd.DataFrame, factors: dict[str, float]) -> pd.DataFrame:
    """Multiply the terms of each row by the factor of its network, 1 if there is none."""
    return rows.assign(**rows[[*TERMS]].mul(rows.network.map(factors).fillna(1.0), axis=0))


def network_factors(rows: pd.DataFrame, of_pool: Numbers) -> dict[str, float]:
    """Return each network's factor on the device's part of its times on GPUs: the median of all devices, drawn to 1.

    A device counts once, relative to the median of its networks. Times that launches hide do not count.
    """
    rows = rows[rows.kind == "gpu"]  # too few CPUs and systems on a chip were timed
    terms, launch_s, times = parts(rows)
    device_s = np.sqrt(np.maximum(times**2 - launch_s**2, (SEEN * times) ** 2))
    off = rows.assign(off=np.log(device_s / likely(of_pool, terms, np.zeros(len(rows)))))
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


def check_setting(of_pool: Numbers, scaled_rows: pd.DataFrame, rows: pd.DataFrame) -> Iterator[pd.DataFrame]:
    """Yield the checks of one setting's own fit: a tenth of the families at a time, predicted from the others.

    The fit takes ``scaled_rows``, with the factors that other devices give. The families left out have none.
    """
    for out in folds(scaled_rows.family):
        if not out.all():
            others = scaled_rows[~out]
            yield from check(tables.BY_FAMILY, fit(of_pool, *parts(others))[0], rows[out], others)


def check_pool(timed: pd.DataFrame) -> Iterator[pd.DataFrame]:
    """Yield the checks of a pool without each device, with and without some times on it.

    Devices set aside are in no fit.
    """
    for name in sorted(set(timed.device), key=lambda name: (name in ASIDE, name)):
        fitted, plain = timed[~timed.device.isin([*ASIDE, name])], timed[timed.device == name]
        if fitted.empty:
            continue
        of_pool = fit_pool(fitted)
        on_device = scaled(plain, network_factors(fitted, of_pool))
        yield from check(tables.PUT_ASIDE if name in ASIDE else tables.BY_DEVICE, of_pool, on_device, fitted)
        if name in ASIDE:
            continue
        if (plain.kind == "gpu").all():
            yield from check(tables.BY_BOTH, of_pool, plain, fitted, [OURS])
        for rows in grouped(on_device, "setting").values():
            by_network = rows.drop_duplicates("network", keep="last").set_index("network", drop=False)
            timed_there = [network for network in KNOWN if network in by_network.index]
            for left_out, count in ((tables.ONE_KNOWN, 1), (tables.FIVE_KNOWN, tables.KNOWN_TIMES)):
                seen = by_network.loc[timed_there[:count]]
                others = rows[~rows.network.isin(seen.network)]
                if len(seen) == count and len(others):
                    # Known times start from the reference host, because they have to find their own
                    usual = parts(seen.assign(launch_s=seen.launch_s / seen.host))
                    adapted, host = fit(of_pool, *usual, has_own_host=True)
                    others = others.assign(launch_s=host * others.launch_s / others.host)
                    yield from check(left_out, adapted, others, seen, [OURS])


def errors_of(whole: Setting, checks: pd.DataFrame) -> Iterator[PredictionError]:
    """Yield the errors of a setting or a pool, ours also by part, and the errors of each setting in a pool.

    An interval is made of a setting's networks, or of a pool's devices. Each of them counts alike.
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
        if part[1:] == [ALL, ALL]:
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
