import dataclasses
import random
from math import exp, inf, log, pi, sqrt
from types import SimpleNamespace

import pytest
from helpers.comparing import ENVIRONMENT

from measure.domain.comparison import (
    FASTER,
    OTHERS,
    PROCESS,
    ROUNDS,
    SLOWER,
    WITHIN_ERROR,
    ComparedRow,
    Repeats,
    RoofKernel,
    Side,
    Spread,
    common_variance,
    compare,
    error_of_interval,
    estimate_changes,
    inverse_trigamma,
    moderate,
    of_cell,
    round_variance,
)  # fmt: skip
from measure.domain.latency import Cell


def cell(model):
    return Cell(model, 1, "fp32", "inference", "eager")


def rounds(*latencies, **columns):
    return Repeats(latencies, 0.001, 12, **columns)


def side(cells, roofs=None):
    return Side("folder", ENVIRONMENT, cells, roofs or {})


STEADY, NO_MEMORY = rounds(0.99, 1.0, 1.01), Repeats(status="oom", reason="no memory")
A = side({cell(name): STEADY for name in ("same", "slower", "slowest", "faster", "breaks", "only a")})
A.cells[cell("never")] = NO_MEMORY
B = side({
    cell("only b"): STEADY, cell("same"): rounds(1.0, 0.99, 1.01), cell("slower"): rounds(1.29, 1.3, 1.31),
    cell("slowest"): rounds(1.99, 2.0, 2.01), cell("faster"): rounds(0.49, 0.5, 0.51, flags="drifting;wide"),
    cell("breaks"): Repeats(status="timeout", reason="took longer than 60 s"), cell("never"): NO_MEMORY,
})  # fmt: skip


def test_what_changed_comes_first_the_slowest_before_the_faster():
    rows = compare(A, B)
    assert [row.key.model for row in rows[:4]] == ["slowest", "slower", "faster", "same"]
    assert [row.change for row in rows] == [SLOWER, SLOWER, FASTER, WITHIN_ERROR, None, None, None, None]
    assert {row.key.model for row in rows[4:]} == {"breaks", "only a", "only b", "never"}
    # A regression is significant and larger than allowed, or a cell that no longer runs
    assert [row.key.model for row in rows if row.is_regression(0.05)] == ["slowest", "slower", "breaks"]
    assert [row.key.model for row in rows if row.is_regression(0.5)] == ["slowest", "breaks"]


def test_a_row_says_what_both_sides_measured():
    rows = {row.key.model: row for row in compare(A, B)}
    faster, breaks = rows["faster"].columns(), rows["breaks"].columns()
    # Latency is the geometric mean of the rounds' medians
    assert faster["a_latency_s"] == pytest.approx((0.99 * 1.0 * 1.01) ** (1 / 3))
    assert faster["ratio"] == pytest.approx(((0.49 * 0.5 * 0.51) / (0.99 * 1.0 * 1.01)) ** (1 / 3))
    assert faster["ratio_low"] < faster["ratio"] < faster["ratio_high"] < 1
    names = ("a_rounds", "b_rounds", "basis", "a_flags", "b_flags")
    assert [faster[name] for name in names] == [3, 3, ROUNDS, None, "drifting;wide"]
    names = ("a_status", "b_status", "b_reason", "ratio", "b_latency_s", "roof_kernel")
    assert [breaks[name] for name in names] == ["ok", "timeout", "took longer than 60 s", None, None, None]


@pytest.mark.parametrize(
    ("shape", "status", "ratio"), [(None, "ok", 1.0), ("160000", "ok", None), ("160000", "oom", None)]
)
def test_cells_with_inputs_of_another_shape_are_not_compared(shape, status, ratio):
    ours = dataclasses.replace(STEADY, input_shape="16000")
    theirs = dataclasses.replace(STEADY if status == "ok" else NO_MEMORY, input_shape=shape)
    (row,) = compare(side({cell("net"): ours}), side({cell("net"): theirs}))
    assert row.ratio == ratio
    assert not row.is_regression(0.0)


def test_ceilings_follow_the_cells_and_take_their_spread():
    kernel = RoofKernel("matmul", 512, "fp32", "burst")
    a, b = (side(each.cells, {kernel: rounds(latency)}) for each, latency in ((A, 1.0), (B, 1.02)))
    row = compare(a, b)[-1]
    assert row.key.describe() == "matmul 512 fp32 burst"
    # The cells' rounds lie 1 % apart, so one process a side leaves some 1.4 % uncertain, whatever its samples say.
    assert (row.change, row.basis) == (WITHIN_ERROR, OTHERS)


NOTHING_COMMON = Spread(0.0, inf)


def exact(*logarithms):
    """Repeats whose samples leave nothing uncertain."""
    return Repeats(tuple(map(exp, logarithms)), 0.0, 20)


def is_flagged(difference):
    return difference.change in (SLOWER, FASTER)


def rows_of(pairs):
    return [ComparedRow(cell("net"), *pair) for pair in pairs]


def differ(*pairs):
    rows = rows_of(pairs)
    return estimate_changes(rows, common_variance(rows))


def test_a_cell_alone_is_compared_by_the_t_test_of_its_round_medians():
    # Each side's logarithms have a variance of (0.01^2 + 0 + 0.01^2) / 2 = 1e-4, pooled likewise. The standard error is
    # sqrt(1e-4 * (1/3 + 1/3)) = 0.0081650, so t = 0.03 / 0.0081650 = 3.6742 with 4 degrees of freedom, whose 97.5 %
    # quantile is 2.7764. By Abramowitz and Stegun 26.7.4 p = 1 - sin(1 + cos^2 / 2) with sin = t / sqrt(4 + t^2).
    (found,) = differ((exact(0, 0.01, 0.02), exact(0.03, 0.04, 0.05)))
    assert found.ratio == pytest.approx(exp(0.03))
    assert found.ratio_low == pytest.approx(exp(0.03 - 2.7764 * 0.0081650), rel=1e-5)
    assert found.ratio_high == pytest.approx(exp(0.03 + 2.7764 * 0.0081650), rel=1e-5)
    sine, cosine_squared = 3.6742 / sqrt(4 + 3.6742**2), 4 / (4 + 3.6742**2)
    assert found.p_value == pytest.approx(1 - sine * (1 + cosine_squared / 2), rel=1e-3)
    assert found.adjusted_p_value == found.p_value  # of one cell
    assert is_flagged(found)
    assert found.basis == ROUNDS


def test_the_spread_of_both_sides_is_pooled_by_their_degrees_of_freedom():
    # Variances 2e-4 of two values 0.02 apart, and 1e-4 of three: (1 * 2e-4 + 2 * 1e-4) / 3.
    assert round_variance(*rows_of([(exact(0, 0.02), exact(0, 0.01, 0.02))])) == (pytest.approx(4e-4 / 3), 3, 0)


@pytest.mark.parametrize(
    ("own", "common", "expected"),
    [
        (Spread(1e-4, 4), Spread(4e-4, 80, 8), Spread(3e-4, 12)),  # (4 * 1e-4 + 8 * 4e-4) / 12
        # No test has more degrees of freedom than all rounds together
        (Spread(1e-4, 4), Spread(4e-4, 20, 50), Spread((4 * 1e-4 + 50 * 4e-4) / 54, 20)),
        (Spread(1e-4, 4), Spread(4e-4, 20, inf), Spread(4e-4, 20)),
    ],
)
def test_a_variance_is_moved_towards_the_common_one_by_its_weight(own, common, expected):
    found = moderate(own, common)
    assert (found.variance, found.freedom) == (pytest.approx(expected.variance), expected.freedom)


def test_the_fit_recovers_the_distribution_that_variances_were_drawn_from():
    # Variances are 1e-4 * 8 / chi-squared(8), as Smyth's model has them: weight 8 about the centre 1e-4.
    generator = random.Random(3)
    pairs = []
    for _ in range(3000):
        spread = sqrt(1e-4 * 8 / generator.gammavariate(4, 2))
        pairs.append(tuple(exact(*(generator.gauss(0, spread) for _ in range(3))) for _ in "ab"))
    common = common_variance(rows_of(pairs))
    assert common.weight == pytest.approx(8, rel=0.25)
    assert common.variance == pytest.approx(1e-4, rel=0.1)
    assert common.freedom == 3000 * 4


@pytest.mark.parametrize("pairs", [[], [((0, 0.01), (0, 0.02))], [((0, 0), (0, 0))] * 3])
def test_rounds_that_never_differ_and_cells_alone_say_nothing_of_others(pairs):
    assert common_variance(rows_of([(exact(*a), exact(*b)) for a, b in pairs])).weight == 0


@pytest.mark.parametrize(
    ("width", "samples"),
    [
        (0.0195996, 20),  # a 95 % interval of the logarithm is 1.95996 standard errors on each side
        (0.0115035, 3),  # three values' extremes enclose the median with 1 - 2 / 2^3 = 0.75: 1.15035 standard errors
    ],
)
def test_an_interval_gives_back_its_standard_error(width, samples):
    assert error_of_interval(exp(-width), exp(width), samples) == pytest.approx(0.01, rel=1e-5)


def of_latencies(latencies):
    run = SimpleNamespace(status="ok", reason=None, input_shape=None)
    return of_cell(SimpleNamespace(latencies=latencies, flags=frozenset(), deciding=run))


def test_errors_within_rounds_add_up_over_rounds():
    # Five values each, whose extremes enclose the median with probability 1 - 2 / 2^5 = 0.9375: 1.86273 errors.
    error = log(1.1 / 0.9) / 2 / 1.86273
    measured = of_latencies([[0.9, 1.0, 1.0, 1.0, 1.1]] * 4)
    assert measured.error == pytest.approx(error / 2, rel=1e-4)  # the mean of four: sqrt(4 * error^2) / 4
    assert measured.medians_s == (1.0,) * 4
    assert measured.samples == 5
    assert of_latencies([[1.0], [1.0, 1.1]]).error is None


def test_one_process_a_side_is_compared_by_what_samples_leave_uncertain():
    a, b = Repeats((1.0,), 0.003, 11), Repeats((1.05,), 0.004, 21)
    (found,) = differ((a, b))
    # The standard error is sqrt(0.003^2 + 0.004^2) = 0.005; 11 - 1 = 10 degrees of freedom have 2.2281.
    assert found.basis == PROCESS
    assert found.ratio_low == pytest.approx(1.05 * exp(-2.2281 * 0.005), rel=1e-5)
    assert is_flagged(found)


def test_one_sample_on_a_side_has_a_ratio_and_no_interval():
    (found,) = differ((Repeats((1.0,), None, 1), Repeats((2.0,), 0.01, 20)))
    assert found.ratio == 2.0
    assert (found.ratio_low, found.p_value, found.adjusted_p_value) == (None, None, None)
    assert not is_flagged(found)


def test_what_was_measured_in_one_round_takes_the_spread_between_processes_from_others():
    common = Spread(1e-4, 120, inf)
    one = (Repeats((1.0,), 0.001, 50), Repeats((1.02,), 0.001, 50))
    (found,) = estimate_changes(rows_of([one]), common)
    # sqrt(1e-4 * (1 + 1)) = 0.014142; 120 degrees of freedom have 1.9799.
    assert found.basis == OTHERS
    assert found.ratio_high == pytest.approx(1.02 * exp(1.9799 * 0.014142), rel=1e-4)
    assert not is_flagged(found)
    assert is_flagged(estimate_changes(rows_of([one]), NOTHING_COMMON)[0])


def test_rounds_that_agree_by_chance_leave_what_their_samples_do():
    wide = Repeats((1.0, 1.0, 1.0), 0.05, 8)
    (found,) = differ((wide, Repeats((1.04, 1.04, 1.04), 0.0, 8)))
    assert not is_flagged(found)
    assert found.ratio_high / found.ratio > exp(2 * 0.05)


def test_p_values_are_corrected_for_the_number_of_cells():
    # Ratios whose p-values rank alike: the corrected value of rank r of n is p n / r, and no less than the next rank's.
    pairs = [(Repeats((1.0,), 0.01, 1000), Repeats((exp(0.01 * shift),), 0.0, 1000)) for shift in (4, 1, 2)]
    first, last, middle = estimate_changes(rows_of(pairs), NOTHING_COMMON)
    assert first.adjusted_p_value == pytest.approx(3 * first.p_value)
    assert middle.adjusted_p_value == pytest.approx(3 / 2 * middle.p_value)
    assert last.adjusted_p_value == pytest.approx(last.p_value)
    assert estimate_changes([], NOTHING_COMMON) == []


def measured(generator, spread, shift=0.0):
    """A cell in three rounds that differ by so much, each with some error of its own samples."""
    return Repeats(tuple(exp(shift + generator.gauss(0, spread)) for _ in range(3)), 0.1 * spread, 12)


@pytest.mark.parametrize(
    ("different", "most"),
    # Of 100 comparisons of what is the same, 5 are expected to flag anything, with a standard deviation of 2.2: 13 are
    # allowed. Where the cells differ in their spread by factors, simulations of 1500 give 6 to 9: 18 are allowed.
    [(0.0, 13), (0.7, 18)],
)
def test_two_runs_of_the_same_twenty_cells_flag_few_intervals_cover_and_a_slower_cell_is_found(different, most):
    generator, other, flagged, covered, found = random.Random(7), random.Random(9), [], 0, 0
    for _ in range(100):
        spreads = [0.01 * exp(generator.gauss(0, different)) for _ in range(20)]
        rows = differ(*((measured(generator, own), measured(generator, own)) for own in spreads))
        flagged.append(sum(map(is_flagged, rows)))
        covered += sum(row.ratio_low <= 1 <= row.ratio_high for row in rows)
        slower = measured(other, 0.01), measured(other, 0.01, log(1.05))
        found += is_flagged(differ(*((row.a, row.b) for row in rows[1:]), slower)[-1])
    assert max(flagged) <= 2
    assert sum(map(bool, flagged)) <= most
    # 1900 of 2000; the standard deviation is sqrt(2000 * 0.95 * 0.05) = 9.7, more as cells share a spread
    assert abs(covered - 1900) < 50
    # 4.9 % is six standard errors of 0.82 %, and some 3.2 are asked for: nearly always, with one spread
    assert different or found >= 94


@pytest.mark.parametrize(("value", "x"), [(pi**2 / 6, 1.0), (pi**2 / 2, 0.5), (pi**2 / 6 - 1, 2.0)])
def test_inverse_trigamma_has_known_values(value, x):
    # Abramowitz and Stegun 6.4.2 to 6.4.6: trigamma(x + 1) = trigamma(x) - 1 / x^2
    assert inverse_trigamma(value) == pytest.approx(x, rel=1e-9)
