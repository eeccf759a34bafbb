import pytest
from helpers.places import TESTS
from helpers.predicted_papers import BEAD, put_predictions

from measure.errors import UserError
from report.paper import predictions
from report.paper.predictions import Sources


@pytest.fixture
def found(tmp_path):
    put_predictions(tmp_path)
    return predictions.read(Sources(tmp_path, TESTS / "data", tmp_path, TESTS / "data"))


def test_each_row_has_its_setting(found):
    assert BEAD in set(found.errors.setting)


def test_devices_are_chips_each_once_and_machines_whose_streams_were_measured(found):
    machines = ["example-cpu", "example-gpu"]
    assert sorted(device.name for device in found.devices) == ["Abacus 1", "Bead 2", "Cog 3", "Dial 4", *machines]


def test_a_prediction_rests_on_the_fit(found):
    bead = next(device for device in found.devices if device.name == "Bead 2")
    basis = found.predictor.basis(bead, "bf16", "eager", "inference")
    assert (basis.setting, basis.timed_models) == (BEAD, 1200)


def test_what_is_not_there_is_empty(tmp_path):
    found = predictions.read(Sources(*[tmp_path] * 4))
    assert found.errors.empty
    assert "setting" in found.errors


def test_a_wrong_cell_is_named(tmp_path):
    put_predictions(tmp_path)
    file = tmp_path / "prediction" / "errors.csv"
    file.write_text(file.read_text().replace("0.04,", "many,", 1))
    with pytest.raises(UserError, match=r"errors\.csv.*many"):
        predictions.read(Sources(*[tmp_path] * 4))
