from dataclasses import replace

import pandas as pd
import pytest
from papers import empty, tiny, wide

from report import available
from report.available import DataMissingError, Missing, finding, or_missing
from report.prose import Prose


def without(column):
    return replace(tiny(), workloads=tiny().workloads.assign(**{column: None}))


def without_layers():
    return replace(tiny(), layers=tiny().layers.iloc[:0])


def without_workloads():
    return replace(tiny(), workloads=tiny().workloads.iloc[:0])


def of_kinds(kind):
    return replace(tiny(), chips=tiny().chips[tiny().chips.kind == kind])


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (lambda: available.chips(empty()), "data/chips.csv holds no chip"),
        (lambda: available.chips(tiny(), "soc"), "holds no SoC"),
        (lambda: available.workloads(empty()), "python -m measure --sections workload counts"),
        (lambda: available.workloads(tiny(), batch=64), "at batch size 64; .* --batch-sizes 64 counts"),
        (
            lambda: available.workloads(tiny(), "fp16", 8),
            "counted yet at fp16 at batch size 8; .* workload --precisions fp16 --batch-sizes 8 counts",
        ),
        (lambda: available.trained(without("backward_flop")), "No backward pass .* --batch-sizes 64 counts"),
        (lambda: available.layers(empty()), "have not been counted yet at batch size 1"),
        (lambda: available.layers(without_layers()), "layers.csv holds no layer at batch size 1; restore"),
        (lambda: available.example_chips(empty()), "data/chips.csv holds no chip"),
        (
            lambda: available.example_chips(of_kinds("fpga")),
            "a confirmed dense peak at fp32 and bf16; add rows",
        ),
        (
            lambda: available.held_against_chips(without_workloads()),
            "have not been counted yet; python -m measure",
        ),
        (lambda: available.compared_roofs(empty()), "No fp32 roof .* python -m measure --sections ceilings"),
        (lambda: available.machine(empty(), "cpu"), "No CPU .* python -m measure --device cpu"),
        (lambda: available.machine(empty(), "gpu"), "No GPU .* python -m measure --device cuda"),
        (lambda: available.machines(empty()), "No machine has been measured yet; python -m measure"),
        (
            lambda: available.roof(tiny().machine("cpu"), "bf16"),
            r"bf16 roof of the Example CPU \(4 cores\) .* --device cpu --sections ceilings --precisions bf16",
        ),
        (
            lambda: available.cells(tiny().machine("gpu"), "bf16"),
            "Example GPU has been measured at bf16; .* --device cuda --sections workload inference --precisions bf16",
        ),
    ],
)
def test_what_is_missing_is_said_with_what_fills_it(asked, said):
    with pytest.raises(DataMissingError, match=said):
        asked()


def test_training_is_shown_at_the_largest_batch_size_up_to_64():
    # At batch size 1 one of the four models has no backward pass.
    rows = available.trained(tiny())
    assert (set(rows.batch), len(rows)) == ({8}, 4)
    larger = tiny().workloads[tiny().workloads.batch == 8].assign(batch=65)
    both = replace(tiny(), workloads=pd.concat([tiny().workloads, larger]))
    assert set(available.trained(both).batch) == {8}
    only_one = replace(tiny(), workloads=tiny().workloads[tiny().workloads.batch == 1])
    assert set(available.trained(only_one).model) == {"lean", "deep", "tokens"}


def test_roofs_to_compare_are_measured_or_else_of_a_chip():
    measured = [(limit.name, limit.measured) for limit in available.compared_roofs(wide())]
    assert measured == [("Example CPU (4 cores)", True), ("Example GPU", True)]
    without_gpu = replace(wide(), machines=(wide().machine("cpu"),))
    _, gpu = available.compared_roofs(without_gpu)
    assert (gpu.name, gpu.precision, gpu.measured) == ("NVIDIA D4 (SXM)", "fp32", False)


def test_models_are_held_against_chips_at_the_precisions_that_were_counted():
    both = available.held_against_chips(wide())
    assert {limit.precision for limit, _ in both} == {"fp32", "bf16"}
    assert all(len(models) == 4 for _, models in both)
    half = replace(wide(), workloads=wide().workloads[wide().workloads.precision == "fp32"])
    assert {limit.precision for limit, _ in available.held_against_chips(half)} == {"fp32"}


def test_cells_are_the_measured_ones():
    # Of four models at two batch sizes one failed.
    assert len(available.cells(tiny().machine("cpu"))) == 7
    assert len(available.cells(tiny().machine("cpu"), None)) == 8


def test_guards():
    def fails():
        raise DataMissingError("Nothing here.")

    assert or_missing(fails)() == Missing("Nothing here.")
    assert isinstance(finding(fails)(), Missing)
    assert or_missing(lambda: 3)() == 3
    told = finding(lambda: "All is well.")()
    assert isinstance(told, Prose)
    assert not isinstance(told, Missing)
