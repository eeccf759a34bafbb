"""What one call asks of a device, by kind of layer, and the terms of its latency that follow from it."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from measure.cache.predictions import PRODUCT_KINDS
from measure.cache.words import LAYER_KINDS
from measure.predicting.fitting import Numbers

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
