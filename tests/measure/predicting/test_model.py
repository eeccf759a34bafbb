import numpy as np
import pytest
from helpers.predicted import BEAD, additive

from measure.cache.predictions import TERMS
from measure.predicting.model import fit_pool, fit_setting
from measure.predicting.timings import fit_rows


def test_what_latencies_are_made_of_is_predicted():
    timed = fit_rows(additive(models=400))
    model = fit_setting(timed)
    assert np.median(model.predict(timed.terms, timed.make_ups) / timed.latency_s) == pytest.approx(1, rel=0.01)
    assert model.coefficients[TERMS.index("convolution arithmetic")] == pytest.approx(2.0, rel=0.02)


def test_a_layer_that_was_not_timed_is_at_its_roof():
    assert fit_setting(fit_rows(additive())).coefficients[TERMS.index("attention memory")] == pytest.approx(1.0)


def test_in_a_pool_a_setting_that_is_slower_as_a_whole_is_no_offset():
    slow = BEAD._replace(device="Cog 3")
    timed = fit_rows([*additive(), *additive(2.0, slow)])
    # Were the settings' factor of 2 an offset, it would be half of log 2, 0.35, to either side
    assert np.abs(fit_pool(timed).neighbours.offsets).max() < 0.05
