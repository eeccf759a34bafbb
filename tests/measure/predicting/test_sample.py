import numpy as np
import pytest
from helpers.predicted import BEAD, additive, call, demand

from measure.predicting.timings import fit_rows, number_labels


def test_calls_are_rows():
    found = fit_rows([call("timm:net.tag", 0.5, demand(3.0, moved=2.0))])
    assert (found.latency_s[0], found.batch[0], found.architecture[0]) == (0.5, 8, "net")
    # 3 ms of FLOP; convolutions at their roof 3 ms, activations 2 ms; 8 inputs' 4 MB of parameters at 100 GB/s
    assert found.flop_s[0] == pytest.approx(3e-3)
    assert found.kinds_s.sum() == pytest.approx(5e-3)
    assert found.parameter_s[0] == pytest.approx(8 * 4e-5)


def test_a_settings_say_grows_with_the_root_of_its_rows():
    timed = fit_rows([*additive(models=16), call("lone", 1.0, demand(1.0), BEAD._replace(device="Cog 3"))])
    weights = timed.weights()
    assert (weights[0], weights[-1]) == pytest.approx((0.5, 1.0))  # 16 to the power of -1/4
    # 16 rows of weight 1/2 count as 16 / 4 = 4, the root of 16
    assert np.sum(weights[:16] ** 2) == pytest.approx(4)


def test_rows_are_chosen_by_mask_and_by_place():
    timed = fit_rows(additive(models=5))
    assert timed.where(timed.architecture == "net3").latency_s == timed.latency_s[3]
    assert list(timed.where(np.array([1, 1])).architecture) == ["net1", "net1"]


def test_labels_are_numbered_as_they_occur():
    labels = np.array(["b", "a", "b"], dtype=object)
    assert number_labels(labels).tolist() == [0, 1, 0]
