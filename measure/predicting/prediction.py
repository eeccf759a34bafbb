"""Predicts the latency of a call from the device's own fit, else from some times on it, else from its datasheet."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from measure.cache import predictions as tables
from measure.cache.predictions import TERMS, Coefficient, PredictionError, Setting, release
from measure.domain.demands import ARITHMETIC, MEMORY
from measure.domain.words import EAGER, STEP
from measure.predicting.demand import Demand, How, LayerRoof, Numbers, PredictedDevice
from measure.predicting.model import LatencyModel, add_neighbours
from measure.predicting.study import group, pool_of
from measure.predicting.timings import FitRows, Places, TimedCall, fit_rows, number_labels

# The bases of a prediction: models timed on the device under its setting, some times on it, its datasheet alone
FITTED, SCALED, DATASHEET = "fitted", "scaled", "datasheet"
GPU = "gpu"  # the kind of chip that predicts devices of a kind without a fit


@dataclass(frozen=True)
class Prediction:
    """A call's least latency on a device, and its likely one with the 90 % interval.

    The interval is None unless a fit has left out a device of this kind. ``bound`` limits the least time, ``costliest``
    is the largest term of the likely one, and ``timed_models`` counts the models timed on the device.
    """

    least_s: float
    bound: str
    likely_s: float
    low_s: float | None
    high_s: float | None
    basis: str  # FITTED, SCALED or DATASHEET
    timed_models: int
    costliest: str
    costliest_share: float


@dataclass(frozen=True, eq=False)
class Basis:
    """The fit behind the predictions of a device under some conditions, and the device's ``factor`` to it.

    Nine in ten latencies lie within ``ratios`` times the likely one; None unless a fit has left out such a device.
    """

    name: str
    setting: Setting
    model: LatencyModel
    roof: LayerRoof
    factor: float
    timed_models: int
    ratios: tuple[float, float] | None

    def likely_s(self, demand: Demand, how: How) -> float:
        """Return the likely latency (s) of a call."""
        predicted = self.model.predict(demand.terms(self.roof, how)[None, :], demand.make_up[None, :])
        return self.factor * float(predicted[0])


class Predictor:
    """Predicts by the coefficients and errors of ``data/prediction``, and the timed calls behind them."""

    def __init__(
        self, coefficients: Iterable[Coefficient], errors: Iterable[PredictionError], calls: Iterable[TimedCall]
    ) -> None:
        self._coefficients: dict[Setting, Numbers] = {}
        self._timed_models: dict[Setting, int] = {}
        for row in coefficients:
            self._timed_models[row.setting] = row.models
            if row.term in TERMS:
                self._coefficients.setdefault(row.setting, np.zeros(len(TERMS)))[TERMS.index(row.term)] = row.value
        self._ratios = {
            (row.left_out, row.setting): (row.low_ratio, row.high_ratio)
            for row in errors
            if (row.method, row.batches) == (tables.OURS, tables.ALL_BATCHES)
        }
        self.calls = group(calls)  # by setting, and by pool
        self._rows, self._model = cache(self._rows_of), cache(self._add_neighbours)
        self._places, self._factor = cache(self._places_of), cache(self._find_factor)

    def predict(
        self,
        demand: Demand,
        device: PredictedDevice,
        precision: str,
        variant: str,
        phase: str,
        known: tuple[Demand, float] | None = None,
    ) -> Prediction | None:
        """Return the latency of a call; None without a rate at the precision, or without a fit.

        ``known`` is a demand and its latency (s) on the device under the same conditions. It scales all predictions but
        those of a device's own fit.
        """
        basis = self.basis(device, precision, variant, phase)
        if basis is None:
            return None
        how = How(compiled=variant != EAGER, trains=phase == STEP)
        if known is not None and basis.name != FITTED:
            known_demand, known_s = known
            factor = basis.factor * known_s / basis.likely_s(known_demand, how)
            ratios = basis.ratios and self._ratios.get((tables.ONE_KNOWN, basis.setting))
            basis = replace(basis, name=SCALED, factor=factor, timed_models=1, ratios=ratios)
        likely_s, roof_s = basis.likely_s(demand, how), demand.least_s(basis.roof)
        parts = demand.terms(basis.roof, how) * basis.model.coefficients
        low_s, high_s = (likely_s * ratio for ratio in basis.ratios) if basis.ratios else (None, None)
        bound = ARITHMETIC if float(demand.arithmetic_s(basis.roof).sum()) >= roof_s else MEMORY
        costliest = TERMS[int(parts.argmax())], float(parts.max() / parts.sum())
        # Timed convolutions beat their roof where they save multiplications (A. Lavin and S. Gray, Fast algorithms for
        # convolutional neural networks, CVPR 2016), and small networks where they stay in a cache: no bound then
        least_s = min(roof_s, likely_s)
        return Prediction(least_s, bound, likely_s, low_s, high_s, basis.name, basis.timed_models, *costliest)

    def basis(self, device: PredictedDevice, precision: str, variant: str, phase: str) -> Basis | None:
        """Return the basis of a device's predictions; None without a rate at the precision, or without a fit.

        A device of a kind that was never timed counts as a GPU, and has no interval.
        """
        roof = device.layer_roof(precision)
        wanted = device.name, precision, variant, phase
        own = [each for each in self._coefficients if (each.device, *each[3:]) == wanted]
        like = pool_of(device.chip_kind, precision, phase)
        pool = like if like in self._coefficients else pool_of(GPU, precision, phase)
        if roof is None or not (own or pool in self._coefficients):
            return None
        if own:
            newest = max(own, key=release)
            ratios = self._ratios.get((tables.BY_MODEL, newest))
            return Basis(FITTED, newest, self._model(newest), roof, 1.0, self._timed_models[newest], ratios)
        factor, timed = self._factor(device.name, pool)
        left_out = tables.ONE_KNOWN if timed else tables.BY_DEVICE
        ratios = self._ratios.get((left_out, pool)) if pool == like else None
        return Basis(SCALED if timed else DATASHEET, pool, self._model(pool), roof, factor, timed, ratios)

    def _find_factor(self, device: str, pool: Setting) -> tuple[float, int]:
        """Return a device's median factor to its pool's predictions, and the number of models behind it."""
        timed, places = self._rows(pool), self._places(pool)
        if timed is None or device not in places:
            return 1.0, 0
        rows = places[device]
        ratios = timed.latency_s[rows] / self._model(pool).predict(timed.terms[rows], timed.make_ups[rows])
        return float(np.median(ratios)), len(set(timed.architecture[rows]))

    def _add_neighbours(self, setting: Setting) -> LatencyModel:
        """Return the model of a setting, with the neighbours among its timed calls."""
        timed, best = self._rows(setting), self._coefficients[setting]
        return LatencyModel(best) if timed is None else add_neighbours(timed, best)

    def _places_of(self, setting: Setting) -> dict[object, Places]:
        """Return the places of each device's rows among the timed calls of a setting."""
        timed = self._rows(setting)
        if timed is None:
            return {}
        numbers = number_labels(timed.device)
        places = np.split(np.argsort(numbers, kind="stable"), np.cumsum(np.bincount(numbers))[:-1])
        return {timed.device[rows[0]]: rows for rows in places}

    def _rows_of(self, setting: Setting) -> FitRows | None:
        calls = self.calls.get(setting)
        return fit_rows(calls) if calls else None
