"""Energy: the joules of a cell's calls over its rounds, and what operations, bytes and time cost in joules."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any, NamedTuple

from measure.domain.statistics import Estimate, estimate_rounds

LEAST_S = 0.7
"""The least time of the calls behind a cell's energy: seven steps of NVML's counter, which is off by up to one at each
end of a round."""


@dataclass(frozen=True)
class EnergyRoof:
    """The energy of an operation (J/FLOP), of a byte (J/B), and the power (W) that flows whatever runs.

    Each is a number or a column. Source: J. W. Choi, D. Bedard, R. Fowler, R. Vuduc, A Roofline Model of Energy,
    IPDPS 2013, 661-672.
    """

    joule_per_flop: Any
    joule_per_byte: Any
    constant_w: Any

    def energy_j(self, flop: Any, byte: Any, time_s: Any) -> Any:
        """Return the energy (J) of this work in this time."""
        return flop * self.joule_per_flop + byte * self.joule_per_byte + time_s * self.constant_w

    def attainable(self, intensity_flop_per_byte: Any, flop_per_s: Any = inf) -> Any:
        """Return the FLOP that a joule buys at this intensity and rate, an arch over the intensity.

        An infinite rate leaves the constant power out.
        """
        return 1 / self.energy_j(1, 1 / intensity_flop_per_byte, 1 / flop_per_s)


class RoundEnergy(NamedTuple):
    """The calls of a round whose energy was read, and their energy (J) and time (s) together."""

    calls: int
    energy_j: float
    time_s: float

    @classmethod
    def of(cls, samples: Iterable[tuple[int, float, float | None]]) -> "RoundEnergy | None":
        """Sum samples: a number of calls, and one call's time (s) and energy (J). None if no energy was read."""
        read = [
            (calls, calls * energy_j, calls * time_s)
            for calls, time_s, energy_j in samples
            if energy_j is not None and energy_j > 0  # NaN is not
        ]
        return cls(*map(sum, zip(*read, strict=True))) if read else None


def mean_time(rounds: Sequence[RoundEnergy]) -> float:
    """Return the mean time (s) of the calls whose energy was read."""
    return sum(each.time_s for each in rounds) / sum(each.calls for each in rounds)


def estimate_energy(rounds: Sequence[RoundEnergy]) -> Estimate | None:
    """Return the energy (J) of one call: all joules over all calls, with the interval between rounds.

    None below ``LEAST_S``; no interval below three rounds.
    """
    if sum(each.time_s for each in rounds) < LEAST_S:
        return None
    mean_j = sum(each.energy_j for each in rounds) / sum(each.calls for each in rounds)
    between = estimate_rounds([[each.energy_j / each.calls] for each in rounds])
    if between.low is None or between.high is None:
        return Estimate(mean_j, None, None)
    return Estimate(mean_j, min(mean_j, between.low), max(mean_j, between.high))
