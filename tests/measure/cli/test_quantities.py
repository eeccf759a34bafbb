import pytest

from measure.answering.quantities import percent, si


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (8.178e9, "FLOP", "8.18 GFLOP"), (178e6, "B", "178 MB"), (960, "FLOP", "960 FLOP"), (0, "FLOP", "0 FLOP"),
        (999.9e6, "B", "1.00 GB"), (25_557_032, "", "25.6 M"), (1500, "FLOP", "1.50 kFLOP"), (0.5, "B/s", "0.5 B/s"),
        (2e15, "FLOP/s", "2.00 PFLOP/s"), (5, "", "5"),
    ],
)  # fmt: skip
def test_a_quantity_has_three_digits_and_a_prefix(value, unit, text):
    assert si(value, unit) == text


@pytest.mark.parametrize(
    ("share", "text"),
    [(0.786, "79 %"), (0.0061, "0.61 %"), (1.0, "100 %"), (1.5, "150 %"), (0.996, "100 %"), (0, "0 %")],
)
def test_a_share_has_two_digits(share, text):
    assert percent(share) == text
