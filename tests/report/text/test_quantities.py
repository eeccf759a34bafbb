import pytest
from helpers.sentences import plain

from report.text import quantities
from report.text.quantities import (
    change,
    digits_to,
    exact,
    intensity,
    listing,
    number,
    percent,
    place_of,
    si,
    significant,
    throughput,
)


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (989.4e12, "FLOP/s", "989 TFLOP/s"),
        (3.35e12, "B/s", "3.35 TB/s"),
        (49.6e9, "B/s", "49.6 GB/s"),
        (0.0123, "s", "12.3 ms"),
        (4.56e-7, "s", "456 ns"),
        (2.5e-5, "s", "25.0 µs"),
        (1.0, "s", "1.00 s"),
        (999.6, "B", "1.00 kB"),  # rounds into the next prefix
        (1.835e15, "FLOP/s", "1.84 PFLOP/s"),  # half is rounded up
        (61_100_840, "", "61.1 M"),
        (0, "B", "0 B"),
    ],
)
def test_si(value, unit, text):
    assert plain(si(value, unit)) == text


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [(1979.2, 3, "1980"), (0.0456, 2, "0.046"), (9.996, 3, "10.0"), (100, 3, "100"), (2.0, 3, "2.00"), (0, 3, "0")],
)
def test_significant(value, digits, text):
    assert significant(value, digits) == text


def test_other_numbers():
    assert plain(intensity(989.4e12 / 3.35e12)) == "295 FLOP/B"
    assert plain(percent(0.4567)) == "46 %"
    assert plain(exact(4089184256, "FLOP")) == "4,089,184,256 FLOP"
    assert plain(throughput(29312.4)) == "29,300 inputs/s"
    assert plain(throughput(21.04)) == "21.0 inputs/s"


@pytest.mark.parametrize(
    ("low", "high", "place"),
    [
        (8.05, 8.20, -2),  # half is 0.075: one digit, hundredths
        (8.1, 8.16, -3),  # 0.030: two digits
        (0.9, 1.1, -2),  # 0.10: two
        (0.0, 1.92, -1),  # 0.96 counts as 1.00: two digits
        (80e9, 125e9, 9),  # 22.5e9
        (1.0, 1.0, None),
    ],
)
def test_the_place_that_an_interval_allows(low, high, place):
    assert place_of(low, high) == place


def test_digits_to_a_place():
    assert [digits_to(value, -2) for value in (12.34, 0.05, 0.004)] == [4, 1, 1]
    assert digits_to(1.0, None) == 3
    assert digits_to(1.0, -16) == 6  # equal but for the last bits


def test_words():
    assert [plain(number(count, "model")) for count in (0, 1, 24)] == ["no model", "1 model", "24 models"]
    assert plain(number(2, "family", "families")) == "2 families"
    assert [listing(words) for words in ([], ["a"], ["a", "b"], ["a", "b", "c"])] == ["", "a", "a and b", "a, b and c"]
    assert listing(["a", "b", "c", "d"], 2) == "a, b and 2 more"
    assert listing(["a", "b"], 2) == "a and b"


def test_integers_do_operations():
    assert quantities.rate_unit("int8") == "OP/s"
    assert quantities.rate_unit("fp8") == "FLOP/s"
    assert quantities.ridge_unit("int8") == "OP/B"


def test_change():
    assert plain(change(0.258, 0.2, 0.331)) == "26 % (20 to 33 %)"
    assert plain(change(0.03, -0.085, 0.16)) == "3.0 % (−8.5 to 16 %)"


def test_words_that_agree_with_a_number():
    assert [quantities.by_number(count, "has", "have") for count in (0, 1, 2)] == ["have", "has", "have"]
    assert quantities.capitalised("the FLOP") == "The FLOP"
    assert quantities.capitalised("") == ""
    assert plain(quantities.signed_percent(-0.25)) == "−25 %"
