import numpy as np
import pytest
from helpers.predicted import BEAD, additive

from measure.cache.predictions import ALL_BATCHES, BY_DEVICE, BY_MODEL, OURS, PUT_ASIDE, TERMS
from measure.predicting import study
from measure.predicting.model import LatencyModel
from measure.predicting.timings import fit_rows

COG = BEAD._replace(device="Cog 3")
POOL = study.pool_of("gpu", "fp16", "inference")


@pytest.fixture(scope="module")
def told():
    aside = BEAD._replace(device=study.ASIDE[0])
    calls = [*additive(models=400), *additive(1.3, COG, models=90), *additive(1.2, aside, models=30)]
    return study.study(calls, lambda _: None), study.study(calls, lambda _: None, aside=True)


def test_fp16_and_bf16_share_a_pool_and_fp32_and_tf32_do():
    assert study.pool_of("gpu", "bf16", "inference") == POOL
    assert POOL.device == "any GPU"
    assert study.pool_of("cpu", "fp32", "step") == study.pool_of("cpu", "tf32", "step")


def test_a_setting_of_many_models_is_fitted_by_itself_and_all_are_in_the_pool(told):
    found, _ = told
    # Four hundred models on Bead 2; ninety on Cog 3 at one batch size are too few
    assert {row.device for row in found.coefficients} == {"Bead 2", "any GPU"}
    assert [row.term for row in found.coefficients if row.device == "Bead 2"] == list(TERMS)
    assert {row.models for row in found.coefficients if row.device == "any GPU"} == {400}


def test_a_coefficient_lies_within_its_interval(told):
    rows = [row for row in told[0].coefficients if row.term == "convolution arithmetic" and row.device == "Bead 2"]
    assert [row.low <= row.value <= row.high for row in rows] == [True]
    assert rows[0].value == pytest.approx(2.0, rel=0.05)


def test_no_fit_sees_what_is_put_aside_and_it_is_predicted_when_asked_for(told):
    plain, with_aside = told
    assert plain.coefficients == with_aside.coefficients
    assert not any(row.left_out == PUT_ASIDE for row in plain.errors)
    found = [row for row in with_aside.errors if (row.left_out, row.method, row.batches) == (PUT_ASIDE, OURS, "all")]
    assert {row.device for row in found} == {study.ASIDE[0], "any GPU"}
    # The devices of the pool are 1.3 and 1 / 1.3 of what the other lets expect: between those lies a third, at 1.2
    assert [row.coverage for row in found] == [1.0, 1.0]


def test_errors_of_all_settings_together_give_each_the_same_say(told):
    rows = {row.device: row for row in told[0].errors if (row.left_out, row.method) == (BY_DEVICE, OURS)}
    # Each device predicted from the other: 1.3 and 1 / 1.3 of the prediction
    assert rows["Cog 3"].median_ratio == pytest.approx(1.3, rel=0.03)
    assert rows["Bead 2"].median_ratio == pytest.approx(1 / 1.3, rel=0.1)
    low, high = rows["any GPU"].low_ratio, rows["any GPU"].high_ratio
    assert low < 1 / 1.2
    assert high > 1.2


def test_a_setting_is_checked_by_model(told):
    (row,) = [
        row
        for row in told[0].errors
        if (row.left_out, row.method, row.device, row.batches) == (BY_MODEL, OURS, "Bead 2", ALL_BATCHES)
    ]
    assert row.models == 400
    assert row.median_error < 0.03


def test_a_kind_of_layer_costs_what_its_terms_say_over_its_roof():
    timed = fit_rows(additive(models=10))
    best = np.zeros(len(TERMS))
    best[TERMS.index("activation memory")], best[TERMS.index("unfused memory")] = 1.0, 0.5
    best[TERMS.index("convolution arithmetic")] = 2.0
    fitted = study.Fitted(BEAD, timed, LatencyModel(best))
    kinds = {row.layer_kind: row for row in study.kind_costs(fitted, np.array([best, best]))}
    # Activations take their memory once and a half: all that is not fused is theirs
    assert kinds["activation"].roof_times == pytest.approx(1.5)
    # Convolutions take twice their arithmetic, at or above the 1 ms of their memory that bounds none of them
    assert kinds["convolution"].roof_times == kinds["convolution"].roof_times_low == pytest.approx(2.0)
    assert set(kinds) == {"activation", "convolution"}
