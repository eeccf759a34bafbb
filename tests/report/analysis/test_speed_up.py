from dataclasses import replace

import pytest
from helpers.papers import empty, many

from report.analysis.available import DataMissingError
from report.analysis.speed_up import compared


def test_shared_cells():
    ((machine, cells),) = compared(many())
    assert machine.chip_kind == "gpu"
    assert len(cells) == 23  # all but the one that failed on the CPU
    rows = cells.set_index(["model", "batch"])
    # c at batch 1: 40 ms against five times 2 ms; at 4: 80 ms against the same. Peaks: 8 TFLOP/s over 100 GFLOP/s.
    assert rows.loc[("c", 1)].tolist() == pytest.approx([0.04, 0.01, 4, 80])
    assert rows.speed_up["c", 4] == pytest.approx(8)


def test_the_prediction_is_the_ratio_of_what_roofs_allow_at_the_models_intensity():
    cpu, gpu = many().machine("cpu"), many().machine("gpu")
    slower = gpu.cells.assign(attainable_flop_per_s=gpu.cells.attainable_flop_per_s.where(gpu.cells.model != "a", 3e11))
    ((_, cells),) = compared(replace(many(), machines=(cpu, replace(gpu, cells=slower))))
    assert cells.set_index(["model", "batch"]).predicted["a", 1] == pytest.approx(3)


def test_every_other_machine_is_held_against_the_first_that_is_shown():
    cpu, gpu = many().machine("cpu"), many().machine("gpu")
    older = replace(cpu, folder="older")
    found = compared(replace(many(), machines=(cpu, gpu, older)))
    assert [machine.folder for machine, _ in found] == ["example-gpu", "older"]
    assert (found[1][1].speed_up == 1).all()
    found = compared(replace(many(), machines=(gpu, cpu, older)))
    assert [machine.folder for machine, _ in found] == ["example-cpu", "older"]


def test_without_shared_cells_it_says_what_adds_some():
    cpu, gpu = many().machine("cpu"), many().machine("gpu")
    apart = replace(gpu, cells=gpu.cells[gpu.cells.batch == 16].assign(batch=32))
    for machines in ((cpu,), (cpu, apart), (cpu, replace(gpu, cells=gpu.cells.iloc[:0]))):
        with pytest.raises(
            DataMissingError, match=r"with the Example CPU \(4 cores\); to compare it with one, run python"
        ):
            compared(replace(many(), machines=machines))
    with pytest.raises(DataMissingError, match="No machine has been measured yet"):
        compared(empty())
