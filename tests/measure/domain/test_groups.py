"""Bus bandwidth, and the rounds of collectives and data-parallel steps."""

from dataclasses import replace

import pytest
from helpers.rows import collective

from measure.domain.groups import bus_byte_per_s, summarise_rounds


@pytest.mark.parametrize(
    ("name", "processes", "byte_per_s"),
    [
        # 8 MB in 2 ms are 4 GB/s, of which n ranks have 2 (n - 1) / n on the bus in an all-reduce, else (n - 1) / n.
        ("all_reduce", 2, 4e9),
        ("all_reduce", 4, 6e9),
        ("all_reduce", 8, 7e9),
        ("all_gather", 2, 2e9),
        ("all_gather", 4, 3e9),
        ("reduce_scatter", 8, 3.5e9),
    ],
)
def test_bus_bandwidth_is_that_of_nccl_tests(name, processes, byte_per_s):
    assert bus_byte_per_s(name, processes, 8_000_000, 0.002) == pytest.approx(byte_per_s)


def test_one_round_has_the_interval_of_its_samples_and_two_have_none():
    one = summarise_rounds([collective(latency_s=0.5)])  # six samples, from 0.4 to 0.6
    assert (one.latency_s, one.latency_low_s, one.latency_high_s, one.rounds) == (0.5, 0.4, 0.6, 1)
    assert one.relative_half_width == pytest.approx(0.2)  # 0.1 of 0.5
    few = summarise_rounds([collective(latency_s=0.5, sample_count=5)])
    assert (few.latency_low_s, few.latency_high_s) == (None, None)
    two = summarise_rounds([collective(latency_s=0.4), collective(latency_s=0.6, round_=1)])
    assert (two.latency_s, two.relative_half_width, two.rounds, two.flags) == (0.5, None, 2, ("wide",))  # by 20 %


def test_three_rounds_have_an_interval_between_them():
    rounds = [collective(round_=number, latency_s=each, flags="wide") for number, each in enumerate((1.0, 1.01, 0.99))]
    found = summarise_rounds(rounds)
    # Logarithms with a deviation of 1 %: 4.85 / sqrt(3) times that is ±2.8 %, narrower than 5 %
    assert found.latency_s == 1.0
    assert found.relative_half_width == pytest.approx(0.028, rel=0.01)
    assert found.flags == ()


def test_rounds_that_others_disturbed_count_only_alone():
    calm, loaded = collective(latency_s=1.0), collective(round_=1, latency_s=3.0, flags="loaded;oversubscribed")
    assert summarise_rounds([calm, loaded]).latency_s == 1.0
    alone = summarise_rounds([loaded])
    assert (alone.latency_s, alone.flags) == (3.0, ("loaded", "oversubscribed"))


def test_a_collective_without_a_result_keeps_its_status():
    failed = collective(status="killed", reason="rank 1 of 2 was killed by signal 9")
    found = summarise_rounds([failed, replace(failed, round=1)])
    assert (found.status, found.reason, found.latency_s) == ("killed", failed.reason, None)
