from dataclasses import replace

import pandas as pd
from helpers.papers import tiny, with_cells
from helpers.sentences import plain
from helpers.timed_papers import timed, timing

from report.findings import utilisation


def cpu_with(**columns):
    """The tiny CPU, deep at batch size 8 alone, with other numbers."""
    cpu = tiny().machine("cpu")
    cells = cpu.cells[(cpu.cells.model == "deep") & (cpu.cells.batch == 8)]
    return replace(cpu, cells=cells.assign(**columns))


def test_attained():
    text = plain(utilisation.attained(tiny()))
    assert "1 of 4 models is memory-bound at batch size 1 (broad) and none of 3 models at 8" in text
    # sorted shares .25 .5 .5 .51 .8 .85 1.25
    assert "51 % in the median of 7 cells; highest in deep at batch size 8 (130 %, 125 GFLOP/s)" in text
    assert "lowest in lean at batch size 1 (25 %)" in text
    # of the peak .25 .255 .5 .5 .8 .85 1.25
    assert "Of the peak it is 50 % in the median and at most 130 % (deep at batch size 8)" in text


def test_a_ridge_point_has_an_interval_which_leaves_some_models_open():
    def text(low, high):
        cpu = tiny().machine("cpu")
        roofs = cpu.roofs.assign(ridge_low_flop_per_byte=low, ridge_high_flop_per_byte=high)
        intensities = cpu.cells.model.map({"lean": 9.0, "broad": 11.0}).fillna(40.0)
        cells = cpu.cells.assign(footprint_intensity=intensities)
        return plain(utilisation.attained(replace(tiny(), machines=(replace(cpu, roofs=roofs, cells=cells),))))

    assert (
        "The interval of the ridge point, 8.00 to 12.5 FLOP/B, leaves open on which side of it 4 cells lie ("
        in text(8, 12.5)
    )
    assert "leaves open on which side of it 2 cells lie (broad at 1 and 8)." in text(10, 12.5)
    assert "leaves open" not in text(9.5, 10.5)


def test_batch_sizes_with_the_same_memory_bound_models_are_told_together():
    cells = pd.DataFrame(
        [(model, batch, model == "a") for batch in (1, 4, 8) for model in "abc"],
        columns=["model", "batch", "memory_bound"],
    )
    eight = pd.DataFrame({"model": ["a", "b"], "batch": 16, "memory_bound": [True, False]})
    assert "1 of 3 models is memory-bound at batch size 1, 4 and 8 (a) and 1 of 2 models at 16 (a);" in plain(
        utilisation.bounds(pd.concat([cells, eight]))
    )


def test_a_point_above_the_roof_within_the_error_bars():
    # 40 GFLOP in 0.32 s are 125 GFLOP/s; the roof is 100 GFLOP/s, 80 to 125.
    assert utilisation.above(tiny().machine("cpu")) == (
        "1\u00a0cell lies above the measured roof by no more than both error bars."
    )
    # 0.30 s, but 0.30 to 0.34: 133 GFLOP/s, 118 to 133
    slow = cpu_with(flop_per_s=40e9 / 0.30, attained=4 / 3, latency_s=0.30, latency_low_s=0.30, latency_high_s=0.34)
    assert "by no more than both error bars" in utilisation.above(slow)


def test_a_point_above_the_roof_by_more_than_both_error_bars():
    # 0.25 s, 0.24 to 0.26: 160 GFLOP/s, 154 to 167, above 125
    fast = cpu_with(flop_per_s=160e9, attained=1.6, latency_s=0.25, latency_low_s=0.24, latency_high_s=0.26)
    text = plain(utilisation.above(fast))
    assert (
        "1 cell lies above the measured roof by more than both error bars: deep at batch size 8 by up to 60 %" in text
    )
    assert "likely causes are convolution algorithms that do less arithmetic than is counted" in text
    assert "caches" not in text  # deep is compute-bound
    # No interval: the latency itself
    text = utilisation.above(cpu_with(attained=1.6, latency_s=0.25, latency_low_s=None, latency_high_s=float("nan")))
    assert "by more than both error bars" in text


def test_a_memory_bound_point_is_held_against_the_bandwidth():
    # At 5 FLOP/B the roof allows 50 GFLOP/s, 60 at the upper end of the bandwidth's interval, 12 GB/s.
    near = cpu_with(footprint_intensity=5.0, attained=1.1, latency_high_s=40 / 59, memory_bound=True)
    assert "by no more than both error bars" in utilisation.above(near)
    far = cpu_with(footprint_intensity=5.0, attained=1.3, latency_high_s=40 / 61, memory_bound=True)
    text = utilisation.above(far)
    assert "by more than both error bars" in text
    assert "caches that serve activations" in text


def test_points_at_other_precisions_are_held_against_their_own_roofs():
    half = cpu_with(precision="bf16", attained=1.6, latency_high_s=0.26)
    cpu = tiny().machine("cpu")
    own = cpu.roofs[cpu.roofs.precision == "fp32"].assign(precision="bf16", peak_high_flop_per_s=150e9)
    text = plain(utilisation.above(replace(half, roofs=own)))  # 40 GFLOP in 0.26 s: 154 GFLOP/s
    assert "deep at batch size 8 (bf16) by up to 60 %" in text
    within = replace(half, roofs=own.assign(peak_high_flop_per_s=155e9))
    assert "by no more than both error bars" in utilisation.above(within)


def test_below_the_roof():
    text = utilisation.attained(with_cells(lambda cells: (cells.batch == 8) & (cells.model != "deep")))
    assert "every model is compute-bound" in text
    assert text.endswith("No point is above the measured roof.")


def test_the_gpu_that_others_timed_is_told_beside_the_same_models_here():
    text = plain(utilisation.attained(timed()))
    # lean .4 and broad .5; here lean .25 and .5, broad .51 and .85
    assert text.endswith(
        "The Bead 2, as others timed it at batch size 4, achieves 45 % of what the roof of its datasheet allows in the "
        "median of 2 models: 40 % (lean) to 50 % (broad); of the measured roof of the Example CPU (4 cores) the same "
        "models achieve 53 % in the median, each in that of its batch sizes."
    )
    assert "others timed" not in utilisation.attained(replace(timed(), machines=tiny().machines))


def test_models_that_others_alone_timed_have_nothing_beside_them():
    paper = timed(timing())
    (cpu,) = paper.machines
    deep = replace(cpu, cells=cpu.cells[cpu.cells.model == "deep"])
    text = plain(utilisation.attained(replace(paper, machines=(deep,))))
    assert text.endswith("in the median of 1 model: 40 % (lean) to 40 % (lean).")
