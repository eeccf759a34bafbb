from dataclasses import replace

import pytest
from helpers.answering import timed
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


def test_what_was_measured_to_help_most_comes_first():
    kept, compiled = timed(latency_s=0.7, variant="kept_memory"), timed(latency_s=0.5, variant="compile")
    found = advised(kept, compiled)
    assert (found.remedy, found.gain, found.why, found.flags) == ("compile", 2, None, None)


def test_a_larger_batch_is_held_against_it_by_the_input():
    found = advised(timed(batch=8, latency_s=4.0))  # half a second an input
    assert (found.remedy, found.gain) == ("batch size 8", 2)


def test_a_lower_precision_counts_and_two_changes_at_once_do_not():
    both = replace(timed(latency_s=0.1, variant="compile"), precision="bf16")
    found = advised(both, replace(timed(latency_s=0.5), precision="bf16"))
    assert (found.remedy, found.gain) == ("bf16", 2)


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


def test_where_the_operating_system_takes_long_memory_is_to_be_kept():
    found = advised(profile=replace(PROFILE, system_s=0.5))
    assert (found.remedy, found.why) == ("kept_memory", "the operating system takes 25 % of a call's time")
    on_gpu = advised(profile=replace(PROFILE, system_s=0.5), environment=CUDA)
    assert on_gpu.remedy == "channels_last"


@pytest.mark.parametrize(("environment", "lower"), [(ENVIRONMENT, "bf16"), (CUDA, "fp16")])
def test_where_products_take_long_the_device_s_lower_precision_is_suggested(environment, lower):
    found = advised(kind="linear", environment=environment)
    assert found.remedy == lower
    assert found.flags.endswith(f"--batch-sizes 1 --precisions fp32 {lower}")


def test_what_moves_bytes_is_to_be_compiled():
    assert advised(kind="normalisation").remedy == "compile"


def test_what_was_tried_is_not_suggested_again():
    tried = timed(latency_s=1.0, variant="channels_last")
    assert advised(tried) is None
    assert advised(tried, profile=replace(PROFILE, system_s=0.5)).remedy == "kept_memory"


def test_without_a_profile_nothing_is_suggested():
    assert advised(profile=None) is None
