"""The second program: how it reads printed numbers, its statistics by hand, and that it shares no code."""

import ast
import json
from math import exp, log

import pandas as pd
import pytest
import recompute
from helpers.places import ROOT
from recomputing import statistics
from recomputing.statistics import Found


def fact(text, value=1.0, unit=""):
    return {"printed": text, "value": value, "unit": unit}


@pytest.mark.parametrize(
    ("printed", "unit", "value", "numbers", "half"),
    [
        ("1.85 (1.71–1.98)", "", 1.853, [1.85, 1.71, 1.98], 0.005),
        ("−0.13 (−0.34 to 0.10)", "", -0.13, [-0.13, -0.34, 0.10], 0.005),
        ("13 (11–19)\u00a0ms", "s", 0.0131, [0.013, 0.011, 0.019], 0.0005),
        ("97.5 (94.7–98.4)\u00a0%", "%", 0.975, [0.975, 0.947, 0.984], 0.0005),
        ("165\u00a0TFLOP/s", "FLOP/s", 165.2e12, [165e12], 0.5e12),
        ("150 (80–200)\u00a0FLOP/B", "FLOP/B", 153.2, [150, 80, 200], 5),  # rounded to tens
        ("3880", "", 3877.5, [3880], 5),  # three digits
        ("25,380", "", 25380, [25380], 0.5),  # a count has all its digits
    ],
)
def test_numbers_as_they_are_printed(printed, unit, value, numbers, half):
    found, of_last_digit = recompute.printed(fact(printed, value, unit))
    assert found == pytest.approx(numbers)
    assert of_last_digit == pytest.approx(half)


def test_the_ends_of_an_interval_must_agree_too():
    printed = fact("1.85 (1.71–1.98)")
    assert recompute.agrees(printed, Found(1.8499, 1.7149, 1.9751))
    assert not recompute.agrees(printed, Found(1.8449, 1.7149, 1.9751))
    assert not recompute.agrees(printed, Found(1.8499, 1.7149, 1.9899))
    assert not recompute.agrees(printed, Found(1.85))
    assert recompute.agrees(fact("1.85"), Found(1.85, 1.0, 3.0))  # no interval is printed


def test_a_median_of_six_reaches_from_end_to_end():
    # Six values all lie on one side of the median with a chance of 2 / 64 = 3 %, five with 2 / 32 = 6 %
    assert statistics.median_of([3, 1, 2, 6, 5, 4]) == Found(3.5, 1, 6)
    assert statistics.median_of([3, 1, 2, 5, 4]) == Found(3, None, None)


def test_rounds_by_student():
    # Logarithms -1, 0, 1 have the standard error 1 / sqrt(3); Student's 98 % quantile at 2 degrees is 4.8487
    found = statistics.of_rounds([[exp(-1)], [1.0], [exp(1)]])
    assert found.number == 1
    assert log(found.high) == pytest.approx(4.8487 / 3**0.5, abs=1e-4)
    assert found.low * found.high == pytest.approx(1)


def test_a_quotient_adds_widths_in_squares():
    # 10 within a factor of e^0.3, 2 within e^0.4: the quotient is 5 within e^0.5
    found = statistics.quotient(Found(10, 10 * exp(-0.3), 10 * exp(0.3)), Found(2, 2 * exp(-0.4), 2 * exp(0.4)))
    assert found == pytest.approx((5, 5 * exp(-0.5), 5 * exp(0.5)))


def test_a_slope_over_models():
    # y is exactly 2 x + 1: any resample has the same slope
    x = pd.Series([1.0, 2, 4, 5, 7, 8])
    assert statistics.slope(x, 2 * x + 1, pd.Series([*"abcdef"])) == pytest.approx((2, 2, 2))


def test_the_exit_code_says_whether_a_fact_differs(tmp_path, monkeypatch, capsys):
    file = tmp_path / "facts.json"
    file.write_text(json.dumps({"a.b": fact("2.50"), "a.c": fact("–", None)}))
    others = "machine", "training", "utilisation", "elsewhere", "tokens", "several"
    for module in (getattr(recompute, name) for name in others):
        monkeypatch.setattr(module, "facts", lambda data: {})
    for found, code in ((Found(2.504), 0), (Found(2.506), 1)):
        monkeypatch.setattr(recompute.counts, "facts", lambda data, found=found: {"a.b": found})
        assert recompute.main(["--facts", str(file)]) == code
    monkeypatch.setattr(recompute.counts, "facts", lambda data: {"a.c": Found(1.0), "a.d": Found(1.0)})
    assert recompute.main(["--facts", str(file)]) == 1
    assert "2 of 2 facts recomputed, 2 differ" in capsys.readouterr().out


def test_it_shares_no_code_with_the_paper():
    files = [ROOT / "benchmarks" / "recompute.py", *(ROOT / "benchmarks" / "recomputing").glob("*.py")]
    for file in files:
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.Import | ast.ImportFrom):
                names = [node.module or ""] if isinstance(node, ast.ImportFrom) else [each.name for each in node.names]
                assert not {name.partition(".")[0] for name in names} & {"measure", "report", "roofwright"}, file
    assert sum(len(file.read_text("utf-8").splitlines()) for file in files) < 1650
