from dataclasses import replace

import pandas as pd
import pytest
from helpers.counted_papers import counted
from helpers.papers import empty
from helpers.published_papers import printed

from report.analysis import counted_kernels
from report.analysis.available import DataMissingError


def test_the_formulas_of_the_chapter():
    (cell,) = counted_kernels.cells(counted().machine("gpu")).itertuples()
    assert cell.time_s == pytest.approx(0.5e-3)  # 0.4 + 0.1 ms
    assert cell.dram_byte == 12e6  # 6 + 2 + 2 + 2 MB
    assert cell.dram_byte_per_s == pytest.approx(24e9)
    assert cell.flop == 91e6
    assert cell.flop_per_s == pytest.approx(182e9)
    assert cell.intensity == pytest.approx(91 / 12)


def test_without_the_flop_of_tensor_cores_nothing_that_needs_them_is_known():
    (cell,) = counted_kernels.cells(counted().imported[0]).itertuples()
    assert (cell.time_s, cell.dram_byte_per_s) == (pytest.approx(0.4), pytest.approx(100e9))
    assert pd.isna(cell.flop)
    assert pd.isna(cell.flop_per_s)
    assert pd.isna(cell.intensity)
    assert cell.tensor_gap


def test_bytes_between_ideal_and_unfused():
    (cell,) = counted_kernels.with_bytes(counted(), counted().machine("gpu")).itertuples()
    # lean at batch size 1: parameters 4 MB, input 0.5 MB, output 4 kB; its operators move 20 MB; 100 + 10 MFLOP
    assert (cell.ideal_byte, cell.unfused_byte, cell.asked_flop) == (4_504_000, 20e6, 110e6)


def test_kernels_belong_to_the_operators_that_launch_them_and_unknown_ones_to_the_group_of_their_name():
    own = counted_kernels.groups(counted(), counted().machine("gpu")).set_index("group").flop
    assert own.to_dict() == {"convolution": 90e6, "elementwise": 1e6}
    imported = counted_kernels.groups(counted(), counted().imported[0])
    assert set(imported.group) == {"matrix product", "elementwise"}
    assert counted_kernels.unmatched(counted(), counted().imported[0]) == 0


def test_flop_by_kind_of_work():
    rows = counted_kernels.flop_by_work(counted(), counted().machine("gpu")).set_index("work")
    # the convolution's 90 MFLOP; relu_ was counted with none
    convolutions, others = rows.loc["convolutions"], rows.loc["other arithmetic"]
    assert (convolutions.counted_flop, convolutions.asked_flop) == (90e6, 90e6)
    assert (others.counted_flop, others.asked_flop) == (1e6, 0)
    imported = counted_kernels.flop_by_work(counted(), counted().imported[0]).set_index("work")
    assert pd.isna(imported.loc["matrix products and attention"].counted_flop)


def test_the_step_of_a_model():
    assert counted_kernels.step(counted().imported[0], "resnet50", 64).time_s == pytest.approx(0.4)
    assert counted_kernels.step(counted().imported[0], "resnet50", 32) is None
    assert counted_kernels.step(counted().machine("cpu"), "resnet50", 64) is None


def test_machines_with_counters_are_those_measured_and_those_imported():
    assert [each.folder for each in counted_kernels.machines(counted())] == ["example-gpu", "imported"]
    with pytest.raises(DataMissingError, match="--sections workload hardware-counters` reads them"):
        counted_kernels.machines(empty())


def test_steps_that_a_study_printed_beside_what_was_counted_here():
    rows = counted_kernels.printed_steps(printed()).set_index(["model", "gpu"])
    # Three models on three GPUs
    assert len(rows) == 9
    step = rows.loc["resnet50", "NVIDIA T4"]
    assert step.dram_byte == pytest.approx(147.8e9 * 0.7590)
    assert step.flop == pytest.approx(1615e9 * 0.7590)
    # 64 images of 4.089 GMAC forward, twice as many less the first layer's 0.118 backward, and 64 MFLOP beside products
    assert step.asked_flop == pytest.approx(2 * 64 * (3 * 4.089e9 - 0.118e9) + 64e6)


def test_without_workloads_printed_steps_stand_beside_nothing():
    with pytest.raises(DataMissingError, match="counted"):
        counted_kernels.printed_steps(replace(printed(), workloads=empty().workloads))
