from dataclasses import replace

import pytest
from helpers.comparing import timed
from helpers.rows import ENVIRONMENT, profile

from measure.domain.advice import advise
from measure.domain.demands import LayerDemand

BASE = timed(latency_s=1.0)  # 0.9 to 1.1 s
PROFILE = replace(profile("alexnet"), plain_s=1.0, system_s=0.1)  # of two threads: 5 %
CUDA = replace(ENVIRONMENT, device="cuda", capability="7.5")


def of_kind(kind, time_s):
    return LayerDemand("path", "Type", kind, 1, 0, 0, 0, None, time_s, None)


def advised(*cells, profile=PROFILE, kind="convolution", environment=ENVIRONMENT):
    layers = [of_kind(kind, 0.75), of_kind("other", 0.25)]
    return advise(BASE, [BASE, *cells], profile, layers, environment)


KEPT, COMPILED = timed(latency_s=0.7, variant="kept_memory"), timed(latency_s=0.5, variant="compile")
LOWER = replace(timed(latency_s=0.5), precision="bf16")


@pytest.mark.parametrize(
    ("cells", "remedy"),
    [
        ([KEPT, COMPILED], "compile"),  # helps most
        ([timed(batch=8, latency_s=4.0)], "batch size 8"),  # half a second an input
        # Two changes at once do not count
        ([replace(timed(latency_s=0.1, variant="compile"), precision="bf16"), LOWER], "bf16"),
    ],
)
def test_what_was_measured_to_help_most_comes_first(cells, remedy):
    found = advised(*cells)
    assert (found.remedy, found.gain, found.why, found.flags) == (remedy, 2, None, None)


@pytest.mark.parametrize(
    "other",
    [
        timed(latency_s=0.85, variant="kept_memory"),  # up to 0.935 s, and the base is from 0.9 s on
        replace(timed(latency_s=0.5, variant="kept_memory"), rounds=1),
        replace(timed(latency_s=0.5, variant="kept_memory"), latency_high_s=None),
        replace(timed(latency_s=0.5, variant="kept_memory"), phase="step"),
        replace(timed(latency_s=0.5, variant="kept_memory"), model="vgg11"),
    ],
)
def test_what_is_not_certain_is_no_measured_advice(other):
    found = advised(other)
    assert (found.remedy, found.gain) == ("channels_last", None)


def test_a_hypothesis_says_why_and_how_to_test_it():
    found = advised()
    assert found.why == "layers of the kind convolution take 75 % of its operators' time"
    assert found.flags == (
        "--models alexnet --sections inference --batch-sizes 1 --precisions fp32 --variants eager channels_last"
    )


LONG = replace(PROFILE, system_s=0.5)  # 25 % of two threads' time passes in the operating system


@pytest.mark.parametrize(
    ("cells", "asked", "remedy"),
    [
        ([], {"profile": LONG}, "kept_memory"),
        ([], {"profile": LONG, "environment": CUDA}, "channels_last"),
        ([], {"kind": "linear"}, "bf16"),  # the device's lower precision
        ([], {"kind": "linear", "environment": CUDA}, "fp16"),
        ([], {"kind": "normalisation"}, "compile"),  # it moves bytes
        # Nothing that was tried is suggested again, and nothing without a profile
        ([timed(latency_s=1.0, variant="channels_last")], {}, None),
        ([timed(latency_s=1.0, variant="channels_last")], {"profile": LONG}, "kept_memory"),
        ([], {"profile": None}, None),
    ],
)
def test_a_hypothesis_follows_from_where_the_time_goes(cells, asked, remedy):
    found = advised(*cells, **asked)
    assert (found and found.remedy) == remedy
    if remedy in ("bf16", "fp16"):
        assert found.flags.endswith(f"--batch-sizes 1 --precisions fp32 {remedy}")
    if cells == [] and asked == {"profile": LONG}:
        assert found.why == "the operating system takes 25 % of a call's time"
