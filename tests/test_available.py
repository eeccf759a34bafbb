import pytest
from papers import empty, tiny

from report import available
from report.available import DataMissingError, Missing, finding, or_missing
from report.prose import Prose


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (lambda: available.chips(empty()), "data/chips.csv holds no chip"),
        (lambda: available.chips(tiny(), "soc"), "holds no SoC"),
        (lambda: available.workloads(empty()), "python -m measure --sections workload counts"),
        (lambda: available.workloads(tiny(), batch=64), "at batch size 64; .* --batch-sizes 64 counts"),
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
