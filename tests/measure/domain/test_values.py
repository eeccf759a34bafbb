import pytest

from measure.domain.values import duration, latency, percent, plain, si, significant


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (8.178e9, "FLOP", "8.18 GFLOP"), (178e6, "B", "178 MB"), (960, "FLOP", "960 FLOP"), (0, "FLOP", "0 FLOP"),
        (999.9e6, "B", "1.00 GB"), (25_557_032, "", "25.6 M"), (1500, "FLOP", "1.50 kFLOP"),
        (96, "B", "96 B"), (96.0, "B", "96.0 B"),
        (2e15, "FLOP/s", "2.00 PFLOP/s"), (5, "", "5"),
    ],
)  # fmt: skip
def test_a_quantity_has_three_digits_and_a_prefix(value, unit, text):
    assert si(value, unit) == text


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (0.786, "79 %"),
        (0.0061, "0.61 %"),
        (1.0, "100 %"),
        (1.5, "150 %"),
        (0.996, "100 %"),
        (0, "0 %"),
        (0.05, "5.0 %"),
    ],
)
def test_a_share_has_two_digits(share, text):
    assert percent(share) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (1.234, "1.23 s"),
        (123.4, "123 s"),
        (0.99999, "1.00 s"),
        (0.0456, "45.6 ms"),
        (7.89e-4, "789 µs"),
        (1e-8, "10.0 ns"),
    ],
)
def test_latencies_have_three_digits_and_a_unit(seconds, text):
    assert latency(seconds) == text


@pytest.mark.parametrize(
    ("value", "text"), [(42_812, "42,800"), (999.6, "1,000"), (22.14, "22.1"), (0.4957, "0.496"), (3, "3"), (0, "0")]
)
def test_a_number_has_no_exponent(value, text):
    assert plain(value) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.4, "0 s"), (59, "59 s"), (61, "1 min"), (3599, "1 h 00 min"), (3900, "1 h 05 min")]
)
def test_durations_are_for_people(seconds, text):
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [(1979.2, 3, "1980"), (0.0456, 2, "0.046"), (9.996, 3, "10.0"), (100, 3, "100"), (2.0, 3, "2.00"), (0, 3, "0")],
)
def test_significant(value, digits, text):
    assert significant(value, digits) == text
