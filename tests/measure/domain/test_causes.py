from dataclasses import replace

import pytest
from helpers.rows import layer, operator_time, profile

from measure.domain.causes import (
    ALLOCATOR,
    CLOCK,
    OPTIMISER,
    OTHER,
    OUTSIDE,
    SYSTEM,
    ProfiledCell,
    causes,
    profiled_cell,
)  # fmt: skip

PLAIN = ProfiledCell(latency_s=1.0, plain_s=2.0, kinds={"linear": 1.0, "attention": 0.6})


def terms(a, b):
    found = causes(a, b)
    assert 1 + sum(term.share for term in found) == pytest.approx(b.latency_s / a.latency_s)
    return {term.name: pytest.approx(term.share) for term in found}


def test_kinds_and_the_rest_of_the_call_add_up_to_the_ratio():
    # A's second is 0.5 s of products, 0.3 of attention, 0.2 outside. B's profile has 1 + 1.8 of 3 s: 1.5 s of latency
    # are 0.5, 0.9 and 0.1.
    after = ProfiledCell(latency_s=1.5, plain_s=3.0, kinds={"linear": 1.0, "attention": 1.8})
    assert terms(PLAIN, after) == {"attention": 0.6, OUTSIDE: -0.1, "linear": 0.0}


def test_a_kind_that_one_cell_lacks_is_all_gained_or_all_lost():
    # 0.3 s of A's attention go, and half of B's second is of a convolution that A does not have
    other = ProfiledCell(latency_s=1.0, plain_s=2.0, kinds={"linear": 1.0, "convolution": 1.0})
    expected = {"convolution": 0.5, "attention": -0.3, OUTSIDE: -0.2, "linear": 0.0}
    assert terms(PLAIN, other) == expected
    assert terms(other, PLAIN) == {name: -share for name, share in expected.items()}


def test_operators_slower_under_the_profiler_are_the_whole_call():
    # 2.5 s of operators in 2 s: nothing is outside, and their shares are 3/5 and 2/5
    wide = replace(PLAIN, kinds={"linear": 1.5, "attention": 1.0})
    assert wide.parts == pytest.approx({"linear": 0.6, "attention": 0.4, OUTSIDE: 0.0})


def test_a_slower_clock_explains_its_share_of_a_processors_work():
    a, b = replace(PLAIN, clock_hz=2e9), replace(PLAIN, clock_hz=1e9, latency_s=2.0)
    # At A's clock B would take 1 s, the same as A in each part
    assert terms(a, b) == {CLOCK: 1.0, "linear": 0.0, "attention": 0.0, OUTSIDE: 0.0}
    # On a GPU the wait for the host, 0.4 of 2 s, does not follow: the clock explains half of 1.6 s
    a, b = replace(a, is_gpu=True), replace(b, is_gpu=True)
    assert terms(a, b) == {CLOCK: 0.8, OUTSIDE: 0.2, "linear": 0.0, "attention": 0.0}
    # The clocks of a processor and a GPU say nothing about each other
    assert CLOCK not in terms(replace(a, is_gpu=False), b)


@pytest.mark.parametrize(
    ("faults", "share", "expected"),
    [
        # 0.1 s of system time become 0.5 of 1.4 s with 400 more faults: 1 ms each, which is all of both
        ((100, 500), 0.5 / 1.4, {ALLOCATOR: 0.4, SYSTEM: 0.0}),
        # With 1000 more faults each costs 0.4 ms: 0.04 of A's 0.1 s, 0.44 of B's 0.5 s
        ((100, 1100), 0.5 / 1.4, {ALLOCATOR: 0.4, SYSTEM: 0.0}),
        # With 100 more it would be 4 ms, but A has only 1 ms for each: 0.1 and 0.2 s
        ((100, 200), 0.5 / 1.4, {ALLOCATOR: 0.1, SYSTEM: 0.3}),
        ((100, 50), 0.5 / 1.4, {SYSTEM: 0.4}),  # fewer faults cannot cost more
        ((100, 100), 0.5 / 1.4, {SYSTEM: 0.4}),
        ((None, 500), 0.5 / 1.4, {SYSTEM: 0.4}),
    ],
)
def test_page_faults_cost_at_most_the_systems_time(faults, share, expected):
    a = replace(PLAIN, system_share=0.1, page_faults=faults[0])
    b = replace(PLAIN, latency_s=1.4, system_share=share, page_faults=faults[1])
    found = terms(a, b)
    # Outside the system both take 0.9 s, in equal parts
    assert {name: found.get(name, pytest.approx(0.0)) for name in (*expected, "linear")} == expected | {"linear": 0.0}


def test_a_profile_is_split_by_the_kinds_of_its_layers():
    net = [
        replace(layer(), path=path, layer_kind=kind, forward_flop=flop) for path, kind, flop in
        (("block", OTHER, 0), ("block.fc", "linear", 5), ("block.att", "attention", 9), ("head", "linear", 1))
    ]  # fmt: skip
    # A fused block runs as one operator; most of its FLOP are attention
    times = [
        operator_time(path="block", time_s=1.0), operator_time(path="head", time_s=2.0),
        operator_time(path=None, time_s=4.0), replace(operator_time(path=None, time_s=8.0), stage="update"),
    ]  # fmt: skip
    about = {"threads": 2, "clocks_hz": [1e9, 3e9, 2e9]}
    row = replace(profile(), system_s=0.25, page_faults=7.0)
    found = profiled_cell(3.0, row, times, net, **about, is_gpu=False)
    assert found.kinds == {"attention": 1.0, "linear": 2.0, OTHER: 4.0, OPTIMISER: 8.0}
    # 0.25 s of two threads that took 0.5 s
    assert (found.system_share, found.clock_hz, found.page_faults) == (0.25, 2e9, 7.0)
    assert profiled_cell(3.0, row, times, net, **about, is_gpu=True).system_share is None
    # Of an unknown number of threads it is one's; of more than all time it is all
    unknown, less = about | {"threads": None}, replace(row, plain_s=0.125)
    assert profiled_cell(3.0, row, times, net, **unknown, is_gpu=False).system_share == 0.5
    assert profiled_cell(3.0, less, times, net, **unknown, is_gpu=False).system_share == 1.0
    assert profiled_cell(3.0, profile(), times, net, threads=2, clocks_hz=[], is_gpu=False) == ProfiledCell(
        3.0, 0.5, found.kinds, None, None, None
    )
    assert profiled_cell(3.0, row, [], net, **about, is_gpu=False) is None
    assert profiled_cell(3.0, profile(status="oom"), times, net, **about, is_gpu=False) is None
