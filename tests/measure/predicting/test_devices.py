from dataclasses import replace

import pytest
from helpers.rows import ENVIRONMENT, machine_in, roof_measurement

from measure.cache.folders import MachineFolder
from measure.cache.hand_kept import Chip
from measure.cache.schema import file_of
from measure.cache.table import write
from measure.predicting import demand
from measure.predicting.demand import LayerRoof, PredictedDevice


def row(precision, peak_flop_per_s, unit="tensor", **changed):
    """A row of a chip's datasheet."""
    told = {"alias": "Bead-2-40GB; Example GPU", "bandwidth_byte_per_s": 1e12, "power_w": None, "memory_byte": None}
    return Chip(
        chip="Bead 2", vendor="Bead", die="", chip_kind="gpu", year=2021, precision=precision, unit=unit,
        peak_flop_per_s=peak_flop_per_s, sparse_peak_flop_per_s=2 * peak_flop_per_s, memory_type="", derivation="",
        verified="yes", source="made", note="", **told | changed,
    )  # fmt: skip


def chips(data, *rows):
    write(file_of(Chip, data), Chip, rows)
    return demand.of_chips(data)


@pytest.fixture
def folder(tmp_path):
    return MachineFolder(tmp_path, "bench")


def test_rows_of_a_chip_are_one_device_with_the_best_of_each(tmp_path):
    found = chips(
        tmp_path,
        row("fp16", 2e13, unit="vector", power_w=300.0),
        row("fp16", 1e14, bandwidth_byte_per_s=2e12, memory_byte=4e10),
        row("fp32", 1e13, unit="vector", power_w=350.0),
    )["bead 2"]
    # The faster unit's dense peak of each precision; the larger bandwidth, memory and power that a row states
    assert (found.name, found.chip_kind, found.peaks) == ("Bead 2", "gpu", {"fp16": 1e14, "fp32": 1e13})
    assert (found.byte_per_s, found.memory_byte, found.power_w) == (2e12, 4e10, 350)


def test_what_no_row_states_is_not_known(tmp_path):
    found = chips(tmp_path, row("fp16", 1e14))["bead 2"]
    assert found.memory_byte is found.power_w is None


def test_a_chip_goes_by_each_of_its_names_whatever_their_case(tmp_path):
    other = replace(row("fp16", 1e12), chip="Cog 3", alias="")
    found = chips(tmp_path, row("fp16", 1e14), row("fp32", 1e13, alias="Bead 2 PCIe"), other)
    assert set(found) == {"bead 2", "bead-2-40gb", "example gpu", "bead 2 pcie", "cog 3"}
    assert found["bead 2 pcie"] is found["example gpu"] is found["bead 2"]
    assert found["cog 3"].peaks == {"fp16": 1e12}


def test_torch_runs_convolutions_at_fp32_in_tf32_where_the_chip_has_it():
    chip = PredictedDevice("Bead 2", "gpu", {"fp32": 1e13, "tf32": 5e13, "fp16": 1e14}, 1e12)
    assert chip.roof("fp32") == LayerRoof(convolution_flop_per_s=5e13, flop_per_s=1e13, byte_per_s=1e12)
    assert chip.roof("tf32") == LayerRoof(5e13, 5e13, 1e12)
    assert chip.roof("fp16") == LayerRoof(1e14, 1e14, 1e12)
    assert chip.roof("bf16") is None


def test_convolutions_are_no_slower_for_a_tf32_that_is():
    dot = PredictedDevice("Dot 4", "gpu", {"fp32": 2e13, "tf32": 1e13}, 1e12)
    assert dot.roof("fp32") == LayerRoof(2e13, 2e13, 1e12)


def test_a_machine_has_the_roofs_that_its_environment_measured(tmp_path, folder):
    machine_in(folder.folder)
    stream = replace(roof_measurement(), roof_kernel="stream_copy", precision="fp64", flop=0, byte=600, round=0)
    elsewhere = replace(stream, environment_id="e0", byte=10**6)
    folder.put_roof_measurements([replace(stream, latency_s=2.0), elsewhere])
    ((_, environment, found),) = demand.of_machines(tmp_path)
    assert environment == ENVIRONMENT
    # 1024 FLOP in 0.5 s; 600 B in 2 s
    assert (found.name, found.chip_kind, found.memory_byte) == ("bench", "cpu", 1024)
    assert (found.peaks, found.byte_per_s) == ({"fp32": 2048}, 300)


def test_a_machine_of_which_half_a_roof_was_measured_is_no_device(tmp_path, folder):
    folder.put_environment(ENVIRONMENT)
    assert list(demand.of_machines(tmp_path)) == []
    folder.put_roof_measurements([roof_measurement()])  # a product, and no stream
    assert list(demand.of_machines(tmp_path)) == []
