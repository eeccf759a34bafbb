from dataclasses import replace

import pandas as pd
import pytest
from helpers.papers import empty, tiny, wide
from helpers.timed_papers import timed, timing

from report.analysis import stand_in

ROOFS = {"D4": "NVIDIA D4 (SXM)", "RTX": "NVIDIA GeForce RTX 1"}
"""Of more chips, with 40 and 30 TFLOP/s at fp32."""


def test_cells_of_the_gpu_that_stands_in():
    gpu = stand_in.of(timed())
    assert (gpu.device, gpu.source, gpu.batches) == ("Bead 2", "lamikr_benchmark", "batch size 4")
    assert gpu.input_copied
    assert (gpu.roof.peak_flop_per_s, gpu.roof.bandwidth_byte_per_s) == (1e13, 1e12)
    lean, broad = gpu.cells.itertuples()
    # Between 100 and 800 MFLOP, 10 and 52 MB, 20 and 132 MB at batch sizes 1 and 8
    assert (lean.forward_flop, lean.footprint_byte, lean.traffic_byte) == pytest.approx((400e6, 28e6, 68e6))
    assert (lean.activation_byte, lean.parameter_count, lean.family) == (pytest.approx(22e6), 1e6, "compact")
    assert lean.footprint_intensity == pytest.approx(400 / 28)  # above the ridge point of 10 FLOP/B
    assert (lean.attained, lean.peak_share) == pytest.approx((0.4, 0.4))
    assert broad.attained == pytest.approx(0.5)


def test_below_the_ridge_point_memory_is_the_roof():
    # broad at batch size 1: 510 MFLOP over 102 MB, so 5 of 10 TFLOP/s; 1 TFLOP/s is a fifth of that
    (broad,) = stand_in.of(timed(timing("broad", 0.51e-3, batch=1))).cells.itertuples()
    assert (broad.attained, broad.peak_share) == pytest.approx((0.2, 0.1))


def test_a_gpu_that_was_measured_takes_its_place():
    assert stand_in.of(replace(timed(), machines=tiny().machines)) is None


def test_without_timings_nothing_stands_in():
    assert stand_in.of(empty()) is None
    assert stand_in.of(replace(tiny(), machines=(tiny().machine("cpu"),))) is None


@pytest.mark.parametrize(
    "other",
    [
        {"input_size": 448}, {"input_size": None}, {"batch": 16}, {"precision": "fp16"}, {"autocast": "fp16"},
        {"compiler": "torch.compile"}, {"phase": "step"}, {"device": "Abacus 1"}, {"device": "Unknown 9"},
        {"model": "timm:lean"},
    ],
    ids=str,
)  # fmt: skip
def test_what_is_not_alike_does_not_stand_in(other):
    assert stand_in.of(timed(timing(**other))) is None
    assert stand_in.of(timed(timing(**other), timing("broad"))).cells.model.tolist() == ["broad"]


def test_the_gpu_with_most_of_the_models_stands_in():
    paper = timed(timing(device=ROOFS["D4"]), timing(), timing("broad"), timing("other"), paper=wide())
    assert stand_in.of(paper).device == "Bead 2"


def chosen(*timings, chips=()):
    paper = wide()
    more = pd.concat([paper.chips, *chips], ignore_index=True)
    return stand_in.of(timed(*timings, paper=replace(paper, chips=more))).device


def test_of_as_many_models_the_plainest_times_and_then_the_highest_peak_count():
    high, low = timing(device=ROOFS["D4"]), timing(device=ROOFS["RTX"])
    assert chosen(high, low) == chosen(low, high) == ROOFS["D4"]
    assert chosen(high, low | {"input_copied": "no"}) == ROOFS["RTX"]
    # Of a chip that has TF32, too, nobody knows at which rate it ran
    d4 = wide().chips[wide().chips.chip == ROOFS["D4"]].head(1)
    assert chosen(high, low, chips=[d4.assign(precision="tf32", peak_flop_per_s=8e13)]) == ROOFS["RTX"]


def test_cells_are_of_one_set_of_conditions_and_each_counts_once():
    later = {"torch": "2.9"}
    gpu = stand_in.of(
        timed(timing("deep"), timing(**later), timing("broad", **later), timing("broad", 1.0, file="b.csv", **later))
    )
    assert gpu.cells.model.tolist() == ["lean", "broad"]
    assert gpu.cells.latency_s.max() < 1


def test_several_batch_sizes_are_said():
    gpu = stand_in.of(timed(timing(batch=2), timing(batch=8)))
    assert gpu.batches == "batch sizes 2 to 8"
    assert "(lamikr_benchmark) timed 1" in gpu.described
