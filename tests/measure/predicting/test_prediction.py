import pytest
from helpers.predicted import BEAD, ROOF, additive, demand

from measure.cache import predictions
from measure.cache.predictions import TERMS, Coefficient, PredictionError
from measure.domain.roofs import Roof
from measure.domain.words import EAGER, INFERENCE
from measure.predicting.demand import PredictedDevice
from measure.predicting.prediction import DATASHEET, FITTED, SCALED, Predictor
from measure.predicting.study import ASIDE, pool_of

POOL = pool_of("gpu", "fp16", INFERENCE)
OLD, NEW = BEAD._replace(software="2.9.1"), BEAD._replace(software="2.14.0")
VALUES = {"convolution arithmetic": 2.0, "activation memory": 1.5, "call": 1000.0}
"""What ``additive`` is made of: the memory of convolutions takes no time of its own."""


def coefficients(setting, factor=1.0):
    return [Coefficient(*setting, term, 40, 40, factor * VALUES.get(term, 0.0), 0.0, 9.0) for term in TERMS]


ALL = (predictions.OURS, predictions.ALL_BATCHES, 40, 40, 0.1, 0.2, 0.9, 1.0)
ERRORS = [
    PredictionError(*NEW, predictions.BY_MODEL, *ALL, 0.9, 1.1),
    PredictionError(*OLD, predictions.BY_MODEL, *ALL, 0.5, 2.0),
    PredictionError(*POOL, predictions.BY_DEVICE, *ALL, 0.6, 1.8),
    PredictionError(*POOL, predictions.ONE_KNOWN, *ALL, 0.7, 1.4),
]


def chip(name, kind="gpu"):
    return PredictedDevice(name, kind, Roof({"fp16": ROOF.peak_flop_per_s}, ROOF.bandwidth_byte_per_s))


def predict(device, calls=(), known=None, precision="fp16", rows=None):
    rows = [*coefficients(POOL), *coefficients(NEW, 1.3)] if rows is None else rows
    predictor = Predictor(rows, ERRORS, calls)
    return predictor.predict(demand(4.0, moved=2.0), device, precision, EAGER, INFERENCE, known)


CALLS = [*additive(1.3, NEW), *additive(1.0, BEAD._replace(device="Cog 3"))]
MADE = (2 * 4 + 1.5 * 2 + 1) * 1e-3
"""What the call takes by the coefficients of the pool, to which its neighbours add nothing."""


def test_a_device_of_which_many_models_were_timed_has_its_own_fit_and_the_newest_software_counts_by_its_numbers():
    rows = [*coefficients(POOL), *coefficients(OLD, 5.0), *coefficients(NEW, 1.3)]
    found = predict(chip("Bead 2"), [*CALLS, *additive(5.0, OLD)], rows=rows)
    assert (found.basis, found.timed_models) == (FITTED, 40)
    assert found.likely_s == pytest.approx(1.3 * MADE)
    assert (found.low_s, found.high_s) == pytest.approx((0.9 * 1.3 * MADE, 1.1 * 1.3 * MADE))
    # 4 GFLOP at 1 TFLOP/s; of the likely 12 parts arithmetic has 8
    assert (found.least_s, found.bound) == (pytest.approx(4e-3), "arithmetic")
    assert (found.costliest, found.costliest_share) == ("convolution arithmetic", pytest.approx(8 / 12))


@pytest.mark.parametrize(
    ("name", "timed", "known", "basis", "models", "factor", "low", "high"),
    [
        # Some times scale by what they are off, and so does one that is known; a datasheet has the widest interval
        ("Dot 4", additive(0.5, BEAD._replace(device="Dot 4"), models=3), None, SCALED, 3, 0.5, 0.7, 1.4),
        ("Dot 4", additive(0.5, BEAD._replace(device="Dot 4"), models=3), 3 * MADE, SCALED, 1, 3.0, 0.7, 1.4),
        ("Eel 5", [], 3 * MADE, SCALED, 1, 3.0, 0.7, 1.4),
        ("Eel 5", [], None, DATASHEET, 0, 1.0, 0.6, 1.8),
        (ASIDE[0], additive(0.5, BEAD._replace(device=ASIDE[0])), None, DATASHEET, 0, 1.0, 0.6, 1.8),
    ],
)
def test_a_device_with_few_times_or_none(name, timed, known, basis, models, factor, low, high):
    found = predict(chip(name), [*CALLS, *timed], known and (demand(4.0, moved=2.0), known))
    assert (found.basis, found.timed_models) == (basis, models)
    assert found.likely_s == pytest.approx(factor * MADE, rel=0.01)
    assert (found.low_s, found.high_s) == pytest.approx((low * found.likely_s, high * found.likely_s))


def test_a_kind_of_which_none_was_timed_is_taken_for_a_gpu_without_an_interval_and_the_least_time_is_no_longer():
    found = predict(chip("Fig 6", "asic"), CALLS)
    assert found.likely_s == pytest.approx(MADE)
    assert found.low_s is found.high_s is None
    faster = predict(chip("Fig 6", "asic"), rows=coefficients(POOL, 0.1))  # 1.2 ms, below the 4 ms at the peak
    assert faster.least_s == faster.likely_s == pytest.approx(0.1 * MADE)


def test_without_a_rate_or_a_fit_there_is_no_prediction():
    assert predict(chip("Eel 5"), CALLS, precision="fp32") is None
    assert predict(chip("Eel 5"), CALLS, rows=coefficients(NEW)) is None
