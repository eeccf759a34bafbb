import random
from dataclasses import replace
from math import exp, inf, log, sqrt
from types import SimpleNamespace

import pytest
from helpers.cells import DATED
from helpers.rows import collective, roof_measurement

from measure.domain import comparison
from measure.domain.cell import Cell
from measure.domain.comparison import ComparedRow, Repeats, RoofKernel, Side, Spread
from measure.domain.groups import CollectiveCell


def cell(model):
    return Cell(model, 1, "fp32", "inference", "eager")


def rounds(*latencies, **columns):
    return Repeats(latencies, 0.001, 12, **columns)


def side(cells, roofs=None):
    return Side("folder", DATED, cells, roofs or {})


STEADY, NO_MEMORY = rounds(0.99, 1.0, 1.01), Repeats(status="oom", reason="no memory")
A = side({cell(name): STEADY for name in ("same", "slower", "slowest", "faster", "breaks", "only a")})
A.cells[cell("never")] = NO_MEMORY
B = side({
    cell("only b"): STEADY, cell("same"): rounds(1.0, 0.99, 1.01), cell("slower"): rounds(1.29, 1.3, 1.31),
    cell("slowest"): rounds(1.99, 2.0, 2.01), cell("faster"): rounds(0.49, 0.5, 0.51, flags="drifting;wide"),
    cell("breaks"): Repeats(status="timeout", reason="took longer than 60 s"), cell("never"): NO_MEMORY,
})  # fmt: skip


def test_what_changed_comes_first_the_slowest_before_the_faster():
    rows = comparison.compare(A, B)
    assert [(row.key.model, row.change) for row in rows[:4]] == [
        ("slowest", "slower"), ("slower", "slower"), ("faster", "faster"), ("same", "within error"),
    ]  # fmt: skip
    assert {(row.key.model, row.change) for row in rows[4:]} == {
        (name, None) for name in ("breaks", "only a", "only b", "never")
    }
    # A regression is significant and larger than allowed, or a cell that no longer runs
    assert [row.key.model for row in rows if row.is_regression(0.05)] == ["slowest", "slower", "breaks"]
    assert [row.key.model for row in rows if row.is_regression(0.5)] == ["slowest", "breaks"]


@pytest.mark.parametrize(("flags", "change"), [(None, "slower"), ("wide", "slower"), ("loaded;wide", "undecided")])
def test_a_difference_under_load_is_undecided_and_no_regression(flags, change):
    b = side({**B.cells, cell("slowest"): rounds(1.99, 2.0, 2.01, flags=flags)})
    (row,) = (row for row in comparison.compare(A, b) if row.key.model == "slowest")
    assert (row.change, row.is_regression(0.05)) == (change, change == "slower")


@pytest.mark.parametrize(
    ("a", "b", "found"),
    [
        ({}, {"status": "timeout"}, True),
        ({}, {"status": None}, False),  # B did not measure it
        ({"status": "oom"}, {"status": "timeout"}, False),
        ({"status": None}, {"status": "oom"}, False),
        ({"input_shape": "3x2x2"}, {"status": "oom"}, True),  # an unknown shape agrees with any
        ({"input_shape": "3x2x2"}, {"status": "oom", "input_shape": "3x4x4"}, False),
    ],
)
def test_a_cell_that_no_longer_runs_is_a_regression(a, b, found):
    assert ComparedRow(cell("net"), Repeats(**a), Repeats(**b)).is_regression(0.05) == found


def test_a_slowdown_by_exactly_what_is_allowed_is_no_regression():
    row = ComparedRow(cell("net"), STEADY, STEADY, ratio=1.5, change="slower")
    assert [row.is_regression(allowed) for allowed in (0.25, 0.5, 0.75)] == [True, False, False]
    assert not replace(row, change="undecided").is_regression(0.25)
    assert not replace(row, ratio=None).is_regression(0.25)
    assert not replace(row, key=RoofKernel("matmul", 512, "fp32", "burst")).is_regression(0.25)


DIFFERENCE = {
    "ratio": 2.0, "ratio_low": 1.5, "ratio_high": 2.5, "p_value": 0.01, "adjusted_p_value": 0.02, "basis": "rounds",
    "change": "slower",
}  # fmt: skip


def test_a_row_of_the_table_has_the_key_both_sides_and_the_difference():
    a = Repeats((1.0, 4.0), 0.1, 12, input_shape="3x2x2", flags="wide")
    found = ComparedRow(cell("net"), a, NO_MEMORY, **DIFFERENCE).columns()
    assert list(found.items()) == list({
        "table": "runs", "model": "net", "batch": 1, "roof_kernel": None, "size": None, "precision": "fp32",
        "phase": "inference", "variant": "eager", "pace": None, "collective": None, "message_byte": None,
        "communication": None, "processes": None, "backend": None,
        "a_status": "ok", "b_status": "oom", "a_reason": None, "b_reason": "no memory",
        "a_input_shape": "3x2x2", "b_input_shape": None, "a_flags": "wide", "b_flags": None,
        "a_rounds": 2, "b_rounds": None,
        "a_latency_s": pytest.approx(2.0), "b_latency_s": None,  # the geometric mean of 1 and 4
        **DIFFERENCE,
    }.items())  # fmt: skip
    roof = ComparedRow(RoofKernel("matmul", 512, "fp64", "burst")).columns()
    assert {name: value for name, value in roof.items() if value is not None} == {
        "table": "roofs", "roof_kernel": "matmul", "size": 512, "precision": "fp64", "pace": "burst",
    }  # fmt: skip


def test_collectives_are_compared_by_their_undisturbed_rounds():
    calm = [collective(round_=number, latency_s=each) for number, each in enumerate((1.0, 1.0))]
    loaded = collective(round_=2, latency_s=9.0, flags="loaded;oversubscribed")
    found = comparison.of_group([*calm, loaded])
    assert (found.medians_s, found.flags, found.samples) == ((1.0, 1.0), None, 6)
    assert comparison.of_group([loaded]).flags == "loaded;oversubscribed"
    failed = comparison.of_group([collective(status="killed", reason="gone")])
    assert (failed.status, failed.reason, failed.latency_s) == ("killed", "gone", None)
    sides = [Side("folder", DATED, {}, {}, {CollectiveCell.of(loaded): each}) for each in (found, found)]
    (row,) = comparison.compare(*sides)
    assert (row.table, row.ratio, row.columns()["message_byte"]) == ("collectives", 1.0, 4096)


def test_a_roof_is_compared_by_its_rounds_with_a_result():
    one = roof_measurement()  # 0.5 s, 0.4 to 0.6 s of 6 samples
    error = log(0.6 / 0.4) / 2 / 1.959964
    assert comparison.of_roof([one]) == Repeats((0.5,), pytest.approx(error), 6)
    other = replace(one, latency_s=0.7, sample_count=9, status="ok")
    # Two equal errors: sqrt(2 * error^2) / 2
    assert comparison.of_roof([other, one]) == Repeats((0.7, 0.5), pytest.approx(error / sqrt(2)), 6)
    failed = replace(one, status="oom", reason="no memory", latency_s=None, latency_low_s=None, latency_high_s=None)
    assert comparison.of_roof([failed, one]).medians_s == (0.5,)
    later = replace(failed, status="timeout", reason="late")
    assert comparison.of_roof([failed, later]) == Repeats(status="oom", reason="no memory")


@pytest.mark.parametrize("column", ["latency_s", "latency_low_s", "latency_high_s", "sample_count"])
def test_a_round_without_its_interval_gives_no_roof(column):
    incomplete = replace(roof_measurement(), **{column: None})
    assert comparison.of_roof([incomplete]) == Repeats()
    assert comparison.of_roof([roof_measurement(), incomplete]).rounds == 1


def test_one_sample_has_no_error():
    single = replace(roof_measurement(), sample_count=1)
    assert comparison.of_roof([roof_measurement(), single]) == Repeats((0.5, 0.5), None, 1)
    # Two samples enclose the median with probability 1/2, which is 0.67449 errors
    pair = replace(single, sample_count=2)
    assert comparison.of_roof([pair]).error == pytest.approx(log(1.5) / 2 / 0.67449, rel=1e-5)


def test_machines_without_a_common_cell_compare_their_roofs():
    stream = RoofKernel("stream_copy", 512, "fp64", "sustained")
    a = side({cell("only a"): STEADY}, {stream: rounds(0.9, 1.0, 1.1)})
    b = side({cell("only b"): STEADY}, {stream: rounds(1.8, 2.0, 2.2)})
    (roof,) = (row for row in comparison.compare(a, b) if row.key == stream)
    # Welch's t with equal variances: s² of log 0.9, 0, log 1.1 is 0.01008, t = log 2 / sqrt(2 s² / 3) = 8.457 with 4
    # degrees of freedom, p = 0.00107
    assert (roof.ratio, roof.p_value) == (pytest.approx(2), pytest.approx(0.00107, abs=1e-5))


def test_cells_with_inputs_of_another_shape_are_not_compared():
    ours = replace(STEADY, input_shape="16000")
    longer, failed = (replace(each, input_shape="160000") for each in (STEADY, NO_MEMORY))
    for theirs, ratio in ((STEADY, 1.0), (longer, None), (failed, None)):
        (row,) = comparison.compare(side({cell("net"): ours}), side({cell("net"): theirs}))
        assert (row.ratio, row.is_regression(0.0)) == (ratio, False)


def test_ceilings_follow_the_cells_and_take_their_spread():
    kernel = RoofKernel("matmul", 512, "fp32", "burst")
    a, b = (side(each.cells, {kernel: rounds(latency)}) for each, latency in ((A, 1.0), (B, 1.01)))
    row = comparison.compare(a, b)[-1]
    assert row.key.describe() == "matmul 512 fp32 burst"
    # The cells' rounds lie 1 % apart, so one process a side leaves some 1.4 % uncertain, whatever its samples say.
    assert (row.change, row.basis) == (comparison.WITHIN_ERROR, comparison.OTHERS)


@pytest.mark.parametrize(
    ("matters", "spread", "change"),
    [
        # Three rounds a side, s apart: the interval reaches 2.7764 * s * sqrt(2/3) = 2.27 s to each side
        (0.05, 0.01, comparison.WITHIN_ERROR),  # 2.3 %
        (0.02, 0.01, comparison.UNDECIDED),
        (0.05, 0.03, comparison.UNDECIDED),  # 7 %
        (0.10, 0.03, comparison.WITHIN_ERROR),
    ],
)
def test_a_change_neither_found_nor_excluded_is_undecided(matters, spread, change):
    each = exact(-spread, 0, spread)
    (row,) = comparison.compare(side({cell("net"): each}), side({cell("net"): each}), matters)
    assert row.change == change


def test_a_geometric_mean_has_the_interval_of_independent_errors():
    rows = [
        ComparedRow(cell("a"), ratio=2.0, ratio_low=2 * exp(-0.3), ratio_high=2 * exp(0.3)),
        ComparedRow(cell("b"), ratio=8.0, ratio_low=8 * exp(-0.4), ratio_high=8 * exp(0.4)),
    ]
    # sqrt(2 * 8) = 4; the halves 0.3 and 0.4 add up to 0.5, over two cells 0.25
    assert comparison.mean_ratio(rows) == pytest.approx((4.0, 4 * exp(-0.25), 4 * exp(0.25)))
    rows.append(ComparedRow(cell("c"), ratio=4.0))
    assert comparison.mean_ratio(rows) == (pytest.approx(4.0), None, None)


NOTHING_COMMON = Spread(0.0, inf)


def exact(*logarithms):
    """Repeats with samples that leave nothing uncertain."""
    return Repeats(tuple(map(exp, logarithms)), 0.0, 20)


def is_flagged(difference):
    return difference.change in (comparison.SLOWER, comparison.FASTER)


def rows_of(pairs):
    return [ComparedRow(cell("net"), *pair) for pair in pairs]


def differ(*pairs):
    rows = rows_of(pairs)
    return comparison.estimate_changes(rows, comparison.common_variance(rows))


def test_a_lone_cell_is_compared_by_a_t_test_of_round_medians():
    # Each side's logarithms have a variance of (0.01^2 + 0 + 0.01^2) / 2 = 1e-4, pooled likewise. The standard error is
    # sqrt(1e-4 * (1/3 + 1/3)) = 0.0081650, so t = 0.03 / 0.0081650 = 3.6742 with 4 degrees of freedom. Their 97.5 %
    # quantile is 2.7764. By Abramowitz and Stegun 26.7.4 p = 1 - sin(1 + cos^2 / 2) with sin = t / sqrt(4 + t^2).
    (found,) = differ((exact(0, 0.01, 0.02), exact(0.03, 0.04, 0.05)))
    half = 2.7764 * 0.0081650
    interval = found.ratio_low, found.ratio, found.ratio_high
    assert interval == pytest.approx((exp(0.03 - half), exp(0.03), exp(0.03 + half)), rel=1e-5)
    sine, cosine_squared = 3.6742 / sqrt(4 + 3.6742**2), 4 / (4 + 3.6742**2)
    assert found.p_value == pytest.approx(1 - sine * (1 + cosine_squared / 2), rel=1e-3)
    assert found.adjusted_p_value == found.p_value  # of one cell
    assert (is_flagged(found), found.basis) == (True, comparison.ROUNDS)


def test_both_sides_variance_is_pooled_and_shrunk():
    # Variances 2e-4 of two values 0.02 apart, and 1e-4 of three: (1 * 2e-4 + 2 * 1e-4) / 3.
    found = comparison.round_variance(*rows_of([(exact(0, 0.02), exact(0, 0.01, 0.02))]))
    assert found == (pytest.approx(4e-4 / 3), 3, 0)
    for common, expected in (
        (Spread(4e-4, 80, 8), ((4 * 1e-4 + 8 * 4e-4) / 12, 12, 0)),
        (Spread(4e-4, 20, 50), ((4 * 1e-4 + 50 * 4e-4) / 54, 20, 0)),  # no more degrees of freedom than all rounds have
        (Spread(4e-4, 20, inf), (4e-4, 20, 0)),
    ):
        assert comparison.moderate(Spread(1e-4, 4), common) == pytest.approx(expected)


def test_the_fit_recovers_the_distribution_of_the_variances():
    # Variances are 1e-4 * 8 / chi-squared(8), as Smyth's model has them: weight 8 about the centre 1e-4.
    generator = random.Random(3)
    pairs = []
    for _ in range(3000):
        spread = sqrt(1e-4 * 8 / generator.gammavariate(4, 2))
        pairs.append(tuple(exact(*(generator.gauss(0, spread) for _ in range(3))) for _ in "ab"))
    found = comparison.common_variance(rows_of(pairs))
    assert found == (pytest.approx(1e-4, rel=0.1), 3000 * 4, pytest.approx(8, rel=0.25))


def test_equal_rounds_and_lone_cells_say_nothing_of_others():
    for pairs in ([], [(exact(0, 0.01), exact(0, 0.02))], [(exact(0, 0), exact(0, 0))] * 3):
        assert comparison.common_variance(rows_of(pairs)).weight == 0


def of_latencies(latencies):
    run = SimpleNamespace(status="ok", reason=None, input_shape=None)
    return comparison.of_cell(SimpleNamespace(latencies=latencies, flags=frozenset(), deciding=run))


def test_errors_within_rounds_add_up_over_rounds():
    # Five values each. Their extremes enclose the median with probability 1 - 2 / 2^5 = 0.9375: 1.86273 errors.
    error = log(1.1 / 0.9) / 2 / 1.86273
    measured = of_latencies([[0.9, 1.0, 1.0, 1.0, 1.1]] * 4)
    assert measured.error == pytest.approx(error / 2, rel=1e-4)  # the mean of four: sqrt(4 * error^2) / 4
    assert (measured.medians_s, measured.samples) == ((1.0,) * 4, 5)
    assert of_latencies([[1.0], [1.0, 1.1]]).error is None


PAIR = (Repeats((1.0,), 0.003, 11), Repeats((1.05,), 0.004, 21))
ONE = (Repeats((1.0,), 0.001, 50), Repeats((1.02,), 0.001, 50))


@pytest.mark.parametrize(
    ("pair", "common", "basis", "half", "flagged"),
    [
        # One process a side: sqrt(0.003^2 + 0.004^2) = 0.005; 11 - 1 = 10 degrees of freedom have 2.2281
        (PAIR, NOTHING_COMMON, "one process", 2.2281 * 0.005, True),
        # The spread between processes comes from others: sqrt(1e-4 * (1 + 1)) = 0.014142; 120 have 1.9799
        (ONE, Spread(1e-4, 120, inf), "others' rounds", 1.9799 * 0.014142, False),
        (ONE, NOTHING_COMMON, "one process", 2.0096 * 0.0014142, True),  # 49 have 2.0096
        # Rounds that agree by chance leave the error of their samples; 8 - 1 = 7 have 2.3646
        ((Repeats((1.0,) * 3, 0.05, 8), Repeats((1.04,) * 3, 0.0, 8)), NOTHING_COMMON, "rounds", 2.3646 * 0.05, False),
    ],
)
def test_few_rounds_are_compared_with_others_uncertainty(pair, common, basis, half, flagged):
    (found,) = comparison.estimate_changes(rows_of([pair]), common)
    assert (found.basis, is_flagged(found)) == (basis, flagged)
    halves = log(found.ratio_high / found.ratio), log(found.ratio / found.ratio_low)
    assert halves == pytest.approx((half, half), rel=1e-4)


def test_one_sample_on_a_side_has_a_ratio_and_no_interval():
    (found,) = differ((Repeats((1.0,), None, 1), Repeats((2.0,), 0.01, 20)))
    assert (found.ratio, found.ratio_low, found.p_value, found.change) == (2.0, None, None, None)


def test_p_values_are_corrected_for_the_number_of_cells():
    # The corrected value of rank r of n is p n / r, and no less than the next rank's.
    pairs = [(Repeats((1.0,), 0.01, 1000), Repeats((exp(0.01 * shift),), 0.0, 1000)) for shift in (4, 1, 2)]
    found = comparison.estimate_changes(rows_of(pairs), NOTHING_COMMON)
    assert [row.adjusted_p_value / row.p_value for row in found] == pytest.approx([3, 1, 3 / 2])
    assert comparison.estimate_changes([], NOTHING_COMMON) == []


def measured(generator, spread, shift=0.0):
    """A cell in three rounds that differ by so much, each with some error of its own samples."""
    return Repeats(tuple(exp(shift + generator.gauss(0, spread)) for _ in range(3)), 0.1 * spread, 12)


def test_two_runs_of_the_same_twenty_cells_flag_few():
    generator, flagged, covered = random.Random(7), [], 0
    for _ in range(100):
        spreads = [0.01 * exp(generator.gauss(0, 0.7)) for _ in range(20)]
        rows = differ(*((measured(generator, own), measured(generator, own)) for own in spreads))
        flagged.append(sum(map(is_flagged, rows)))
        covered += sum(row.ratio_low <= 1 <= row.ratio_high for row in rows)
    assert max(flagged) <= 2
    # Of 100 comparisons of equal sides, 5 are expected to flag anything, with a standard deviation of 2.2. As the
    # cells differ in their spread by factors, simulations of 1500 give 6 to 9: 18 are allowed.
    assert sum(map(bool, flagged)) <= 18
    # 1900 of 2000; the standard deviation is sqrt(2000 * 0.95 * 0.05) = 9.7, more as cells share a spread
    assert abs(covered - 1900) < 50
