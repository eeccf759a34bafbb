from dataclasses import replace
from fractions import Fraction

import pytest
from helpers.papers import committed_chips, empty, tiny, wide

from measure.domain.roofs import Roofline
from report.analysis import bounds
from report.analysis.available import DataMissingError
from report.analysis.bounds import ModelDemand, NamedRoof, demands


def test_demands():
    found = {demand.model: demand for demand in demands(tiny().workloads[tiny().workloads.precision == "fp32"])}
    # lean: 100 MFLOP and 0.5 + 5.5 MB for each input; 4 MB of parameters
    assert found["lean"] == ModelDemand("lean", Fraction(100_000_000), Fraction(6_000_000), Fraction(4_000_000))
    assert found["lean"].intensity(1) == 10
    assert found["lean"].intensity(8) == pytest.approx(800 / 52)
    assert found["lean"].asymptotic_intensity == pytest.approx(100 / 6)
    assert found["lean"].fixed_share == 0.4


def test_bytes_whatever_the_batch_are_found_from_two_batch_sizes():
    rows = tiny().workloads[tiny().workloads.precision == "fp32"]
    # 2 MB of weights that the model computes: an activation which the batch does not multiply
    computed = rows.assign(footprint_byte=rows.footprint_byte + 2e6)
    lean = next(demand for demand in demands(computed) if demand.model == "lean")
    assert (lean.fixed_byte, lean.input_byte) == (6_000_000, 6_000_000)
    # One batch size does not tell them apart.
    lean = next(demand for demand in demands(computed[computed.batch == 8]) if demand.model == "lean")
    assert (lean.fixed_byte, lean.input_byte) == (4_000_000, 6_250_000)


def test_crossing():
    demand = ModelDemand("lean", Fraction(100), Fraction(6), Fraction(4))
    # b 100 / (4 + 6 b): 10, 12.5, 13.6..., towards 16.7
    assert demand.crossing(10) == 1
    assert demand.crossing(10.1) == 2
    assert demand.crossing(12.5) == 2
    assert demand.crossing(12.6) == 3
    # 15: b (100 - 90) = 60
    assert demand.crossing(15) == 6
    assert demand.crossing(17) is None
    assert ModelDemand("all weights", Fraction(100), Fraction(5), Fraction(1)).crossing(20) is None  # only in the limit


def test_the_crossing_is_the_first_batch_size_that_is_not_memory_bound():
    for demand in demands(tiny().workloads[tiny().workloads.precision == "fp32"]):
        for ridge in (3.7, 14.0, 31.3, 100.0):
            batch = demand.crossing(ridge)
            if batch is None:
                assert demand.asymptotic_intensity <= ridge
                continue
            assert demand.intensity(batch) >= ridge
            assert batch == 1 or demand.intensity(batch - 1) < ridge


def test_bound():
    named_roof = NamedRoof("Some chip", "gpu", "fp32", Roofline(100.0, 10.0), measured=False)
    assert [named_roof.bound(value) for value in (9.9, 10.0)] == ["memory-bound", "compute-bound"]


def test_examples_are_the_newest_of_each_kind():
    found = [
        (named_roof.chip_kind, named_roof.name, named_roof.precision) for named_roof in bounds.examples(wide().chips)
    ]
    # Of the SoCs the newer one is not confirmed.
    assert found == [
        ("cpu", "Abacus 9", "fp32"), ("cpu", "Abacus 9", "bf16"), ("gpu", "NVIDIA D4 (SXM)", "fp32"),
        ("gpu", "NVIDIA D4 (SXM)", "bf16"), ("asic", "Google TPU v2", "bf16"), ("soc", "Apple A1 GPU", "fp32"),
    ]  # fmt: skip


def test_examples_have_confirmed_roofs_and_memory_outside_the_chip():
    # Cog 3 is not confirmed and computes from memory on the chip; Bead 2 is no GPU for data centers.
    assert [named_roof.name for named_roof in bounds.examples(tiny().chips)] == ["Abacus 1"]
    doubtful = tiny().chips.assign(verified="no")
    assert bounds.examples(doubtful) == []


def test_of_one_year_the_highest_peak():
    chips = wide().chips[wide().chips.chip.isin(["NVIDIA A1", "NVIDIA B2", "NVIDIA C3"])]
    assert {named_roof.name for named_roof in bounds.examples(chips.assign(year=2020.0))} == {"NVIDIA C3"}


def test_the_committed_table_has_examples_of_several_kinds():
    found = bounds.examples(committed_chips())
    assert {"cpu", "gpu", "asic", "soc"} <= {named_roof.chip_kind for named_roof in found}
    assert {named_roof.precision for named_roof in found} == {"fp32", "bf16"}


def test_roofs_to_compare_are_measured_or_else_of_a_chip():
    measured = [(named_roof.name, named_roof.measured) for named_roof in bounds.compared_roofs(wide())]
    assert measured == [("Example CPU (4 cores)", True), ("Example GPU", True)]
    without_gpu = replace(wide(), machines=(wide().machine("cpu"),))
    _, gpu = bounds.compared_roofs(without_gpu)
    assert (gpu.name, gpu.precision, gpu.measured) == ("NVIDIA D4 (SXM)", "fp32", False)


def test_models_are_held_against_chips_at_the_precisions_that_were_counted():
    both = bounds.held_against_chips(wide())
    assert {named_roof.precision for named_roof, _ in both} == {"fp32", "bf16"}
    assert all(len(models) == 4 for _, models in both)
    half = replace(wide(), workloads=wide().workloads[wide().workloads.precision == "fp32"])
    assert {named_roof.precision for named_roof, _ in bounds.held_against_chips(half)} == {"fp32"}


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (lambda: bounds.example_chips(empty()), "data/chips.csv holds no chip"),
        (lambda: bounds.example_chips(of_kind("fpga")), "a confirmed dense peak at fp32 and bf16; add rows"),
        (lambda: bounds.compared_roofs(empty()), "No fp32 roof .* `python -m measure --sections roofs"),
        (lambda: bounds.held_against_chips(without_workloads()), "counted yet; `python -m measure"),
    ],
)
def test_what_is_missing_is_said_with_what_fills_it(asked, said):
    with pytest.raises(DataMissingError, match=said):
        asked()


def of_kind(kind):
    return replace(tiny(), chips=tiny().chips[tiny().chips.chip_kind == kind])


def without_workloads():
    return replace(tiny(), workloads=tiny().workloads.iloc[:0])
