from dataclasses import replace

import pytest
from helpers.papers import empty, many, tiny, with_variants

from report.analysis import speed_ups
from report.analysis.available import DataMissingError


def test_shared_cells():
    ((machine, cells),) = speed_ups.between_machines(many())
    assert machine.chip_kind == "gpu"
    assert len(cells) == 23  # all but the one that failed on the CPU
    rows = cells.set_index(["model", "batch"])
    # c at batch 1: 40 ms against five times 2 ms; at 4: 80 ms against the same. Peaks: 8 TFLOP/s over 100 GFLOP/s.
    assert rows.loc[("c", 1)].tolist() == pytest.approx([0.04, 0.01, 4, 80])
    assert rows.speed_up["c", 4] == pytest.approx(8)


def test_the_prediction_is_the_ratio_of_what_roofs_allow_at_the_models_intensity():
    cpu, gpu = many().machine("cpu"), many().machine("gpu")
    slower = gpu.cells.assign(attainable_flop_per_s=gpu.cells.attainable_flop_per_s.where(gpu.cells.model != "a", 3e11))
    ((_, cells),) = speed_ups.between_machines(replace(many(), machines=(cpu, replace(gpu, cells=slower))))
    assert cells.set_index(["model", "batch"]).predicted["a", 1] == pytest.approx(3)


def test_every_other_machine_is_held_against_the_first_that_is_shown():
    cpu, gpu = many().machine("cpu"), many().machine("gpu")
    older = replace(cpu, folder="older")
    found = speed_ups.between_machines(replace(many(), machines=(cpu, gpu, older)))
    assert [machine.folder for machine, _ in found] == ["example-gpu", "older"]
    assert (found[1][1].speed_up == 1).all()
    found = speed_ups.between_machines(replace(many(), machines=(gpu, cpu, older)))
    assert [machine.folder for machine, _ in found] == ["example-cpu", "older"]


def test_without_shared_cells_it_says_what_adds_some():
    cpu, gpu = many().machine("cpu"), many().machine("gpu")
    apart = replace(gpu, cells=gpu.cells[gpu.cells.batch == 16].assign(batch=32))
    for machines in ((cpu,), (cpu, apart), (cpu, replace(gpu, cells=gpu.cells.iloc[:0]))):
        with pytest.raises(
            DataMissingError, match=r"with the Example CPU \(4 cores\); to compare it with one, run `python"
        ):
            speed_ups.between_machines(replace(many(), machines=machines))
    with pytest.raises(DataMissingError, match="No machine has been measured yet"):
        speed_ups.between_machines(empty())


def test_variants():
    paper = with_variants()
    rows = speed_ups.over_eager(paper.machines[0])
    found = {(row.model, row.batch, row.precision, row.variant): row.speed_up for row in rows.itertuples()}
    assert found == {
        ("lean", 1, "fp32", "kept_memory"): pytest.approx(2),
        ("lean", 8, "fp32", "kept_memory"): pytest.approx(1),
        ("deep", 1, "fp32", "kept_memory"): pytest.approx(0.5),
        ("lean", 1, "bf16", "channels_last"): pytest.approx(1.5),
    }
    assert set(speed_ups.over_eager(paper.machines[0], "fp32").variant) == {"kept_memory"}


def test_without_variants_the_command_is_named():
    with pytest.raises(
        DataMissingError,
        match=r"No cell of the Example CPU \(4 cores\) has been measured in eager mode and as a variant in one "
        "sitting; `python -m measure --device cpu --sections workload inference --variants eager channels_last "
        "kept_memory` measures some",
    ):
        speed_ups.over_eager(tiny().machine("cpu"))
    with pytest.raises(DataMissingError, match=r"in one sitting at fp32; .*--variants eager channels_last comp"):
        speed_ups.over_eager(tiny().machine("gpu"), "fp32")
