from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from measure.domain.values import duration, latency, now, percent, plain, si, significant

PREFIX = {"p": -12, "n": -9, "µ": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}


@pytest.mark.parametrize(
    ("form", "texts"),
    [
        (lambda flop: si(flop, "FLOP"), {8.178e9: "8.18 GFLOP", 960: "960 FLOP", 0: "0 FLOP", 1500: "1.50 kFLOP"}),
        (lambda byte: si(byte, "B"), {999.9e6: "1.00 GB", 96: "96 B", 96.5: "96.5 B", 2e15: "2.00 PB"}),
        (lambda count: si(count, ""), {25_557_032: "25.6 M", 5: "5"}),
        (percent, {0.786: "79 %", 0.0061: "0.61 %", 1.5: "150 %", 0.996: "100 %", 0: "0 %", 0.05: "5.0 %"}),
        (latency, {1.234: "1.23 s", 0.99999: "1.00 s", 0.0456: "45.6 ms", 7.89e-4: "789 µs", 1e-8: "10.0 ns"}),
        (plain, {42_812: "42,800", 999.6: "1,000", 22.14: "22.1", 0.4957: "0.496", 3: "3", 0: "0"}),
        (duration, {0.4: "0 s", 59: "59 s", 61: "1 min", 3599: "1 h 00 min", 3900: "1 h 05 min"}),
        (significant, {1979.2: "1980", 9.996: "10.0", 100: "100", 2.0: "2.00", 0: "0"}),
    ],
)
def test_numbers_are_printed_as_people_write_them(form, texts):
    assert {value: form(value) for value in texts} == texts
    with pytest.raises(ValueError, match="inf is not a quantity"):
        significant(float("inf"))


@given(st.floats(1e-12, 1e18), st.integers(1, 5))
def test_a_printed_number_has_its_digits_and_is_the_nearest(value, digits):
    text, exact = significant(value, digits), Decimal(repr(value))
    assert abs(Decimal(text) - exact) <= Decimal(10) ** (exact.adjusted() - digits + 1) / 2
    printed = text.replace(".", "").lstrip("0")
    assert len(printed) >= digits if "." not in text else len(printed) == digits
    assert significant(float(text), digits) == text


@given(st.floats(1e-11, 9e20))
def test_a_quantity_is_between_1_and_1000_of_its_prefix(value):
    number, unit = si(value, "s").split(" ")
    assert 1 <= float(number) < 1000
    assert float(number) * 10.0 ** PREFIX[unit.removesuffix("s")] == pytest.approx(value, rel=0.0051)


def test_a_time_is_in_utc_to_the_second():
    before, text, after = datetime.now(UTC), now(), datetime.now(UTC)
    at = datetime.fromisoformat(text)
    assert (at.utcoffset(), at.microsecond, len(text)) == (timedelta(0), 0, len("2026-01-01T00:00:00+00:00"))
    assert before - timedelta(seconds=1) < at <= after
