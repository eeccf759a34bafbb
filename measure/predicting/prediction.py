"""Predicts the latency of a call on a device, by what is known of it: its own fit, some times, or its datasheet."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from measure.cache.predictions import (
    ALL_BATCHES,
    BY_DEVICE,
    BY_MODEL,
    ONE_KNOWN,
    OURS,
    TERMS,
    Coefficient,
    PredictionError,
    Setting,
    release,
)
from measure.domain.demands import ARITHMETIC, MEMORY
from measure.predicting.demand import Demand, How, Numbers, PredictedDevice, Roof
from measure.predicting.model import LatencyModel, with_neighbours, without_neighbours
from measure.predicting.study import ASIDE, POOLED, pool_of, pool_of_call
from measure.predicting.timings import TimedCall, sample

FITTED, SCALED, DATASHEET = BASES = ("fitted", "scaled", "datasheet")
"""What a prediction rests on: models timed on the device under that setting, some times on it, its datasheet alone."""

GPU = "gpu"
"""The kind of chip whose coefficients are taken where no device of a kind was timed."""


@dataclass(frozen=True)
class Known:
    """A latency (s) that is known of a device, and what its call asks for."""

    demand: Demand
    latency_s: float


@dataclass(frozen=True)
class Prediction:
    """A call's latency on a device: the least that its roof allows, and the likely one with its 90 % interval.

    The interval's ends are None where no device like this could be left out of a fit. ``bound`` is what bounds the
    least time, ``costliest`` the term with the largest part of the likely one and ``costliest_share`` that part.
    ``basis`` is one of ``BASES``, ``timed_models`` the models timed on the device that it rests on.
    """

    least_s: float
    bound: str
    likely_s: float
    low_s: float | None
    high_s: float | None
    basis: str
    timed_models: int
    costliest: str
    costliest_share: float


@dataclass(frozen=True, eq=False)
class Basis:
    """What predictions of a device under some conditions rest on: a fit, and what it is off by on the device.

    ``name`` is one of ``BASES``, ``setting`` what was fitted, ``timed_models`` the models timed on the device. A
    latency lies within ``ratios`` times the likely one in nine of ten cases; None where no device like this could be
    left out of a fit.
    """

    name: str
    setting: Setting
    model: LatencyModel
    roof: Roof
    factor: float
    timed_models: int
    ratios: tuple[float, float] | None

    def likely_s(self, demand: Demand, roof: Roof, how: How) -> float:
        """Return the likely latency (s) of a call."""
        predicted = self.model.predict(demand.terms(roof, how)[None, :], demand.make_up[None, :])
        return self.factor * float(predicted[0])


class Predictor:
    """Predictions by the coefficients and errors of ``data/prediction``, and the latencies that these rest on."""

    def __init__(
        self, coefficients: Iterable[Coefficient], errors: Iterable[PredictionError], calls: Sequence[TimedCall]
    ) -> None:
        self._coefficients: dict[Setting, Numbers] = {}
        self._timed_models: dict[Setting, int] = {}
        for row in coefficients:
            self._timed_models[row.setting] = row.models
            if row.term in TERMS:  # a later version may have more
                self._coefficients.setdefault(row.setting, np.zeros(len(TERMS)))[TERMS.index(row.term)] = row.value
        self._ratios = {
            (row.left_out, row.setting): (row.low_ratio, row.high_ratio)
            for row in errors
            if (row.method, row.batches) == (OURS, ALL_BATCHES)
        }
        self._calls = [call for call in calls if call.setting.device not in ASIDE]
        self._models: dict[Setting, LatencyModel] = {}
        self._scales: dict[tuple[str, Setting], tuple[float, int]] = {}

    def predict(
        self,
        demand: Demand,
        device: PredictedDevice,
        precision: str,
        variant: str,
        phase: str,
        how: How,
        known: Known | None = None,
    ) -> Prediction | None:
        """Return the latency of a call; None where the device has no rate at the precision, or nothing was fitted.

        ``known`` is a latency that is known of the device under the same conditions.
        """
        basis = self.basis(device, precision, variant, phase)
        if basis is None:
            return None
        if known is not None and basis.name != FITTED:
            basis = self._by_one_time(basis, known, how)
        likely_s = basis.likely_s(demand, basis.roof, how)
        parts = demand.terms(basis.roof, how) * basis.model.coefficients
        least_s = demand.least_s(basis.roof)
        arithmetic_s = float(demand.arithmetic_s(basis.roof).sum())
        return Prediction(
            least_s,
            ARITHMETIC if arithmetic_s >= least_s else MEMORY,
            likely_s,
            None if basis.ratios is None else likely_s * basis.ratios[0],
            None if basis.ratios is None else likely_s * basis.ratios[1],
            basis.name,
            basis.timed_models,
            TERMS[int(parts.argmax())],
            float(parts.max() / parts.sum()),
        )

    def basis(self, device: PredictedDevice, precision: str, variant: str, phase: str) -> Basis | None:
        """Return what predictions of a device's calls rest on.

        None where the device has no rate at the precision, or nothing was fitted. A device of a kind of which none was
        timed is taken for a GPU, and has no interval.
        """
        roof = device.roof(precision)
        own = self._own(device.name, precision, variant, phase)
        like = pool_of(device.chip_kind, precision, phase)
        pool = like if like in self._coefficients else pool_of(GPU, precision, phase)
        if roof is None or (own is None and pool not in self._coefficients):
            return None
        if own is not None:
            ratios = self._ratios.get((BY_MODEL, own))
            return Basis(FITTED, own, self._model(own), roof, 1.0, self._timed_models[own], ratios)
        factor, timed = self._scale(device.name, pool)
        ratios = self._ratios.get((ONE_KNOWN if timed else BY_DEVICE, pool)) if pool == like else None
        return Basis(SCALED if timed else DATASHEET, pool, self._model(pool), roof, factor, timed, ratios)

    def _by_one_time(self, basis: Basis, known: Known, how: How) -> Basis:
        """Return the basis scaled by one latency that is known of the device, whatever else was timed there."""
        factor = basis.factor * known.latency_s / basis.likely_s(known.demand, basis.roof, how)
        ratios = basis.ratios and self._ratios.get((ONE_KNOWN, basis.setting))
        return replace(basis, name=SCALED, factor=factor, timed_models=1, ratios=ratios)

    def _own(self, device: str, precision: str, variant: str, phase: str) -> Setting | None:
        """Return the fitted setting of a device that says these conditions: that of the newest software."""
        wanted = device, precision, variant, phase
        found = (each for each in self._coefficients if (each.device, *each[3:]) == wanted)
        return max(found, key=release, default=None)

    def _scale(self, device: str, pool: Setting) -> tuple[float, int]:
        """Return what the latencies of a device are off by in the median in a pool, and of how many models they are."""
        if (device, pool) not in self._scales:
            found = self._by_device.get((pool, device), [])
            factor = 1.0
            if found:
                times = sample(found)
                ratios = times.latency_s / self._model(pool).predict(times.terms, times.make_ups)
                factor = float(np.median(ratios))
            self._scales[device, pool] = factor, len({call.architecture for call in found})
        return self._scales[device, pool]

    @cached_property
    def _members(self) -> Mapping[Setting, list[TimedCall]]:
        """The latencies that each fit rests on."""
        found: dict[Setting, list[TimedCall]] = {}
        for call in self._calls:
            found.setdefault(call.setting, []).append(call)
            if call.setting.variant in POOLED:
                found.setdefault(pool_of_call(call), []).append(call)
        return found

    @cached_property
    def _by_device(self) -> Mapping[tuple[Setting, str], list[TimedCall]]:
        """The same of each device."""
        found: dict[tuple[Setting, str], list[TimedCall]] = {}
        for setting, calls in self._members.items():
            for call in calls:
                found.setdefault((setting, call.setting.device), []).append(call)
        return found

    def _model(self, setting: Setting) -> LatencyModel:
        """Return the fitted model of a setting, its neighbours from the latencies that it rests on."""
        if setting not in self._models:
            found, coefficients = self._members.get(setting), self._coefficients[setting]
            self._models[setting] = (
                with_neighbours(sample(found), coefficients) if found else without_neighbours(coefficients)
            )
        return self._models[setting]
