"""The fits of the world: how predictions are read."""

import pytest
from helpers.world import mutated, world

from measure.cache.predictions import Setting
from measure.errors import UserError
from report.paper import predictions
from report.paper.predictions import Sources

BEAD = Setting("Bead 2", "epoch_hw", "2.14.0", "bf16", "eager", "inference")


def test_each_row_has_its_setting_and_a_prediction_rests_on_the_fit():
    found = world().predictions
    assert BEAD in set(found.errors.setting)
    bead = next(device for device in found.devices if device.name == "Bead 2")
    basis = found.predictor.basis(bead, "bf16", "eager", "inference")
    assert (basis.setting, basis.timed_models) == (BEAD, 1200)


def test_devices_are_chips_each_once_and_machines_whose_streams_were_measured():
    names = [device.name for device in world().predictions.devices]
    assert sorted(names) == sorted({*world().chips.chip, "example-cpu", "example-gpu"})


def test_what_is_not_there_is_empty(tmp_path):
    found = predictions.read(Sources(*[tmp_path] * 4))
    assert found.errors.empty
    assert "setting" in found.errors


def test_a_wrong_cell_is_named(tmp_path):
    wrong = {"prediction/errors.csv": lambda row: row | {"median_error": "many"}}
    data = mutated(tmp_path / "data", wrong)
    with pytest.raises(UserError, match=r"errors\.csv.*many"):
        predictions.read(Sources(*[data] * 4))
