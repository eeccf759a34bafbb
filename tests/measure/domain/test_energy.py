"""The energy of cells and of work, computed by hand."""

import pandas as pd
import pytest

from measure.domain.energy import EnergyRoof, RoundEnergy, estimate_energy, mean_time

ROOF = EnergyRoof(1e-11, 2e-10, 150.0)
"""10 pJ/FLOP, 200 pJ/B and 150 W."""


def test_work_costs_operations_bytes_and_time():
    # 2 GFLOP cost 0.02 J, 100 MB 0.02 J, a millisecond 0.15 J
    assert ROOF.energy_j(2e9, 1e8, 1e-3) == pytest.approx(0.19)
    columns = ROOF.energy_j(pd.Series([2e9, 0.0]), pd.Series([1e8, 1e8]), pd.Series([1e-3, 0.0]))
    assert columns.tolist() == pytest.approx([0.19, 0.02])


def test_the_arch_of_attainable_efficiency():
    # 20 FLOP cost as much as a byte: a FLOP 10 pJ, and its twentieth of a byte as much again, half of 100 GFLOP/J. At a
    # rate of 15 TFLOP/s 150 W add 10 pJ.
    assert ROOF.attainable(20) == pytest.approx(5e10)
    assert ROOF.attainable(20, 1.5e13) == pytest.approx(1e11 / 3)
    arch = ROOF.attainable(pd.Series([20.0, 1e12]), pd.Series([1.5e13, 1e30]))
    assert arch.tolist() == pytest.approx([1e11 / 3, 1e11])


def test_a_round_sums_the_samples_whose_energy_was_read():
    samples = [(10, 0.05, 2.0), (10, 0.05, 2.0), (30, 0.05, 4.0), (10, 0.05, None), (10, 0.05, float("nan"))]
    # 20 calls of 2 J, and 30 of 4 J; the counter stood still in the last window
    assert RoundEnergy.of([*samples, (10, 0.05, 0.0)]) == pytest.approx((50, 160.0, 2.5))
    assert RoundEnergy.of(samples[3:]) is None


def test_the_energy_of_a_call_is_all_joules_over_all_calls():
    one, other = RoundEnergy(10, 20.0, 0.5), RoundEnergy(30, 120.0, 1.5)  # 2 J and 4 J a call
    found = estimate_energy([one, other])
    assert (found.median, found.low, found.high) == (3.5, None, None)
    assert mean_time([one, other]) == 2 / 40
    assert estimate_energy([one]) is None  # half a second is five steps of NVML's counter
    assert estimate_energy([]) is None
    # Between three rounds that agree the interval has no width; 2 J and 4 J lie within that of rounds which differ
    agreeing = estimate_energy([one, one, one])
    assert (agreeing.low, agreeing.high) == pytest.approx((2, 2))
    apart = estimate_energy([one, other, RoundEnergy(10, 30.0, 0.5)])
    assert apart.median == 3.4
    assert apart.low < 2 < 4 < apart.high
