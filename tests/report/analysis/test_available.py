from dataclasses import replace

import pandas as pd
import pytest
from helpers.papers import empty, tiny

from measure.errors import UserError
from report import failures
from report.analysis import available
from report.analysis.available import DataMissingError, Missing, finding, or_failed, or_missing
from report.load import options
from report.text.prose import Prose


def without(column):
    return replace(tiny(), workloads=tiny().workloads.assign(**{column: None}))


def without_layers():
    return replace(tiny(), layers=tiny().layers.iloc[:0])


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (lambda: available.chips(empty()), "data/chips.csv holds no chip"),
        (lambda: available.chips(tiny(), "soc"), "holds no SoC"),
        (lambda: available.workloads(empty()), "`python -m measure --sections workload` counts"),
        (lambda: available.workloads(tiny(), batch=64), "at batch size 64; .* --batch-sizes 64` counts"),
        (
            lambda: available.workloads(tiny(), "fp16", 8),
            "counted yet at fp16 at batch size 8; .* workload --precisions fp16 --batch-sizes 8` counts",
        ),
        (lambda: available.trained(without("backward_flop")), "No backward pass .* --batch-sizes 64` counts"),
        (lambda: available.layers(empty()), "have not been counted yet at batch size 1"),
        (lambda: available.layers(without_layers()), "layers.csv holds no layer at batch size 1; restore"),
        (
            lambda: available.operators(tiny(), "inference"),
            "operators of the models .* yet at fp32; .* --sections workload --precisions fp32` counts",
        ),
        (lambda: available.operators(empty(), "inference"), "models have not been counted yet; `python -m"),
        (lambda: available.machine(empty(), "cpu"), "No CPU .* `python -m measure --device cpu"),
        (lambda: available.machine(empty(), "gpu"), "No GPU .* `python -m measure --device cuda"),
        (lambda: available.machines(empty()), "No machine has been measured yet; `python -m measure"),
        (
            lambda: available.roof(tiny().machine("cpu"), "bf16"),
            r"bf16 roof of the Example CPU \(4 cores\) .* --device cpu --sections roofs --precisions bf16",
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


def test_what_a_machine_lacks_names_the_command_that_runs_there():
    gap = available.missing_on(tiny().machine("cpu"), "Nothing", "workload", "training", flags="--models a")
    assert str(gap) == (
        "Nothing; `python -m measure --device cpu --sections workload training --models a` measures them."
    )


def test_the_command_finds_the_cache_and_its_models(monkeypatch, tmp_path):
    monkeypatch.setattr(options, "cache_flags", lambda: (" --data mine", " --models lean"))
    gap = available.missing("Nothing", sections=["roofs"])
    assert str(gap) == "Nothing; `python -m measure --data mine --models lean --sections roofs` measures them."
    named = available.missing("Nothing", flags="--models broad")
    assert str(named) == "Nothing; `python -m measure --data mine --models broad` measures them."


@pytest.fixture
def lenient(monkeypatch):
    monkeypatch.delenv(failures.STRICT)


def divides():
    return 1 / 0


@pytest.mark.parametrize("guard", [or_missing, finding, or_failed])
def test_what_a_chapter_asks_for_becomes_a_sentence_whatever_goes_wrong(lenient, guard):
    found = guard(divides)()
    assert isinstance(found, Missing)
    assert f"{__name__}.divides failed with ZeroDivisionError" in found


def test_a_part_that_goes_wrong_takes_the_whole_along(lenient):
    def whole():
        return str(or_missing(divides)())

    assert f"{__name__}.test_a_part_that_goes_wrong_takes_the_whole_along.<locals>.whole failed" in finding(whole)()
    # and after it the next that is asked for stands for itself
    assert "divides failed" in or_missing(divides)()


def test_a_part_that_may_fail_by_itself_leaves_the_others(lenient):
    found = finding(lambda: f"Before. {or_failed(divides)()} After.")()
    assert found.startswith("Before. This could not be computed: ")
    assert found.endswith(" After.")


def test_bad_input_is_no_gap(lenient):
    def refuses():
        raise UserError("mend the line")

    with pytest.raises(UserError, match="mend the line"):
        finding(refuses)()
