"""Networks that others timed, on a chip of 1 TFLOP/s and 100 GB/s, by hand."""

from types import SimpleNamespace

import pandas as pd
import pytest

from measure.domain.roofs import Roofline
from report.stats import published
from report.stats.value import Name

NET = {"model": "net", "input_size": 8}
TIMED = {
    **NET, "device": "chip", "source": "lab", "phase": "inference", "precision": "fp32", "autocast": "",
    "layout": "contiguous", "compiler": "", "torch": "2.9", "input_copied": False, "tuned": False, "computed": "fp32",
    "batch": 2, "width": 4, "latency_s": 0.5, "attained": 0.1, "flop": 3e12, "peak_flop_per_s": 1e12,
    "bandwidth_byte_per_s": 1e11, "input_byte": 10e9, "output_byte": 1e9, "parameter_byte": 3e9,
}  # fmt: skip
# A kind of 1 TFLOP an input, and one that moves 25 GB at batch 1 and 15 GB more for each further input, at one byte.
KINDS = [
    {**NET, "stage": "inference", "flop": 1e12, "byte": 0, "further_byte": 0},
    {**NET, "stage": "inference", "flop": 0, "byte": 25e9, "further_byte": 15e9},
    {**NET, "stage": "backward", "flop": 9e12, "byte": 9e9, "further_byte": 9e9},
]


def paper_of(*changes):
    timings = pd.DataFrame([TIMED | change for change in changes])
    paper = type("Paper", (), {})()  # one that can be remembered
    paper.elsewhere = SimpleNamespace(timings=timings, kinds=pd.DataFrame(KINDS))
    paper.chips = pd.DataFrame([{"chip": "processor", "chip_kind": "cpu"}])
    return paper


def test_a_network_has_a_bound_as_a_whole_and_one_layer_by_layer():
    (row,) = published.timed(paper_of({}, {"phase": "backward"}, {"attained": None})).itertuples()
    # The whole: 2 inputs and outputs and the parameters once, 25e9 numbers of 4 bytes, 1 s; 3 TFLOP, 3 s.
    assert (row.whole_byte, row.whole_s, row.input_s) == (4 * 25e9, 3.0, 0.25)
    # By layers: 2 TFLOP, 2 s; 40e9 numbers of 4 bytes, 1.6 s: one after the other.
    assert (row.layers_byte, row.layers_s) == (4 * 40e9, pytest.approx(3.6))


def test_the_newest_software_of_each_source_counts_in_eager_mode_and_its_layout():
    changes = [
        {"torch": "2.9"}, {"torch": "2.10"}, {"torch": "2.11", "compiler": "torch.compile"},
        {"torch": "2.12", "layout": "channels_last"}, {"torch": "2.8", "source": "house", "computed": "tf32"},
    ]  # fmt: skip
    paper = paper_of(*changes)
    assert sorted(published.newest(paper).torch) == ["2.10", "2.8"]
    assert list(published.newest(paper, published.COMPILED).torch) == ["2.11"]


def test_pairs_agree_in_all_but_what_is_named():
    rows = published.timed(paper_of({}, {"compiler": "torch.compile", "latency_s": 0.25}, {"torch": "2.8"}))
    eager, compiled = rows[rows.compiler == ""], rows[rows.compiler != ""]
    assert len(published.paired(eager, compiled)) == 0
    pairs = published.paired(eager, compiled, ["compiler"])
    assert list(published.gains(pairs)) == [2.0]
    assert str(published.short_name("NVIDIA GeForce RTX 4090")) == "RTX 4090"


def test_gpus_count_from_twenty_networks_on_those_with_most_first_and_step_up_by_their_peaks():
    numbers = {"processor": 23, "small": 19, "middle": 20, "large": 21}
    peak = {"large": 1e12, "middle": 2e12}
    paper = paper_of(
        *(
            {"model": f"net{each}", "device": chip, "peak_flop_per_s": peak.get(chip, 1e12)}
            for chip in numbers
            for each in range(numbers[chip])
        ),
        {"model": "net3", "device": "large", "input_size": 16},
    )
    assert [each.device for each in published.by_device(paper)] == ["large", "middle"]
    best = published.best_timed(paper)
    assert best.roof == Roofline(1e12, 1e11)
    assert (len(best.rows), len(best.of_usual_size)) == (22, 21)
    (pairs,) = published.steps(paper)
    assert len(pairs) == 20
    assert published.name_in(pairs) == Name("large")
    assert published.name_in(pairs, "device_other") == Name("middle")
    assert published.name_in(None) == Name(None)
