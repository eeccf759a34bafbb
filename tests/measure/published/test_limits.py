"""Results that a chip cannot reach. The counts are the reference data's: 8.178e9 FLOP and 4.278e8 B for an image."""

from dataclasses import replace

import pytest
from helpers.places import ROOT

from measure.cache import table
from measure.domain.schema import file_of
from measure.published.add import Limits
from measure.published.records import Chip, PublishedBandwidth, PublishedProduct, PublishedTiming

DATA = ROOT / "data"
TIMING = PublishedTiming(
    "src", "a.csv", "NVIDIA T4", "inference", "resnet50", 64, 224, "fp32", None, None, None, None, None, 0.5, None,
    None, None, None, "no", None, "mean",
)  # fmt: skip
STREAM = PublishedBandwidth("src", "a.csv", "NVIDIA T4", "stream", "copy", None, None, 3e11, None)
PRODUCT = PublishedProduct("src", "NVIDIA T4", "fp32", 1024, 1024, 1024, 8e12, None, "")


@pytest.fixture(scope="module")
def limits():
    return Limits(DATA, table.read(file_of(Chip, DATA), Chip))


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (TIMING, ""),
        # 64 images at 8.1 TFLOP/s take 64.6 ms; at 1.5 times that rate 43 ms
        (replace(TIMING, latency_s=0.045), ""),
        (replace(TIMING, latency_s=0.040), "13.1 TFLOP/s is more than the 8.10 TFLOP/s of NVIDIA T4 at fp32"),
        (replace(TIMING, latency_s=0.040, autocast="fp16"), ""),  # of 65 TFLOP/s
        # bf16 is held against the rate of 16 bits too: 523 GFLOP in 1 ms are 523 TFLOP/s
        (replace(TIMING, precision="bf16", latency_s=0.001), "523 TFLOP/s is more than the 65.0 TFLOP/s"),
        (replace(TIMING, autocast="bf16", latency_s=0.040), ""),
        # 64 x 4.278e8 B at 320 GB/s take 85.6 ms: a hundred times that and 174 ms for 174 operators are 8.73 s
        (replace(TIMING, latency_s=8.7), ""),
        (replace(TIMING, latency_s=8.8), "8.80 s is more than the 8.73 s that is plausible"),
        (replace(TIMING, latency_s=100), "name the column by its unit, such as latency_ms"),  # 100 ms
        (replace(TIMING, model="unknown", latency_s=100), ""),  # nothing is counted
        (replace(TIMING, model="unknown", latency_s=100, throughput_per_s=640), "1e+03 times the batch of 64"),
        # An image at 8.1 TFLOP/s takes at least 1.0 ms; 2 ms are too short for 64 of them
        (replace(TIMING, latency_s=0.002), "if this is the time of one input, give the time of the batch"),
        (replace(TIMING, model="unknown", latency_s=0.002, throughput_per_s=500), "is one input, not the batch of 64"),
        (replace(TIMING, batch=1, latency_s=0.002, throughput_per_s=500), ""),
        (STREAM, ""),
        (replace(STREAM, byte_per_s=1e12), "1.00 TB/s is more than the 320 GB/s of NVIDIA T4's memory"),
        (replace(STREAM, byte_per_s=1e12, working_set_byte=2048), ""),  # out of a cache
        (PRODUCT, ""),
        (replace(PRODUCT, flop_per_s=3e13), "30.0 TFLOP/s is more than the 8.10 TFLOP/s of NVIDIA T4 at fp32"),
        (replace(PRODUCT, precision="fp8", flop_per_s=3e13), ""),  # no rate in the datasheet
    ],
)
def test_the_roof_of_the_chip_bounds_what_is_published(limits, row, words):
    column, problem = limits.problem(row)
    assert words in problem
    assert bool(problem) == bool(words)
    assert not words or getattr(row, column)


def test_everything_that_is_published_already_is_plausible(limits):
    for record in (PublishedTiming, PublishedBandwidth, PublishedProduct):
        wrong = [limits.problem(row) for row in table.read(file_of(record, DATA), record)]
        assert [problem for _, problem in wrong if problem] == []
