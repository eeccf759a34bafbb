"""Predict the latency of a call from the device's own fit, else from some times on it, else from its datasheet."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from measure.cache import table
from measure.domain.model_work import ARITHMETIC, MEMORY
from measure.domain.schema import file_of
from measure.domain.words import EAGER
from measure.predicting import records as tables
from measure.predicting.model import fit
from measure.predicting.prediction_terms import (
    OWN_HOSTS,
    SERVING,
    CallWork,
    ExpertBytes,
    LayerRoof,
    Numbers,
    PredictedDevice,
)
from measure.predicting.records import TERMS, Coefficient, NetworkFactor, PredictionError, Setting, pool_of
from measure.predicting.timings import COMPILED, hosts_of

# The bases of a prediction: many models timed on the device under its setting, some times on it, its datasheet alone
FITTED, SCALED, DATASHEET = "fitted", "scaled", "datasheet"
SERVED = "served"  # the variant of language models on GPUs: run by programs that serve them
GPU = "gpu"  # the kind of chip that predicts devices of a kind without a fit

Part = tuple[str, str]  # a class of batch sizes and a sort of networks
OwnTime = tuple[CallWork, float]  # the work of a call and its latency (s) on the predicted device


def origin(basis: str, timed_models: int) -> str:
    """Describe the basis of a prediction, as tables print it."""
    texts = {FITTED: f"{timed_models} models timed there", DATASHEET: "its datasheet"}
    return texts.get(basis, f"its datasheet, fitted to {timed_models} timed there")


@dataclass(frozen=True)
class Prediction:
    """A call's least latency on a device, and its likely latency with the 90 % interval.

    The interval is None if the likely time is extrapolated: too few such networks were timed at such batch sizes on
    such devices. ``bound`` limits the least time, and ``costliest`` is the largest part of the likely time.
    ``timed_models`` counts the models timed on the device. ``host_us`` is an operator's launch on the host. ``fits``
    compares the memory of the call's tensors, without the context of CUDA and fragments; None if a memory is unknown.
    """

    chip: str
    batch: int
    least_s: float
    bound: str
    likely_s: float
    low_s: float | None
    high_s: float | None
    basis: str  # FITTED, SCALED or DATASHEET
    timed_models: int
    costliest: str
    costliest_share: float
    host_us: float
    inputs_per_s: float
    memory_needed_byte: int | None
    memory_byte: float | None
    fits: bool | None
    variant: str  # EAGER, COMPILED or SERVED
    experts: ExpertBytes | None

    @property
    def rank(self) -> tuple[bool, float]:
        """The order of chips everywhere: by likely time. Calls without an interval, or too large, come last."""
        return self.fits is False or self.low_s is None, self.likely_s


@dataclass(frozen=True, eq=False)
class Basis:
    """The fit behind the predictions of a device under some conditions.

    ``within`` has the factors that nine in ten latencies lie within, by part: first on such a device, then on an
    untimed one, which is wider. ``factors`` are of networks that other devices timed.
    """

    device: PredictedDevice
    name: str  # FITTED, SCALED or DATASHEET
    timed_models: int
    coefficients: Numbers
    roof: LayerRoof
    chip_kind: str
    compiled: bool
    host_us: float
    within: Sequence[Mapping[Part, float]]
    factors: Mapping[str, float]

    def parts(self, work: CallWork) -> tuple[Numbers, float]:
        """Return the times (s) of a call's terms ``(terms,)``, and the time of its launches on the host."""
        terms, launch_s = work.terms(self.roof, self.chip_kind, self.host_us, self.compiled)
        return self.factors.get(work.network, 1.0) * terms * self.coefficients, launch_s

    def interval(self, sort: str, batch: int) -> float | None:
        """Return the factor either side of the likely time for a 90 % interval; None if it is extrapolated."""
        batches = tables.batch_class(batch)
        exact, of_sort, of_batch = (batches, sort), (tables.ALL, sort), (batches, tables.ALL)
        for within in self.within:
            if exact in within:
                return within[exact]
            if of_sort in within and of_batch in within:
                return max(within[of_sort], within[of_batch])
        return None

    def predict(self, work: CallWork) -> Prediction:
        terms, launch_s = self.parts(work)
        least_s = work.least_s(self.roof)
        # The fit has no term for the footprint, and some of its calls may have stayed in a cache
        likely_s = max(float(np.hypot(terms.sum(), launch_s)), least_s)
        bound = ARITHMETIC if float(work.arithmetic_s(self.roof).sum()) >= least_s else MEMORY
        within = self.interval(work.sort, work.batch)
        terms[TERMS.index(tables.LAUNCHES)] += launch_s
        needed_byte, held_byte = work.peak_byte, self.device.memory_byte
        return Prediction(
            self.device.name, work.batch,
            least_s, bound, likely_s, within and max(likely_s / within, least_s), within and likely_s * within,
            self.name, self.timed_models, TERMS[terms.argmax()], float(terms.max() / terms.sum()), self.host_us,
            work.batch / likely_s, needed_byte, held_byte,
            needed_byte <= held_byte if needed_byte and held_byte else None,
            SERVED if self.chip_kind == SERVING else COMPILED if self.compiled else EAGER, work.experts,
        )  # fmt: skip


class Predictor:
    """Predict by the coefficients and errors of ``data/prediction``."""

    def __init__(
        self, rows: Sequence[Coefficient], errors: Iterable[PredictionError], networks: Iterable[NetworkFactor] = ()
    ) -> None:
        self.hosts = hosts_of((row.setting, row.value) for row in rows if row.precision == tables.ANY)
        self._coefficients: dict[Setting, Numbers] = defaultdict(lambda: np.zeros(len(TERMS)))
        self._timed_models: dict[Setting, int] = {}
        for row in rows:
            if row.precision != tables.ANY:
                self._timed_models[row.setting] = row.models
                self._coefficients[row.setting][TERMS.index(row.term)] = row.value
        self._alike: dict[tuple[str, Setting], list[Setting]] = defaultdict(list)  # by device, and width and phase
        for setting in self._coefficients:
            self._alike[setting.device, pool_of(GPU, setting.precision, setting.phase)].append(setting)
        self.factors: dict[Setting, dict[str, float]] = defaultdict(dict)
        for each in networks:
            self.factors[Setting(each.device, "", "", each.precision, "", each.phase)][each.network] = each.factor
        self._within: dict[tuple[str, Setting], dict[Part, float]] = defaultdict(dict)
        for error in errors:
            if error.method == tables.OURS and error.within is not None:
                self._within[error.left_out, error.setting][error.batches, error.sort] = error.within

    @classmethod
    def read(cls, data: Path) -> "Predictor":
        """Read the tables of ``python -m measure fit``. Raises UserError for an invalid cell."""
        return cls(
            table.read(file_of(Coefficient, data), Coefficient),
            table.read(file_of(PredictionError, data), PredictionError),
            table.read(file_of(NetworkFactor, data), NetworkFactor),
        )

    def basis(
        self, device: PredictedDevice, precision: str, variant: str, phase: str, sort: str = tables.CONVOLUTIONAL,
        own_times: Sequence[OwnTime] = (), host_us: float | None = None,
    ) -> Basis | None:  # fmt: skip
        """Return the basis of a device's predictions; None without a rate at the precision, or without a fit.

        ``own_times`` are of calls under the same conditions. The host is the reference of ``hosts`` unless ``host_us``
        names another. A device of a kind that was never timed counts as a GPU, and has no interval.
        """
        roof, kind, compiled = device.layer_roof(precision), device.chip_kind, variant != EAGER
        served = pool_of(SERVING, precision, phase)
        if sort in (tables.LANGUAGE, tables.DECODING) and kind != "cpu" and served in self._coefficients:
            kind, roof = SERVING, device.layer_roof(precision, serves=True)
        like = pool_of(kind, precision, phase)
        pool = like if like in self._coefficients else pool_of(GPU, precision, phase)
        own = pool if kind == SERVING else self._nearest(device.name, precision, variant, phase) or pool
        if roof is None or own not in self._coefficients:
            return None
        timed, coefficients, factors = self._timed_models[own], self._coefficients[own], self.factors[pool]
        host = 0.0 if kind in OWN_HOSTS else self.hosts["", phase] if host_us is None else host_us
        name, check = SCALED, (tables.FIVE_KNOWN, pool)
        if own_times:
            calls = [work.terms(roof, kind, host, compiled) for work, _ in own_times]
            of_networks = np.array([[factors.get(work.network, 1.0)] for work, _ in own_times])
            terms, launch_s = (np.array(each) for each in zip(*calls, strict=True))
            times = np.array([seconds for _, seconds in own_times])
            coefficients, factor = fit(coefficients, of_networks * terms, launch_s, times, has_own_host=host_us is None)
            timed, host = len(own_times), host * factor
            check = (tables.FIVE_KNOWN if timed >= tables.KNOWN_TIMES else tables.ONE_KNOWN), pool
        elif own == pool:
            timed, name, check = 0, DATASHEET, (tables.BY_DEVICE, pool)
        elif timed >= tables.SOME and (own.precision, own.variant) == (precision, variant):
            name, check = FITTED, (tables.BY_FAMILY, own)
        within = [self._within.get(each, {}) for each in (check, (tables.BY_DEVICE, pool))] if pool == like else []
        return Basis(device, name, timed, coefficients, roof, kind, compiled, host, within, factors)

    def _nearest(self, device: str, precision: str, variant: str, phase: str) -> Setting | None:
        """Return the device's setting with this variant and precision, or the nearest to them with the newest torch."""
        return max(
            self._alike.get((device, pool_of(GPU, precision, phase)), ()),
            key=lambda each: (
                each.variant == variant, each.precision == precision, self._timed_models[each] >= tables.SOME,
                tables.release(each),
            ),
            default=None,
        )  # fmt: skip
