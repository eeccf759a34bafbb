"""The chapter on networks, from the rules of the world (tests/data/world/README.md), and its pair as published."""

from dataclasses import replace
from statistics import median

import pytest
from helpers.places import ROOT
from helpers.world import REFERENCES, cells_of, nothing, numbers, rows_of, world, wrong

from measure.domain.workload_records import ONE_RUN
from report.chapters.networks import figures, tables
from report.chapters.networks.facts import large_batch, pair_kinds, roof_of
from report.charts.panels import specified
from report.paper import load

PARAMETERS = (8, 1, 7, 2, 6, 3)
SIX = range(6)

# Least times of the operators of MobileNet-v2 and ResNet-18 on the GPU, 64 images at bf16: arithmetic or bytes
LIGHT = 130 / 500e3, 51.2e9 / 32e12, 130 / 500e3, 64 / 500e3, 6.4e9 / 32e12
HEAVY = 12.8e9 / 32e12, 102.4e9 / 32e12, 224.25 / 500e3, 96 / 500e3, 12.8e9 / 32e12


def mb(k, batch):
    """MB between the layers of network k at fp32, and the part of normalisation and pooling."""
    return 4 * PARAMETERS[k] + batch * (10.1 * (k + 2) + k * k), PARAMETERS[k] / 2 + batch * (3 * (k + 2) + k * k)


def test_facts_by_hand():
    rest = [mb(k, 1)[1] / mb(k, 1)[0] for k in SIX]
    growth = [64 * mb(k, 1)[0] / mb(k, 64)[0] for k in SIX]
    # Products of lean, broad, deep and tokens (attention with its 80 M others), and bytes of their other layers
    flop = [100 / 110, 510 / 515, 5000 / 5050, 4080 / 4100, *(2**k / (2**k + 0.015) for k in SIX)]
    byte = [1 - 5 / 20, 1 - 5 / 120, 1 - 11 / 62.5, 1 - 38 / 160, *(1 - each for each in rest)]
    expected = {
        "counted.networks": 10, "counted.flop_span": 32 / 0.1,
        "counted.memory_span": 102 / 5.5,  # broad; ResNet-18: 4 MB of parameters, 1 of activations, 0.5 of input
        "counted.least_per_parameter": 510 / 25, "counted.least_per_parameter.name": "broad",
        "counted.most_per_parameter": 32e3 / 3, "counted.most_per_parameter.name": "ResNet-50",
        "kinds.products_flop": median(flop), "kinds.products_byte": median(byte),
        "kinds.least_rest": 5 / 120, "kinds.least_rest.name": "broad",
        "kinds.most_rest": rest[5], "kinds.most_rest.name": "ResNet-50",
        "batching.large": 64, "batching.parameters": 4 / mb(1, 1)[0], "batching.parameters_large": 4 / mb(1, 64)[0],
        "batching.whole_growth": 64 * (4 + 0.501) / (4 + 64 * 0.501), "batching.layers_growth": growth[1],
        # Below 10 FLOP/B: as a whole broad (510 / 100.5), layer by layer lean (100 / 20) too. At 64 none
        "on_cpu.precision": "fp32", "on_cpu.ridge": 10,
        "on_cpu.networks": 10, "on_cpu.whole": 1, "on_cpu.layers": 2, "on_cpu.networks_large": 6,
        "on_cpu.whole_large": 0, "on_cpu.layers_large": 0,
        # Below 64 FLOP/B at bf16: lean (44), broad (10), MobileNet-v2 (62) and Llama (1); layer by layer tokens too
        "on_gpu.name": "Bead 2", "on_gpu.precision": "bf16", "on_gpu.ridge": 64, "on_gpu.networks": 11,
        "on_gpu.whole": 4, "on_gpu.layers": 5,
        # An image of 64 at bf16, 32 TFLOP/s and 500 GB/s: operators of 130, 328, 130, 64 and 10.4 MB (features of
        # MobileNet-v2: 51.2 GFLOP), and of 192.25, 481, 224.25, 96 and 10.1 MB (ResNet-18: 102.4 GFLOP; ends: 12.8)
        "pair.batch": 64, "pair.mobilenet.bound": sum(LIGHT) / 64, "pair.mobilenet.fused": (sum(LIGHT) - LIGHT[2]) / 64,
        "pair.mobilenet.rest": LIGHT[2] / sum(LIGHT),
        "pair.resnet.bound": sum(HEAVY) / 64, "pair.resnet.rest": HEAVY[2] / sum(HEAVY),
        "pair.flop_ratio": 2, "pair.byte_ratio": mb(0, 64)[0] / mb(1, 64)[0],
        "pair.bound_ratio": sum(LIGHT) / sum(HEAVY),
        "pair.fused_ratio": (sum(LIGHT) - LIGHT[2]) / (sum(HEAVY) - HEAVY[2]),
        "crossing.flop": 2e9, "crossing.parameters": 2e6, "crossing.input": 250_500, "crossing.batch": 1,
        # One more image adds half of 10.1 * 3 + 1 MB
        "crossing.limit": 2e9 / 15.65e6, "crossing.limit_over_ridge": 2e9 / 15.65e6 / 64,
        "reference.ridge": 10, "reference.whole": 1, "reference.layers": 2,
    }  # fmt: skip
    assert wrong("networks", world(), expected) == {}


@pytest.mark.parametrize(
    ("flop", "batch"),
    [
        (32e6, 9),  # 64 * 2 MB / (32 M - 64 * 0.2505 M) = 8.02
        (16e6, None),  # an endless batch stays at 16 M / 0.2505 MB, below 64
    ],
)
def test_the_batch_at_the_ridge_point_solves_the_equation(flop, batch):
    rows = world().workloads
    rows = rows.assign(forward_flop=rows.forward_flop.where(rows.model != "resnet18", flop))
    assert numbers("networks", replace(world(), workloads=rows))["crossing.batch"] == batch


def test_the_largest_batch_is_one_that_half_the_networks_have():
    rows, operators = world().workloads, world().operators
    few = replace(world(), workloads=rows[rows.model.isin(["lean", "deep", "tokens", "alexnet"])])
    assert (large_batch(few), large_batch(nothing())) == (8, 1)
    alone = replace(world(), operators=operators[operators.model != "mobilenet_v2"])
    assert wrong("networks", alone, {"pair.flop_ratio": None, "pair.resnet.bound": None}) == {}


def test_a_measured_machine_goes_before_a_chip():
    unmeasured = replace(world(), machines=())
    assert roof_of(world(), "cpu")[0] == world().machine("cpu").name
    assert roof_of(unmeasured, "gpu")[:2] == ("NVIDIA GeForce RTX 4090", "fp16")
    chips = unmeasured.chips[unmeasured.chips.chip.isin(["NVIDIA T4", "NVIDIA H100 SXM"])]
    assert roof_of(replace(unmeasured, chips=chips), "gpu")[0] == "NVIDIA H100 SXM"
    assert roof_of(replace(unmeasured, chips=chips.iloc[:0]), "gpu") is None


def test_figures_and_tables_show_the_facts():
    dots = rows_of(figures.demands.__wrapped__(world()), "name", "forward_flop")
    assert dict(dots)["AlexNet"] == 16e9
    table = tables.sides.__wrapped__(world()).splitlines()[2]
    assert [cell.strip() for cell in table.split("|")][2:6] == ["1 of 10", "2 of 10", "0 of 6", "0 of 6"]
    rows = world().workloads
    single = tables.sides.__wrapped__(replace(world(), workloads=rows[rows.batch == 1]))
    assert [cell.strip() for cell in single.splitlines()[2].split("|")][2:6] == ["1 of 10", "2 of 10", "–", "–"]


@pytest.mark.slow
def test_a_table_marks_the_counts_of_one_run():
    rows = world().workloads
    decided = replace(world(), workloads=rows.assign(path=rows.path.mask(rows.model == "lean", ONE_RUN)))
    lines = tables.everything.__wrapped__(decided).splitlines()
    assert [line.split(" | ")[0].strip("| ") for line in lines if "FLOP (one run)" in line] == ["lean"]


def test_the_pair_agrees_with_what_torchvision_prints():
    """GFLOPS (multiply-adds) of the weights' meta data: MobileNet-v2 0.301, ResNet-18 1.814."""
    project = load(ROOT / "data", REFERENCES, chosen=["amd-epyc-2c-0ad4"])
    flop = pair_kinds(project).groupby("model").flop.sum()
    assert flop.mobilenet_v2 == pytest.approx(2 * 0.301e9, rel=0.005)
    assert flop.resnet18 == pytest.approx(2 * 1.814e9, rel=0.005)


def test_shares_of_kinds_reach_from_none_to_all_with_names_at_the_left_alone():
    panels = specified(figures.kinds.__wrapped__(world()))["concat"]
    bars = [panel["layer"][0]["encoding"] for panel in panels]
    assert [(each["x"]["field"], each["x"]["scale"]["domain"]) for each in bars] == [("flop", [0, 1]), ("byte", [0, 1])]
    assert [each["y"]["axis"].get("labels", True) for each in bars] == [True, False]


def test_tables_have_the_demands_of_an_input():
    # 2 GFLOP on 4 MB of parameters, 0.5 of input and 0.001 of output; on mb(1, 1) = 35.3 MB layer by layer
    demands, byte, intensities = ["1.00 M", "2.00 GFLOP", "2.00 MB", "5.50 MB"], ["4.50 MB", "35.3 MB"], ["444", "56.7"]
    chosen = cells_of(tables.chosen.__wrapped__(world()))
    assert chosen["ResNet-18"] == [*demands, *intensities]
    assert (next(iter(chosen)), len(chosen)) == ("lean", 10)  # fewest FLOP first
    everything = cells_of(tables.everything.__wrapped__(world()))
    assert everything["ResNet-18"] == ["residual", "3 × 224 × 224", *demands, *byte, *intensities, "[@he2016]"]
    assert everything["lean"][-1] == "–"


def test_the_figure_of_roofs_has_the_intensities_of_both_batch_sizes():
    # ResNet-18 at fp32; broad at bf16 has 510 MFLOP on half of 100.504 MB, layer by layer of 120
    panels = specified(figures.roofs.__wrapped__(world()))["concat"]
    intensity = {1: (2000 / 4.501, 2000 / mb(1, 1)[0]), 64: (64 * 2000 / (4 + 64 * 0.501), 64 * 2000 / mb(1, 64)[0])}
    rows = rows_of(figures.roofs.__wrapped__(world()), "name", "way", "batch", "intensity")
    for batch, values in intensity.items():
        for way, value in zip(("whole network", "layer by layer"), values, strict=True):
            assert pytest.approx(value, rel=1e-5) in [at for *key, at in rows if key == ["ResNet-18", way, batch]]
    assert pytest.approx(2 * 510 / 120, rel=1e-5) in [at for *key, at in rows if key[:2] == ["broad", "layer by layer"]]
    assert [" ".join(panel.get("title", [])).replace("\xa0", " ") for panel in panels] == [
        f"{world().machine('cpu').name}, fp32 ridge 10.0 FLOP/B, as measured",
        "Bead 2, bf16 ridge 64.0 FLOP/B, as measured", "", "",
    ]  # fmt: skip


def test_networks_stand_on_the_roof_at_their_intensity():
    # 10 FLOP/B on the processor of the world: broad at 510 / 100.504, below the ridge point, gets that part of the peak
    rows = rows_of(figures.roofs.__wrapped__(world()), "name", "way", "intensity", "attainable")
    roof = roof_of(world(), "cpu")[2]
    found = [(at, most) for *key, at, most in rows if key == ["broad", "whole network"] and most]
    assert found[0] == pytest.approx((510 / 100.504, roof.peak_flop_per_s * 51 / 100.504), rel=1e-5)


def test_bounds_of_the_pair_are_sums_over_operators():
    bounds = rows_of(figures.pair.__wrapped__(world()), "name", "layer_kind", "bound_s")
    assert {kind: bound for name, kind, bound in bounds if name == "MobileNet-v2"} == pytest.approx(
        dict(zip(("convolution", "depthwise convolution", "normalisation", "pooling", "linear"),
                 (each / 64 for each in LIGHT), strict=True)), rel=1e-5
    )  # fmt: skip


def test_every_part_of_a_bar_with_room_bears_its_kind():
    # Of the bytes of ResNet-50 (k = 5, 137.4 MB) normalisation moves 47.5, more than a third
    texts = rows_of(figures.kinds.__wrapped__(world()), "name", "text", "middle")
    assert ("ResNet-50", "norm") in {row[:2] for row in texts}
    assert all(0 < middle < 1 for *_, middle in texts)
