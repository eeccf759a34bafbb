from dataclasses import replace

import pytest
from helpers.cells import timed
from helpers.rows import ENVIRONMENT, profile

from measure.domain.advice import advise
from measure.domain.model_work import LayerWork

BASE = timed(latency_s=1.0)  # 0.9 to 1.1 s
PROFILE = replace(profile("alexnet"), plain_s=1.0, system_s=0.1)  # of two threads: 5 %
CUDA = replace(ENVIRONMENT, device="cuda", capability="7.5")


def advised(*cells, profile=PROFILE, kind="convolution", environment=ENVIRONMENT):
    times_s = ((kind, 0.75), ("other", 0.25))
    layers = [LayerWork("path", "Type", *of, 1, 0, 0, 0, None, time_s, None) for *of, time_s in times_s]
    return advise(BASE, [BASE, *cells], profile, layers, environment)


KEPT, COMPILED = timed(latency_s=0.7, variant="kept_memory"), timed(latency_s=0.5, variant="compile")


@pytest.mark.parametrize(
    ("cells", "remedy"),
    [
        ([KEPT, COMPILED], "compile"),  # helps most
        ([timed(batch=8, latency_s=4.0)], "batch size 8"),  # half a second an input
        # Two changes at once do not count
        ([replace(each, precision="bf16") for each in (COMPILED, timed(latency_s=0.5))], "bf16"),
    ],
)
def test_what_was_measured_to_help_most_comes_first(cells, remedy):
    found = advised(*cells)
    assert (found.remedy, found.gain, found.why, found.flags) == (remedy, 2, None, None)


@pytest.mark.parametrize(
    "other",
    [
        replace(KEPT, latency_s=0.85, latency_high_s=0.935),  # the base is from 0.9 s on
        replace(KEPT, rounds=1),
        replace(KEPT, latency_high_s=None),
        replace(KEPT, phase="step"),
        replace(KEPT, model="vgg11"),
        replace(KEPT, flags=("loaded",)),
    ],
)
def test_without_a_certain_gain_there_is_a_testable_hypothesis(other):
    found = advised(other)
    assert (found.remedy, found.gain) == ("channels_last", None)
    assert found.why == "layers of the kind convolution take 75 % of its operators' time"
    assert found.flags == (
        "--models alexnet --sections inference --batch-sizes 1 --precisions fp32 --variants eager channels_last"
    )


LONG = replace(PROFILE, system_s=0.5)  # 25 % of two threads' time passes in the operating system


@pytest.mark.parametrize(
    ("cells", "asked", "remedy", "flags", "why"),
    [
        ([], {"profile": LONG}, "kept_memory", "eager kept_memory", "the operating system takes 25 % of a call's time"),
        ([], {"profile": LONG, "environment": CUDA}, "channels_last", "", ""),
        ([], {"kind": "linear"}, "bf16", "--precisions fp32 bf16", ""),  # the device's lower precision
        ([], {"kind": "linear", "environment": CUDA}, "fp16", "--precisions fp32 fp16", ""),
        ([], {"kind": "normalisation"}, "compile", "", ""),  # it moves bytes
        # Nothing that was tried is suggested again, and nothing without a profile
        ([timed(latency_s=1.0, variant="channels_last")], {}, None, None, None),
        ([], {"profile": None}, None, None, None),
    ],
)
def test_a_hypothesis_follows_from_where_the_time_goes(cells, asked, remedy, flags, why):
    found = advised(*cells, **asked)
    assert (found and found.remedy) == remedy
    if found:
        assert found.flags.endswith(flags)
        assert why in found.why
