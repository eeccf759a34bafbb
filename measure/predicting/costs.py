"""What a fit says: its coefficients, and what each kind of layer costs, with the intervals of a bootstrap."""

from collections.abc import Callable, Iterator

import numpy as np

from measure.cache.predictions import ARITHMETIC, MEMORY, PRODUCT_KINDS, TERMS, UNFUSED, Coefficient, KindCost, Setting
from measure.cache.words import LAYER_KINDS
from measure.predicting.checks import HIGH, LOW, SEED
from measure.predicting.demand import FUSED, PLACE
from measure.predicting.fitting import Numbers
from measure.predicting.model import LatencyModel
from measure.predicting.sample import Sample, Texts

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
