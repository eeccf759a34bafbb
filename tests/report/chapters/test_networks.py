"""The chapter on networks, on frames made for arithmetic by hand, and its claims on the reference data."""

from dataclasses import replace
from functools import cache

import pandas as pd
import pytest
from helpers.papers import empty, tiny
from helpers.places import ROOT
from helpers.rows import layer, workload

from measure.cache.workload_records import Layer, Workload
from report import facts
from report.chapters.networks import figures, tables
from report.chapters.networks.facts import kind_sums, large_batch, on_roof, pair, roof_of
from report.display import Missing
from report.paper import frame, load, workloads


def counted(model, batch=1, flop=100, parameters=40, between=60, **columns):
    """A network of so many FLOP and bytes: parameters, one input and output byte, and ``between`` an input."""
    about = {
        "parameter_count": parameters // 4, "parameter_byte": parameters, "input_byte": batch, "output_byte": batch,
        "activation_byte": batch, "traffic_byte": parameters + batch * between, "inference_peak_byte": parameters,
    }  # fmt: skip
    return workload(model, batch, flop * batch, **about | columns)


def paper_of(rows, layers=(), kinds=()):
    """The tiny paper with other counts; it stands for the reference too, which would be read again."""
    elsewhere = replace(tiny().elsewhere, kinds=pd.DataFrame(kinds)) if kinds else tiny().elsewhere
    shown = workloads.shown(frame(rows, Workload), {})
    paper = replace(tiny(), workloads=shown, layers=frame(list(layers), Layer), elsewhere=elsewhere)
    vars(paper)["reference"] = tiny()
    return paper


@cache
def reference():
    return load(ROOT / "data", ROOT / "bib" / "references.bib")


def test_matrix_products_do_the_operations_and_share_the_bytes():
    # Network k: a linear layer of 98 FLOP (96 and 2 others) with 10 k bytes, a normalisation of 2 with 100 - 10 k
    rows, layers = [], []
    for k in range(1, 8):
        rows.append(counted(f"net{k}"))
        layers.append(replace(layer(f"net{k}", flop=96), traffic_byte=10 * k))
        rest = replace(layer(f"net{k}", position=1, flop=0), layer_kind="normalisation", traffic_byte=100 - 10 * k)
        layers.append(rest)
    kinds = facts.of_chapter("networks", paper_of(rows, layers)).kinds
    assert kinds.products_flop.number == pytest.approx(0.98)
    assert kinds.products_byte.number == pytest.approx(0.4)  # that of k = 4
    assert (kinds.least_rest.name, kinds.least_rest.number) == ("net7", pytest.approx(0.3))
    assert (kinds.most_rest.name, kinds.most_rest.number) == ("net1", pytest.approx(0.9))


def test_a_batch_shares_the_parameters_and_nothing_else():
    # Bytes between layers are 40 + 60 b, of the whole network 40 + 2 b
    found = facts.of_chapter("networks", paper_of([counted("resnet18"), counted("resnet18", 4)])).batching
    assert found.large.number == 4
    assert found.parameters.number == pytest.approx(40 / 100)
    assert found.parameters_large.number == pytest.approx(40 / 280)
    assert found.layers_growth.number == pytest.approx((400 / 280) / (100 / 100))
    assert found.whole_growth.number == pytest.approx((400 / 48) / (100 / 42))


def test_the_largest_batch_is_one_that_half_of_the_networks_were_counted_at():
    rows = [counted("a"), counted("a", 8), counted("a", 64), counted("b"), counted("b", 8), counted("c")]
    assert large_batch(paper_of(rows)) == 8
    assert large_batch(paper_of([])) == 1


def test_networks_are_memory_bound_below_the_ridge_point():
    # The CPU's ridge point is 10 FLOP/B (100 GFLOP/s, 10 GB/s)
    rows = [
        counted("light", flop=200),  # as a whole 200 / 42, layer by layer 200 / 100
        counted("deep", flop=900),  # 21 and 9
        counted("heavy", flop=2000),  # 48 and 20
    ]
    found = on_roof(paper_of(rows), "cpu")
    assert found.ridge.number == pytest.approx(10)
    assert (found.networks.number, found.whole.number, found.layers.number) == (3, 1, 2)
    table = tables.sides.__wrapped__(paper_of(rows))
    assert [cell.strip() for cell in table.splitlines()[2].split("|")][3:7] == ["1", "3", "1", "2"]


def kind(model, name, flop, byte):
    about = {"model": model, "input_size": 224.0, "stage": "inference", "layer_kind": name}
    return about | {"flop": flop, "further_byte": byte}


def test_a_kind_of_layer_takes_the_longer_of_its_arithmetic_and_its_bytes():
    # The GPU has 8 TFLOP/s and 500 GB/s at fp32, at which numbers have the 4 bytes of the counts
    rows = [
        kind("mobilenet_v2", "convolution", 8e9, 0.25e9),  # 1 ms, 0.5 ms
        kind("mobilenet_v2", "normalisation", 0, 0.5e9),  # 1 ms of bytes
        kind("resnet18", "convolution", 16e9, 0.1e9),  # 2 ms, 0.2 ms
        kind("resnet18", "activation", 0, 0.25e9),  # 0.5 ms of bytes
    ]
    found = pair(paper_of([], kinds=rows))
    assert found.mobilenet.least.number == pytest.approx(2e-3)
    assert found.mobilenet.memory.number == pytest.approx(1.5e-3)
    assert found.mobilenet.fused.number == pytest.approx(1e-3)
    assert found.mobilenet.rest.number == pytest.approx(0.5)
    assert found.resnet.least.number == pytest.approx(2.5e-3)
    assert found.least_ratio.side("faster", "equally fast", "slower") == "faster"  # 2 / 2.5
    assert found.flop_ratio.number == pytest.approx(2)
    assert found.byte_ratio.number == pytest.approx(0.75 / 0.35)


def test_one_network_of_the_pair_alone_is_no_pair():
    assert pair(paper_of([], kinds=[kind("resnet18", "convolution", 1, 1)])).flop_ratio.is_missing


def test_the_batch_that_crosses_the_ridge_point_solves_the_equation():
    # The GPU's ridge point is 16 FLOP/B: b = 16 * 3200 / (1000 - 16 * 20) = 75.3
    rows = [counted("resnet18", flop=1000, parameters=3200, input_byte=16, output_byte=4)]
    kinds = [kind("resnet18", "convolution", 1000, 100), kind("mobilenet_v2", "convolution", 1000, 100)]
    found = facts.of_chapter("networks", paper_of(rows, kinds=kinds)).crossing
    assert found.batch.number == 76
    assert found.limit.number == pytest.approx(10)
    assert found.limit_over_ridge.side("never reaches", "just reaches", "passes") == "never reaches"


def test_an_intensity_that_stays_below_the_ridge_point_crosses_it_at_no_batch():
    rows = [counted("resnet18", flop=100, input_byte=8, output_byte=2)]  # 100 / 10 FLOP/B of an endless batch
    kinds = [kind("resnet18", "convolution", 100, 10), kind("mobilenet_v2", "convolution", 100, 10)]
    assert facts.of_chapter("networks", paper_of(rows, kinds=kinds)).crossing.batch.is_missing


def test_a_measured_machine_goes_before_a_chip_and_the_gpu_of_the_story_before_others():
    assert roof_of(tiny(), "cpu")[0] == tiny().machine("cpu").name
    unmeasured = replace(reference(), machines=())
    assert roof_of(unmeasured, "gpu")[:2] == ("NVIDIA GeForce RTX 4090", "fp16")
    chips = unmeasured.chips[unmeasured.chips.chip.isin(["NVIDIA T4", "NVIDIA H100 SXM"])]
    assert roof_of(replace(unmeasured, chips=chips), "gpu")[0] == "NVIDIA H100 SXM"
    assert roof_of(replace(unmeasured, chips=chips.iloc[:0]), "gpu") is None


def test_the_short_table_holds_a_dozen_of_all_families_and_else_what_was_counted():
    models = tables.chosen_models(reference())
    assert len(models) == 12
    assert {"mobilenet_v2", "resnet18", "wav2vec2_base", "gpt2_decode_512"} <= set(models)
    own = [counted(f"own{k:02}", flop=k) for k in range(1, 15)] + [counted("vgg16", flop=20)]
    assert tables.chosen_models(paper_of(own)) == [f"own{k:02}" for k in range(1, 12)] + ["vgg16"]


def test_the_pair_agrees_with_what_torchvision_prints():
    """GFLOPS (multiply-adds) of the weights' meta data: MobileNet-v2 0.301, ResNet-18 1.814; the 4090 has 165.2 TFLOP/s
    and 1008 GB/s.
    """
    found = facts.of_chapter("networks", reference()).pair
    assert found.mobilenet.flop.number == pytest.approx(2 * 0.301e9, rel=0.005)
    assert found.resnet.flop.number == pytest.approx(2 * 1.814e9, rel=0.005)
    assert found.resnet.arithmetic.number == pytest.approx(2 * 1.814e9 / 165.2e12, rel=0.005)
    assert found.byte_ratio.above(2)
    assert found.least_ratio.above(1.5)


def test_the_claims_of_the_reference_blocks_hold():
    claims = facts.of_chapter("networks", reference()).claims
    assert claims == dict.fromkeys(claims, True)


def test_all_other_layers_do_little_of_the_arithmetic_in_every_counted_network():
    sums = kind_sums(reference())
    products = ["convolution", "depthwise convolution", "linear", "attention"]
    share = sums[sums.layer_kind.isin(products)].groupby("model").flop.sum() / sums.groupby("model").flop.sum()
    assert share.min() > 0.9


@pytest.mark.parametrize("make", ["demands", "kinds", "pair", "intensity", "roofs"])
def test_a_figure_without_its_data_is_a_gap(make):
    with pytest.raises(Missing):
        getattr(figures, make).__wrapped__(empty())


def test_nothing_measured_leaves_the_facts_missing_but_for_the_reference():
    paper = replace(empty())
    vars(paper)["reference"] = reference()
    found = facts.of_chapter("networks", paper)
    assert {key for key, value, _ in facts.entries("networks", found) if not value.is_missing} <= {
        key for key, _, _ in facts.entries("networks", found) if key.startswith("networks.reference.")
    }


def test_shares_in_the_figure_of_kinds_sum_to_one():
    layers = [layer("net", flop=30), replace(layer("net", position=1, flop=10), layer_kind="pooling")]
    chart = figures.kinds.__wrapped__(paper_of([counted("net")], layers))
    for panel in chart["concat"]:
        bars = panel["layer"][0]
        rows = chart["datasets"][bars["data"]["name"]]
        assert sum(row[bars["encoding"]["x"]["field"]] for row in rows) == pytest.approx(1)
