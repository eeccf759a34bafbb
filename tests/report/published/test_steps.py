from dataclasses import replace

import pytest
from helpers.published_papers import printed

from measure.domain.values import SPACE
from report.published import steps
from report.published.verdict import AGREES, DIFFERS, NOT_COMPARABLE


def step(model, gpu):
    (found,) = (each for each in steps.steps(printed()) if (each.row.model, each.row.gpu) == (model, gpu))
    return found


def row_of(paper, name, quantity):
    (found,) = (row for row in steps.comparisons(paper) if row.subject == name and row.quantity.startswith(quantity))
    return found


@pytest.mark.parametrize(
    ("model", "gpu", "flop"),
    [
        ("resnet50", "NVIDIA T4", 1226e9),  # 1615 G x 0.7590
        ("resnet50", "NVIDIA L4", 195e9),  # 204.8 x 0.9508
        ("resnet50", "NVIDIA V100", 1227e9),
        ("mobilenet", "NVIDIA T4", 120e9),
        ("mobilenet", "NVIDIA L4", 261e9),
        ("mobilenet", "NVIDIA V100", 128e9),
        ("vit", "NVIDIA T4", 1707e9),
        ("vit", "NVIDIA L4", 1664e9),
        ("vit", "NVIDIA V100", 1707e9),
    ],
)
def test_rate_times_time(model, gpu, flop):
    assert step(model, gpu).flop == pytest.approx(flop, rel=0.002)


def test_the_row_that_contradicts_itself():
    row = step("resnet50", "NVIDIA L4")
    assert row.intensity == pytest.approx(0.951, abs=0.0005)  # 204.8 / 215.4
    assert row.misprinted  # 215.4 x 0.9508 = 204.8
    assert [each.name for each in steps.steps(printed()) if each.misprinted] == [row.name]
    assert row_of(printed(), row.name, "intensity").verdict.outcome == DIFFERS  # 0.9235 is printed
    assert "likely a misprint" in row_of(printed(), row.name, "FLOP").verdict.reason
    others = [row for row in steps.comparisons(printed()) if row.quantity == "intensity"]
    assert sum(row.verdict.outcome == AGREES for row in others) == 8


def test_flop_of_the_counters_beside_exact_counts():
    # vit_b_32: 2 x 64 x (3 x 4.409 - 0.1156) = 1678 G; 1664 is 0.8 % less, 1707 is 1.7 % more
    vit = row_of(printed(), "vit, NVIDIA L4", "FLOP")
    assert vit.ours == pytest.approx(1678e9, rel=0.001)
    assert vit.verdict.outcome == AGREES
    more = row_of(printed(), "vit, NVIDIA T4", "FLOP").verdict
    assert (more.outcome, more.explained) == (DIFFERS, False)
    # resnet50: 2 x 64 x (3 x 4.089 - 0.118) = 1555 G, of which the counters saw 1226 / 1555 = 79 %
    resnet = row_of(printed(), "resnet50, NVIDIA T4", "FLOP")
    assert resnet.ours == pytest.approx(1555e9, rel=0.001)
    assert resnet.verdict.reason == steps.NOT_SEEN
    assert resnet.ratio == pytest.approx(0.79, abs=0.005)
    # mobilenet_v2: 2 x 64 x (3 x 0.3008 - 0.01084) = 114.1 G, with 64 x 1 M of everything else; 120 is 5 % more
    assert row_of(printed(), "mobilenet, NVIDIA T4", "FLOP").verdict.outcome == DIFFERS


def test_times_beside_the_roof():
    # 1555 G / 8.1 T = 192 ms, 25 % of 759 ms
    row = row_of(printed(), "resnet50, NVIDIA T4", "time")
    assert row.verdict.outcome == NOT_COMPARABLE
    assert "192" in row.verdict.reason
    assert "25" in row.verdict.reason


def test_nothing_is_faster_than_the_memory():
    row = row_of(printed(), "resnet50, NVIDIA L4", "DRAM")
    # 215.4 of 300 GB/s; any rate would do, so it is no agreement
    assert (row.ours, row.verdict.outcome) == (300e9, NOT_COMPARABLE)
    assert "this is 72" in row.verdict.reason
    paper = printed()
    faster = replace(paper, training_steps=paper.training_steps.assign(dram_byte_per_s=1e12))
    assert "above the roof" in row_of(faster, "resnet50, NVIDIA L4", "DRAM").verdict.reason


def estimate(paper, name, quantity):
    (found,) = (row for row in steps.estimate_comparisons(paper) if row.subject == name and row.quantity == quantity)
    return found


def test_times_are_milliseconds_printed_as_seconds():
    row = estimate(printed(), "resnet50, NVIDIA T4", "theoretical time")
    assert row.ours == pytest.approx(0.03333, rel=1e-3)  # 270e9 / 8.1e12
    assert steps.MILLISECONDS in row.verdict.reason
    times = [row for row in steps.estimate_comparisons(printed()) if row.unit == "s"]
    assert len(times) == 9
    assert all(steps.MILLISECONDS in row.verdict.reason for row in times)


def test_flop_are_the_multiply_adds_of_the_forward_pass():
    # 64 x 4.089 G = 262, 3 % from 270; 64 x 4.409 G = 282, 0.8 % from 280
    resnet, vit = (estimate(printed(), f"{model}, NVIDIA L4", "FLOP, estimate") for model in ("resnet50", "vit"))
    assert not resnet.verdict.explained
    nearest = "the nearest is the multiply-adds of resnet50's forward pass alone, 3.2 % off"
    assert resnet.verdict.reason.replace(SPACE, " ").endswith(nearest)
    assert vit.verdict.reason == "because it is the multiply-adds of vit_b_32's forward pass alone"
    assert resnet.ratio == pytest.approx(270 / 1555, rel=0.001)
    # 64 x 0.2166 G = 13.9 and 64 x 0.3008 G = 19.3: neither is 15.31
    mobilenet = estimate(printed(), "mobilenet, NVIDIA L4", "FLOP, estimate")
    assert (mobilenet.verdict.outcome, mobilenet.verdict.explained) == (DIFFERS, False)


def test_without_a_batch_size_there_is_no_step_to_count():
    paper = printed()
    alone = replace(paper, training_steps=paper.training_steps.iloc[:0])
    row = estimate(alone, "vit, NVIDIA T4", "FLOP, estimate")
    assert row.verdict.outcome == NOT_COMPARABLE
    assert "batch size" in row.verdict.reason
