"""Predict the latency of a call: coefficients of a pool, times the factors of the options it ran with and of a die."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from measure.cache import table
from measure.domain.model_work import ARITHMETIC, MEMORY
from measure.domain.schema import file_of
from measure.domain.words import EAGER, FULL_PRECISION, TF32, stored_as
from measure.predicting import records as tables
from measure.predicting.model import AT_THE_ROOF, fit
from measure.predicting.prediction_terms import (
    DECODES,
    OWN_HOSTS,
    READS,
    SERVING,
    CallWork,
    ExpertBytes,
    LayerRoof,
    Numbers,
    PredictedDevice,
)
from measure.predicting.records import (
    AUTOCAST,
    BENCHMARK,
    COMPILED,
    DIE,
    OPTION,
    POOL,
    TERMS,
    TF32_CONVOLUTIONS,
    Coefficient,
    HostCost,
    NetworkFactor,
    PredictionError,
    Setting,
    pool_of,
)
from measure.predicting.timings import hosts_of

# The bases of a prediction: models timed on the device, others or fewer on its die, known times, its datasheet alone
FITTED, ON_DIE, SCALED, DATASHEET = "fitted", "die", "scaled", "datasheet"
SERVED = "served"  # the variant of language models on GPUs: run by programs that serve them
GPU = "gpu"
SERVERS = GPU, "soc"  # the kinds of chips that were timed as they serve language models
SERVED_AS = {tables.DECODING: DECODES, tables.LANGUAGE: READS}

Part = tuple[str, str]  # a class of batch sizes and a sort of networks
OwnTime = tuple[CallWork, float]  # the work of a call and its latency (s) on the predicted device


def origin(basis: str, timed_models: int) -> str:
    """Describe the basis of a prediction, as tables print it."""
    models = f"{timed_models} model{'' if timed_models == 1 else 's'}"
    texts = {
        FITTED: f"{models} timed there", ON_DIE: f"{models} timed on its die",
        SCALED: f"{timed_models} known time{'' if timed_models == 1 else 's'}", DATASHEET: "its datasheet",
    }  # fmt: skip
    return texts[basis]


def usual_setting(precision: str) -> tuple[str, ...]:
    """Return the options of most published timings at a precision; at fp32 torch runs convolutions in TF32."""
    if stored_as(precision) != FULL_PRECISION:
        return AUTOCAST, BENCHMARK
    return (BENCHMARK,) if precision == TF32 else (BENCHMARK, TF32_CONVOLUTIONS)


@dataclass(frozen=True)
class Prediction:
    """A call's least latency on a device, and its likely latency with the 90 % interval.

    The interval is None if the likely time is extrapolated: too few such networks were timed at such batch sizes on
    such devices. ``bound`` limits the least time, and ``costliest`` is the largest part of the likely time.
    ``is_on_roof``: the fit gives less than the least time, which stands as the likely one. ``timed_models`` counts the
    models behind the basis. ``host_us`` is an operator's launch on the host. ``fits`` compares the memory of the call's
    tensors, without the context of CUDA and fragments; None if a memory is unknown. ``measured_s`` is the least time
    that was measured of this call in this setting; ``is_copy_measured``: with the copy of its input to the device.
    """

    chip: str
    batch: int
    least_s: float
    bound: str
    likely_s: float
    low_s: float | None
    high_s: float | None
    is_on_roof: bool
    basis: str  # FITTED, ON_DIE, SCALED or DATASHEET
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
    measured_s: float | None = None
    is_copy_measured: bool = False

    @property
    def rank(self) -> tuple[bool, float]:
        """The order of chips everywhere: by likely time. Calls without an interval, or too large, come last."""
        return self.fits is False or self.low_s is None, self.likely_s


@dataclass(frozen=True, eq=False)
class Basis:
    """The fit behind the predictions of a device under some conditions.

    ``within`` has the factors that nine in ten latencies lie within, by part: first of the basis, last of a device that
    nobody timed, which is wider. ``factors`` are of networks that other devices timed.
    """

    device: PredictedDevice
    name: str  # FITTED, ON_DIE, SCALED or DATASHEET
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
        fitted_s = float(np.hypot(terms.sum(), launch_s))
        likely_s = max(fitted_s, least_s)
        bound = ARITHMETIC if float(work.arithmetic_s(self.roof).sum()) >= least_s else MEMORY
        within = self.interval(work.sort, work.batch)
        terms[TERMS.index(tables.LAUNCHES)] += launch_s
        needed_byte, held_byte = work.peak_byte, self.device.memory_byte
        return Prediction(
            self.device.name, work.batch,
            least_s, bound, likely_s, within and max(likely_s / within, least_s), within and likely_s * within,
            fitted_s < least_s, self.name, self.timed_models,
            TERMS[terms.argmax()], float(terms.max() / terms.sum()), self.host_us,
            work.batch / likely_s, needed_byte, held_byte,
            needed_byte <= held_byte if needed_byte and held_byte else None,
            SERVED if self.chip_kind in SERVING else COMPILED if self.compiled else EAGER, work.experts,
        )  # fmt: skip


class Predictor:
    """Predict by the coefficients and errors of ``data/prediction``."""

    def __init__(
        self, rows: Iterable[Coefficient], hosts: Iterable[HostCost], errors: Iterable[PredictionError],
        networks: Iterable[NetworkFactor] = (),
    ) -> None:  # fmt: skip
        self.hosts = hosts_of(hosts)
        self._levels: dict[Setting, dict[tuple[str, str], Numbers]] = defaultdict(dict)
        self._models: dict[tuple[Setting, str], int] = {}  # of a die
        for row in rows:
            pool = _pool(row)
            expected = AT_THE_ROOF if row.level == POOL else np.ones(len(TERMS))
            values = self._levels[pool].setdefault((row.level, row.label), expected.copy())
            values[TERMS.index(row.term)] = row.value
            if row.level == DIE:
                self._models[pool, row.label] = row.models
        self.factors: dict[Setting, dict[str, float]] = defaultdict(dict)
        for network in networks:
            self.factors[_pool(network)][network.network] = network.factor
        self._within: dict[tuple[str, Setting], dict[Part, float]] = defaultdict(dict)
        self._fitted: dict[tuple[str, str, str], list[tuple[int, Setting]]] = defaultdict(list)
        for error in errors:
            if error.method != tables.OURS:
                continue
            if error.within is not None:
                self._within[error.left_out, error.setting][error.batches, error.sort] = error.within
            is_whole = (error.batches, error.sort) == (tables.ALL, tables.ALL)
            if error.left_out == tables.BY_FAMILY and is_whole and error.source:
                of_width = error.device, stored_as(error.precision), error.phase
                self._fitted[of_width].append((error.models, error.setting))

    @property
    def kinds(self) -> set[str]:
        """The kinds of chips that were timed."""
        pools = {pool.device for pool in self._levels}
        return {kind for kind, pool in tables.POOLS.items() if pool in pools}

    @classmethod
    def read(cls, data: Path) -> "Predictor":
        """Read the tables of ``python -m measure fit``. Raises UserError for an invalid cell."""
        return cls(
            table.read(file_of(Coefficient, data), Coefficient),
            table.read(file_of(HostCost, data), HostCost),
            table.read(file_of(PredictionError, data), PredictionError),
            table.read(file_of(NetworkFactor, data), NetworkFactor),
        )

    def basis(
        self, device: PredictedDevice, precision: str, setting: Iterable[str], phase: str,
        sort: str = tables.CONVOLUTIONAL, own_times: Sequence[OwnTime] = (), host_us: float | None = None,
    ) -> Basis | None:  # fmt: skip
        """Return the basis of a device's predictions; None without a rate at the precision, or without such devices.

        ``setting`` names the options that the calls and ``own_times`` ran with. The host is the reference of ``hosts``
        unless ``host_us`` names another.
        """
        kind = device.chip_kind
        if kind in SERVERS and (served := SERVED_AS.get(sort)):
            kind = served if pool_of(served, precision, phase) in self._levels else kind
        options = device.usable(setting)
        roof = device.layer_roof(precision, serves=kind in SERVING, tf32=TF32_CONVOLUTIONS in options)
        pool, compiled = pool_of(kind, precision, phase), COMPILED in options and kind not in SERVING
        levels = self._levels.get(pool)
        if roof is None or levels is None:
            return None
        die, ones, factors = device.die or device.name, np.ones(len(TERMS)), self.factors[pool]
        coefficients = levels[POOL, ""] * levels.get((DIE, die), ones)
        for option in options:
            coefficients = coefficients * levels.get((OPTION, option), ones)
        host = 0.0 if kind in OWN_HOSTS else self.hosts["", phase] if host_us is None else host_us
        many = max(self._fitted.get((device.name, stored_as(precision), phase), ()), default=None)
        untimed = tables.BY_DEVICE, pool
        if own_times:
            calls = [work.terms(roof, kind, host, compiled) for work, _ in own_times]
            of_networks = np.array([[factors.get(work.network, 1.0)] for work, _ in own_times])
            terms, launch_s = (np.array(each) for each in zip(*calls, strict=True))
            times = np.array([seconds for _, seconds in own_times])
            coefficients, factor = fit(coefficients, of_networks * terms, launch_s, times, has_own_host=host_us is None)
            name, timed, host = SCALED, len(own_times), host * factor
            # A few times show a chip's factor if its host is known
            known = tables.FIVE_KNOWN if timed >= tables.KNOWN_TIMES else tables.ONE_KNOWN
            checks = [untimed] if known == tables.ONE_KNOWN and host_us is None and host else [(known, pool), untimed]
        elif many and kind not in SERVING:
            name, timed = FITTED, many[0]
            checks = [(tables.BY_FAMILY, pool), (tables.BY_FAMILY, many[1]), untimed]
        else:
            timed = self._models.get((pool, die), 0)
            on_die = ON_DIE if device.die else FITTED  # a device without a known die stands for itself
            name, checks = on_die if timed else DATASHEET, [untimed]
        within = [self._within.get(check, {}) for check in checks]
        return Basis(device, name, timed, coefficients, roof, kind, compiled, host, within, factors)


def _pool(row: Coefficient | NetworkFactor) -> Setting:
    return Setting(row.device, "", "", row.precision, "", row.phase)
