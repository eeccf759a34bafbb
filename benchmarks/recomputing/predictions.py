"""Fits of what was timed and the errors of what they left out, written anew by ``docs/prediction.md``.

The least squares are SciPy's for bounded variables, the neighbours come from a tree; the program that is checked has
neither. Taken over are its constants, and the seed by which models are left out together.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.optimize import lsq_linear
from scipy.spatial import KDTree

from recomputing.timed_calls import FREE, SETTING, TERMS, Calls, Numbers

AT_THE_ROOF = np.array([0.0 if term in FREE else 1.0 for term in TERMS])
POOLED = ["eager", "torch.compile"]
POOLS = {"cpu": "any CPU", "gpu": "any GPU", "soc": "any system on a chip"}
ASIDE = ["AMD Radeon RX 7800 XT", "NVIDIA TITAN RTX"]
SIZES = {"all": (1, np.inf), "1": (1, 1), "2 to 15": (2, 15), "16 to 127": (16, 127), "128 and more": (128, np.inf)}
ENDS = (0.05, 0.95)
EVEN = np.linspace(0, 1, 101)
SEED = 22

OURS = "terms"
KEY = ["left_out", "method", *SETTING, "batches"]

Mask = NDArray[np.bool_]
Key = tuple[str, ...]
Errors = dict[Key, dict[str, float]]
"""Rows of errors, by ``KEY``."""

Estimate = Callable[[Calls, Calls], Numbers]
"""Learns from some calls and returns the latencies (s) of others."""


def robust_fit(terms: Numbers, times: Numbers, weights: Numbers, prior: Numbers) -> Numbers:
    """Return non-negative coefficients by ten turns of weighted least squares, with Huber's weights of log errors.

    In units of ``x = coefficient / prior`` each that has a prior is drawn to 1 by a row's weight, each other to 0 by a
    ten-thousandth of its rows'.
    """
    known = prior > 0
    unit = np.where(known, prior, 1.0)
    relative = terms / times[:, None] * unit
    weights = weights / np.sqrt((weights**2).mean())
    down = np.ones(len(times))
    for _ in range(10):
        rows = relative * (weights * down)[:, None]
        length = np.linalg.norm(rows, axis=0)
        drawn = np.where(known, 1.0, np.where(length > 0, 1e-4 * length, 1.0))
        scale = np.hypot(length, drawn)
        system = np.vstack([rows, np.diag(drawn)]) / scale
        aims = np.concatenate([weights * down, drawn * known])
        # The same least squares in as many rows as there are terms
        triangle = np.linalg.qr(np.column_stack([system, aims]), mode="r")[: len(unit)]
        x = lsq_linear(triangle[:, :-1], triangle[:, -1], bounds=(0, np.inf), method="bvls", tol=1e-14).x / scale
        off = np.abs(np.log(np.maximum(relative @ x, 1e-12)))
        spread = max(1.4826 * np.median(off), 1e-3)
        down = np.sqrt(np.minimum(1.0, 1.345 * spread / np.maximum(off, 1e-12)))
    return np.asarray(x * unit)


def setting_numbers(calls: Calls) -> "pd.Series[int]":
    return calls.rows.groupby(SETTING, sort=False, dropna=False).ngroup()


def say(calls: Calls) -> Numbers:
    """Return the weights of rows in a pool: the fourth root of how many a setting has, shared by them."""
    return setting_numbers(calls).groupby(setting_numbers(calls)).transform("size").to_numpy(float) ** -0.25


def neighbourly(known: Calls, asked: Calls, coefficients: Numbers) -> Numbers:
    """Return the latencies of the terms, corrected by what the four nearest make-ups were off by.

    Calls of one make-up tell their median; what is as near as the fourth shares the places that are left.
    """
    offsets = pd.Series(np.log(known.latency_s / np.maximum(known.terms @ coefficients, 1e-12)), known.rows.index)
    numbers = setting_numbers(known)
    if numbers.nunique() > 1:
        offsets -= offsets.groupby(numbers).transform("median")
    made = pd.DataFrame(known.make_ups.round(12))
    alike = pd.Series(offsets.to_numpy()).groupby([made[column] for column in made]).median()
    distinct, found = alike.index.to_frame().to_numpy(), alike.to_numpy()
    tree, places = KDTree(distinct), min(4, len(alike))
    reach = np.reshape(tree.query(asked.make_ups, k=[places], p=1)[0], -1)
    near = tree.query_ball_point(asked.make_ups, reach + 1e-9, p=1)
    correction = []
    for make_up, last, at in zip(asked.make_ups, reach, near, strict=True):
        apart = np.abs(distinct[at] - make_up).sum(axis=1)
        level = apart >= last - 1e-9
        weights = np.where(level, (places - (~level).sum()) / level.sum(), 1.0) / (0.02 + apart)
        correction.append(weights @ found[at] / (weights.sum() + 0.2 / 0.02))
    return np.maximum(asked.terms @ coefficients, 1e-12) * np.exp(correction)


def of_pool(calls: Calls) -> Numbers:
    return robust_fit(calls.terms, calls.latency_s, say(calls), AT_THE_ROOF)


def of_setting(calls: Calls, prior: Numbers) -> Numbers:
    return robust_fit(calls.terms, calls.latency_s, np.ones(len(calls)), prior)


def scaled(quantity: Callable[[Calls], Numbers]) -> Estimate:
    """Return the estimate by one quantity, times what known latencies are off by in the median."""
    return lambda known, asked: quantity(asked) * np.median(known.latency_s / quantity(known))


def _flop_s(calls: Calls) -> Numbers:
    return calls.rows.flop_s.to_numpy(float)


def _by_line(known: Calls, asked: Calls) -> Numbers:
    one, other = (np.column_stack([_flop_s(calls), np.full(len(calls), 1e-3)]) for calls in (known, asked))
    return other @ robust_fit(one, known.latency_s, say(known), np.zeros(2))


SIMPLE: dict[str, Estimate] = {
    "FLOP over peak": scaled(_flop_s),
    "parameters": scaled(lambda calls: calls.rows.parameter_s.to_numpy(float)),
    "roofline": scaled(lambda calls: calls.roofline.sum(axis=1)),
    "regression on FLOP": _by_line,
}


def parts(labels: "pd.Series[str]", count: int = 10) -> Iterator[Mask]:
    """Yield the rows that are left out together: labels in their order, dealt by the documented seed."""
    names = np.unique(labels.to_numpy(str))
    dealt = pd.Series(np.random.default_rng(SEED).permutation(len(names)) % count, names)
    part = labels.map(dealt).to_numpy()
    for each in np.unique(part):
        yield part == each


@dataclass
class Recomputed:
    """Coefficients by setting and term, and rows of errors by ``KEY``."""

    coefficients: dict[Key, float] = field(default_factory=dict)
    errors: Errors = field(default_factory=dict)

    def tell(self, setting: Key, fitted: Numbers) -> None:
        self.coefficients |= {(*setting, term): value for term, value in zip(TERMS, fitted, strict=True)}


def recompute(calls: Calls) -> Recomputed:
    """Return what fits to all pools and settings say, and their errors where a part is left out."""
    found = Recomputed()
    calls = calls.where(~calls.rows.device.isin(ASIDE).to_numpy())
    bits = np.where(calls.rows.precision.isin(["fp32", "tf32"]), "fp32", "16 bits")
    kinds = calls.rows.chip_kind.map(lambda kind: POOLS.get(kind, f"any {kind}"))
    pool_of = pd.Series(list(zip(kinds, bits, calls.rows.phase, strict=True)), calls.rows.index)
    pooled = calls.rows.variant.isin(POOLED)
    priors = {}
    for pool in pool_of[pooled].unique():
        own = calls.where((pooled & (pool_of == pool)).to_numpy())
        device, precision, phase = pool
        setting = (device, "", "", precision, "", phase)
        priors[pool] = of_pool(own)
        found.tell(setting, priors[pool])
        for left_out in ("device", "source"):
            found.errors |= _of_pool(setting, own, left_out)
    for setting, rows in calls.rows.groupby(SETTING, sort=False):
        models, sizes = rows.architecture.nunique(), rows.batch.nunique()
        if models >= 100 or (models >= 20 and sizes >= 2):
            own = calls.where(calls.rows.index.isin(rows.index))
            prior = priors.get(pool_of[rows.index[0]], AT_THE_ROOF)
            found.tell(setting, of_setting(own, prior))
            found.errors |= _of_setting(setting, own, prior)
    return found


def _of_setting(setting: Key, calls: Calls, prior: Numbers) -> Errors:
    methods = {OURS: lambda known, asked: neighbourly(known, asked, of_setting(known, prior)), **SIMPLE}
    rows: Errors = {}
    resnet = (calls.rows.architecture == "resnet50").to_numpy()
    for left_out, labels in (("model", calls.rows.architecture), ("family", calls.rows.family)):
        for method, estimate in methods.items():
            ratios = np.full(len(calls), np.nan)
            if labels.nunique() > 1:
                for out in parts(labels):
                    ratios[out] = calls.latency_s[out] / estimate(calls.where(~out), calls.where(out))
                within = _of_other_half(calls, ratios) if method == OURS else None
                rows |= _rows((left_out, method, *setting), calls, ratios, within)
        if resnet.any() and not resnet.all():
            others = calls.where(~resnet)
            ratios = others.latency_s / SIMPLE["FLOP over peak"](calls.where(resnet), others)
            rows |= _rows((left_out, "scaled from ResNet50", *setting), others, ratios, None)
    return rows


def _of_other_half(calls: Calls, ratios: Numbers) -> Mask:
    within = np.zeros(len(ratios), bool)
    for half in parts(calls.rows.architecture, 2):
        if not half.all():
            within[half] = _inside(ratios[half], ratios[~half])
    return within


def _inside(ratios: Numbers, others: Numbers) -> Mask:
    low, high = np.quantile(others, ENDS)
    return np.asarray((low <= ratios) & (ratios <= high))


def _of_pool(pool: Key, calls: Calls, column: str) -> Errors:
    """Return the rows of each device or source left out, of devices once ResNet50's time is known, and of all."""
    checks: dict[tuple[str, str], list[tuple[Key, Calls, Numbers]]] = {}
    methods = {OURS: lambda known, asked: neighbourly(known, asked, of_pool(known)), **SIMPLE}
    for label in calls.rows[column].unique() if calls.rows[column].nunique() > 1 else []:
        out = (calls.rows[column] == label).to_numpy()
        for method, estimate in methods.items():
            asked = calls.where(out)
            every = asked.latency_s / estimate(calls.where(~out), asked)
            for setting, rows in asked.rows.groupby(SETTING, sort=False):
                chosen = asked.rows.index.isin(rows.index)
                own, ratios = asked.where(chosen), every[chosen]
                checks.setdefault((column, method), []).append((setting, own, ratios))
                resnet = (own.rows.architecture == "resnet50").to_numpy()
                if column == "device" and resnet.any() and not resnet.all():
                    known = ratios[~resnet] / np.median(ratios[resnet])
                    checks.setdefault(("device with one time", method), []).append((setting, own.where(~resnet), known))
    found: Errors = {}
    for (left_out, method), alike in checks.items():
        even = [(setting[0], np.quantile(ratios, EVEN)) for setting, _, ratios in alike]
        shares = []
        for setting, own, ratios in alike:
            others = [each for device, each in even if device != setting[0]]
            within = None
            if method == OURS:  # beside no other device the other half of the models tells the interval
                within = _inside(ratios, np.concatenate(others)) if others else _of_other_half(own, ratios)
            shares.append(np.nan if within is None else within.mean())
            found |= _rows((left_out, method, *setting), own, ratios, within)
        models = {name for _, own, _ in alike for name in own.rows.architecture}
        total = _row(len(models), sum(len(own) for _, own, _ in alike), np.concatenate([each for _, each in even]))
        found[left_out, method, *pool, "all"] = total | {"coverage": float(np.mean(shares))}
    return found


def _rows(key: Key, calls: Calls, ratios: Numbers, within: Mask | None) -> Errors:
    found = {}
    for name, (least, most) in SIZES.items():
        chosen = calls.rows.batch.between(least, most).to_numpy()
        if chosen.any() and (name == "all" or not chosen.all()):
            row = _row(calls.rows.architecture[chosen].nunique(), int(chosen.sum()), ratios[chosen])
            found[*key, name] = row | {"coverage": np.nan if within is None else float(within[chosen].mean())}
    return found


def _row(models: int, calls: int, ratios: Numbers) -> dict[str, float]:
    errors = pd.Series(1 / ratios - 1).abs()
    low, middle, high = pd.Series(ratios).quantile([ENDS[0], 0.5, ENDS[1]])
    return {
        "models": models, "calls": calls, "median_error": errors.median(), "p90_error": errors.quantile(0.9),
        "median_ratio": middle, "low_ratio": low, "high_ratio": high,
    }  # fmt: skip
