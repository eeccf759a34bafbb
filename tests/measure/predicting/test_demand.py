import numpy as np
import pytest
from helpers.predicted import ROOF, demand

from measure.cache.predictions import CALL, COPY, LAUNCHES, TERMS, UNFUSED, UPDATE
from measure.domain.words import LAYER_KINDS
from measure.predicting.demand import How, LayerRoof, by_kind


def terms(how=How()):  # noqa: B008 - a frozen value
    return dict(zip(TERMS, demand(3.0, moved=2.0).terms(ROOF, how), strict=True))


def test_terms_are_times_at_the_roof_and_beside_it():
    found = terms()
    # 3 GFLOP at 1 TFLOP/s; 100 MB and 200 MB at 100 GB/s; 100 operators and one call in microseconds
    assert found["convolution arithmetic"] == pytest.approx(3e-3)
    assert found["convolution memory"] == pytest.approx(1e-3)
    assert found["activation memory"] == found[UNFUSED] == pytest.approx(2e-3)
    assert (found[LAUNCHES], found[CALL]) == pytest.approx((1e-4, 1e-6))
    assert found[COPY] == found[UPDATE] == found["linear arithmetic"] == 0


def test_conditions_are_terms():
    assert terms(How(compiled=True))[UNFUSED] == 0
    assert terms(How(copied=True))[COPY] == pytest.approx(1e-3)  # 1 MB of input, a nanosecond a byte
    assert terms(How(trains=True))[UPDATE] == pytest.approx(4e-5)  # 4 MB of parameters at 100 GB/s


def test_the_least_time_is_the_roofline():
    # 3 ms of arithmetic; the footprint of 50 MB takes 0.5 ms
    assert demand(3.0).least_s(ROOF) == pytest.approx(3e-3)
    assert demand(0.1).least_s(ROOF) == pytest.approx(5e-4)


def test_convolutions_have_a_peak_of_their_own():
    tensor = LayerRoof(convolution_flop_per_s=4e12, flop_per_s=1e12, byte_per_s=1e11)
    assert demand(4.0).arithmetic_s(tensor).sum() == pytest.approx(1e-3)


def test_a_make_up_has_the_shares_of_flop_and_bytes_and_the_batch_size():
    found = demand(3.0, moved=3.0, batch=8).make_up
    assert found[:5].tolist() == [1, 0, 0, 0, 0]
    assert found[5 : 5 + len(LAYER_KINDS)] == pytest.approx([0.25, 0, 0, 0, 0, 0.75, 0, 0, 0, 0])
    assert found[-1] == pytest.approx(0.2 * np.log(8))


def test_numbers_are_summed_by_kind():
    found = by_kind([("linear", 2.0), ("linear", 3.0), ("other", 1.0)])
    assert found[LAYER_KINDS.index("linear")] == 5
    assert found.sum() == 6
