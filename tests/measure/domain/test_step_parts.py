from dataclasses import replace
from types import SimpleNamespace

import pytest

from measure.domain.roofs import Roof
from measure.domain.step_parts import COMMUNICATION, difference, step_parts

ROOF = Roof({"bf16": 1e12}, 1e9)  # 1000 FLOP/B at the ridge


def row(kind="linear", time_s=1.0, flop=0, byte=0, **columns):
    zero = dict.fromkeys(("rank", "device", "step", "copy_s", "gap_s", "other_flop", "recompute_flop"), 0)
    usual = {"layer_kind": kind, "precision": "bf16", "calls": 1, "kernels": 1, "time_s": time_s}
    return SimpleNamespace(**zero | usual | {"flop": flop, "byte": byte} | columns)


def parts(*rows, roof=ROOF):
    return step_parts(rows, roof, lambda row: row.layer_kind)


def test_the_least_time_is_of_each_row_and_a_part_is_a_mean():
    # 2e12 FLOP take 2 s and 1e9 B 1 s; the second row 0 s and 0.5 s
    (part,) = parts(row(time_s=4.0, flop=2 * 10**12, byte=10**9), row(time_s=1.0, byte=5 * 10**8, gap_s=0.25))
    assert (part.time_s, part.least_s, part.memory_s, part.gap_s) == (5.0, 2.5, 0.5, 0.25)
    assert (part.roof_share, part.bound, part.loss_s) == (0.5, "arithmetic", 2.5)
    assert parts(row(byte=10**8))[0].bound == "memory"
    # Parts are means over steps, ranks and devices, the longest first
    rows = [row("linear", 1.0), row("linear", 3.0, step=1), row("copy", 9.0, step=1, calls=4)]
    assert [(part.name, part.time_s, part.calls) for part in parts(*rows)] == [("copy", 4.5, 2.0), ("linear", 2.0, 1.0)]
    assert parts(row(time_s=2.0), row(time_s=4.0, rank=1))[0].time_s == 3.0
    # Two steps of 2 s of arithmetic and 1 s of memory in 4 s; and of 1e8 B from the cache in 1 s, 0.1 s from memory
    steps = [row(time_s=4.0, flop=flop, byte=10**9, step=step) for flop in (2 * 10**12, 0) for step in (0, 1)]
    (part,) = parts(*steps)
    assert (part.least_s, part.memory_s, part.loss_s, part.counted_s) == (3.0, 1.0, 5.0, 8.0)
    (part,) = parts(*(row(byte=10**8, step=step) for step in (0, 1)), roof=replace(ROOF, cache_byte=10**8))
    assert (part.cached_s, part.loss_s) == (1.0, 0.9)
    assert parts(row(step=None)) == []  # kernels of no step


def test_layout_conversions_are_all_loss():
    product, conversion = row("convolution", 4.0, flop=10**12), row("layout conversion", 3.0, calls=0)
    counted, lost = parts(product, conversion)
    assert (counted.loss_s, counted.converted_s) == (3.0, 0.0)  # 1e12 FLOP take 1 s
    assert (lost.loss_s, lost.converted_s, lost.counted_s, lost.uncounted_s) == (3.0, 3.0, 3.0, 0.0)
    assert (lost.roof_share, lost.bound, lost.calls) == (None, None, 0.0)
    (both,) = step_parts((product, conversion), ROOF, lambda _: "all")
    assert (both.loss_s, both.roof_share) == (6.0, 1 / 7)


def test_recomputation_is_work_and_other_flop_miss_the_peak():
    assert parts(row(time_s=4.0, flop=0, recompute_flop=10**12))[0].roof_share == 0.25
    (part,) = parts(row(byte=10**8, other_flop=10**13), row(byte=10**8, other_flop=10**13))
    assert (part.other_flop, part.least_s, part.bound) == (2e13, 0.2, "memory")
    assert parts(row(flop=10**15, byte=5 * 10**8, precision=None))[0].roof_share == 0.5  # of an unknown peak: memory


def test_bytes_that_fit_the_cache_have_its_bound_or_none():
    cached = replace(ROOF, cache_byte=10**8)
    # Four calls of 1e8 B fit, two of 2e8 B do not: 0.4 s from memory in 1 s. 1e12 FLOP take 1 s wherever bytes are.
    rows = row("a", byte=4 * 10**8, calls=4), row("a", byte=4 * 10**8, calls=2)
    (part,) = parts(*rows, roof=cached)
    assert (part.counted_s, part.cached_s, part.least_s, part.roof_share) == (2.0, 1.0, 0.4, 0.4)
    assert part.loss_s == 1.2  # 0.6 s twice, the first at least
    assert (part.bound, parts(rows[0], roof=cached)[0].bound) == ("memory", "cache")
    assert parts(rows[0], roof=cached)[0].roof_share is None
    assert parts(row(time_s=2.0, flop=10**12, byte=10**8), roof=cached)[0].roof_share == 0.5
    # Losses add up: 0.6 s of 1 s, 1.6 s of 2 s, and none of 0.3 s, which is less than memory allows
    three = [row("a", each, byte=4 * 10**8, calls=4) for each in (1.0, 2.0, 0.3)]
    (part,) = parts(*three, roof=cached)
    assert (part.cached_s, part.loss_s) == pytest.approx((3.3, 2.2))
    # At 1e10 B/s from the cache they take 0.04 s
    assert parts(rows[0], roof=replace(cached, cache_byte_per_s=1e10))[0].roof_share == 0.04


@pytest.mark.parametrize(
    ("each", "roof", "uncounted_s"),
    [
        (row(flop=None, byte=None), ROOF, 1.0),
        (row(flop=None, byte=10), ROOF, 1.0),  # a Triton kernel
        (row(COMMUNICATION, byte=10), ROOF, 0.0),
        (row(time_s=0.0, copy_s=1.0, byte=10), ROOF, 0.0),
        (row(flop=10, byte=10), None, 0.0),
    ],
)
def test_what_has_no_counts_or_waits_for_others_has_no_roof(each, roof, uncounted_s):
    (part,) = parts(each, roof=roof)
    assert (part.roof_share, part.bound, part.loss_s, part.uncounted_s) == (None, None, 0.0, uncounted_s)


def test_terms_add_up_to_the_ratio():
    a, b = parts(row("linear", 6.0), row("copy", 2.0)), parts(row("linear", 3.0), row("attention", 1.0))
    terms = difference(a, b)
    # (3 - 6) / 8, (0 - 2) / 8, (1 - 0) / 8
    assert [(term.name, term.share) for term in terms] == [("linear", -0.375), ("copy", -0.25), ("attention", 0.125)]
    assert 1 + sum(term.share for term in terms) == 4 / 8
