"""What one call asks of a device, by kind of layer, and the terms of its latency that follow from it.

Fits times as sums of terms, none of which is negative, to relative errors, with little say for outliers.

The roofs of devices: of chips as their datasheets print them, of machines as they were measured.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from measure.cache import table
from measure.cache.folders import MachineFolder
from measure.cache.hand_kept import Chip, chip_names
from measure.cache.predictions import PRODUCT_KINDS
from measure.cache.records import Environment
from measure.cache.schema import file_of
from measure.domain import roofs
from measure.domain.words import FULL_PRECISION, LAYER_KINDS, TF32

Numbers = NDArray[np.float64]

TURNS = 10
"""Weights settle within these."""

TUNING = 1.345
"""Huber's: of normal errors the estimate keeps 95 % of the efficiency of least squares (Huber 1964)."""

TO_DEVIATION = 1.4826
"""From the median absolute error of normal errors to their standard deviation."""

LEAST_DEVIATION = 1e-3
"""Rows that fit better than this all count in full."""

TRACE = 1e-4
"""The pull on a coefficient without a prior, as a share of what its rows say: too little to move what they tell."""

TINY = 1e-12


def fit(terms: Numbers, times: Numbers, weights: Numbers, prior: Numbers, strength: float = 1.0) -> Numbers:
    """Return the coefficients of ``terms`` (rows of seconds) that give ``times`` (s), each row's error relative to it.

    Non-negative least squares (C. L. Lawson and R. J. Hanson, Solving Least Squares Problems, 1974, chapter 23), in
    turns that weigh rows down whose error is large (P. J. Huber, Robust Estimation of a Location Parameter, Annals of
    Mathematical Statistics 35 (1964), 73-101). Each coefficient is drawn to that of a ``prior``, by ``strength`` times
    the weight of a mean row: it stays there where no row says anything of its term.

    Raises ValueError for no rows, and for a time that is not above 0.
    """
    from scipy.optimize import nnls

    if not len(times) or not (times > 0).all():
        raise ValueError("a fit needs rows, each with a time above 0")
    relative = terms / times[:, None]
    # Columns in units of the prior, so that what draws to it weighs each term alike
    unit = np.where(prior > 0, prior, 1.0)
    columns = relative * unit
    weights = weights / np.sqrt(np.mean(weights**2))
    pull = np.sqrt(strength) * np.diag((prior > 0).astype(float))
    aim = np.sqrt(strength) * (prior > 0)
    robust = np.ones(len(times))
    for _ in range(TURNS):
        share = weights * robust
        weighed = columns * share[:, None]
        # Of terms without a prior, those that rows do not tell apart share alike; one that no row has is held at 0
        size = np.sqrt((weighed**2).sum(axis=0))
        trace = np.diag(np.where(prior > 0, 0.0, np.where(size > 0, TRACE * size, 1.0)))
        rows, aims = np.vstack([weighed, pull + trace]), np.concatenate([share, aim])
        scale = np.sqrt((rows**2).sum(axis=0))
        found, _ = nnls(rows / scale, aims, maxiter=50 * len(scale))
        coefficients = found / scale * unit
        errors = np.log(np.maximum(relative @ coefficients, TINY))
        deviation = max(TO_DEVIATION * float(np.median(np.abs(errors))), LEAST_DEVIATION)
        robust = np.sqrt(np.minimum(1.0, TUNING * deviation / np.maximum(np.abs(errors), TINY)))
    return np.asarray(coefficients)


PLACE = {kind: place for place, kind in enumerate(LAYER_KINDS)}
PRODUCTS = [PLACE[kind] for kind in PRODUCT_KINDS]
FUSED = [PLACE[kind] for kind in ("normalisation", "activation", "other")]
"""The kinds of layer that compilers fuse into their neighbours."""

BATCH_WEIGHT = 0.2

MICROSECOND, NANOSECOND = 1e-6, 1e-9


@dataclass(frozen=True)
class Roof:
    """A device at a precision: peaks (FLOP/s) of convolutions and of other products, and the bandwidth (B/s)."""

    convolution_flop_per_s: float
    flop_per_s: float
    byte_per_s: float

    @cached_property
    def peaks(self) -> Numbers:
        """The peak (FLOP/s) of each of ``LAYER_KINDS``."""
        peaks = np.full(len(LAYER_KINDS), self.flop_per_s)
        peaks[[PLACE["convolution"], PLACE["depthwise convolution"]]] = self.convolution_flop_per_s
        return peaks


@dataclass(frozen=True)
class How:
    """The conditions of a call that are terms: ``compiled``, the input ``copied`` to the device, a training step."""

    compiled: bool = False
    copied: bool = False
    trains: bool = False


@dataclass(frozen=True, eq=False)
class Demand:
    """What a call on a batch asks for: FLOP and bytes of each of ``LAYER_KINDS``, operators, what is stored in bytes.

    A training step has forward and backward pass together. ``footprint_byte`` is parameters, inputs and activations,
    each once.
    """

    batch: int
    flop: Numbers
    byte: Numbers
    calls: int
    input_byte: float
    parameter_byte: float
    footprint_byte: float

    def least_s(self, roof: Roof) -> float:
        """Return the time (s) below which no device with this roof can be (Williams et al. 2009)."""
        return max(float(self.arithmetic_s(roof).sum()), self.footprint_byte / roof.byte_per_s)

    def arithmetic_s(self, roof: Roof) -> Numbers:
        """Return the time (s) of each kind of layer at the peak."""
        return self.flop / roof.peaks

    def memory_s(self, roof: Roof) -> Numbers:
        """Return the time (s) of each kind of layer at the bandwidth, every operator reading and writing memory."""
        return self.byte / roof.byte_per_s

    def kinds_at_the_roof_s(self, roof: Roof) -> Numbers:
        """Return the time (s) of each kind of layer at its roof."""
        return np.maximum(self.arithmetic_s(roof), self.memory_s(roof))

    def terms(self, roof: Roof, how: How) -> Numbers:
        """Return the ``TERMS`` of the call's latency (s)."""
        memory = self.memory_s(roof)
        return np.array([
            *self.arithmetic_s(roof)[PRODUCTS],
            *memory,
            0.0 if how.compiled else memory[FUSED].sum(),
            self.calls * MICROSECOND,
            MICROSECOND,
            self.input_byte * NANOSECOND if how.copied else 0.0,
            self.parameter_byte / roof.byte_per_s if how.trains else 0.0,
        ])  # fmt: skip

    @cached_property
    def make_up(self) -> Numbers:
        """What calls are alike by: the kinds' shares of the FLOP and of the bytes, each of which sums to 1 or 0,
        and the logarithm of the batch size, weighed so that a factor of 32 is as far as a third of either moved.
        """
        flop, byte = self.flop[PRODUCTS], self.byte
        shares = (flop / max(flop.sum(), 1.0), byte / max(byte.sum(), 1.0))
        return np.array([*shares[0], *shares[1], BATCH_WEIGHT * np.log(self.batch)])


def by_kind(rows: Iterable[tuple[str, float]]) -> Numbers:
    """Return numbers, each with its kind of layer, summed in the order of ``LAYER_KINDS``."""
    sums = np.zeros(len(LAYER_KINDS))
    for kind, number in rows:
        sums[PLACE[kind]] += number
    return sums


CHIP_KIND = {"cpu": "cpu", "cuda": "gpu", "mps": "soc"}
"""The kind of chip that each of torch's devices is."""


@dataclass(frozen=True, eq=False)
class PredictedDevice:
    """A device by name: its dense peaks (FLOP/s) by precision, bandwidth (B/s), memory (B) and power (W) where known.

    It is of a ``chip_kind``, as in ``data/chips.csv``.
    """

    name: str
    chip_kind: str
    peaks: Mapping[str, float]
    byte_per_s: float
    memory_byte: float | None = None
    power_w: float | None = None

    def roof(self, precision: str) -> Roof | None:
        """Return the roof at a precision; None where the device has no rate at it.

        torch runs convolutions of fp32 in TF32 where the device has it, and other products only if asked to.
        """
        peak = self.peaks.get(precision)
        if peak is None:
            return None
        convolutions = self.peaks.get(TF32, peak) if precision == FULL_PRECISION else peak
        return Roof(max(convolutions, peak), peak, self.byte_per_s)


def of_chips(data: Path) -> dict[str, PredictedDevice]:
    """Return the chips of ``data/chips.csv`` by each of their names, ``folded``; a peak is the faster unit's."""
    rows: dict[str, list[Chip]] = {}
    for row in table.read(file_of(Chip, data), Chip):
        rows.setdefault(row.chip, []).append(row)
    return {
        name: chip
        for found in rows.values()
        for chip in (_of_chip(found),)
        for row in found
        for name in chip_names(row)
    }


def _of_chip(rows: Sequence[Chip]) -> PredictedDevice:
    peaks: dict[str, float] = {}
    for row in rows:
        peaks[row.precision] = max(row.peak_flop_per_s, peaks.get(row.precision, 0.0))
    return PredictedDevice(
        rows[0].chip,
        rows[0].chip_kind,
        peaks,
        max(row.bandwidth_byte_per_s for row in rows),
        max((row.memory_byte for row in rows if row.memory_byte), default=None),
        max((row.power_w for row in rows if row.power_w), default=None),
    )


def of_machine(folder: MachineFolder, environment: Environment) -> PredictedDevice | None:
    """Return a machine of the cache with its roofs in an environment; None where they were not measured."""
    rows = [row for row in folder.roof_measurements() if row.environment_id == environment.environment_id]
    found = roofs.measured(rows)
    if found.byte_per_s is None or not found.flop_per_s:
        return None
    kind = CHIP_KIND[environment.device]
    return PredictedDevice(folder.name, kind, found.flop_per_s, found.byte_per_s, environment.memory_byte)
