"""The fits of the world: how predictions are read."""

from helpers.world import world

from measure.cache.predictions import Setting
from report.paper import predictions
from report.paper.predictions import Sources


def test_predictions_rest_on_fits_for_chips_each_once_and_machines_whose_streams_were_measured(tmp_path):
    found = world().predictions
    bead = Setting("Bead 2", "epoch_hw", "2.14.0", "bf16", "eager", "inference")
    assert bead in set(found.errors.setting)
    device = next(device for device in found.devices if device.name == "Bead 2")
    basis = found.predictor.basis(device, "bf16", "eager", "inference")
    assert (basis.setting, basis.timed_models) == (bead, 1200)
    names = [device.name for device in found.devices]
    assert sorted(names) == sorted({*world().chips.chip, "example-cpu", "example-gpu"})
    nothing = predictions.read(Sources(*[tmp_path] * 4)).errors
    assert nothing.empty
    assert "setting" in nothing
