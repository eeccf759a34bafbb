"""Published timings on a chip of 1 TFLOP/s and 100 GB/s, by hand."""

from dataclasses import replace

import pandas as pd
import pytest
from helpers.places import ROOT
from helpers.world import REFERENCES

from measure.domain.roofs import Roofline
from measure.domain.schema import TABLES
from measure.published.records import PublishedCount, PublishedTiming
from report.paper import chips, curated, published
from report.stats.value import Name

NET = {"model": "net", "input_size": 8}
TIMED = {
    **NET, "device": "chip", "chip_kind": "gpu", "source": "lab", "phase": "inference", "precision": "fp32",
    "autocast": "", "layout": "contiguous", "compiler": "", "torch": "2.9", "input_copied": False, "tuned": False,
    "computed": "fp32", "batch": 2, "width": 4, "latency_s": 0.5, "attained": 0.1, "flop": 3e12,
    "peak_flop_per_s": 1e12, "bandwidth_byte_per_s": 1e11, "input_byte": 10e9, "output_byte": 1e9,
    "parameter_byte": 3e9,
}  # fmt: skip
# A kind of 1 TFLOP an input, and one that moves 25 GB at batch 1 and 15 GB more for each further input, at one byte.
KINDS = [
    {**NET, "stage": "inference", "flop": 1e12, "byte": 0, "further_byte": 0},
    {**NET, "stage": "inference", "flop": 0, "byte": 25e9, "further_byte": 15e9},
    {**NET, "stage": "backward", "flop": 9e12, "byte": 9e9, "further_byte": 9e9},
]


def published_of(*changes):
    timings = pd.DataFrame([TIMED | change for change in changes])
    studies = [pd.DataFrame()] * len(published.PRINTED)
    return published.Published(*studies, timings, pd.DataFrame(KINDS), *(pd.DataFrame() for _ in range(3)))


def test_a_network_has_a_bound_as_a_whole_and_one_layer_by_layer():
    (row,) = published.timed(published_of({}, {"phase": "backward"}, {"attained": None})).itertuples()
    # The whole: 2 inputs and outputs and the parameters once, 25e9 numbers of 4 bytes, 1 s; 3 TFLOP, 3 s.
    assert (row.whole_byte, row.whole_s, row.input_s) == (4 * 25e9, 3.0, 0.25)
    # By layers: 2 TFLOP, 2 s; 40e9 numbers of 4 bytes, 1.6 s: one after the other.
    assert (row.layers_byte, row.layers_s) == (4 * 40e9, pytest.approx(3.6))


def test_each_sources_newest_software_counts_in_eager_mode():
    changes = [
        {"torch": "2.9"}, {"torch": "2.10"}, {"torch": "2.11", "compiler": "torch.compile"},
        {"torch": "2.12", "layout": "channels_last"}, {"torch": "2.8", "source": "house", "computed": "tf32"},
    ]  # fmt: skip
    others = published_of(*changes)
    assert sorted(published.newest(others).torch) == ["2.10", "2.8"]
    assert list(published.newest(others, published.COMPILED).torch) == ["2.11"]


def test_pairs_agree_in_all_but_what_is_named():
    rows = published.timed(published_of({}, {"compiler": "torch.compile", "latency_s": 0.25}, {"torch": "2.8"}))
    eager, compiled = rows[rows.compiler == ""], rows[rows.compiler != ""]
    assert len(published.paired(eager, compiled)) == 0
    pairs = published.paired(eager, compiled, ["compiler"])
    assert list(published.gains(pairs)) == [2.0]
    assert str(published.short_name("NVIDIA GeForce RTX 4090")) == "RTX 4090"


def test_layouts_are_compared_per_input_in_networks_of_convolutions():
    """An input takes 0.25 s, with channels last 2 s of 16 inputs: 0.125 s. net1 has a tenth of its FLOP elsewhere."""
    kinds = [("net0", "convolution", 91), ("net0", "linear", 9), ("net1", "depthwise convolution", 90)]
    kinds = [{"model": model, "layer_kind": kind, "flop": flop, "further_byte": 1} for model, kind, flop in kinds]
    kinds += [kinds[-1] | {"layer_kind": "linear", "flop": 10}]
    rows = [
        {"model": model} | of
        for model in ("net0", "net1") for of in ({}, {"layout": "channels_last", "batch": 16, "latency_s": 2.0})
    ]  # fmt: skip
    others = published_of(*rows)
    kinds = pd.DataFrame(kinds).assign(input_size=8, stage="inference", byte=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(published, "FEWEST", 1)
        (pairs,) = published.channels_last(replace(others, kinds=kinds))
    assert dict(published.gains(pairs)) == {"net0": 2.0}


def test_gpus_need_twenty_networks_and_step_up_by_their_peaks():
    numbers = {"processor": 23, "small": 19, "middle": 20, "large": 21}
    peak, kind = dict.fromkeys(numbers, 1e12) | {"middle": 2e12}, {"processor": "cpu"}
    others = published_of(
        *(
            {"model": f"net{each}", "device": chip, "chip_kind": kind.get(chip, "gpu"), "peak_flop_per_s": peak[chip]}
            for chip in numbers
            for each in range(numbers[chip])
        ),
        {"model": "net3", "device": "large", "input_size": 16},
    )
    assert [each.device for each in published.by_device(others)] == ["large", "middle"]
    best = published.best_timed(others)
    assert best.roof == Roofline(1e12, 1e11)
    assert (len(best.rows), len(best.of_usual_size)) == (22, 21)
    (pairs,) = published.steps(others)
    assert len(pairs) == 20
    assert published.name_in(pairs) == Name("large")
    assert published.name_in(pairs, "device_other") == Name("middle")
    assert published.name_in(None) == Name(None)


ROOFS = {("Bead 2", "fp32"): Roofline(1e12, 1e11), ("Bead 2", "fp16"): Roofline(4e12, 1e11)}
COUNT = {
    "model": "net", "input_size": 224, "status": "ok", "parameter_byte": 4e6, "input_byte": 1e6, "activation_byte": 5e6,
    "forward_flop": 1e9, "backward_flop": 2e9,
}  # fmt: skip


def timing(**changed):
    row = {
        "device": "Bead 2", "phase": "inference", "model": "net", "batch": 10, "input_size": 224, "precision": "fp32",
        "autocast": "", "layout": "", "compiler": "", "latency_s": 0.02, "throughput_per_s": None,
    }  # fmt: skip
    return row | changed


def under(*timings, counts=(COUNT,)):
    return published.under_roofs(
        pd.DataFrame(timings, columns=[*TABLES[PublishedTiming].columns]),
        pd.DataFrame(counts, columns=[*TABLES[PublishedCount].columns]),
        ROOFS,
    )


def test_calls_under_the_roof():
    forward, rated, cast, step = under(
        timing(), timing(latency_s=0.5, throughput_per_s=500.0), timing(autocast="fp16"), timing(phase="step")
    ).itertuples()
    assert (forward.flop, forward.byte, forward.flop_per_s) == (10e9, 4e6 + 10 * 6e6, 5e11)
    assert forward.flop / forward.byte == pytest.approx(156.25)
    assert (forward.computed, forward.peak_share, forward.attained) == ("fp32", 0.5, 0.5)  # the ridge is at 10 FLOP/B
    # A printed rate counts and not the time next to it: 10 inputs at 500 a second
    assert (rated.latency_s, rated.flop_per_s) == (0.02, 5e11)
    # Autocast computes at 16 bits and moves half; a step takes the backward pass too
    assert (cast.computed, cast.byte, cast.peak_share) == ("fp16", forward.byte / 2, forward.peak_share / 4)
    assert (step.flop, step.byte) == (10 * 3e9, 2 * (4e6 + 10 * 6e6))
    assert under(timing(precision="bf16")).byte.tolist() == [forward.byte / 2]
    # The source's parameters, in millions with two decimals, are those of the counted network or of another one
    printed = (timing(published_parameter_count=each) for each in (5_290_000, 2_080_000))
    same, other = under(*printed, counts=[COUNT | {"parameter_count": 5_294_999}]).itertuples()
    assert (same.is_other, same.flop, other.is_other, other.latency_s) == (False, 10e9, True, 0.02)
    assert pd.isna([other.flop, other.byte, other.attained, other.parameter_byte]).all()
    # Below the ridge point memory is the roof: 10 Mbyte take 0.1 ms; 10 MFLOP in 1 ms are a tenth of that
    count = COUNT | {"parameter_byte": 10e6, "input_byte": 0, "activation_byte": 0, "forward_flop": 1e6}
    (low,) = under(timing(latency_s=1e-3), counts=[count]).itertuples()
    assert low.attained == pytest.approx(0.1)


def test_without_a_count_or_a_roof_there_is_no_share():
    rows = under(timing(model="other"), timing(input_size=160), timing(device="Cog 3"), timing(precision="fp64"))
    assert rows.attained.isna().all()
    assert rows.flop.notna().tolist() == [False, False, True, True]


def test_the_highest_roof_of_a_precision_counts():
    chips = pd.DataFrame(
        [("A", "fp32", 1e12), ("A", "tf32", 8e12), ("A", "fp16", 2e12), ("A", "bf16", 1e12), ("B", "fp32", 3e12)],
        columns=["chip", "precision", "peak_flop_per_s"],
    ).assign(bandwidth_byte_per_s=1e11, cache_byte=None)
    found = {key: roof.peak_flop_per_s for key, roof in published.datasheet_rooflines(chips).items()}
    a16 = {("A", "fp16"): 2e12, ("A", "bf16"): 2e12}  # a datasheet may name one format of 16 bits for both
    assert found == {("A", "fp32"): 8e12, **a16, ("B", "fp32"): 3e12}


def test_rows_of_studies_round_by_half_their_last_digit():
    data, keys = ROOT / "data", curated.read_keys(REFERENCES)
    tables = published.read(data, data, chips.read(data / "chips.csv", keys), keys)
    steps = tables.training_steps
    row = steps[(steps.model_key == "vit_b_32") & (steps.gpu == "NVIDIA V100")].iloc[0]
    assert (row.time_s, row.flop_per_s, row.intensity_flop_per_byte, row.batch) == (0.1688, 10113e9, 48.72, 64)
    peaks = dict(zip(tables.chips.chip, tables.chips.peak_flop_per_s_rounding, strict=True))
    assert peaks["NVIDIA H100 SXM"] == pytest.approx(0.5e12)  # 3958e12
    assert peaks["NVIDIA L4"] == pytest.approx(0.05e12)  # 30.3e12
    counts = tables.training[tables.training.quantity == "flop"]
    assert counts.iloc[0].forward_rounding == pytest.approx(0.5)  # 91416125440
    assert tables.training[tables.training.study == "C"].batch.isna().all()  # a cell that may be empty
    assert (tables.chips.precision == "").sum() == 1
