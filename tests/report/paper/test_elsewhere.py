"""What others measured, held against a roof of 1 TFLOP/s and 100 GB/s by hand."""

import pandas as pd
import pytest

from measure.cache.schema import TABLES
from measure.domain.roofs import Roofline
from measure.published.records import PublishedCount, PublishedTiming
from report.paper import elsewhere

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


def held(*timings, counts=(COUNT,)):
    return elsewhere.held_against(
        pd.DataFrame(timings, columns=[*TABLES[PublishedTiming].columns]),
        pd.DataFrame(counts, columns=[*TABLES[PublishedCount].columns]),
        ROOFS,
    )


def test_calls_under_the_roof():
    forward, rated, cast, step = held(
        timing(), timing(latency_s=0.5, throughput_per_s=500.0), timing(autocast="fp16"), timing(phase="step")
    ).itertuples()
    assert (forward.flop, forward.byte, forward.flop_per_s) == (10e9, 4e6 + 10 * 6e6, 5e11)
    assert forward.flop / forward.byte == pytest.approx(156.25)
    assert (forward.computed, forward.peak_share, forward.attained) == ("fp32", 0.5, 0.5)  # the ridge is at 10 FLOP/B
    # A printed rate counts and not the time beside it: 10 inputs at 500 a second
    assert (rated.latency_s, rated.flop_per_s) == (0.02, 5e11)
    # Autocast computes at 16 bits and moves half; a step takes the backward pass too
    assert (cast.computed, cast.byte, cast.peak_share) == ("fp16", forward.byte / 2, forward.peak_share / 4)
    assert (step.flop, step.byte) == (10 * 3e9, 2 * (4e6 + 10 * 6e6))
    # Below the ridge point memory is the roof: 10 Mbyte take 0.1 ms; 10 MFLOP in 1 ms are a tenth of that
    count = COUNT | {"parameter_byte": 10e6, "input_byte": 0, "activation_byte": 0, "forward_flop": 1e6}
    (low,) = held(timing(latency_s=1e-3), counts=[count]).itertuples()
    assert low.attained == pytest.approx(0.1)


def test_without_a_count_or_a_roof_there_is_no_share():
    rows = held(timing(model="other"), timing(input_size=160), timing(device="Cog 3"), timing(precision="fp64"))
    assert rows.attained.isna().all()
    assert rows.flop.notna().tolist() == [False, False, True, True]


def test_the_highest_roof_of_a_precision_counts():
    chips = pd.DataFrame(
        [("A", "fp32", 1e12), ("A", "tf32", 8e12), ("A", "fp16", 2e12), ("A", "bf16", 1e12), ("B", "fp32", 3e12)],
        columns=["chip", "precision", "peak_flop_per_s"],
    ).assign(bandwidth_byte_per_s=1e11)
    found = {key: roof.peak_flop_per_s for key, roof in elsewhere.datasheet_rooflines(chips).items()}
    assert found == {("A", "fp32"): 8e12, ("A", "fp16"): 2e12, ("B", "fp32"): 3e12}
