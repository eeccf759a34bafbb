from math import isnan, nan

import pandas as pd
import pytest
from recomputing.printed_figures import Figure, PrintedFigures, Verdict, number, verdicts


def figure(printed, ours, interval=None, rounding=0.0, study="a", name="net: FLOP"):
    return Figure(study, name, printed, rounding, ours, interval)


def test_a_printed_number_is_rounded_by_half_the_unit_of_its_last_digit():
    assert number("119.95e6") == (119.95e6, pytest.approx(0.005e6))
    assert number("65e12") == (65e12, pytest.approx(0.5e12))
    assert isnan(number("")[0])


@pytest.mark.parametrize(
    ("what", "differs"),
    [
        (figure(1.01, 1.0), False),
        (figure(1.02, 1.0), True),
        (figure(1.02, 1.0, rounding=0.05), False),
        (figure(1.5, 1.0, interval=(0.9, 1.6)), False),
        (figure(1.5, 1.0, interval=(0.9, 1.1)), True),
        (figure(1.5, 1.0, interval=(nan, nan)), False),
    ],
)
def test_a_figure_differs_beyond_its_rounding_the_tolerance_and_our_interval(what, differs):
    assert what.differs == differs


def test_verdicts_are_read_from_the_papers_tables():
    row = "<tr><td>net’s: FLOP</td><td>1</td><td>2</td><td>0.5</td><td>differs because it is <b>half</b></td></tr>"
    other = "<tr><td>a</td><td>b</td><td>c</td><td>d</td><td>no verdict</td></tr>"
    assert verdicts(row + other) == [Verdict("net's: FLOP", "differs", "differs because it is half")]


def test_an_error_in_many_rows_is_one_cause():
    found = PrintedFigures(None, [])
    half, other = (
        Verdict("", "differs", "differs because it is half"),
        Verdict("", "differs", "for no reason known here"),
    )
    found.__dict__["judged"] = [
        (figure(1, 2), half), (figure(1, 4), half), (figure(5, 1), other), (figure(5, 2), other),
        (figure(3, 1, study="b"), half), (figure(7, nan), Verdict("", "differs", "is the peak")),
        (figure(1, 1), Verdict("", "agrees", "agrees exactly")),
    ]  # fmt: skip
    assert [len(rows) for rows in found.causes] == [2, 2, 1, 1]
    # Medians of 2 and 4, of 5 and 2.5, of 3; there is no factor where we have nothing
    assert (found.effect.factor, found.effect.count) == (3, 3)
    assert found.wanted(0.95)["wrong"] == 6
    assert found.wanted(0.95)["count"] == "7 printed figures"
    assert found.wanted(0.95)["most"] == 5


def test_other_figures_in_the_paper_than_in_the_table_are_refused():
    class Empty:
        programs = pd.DataFrame(columns=["program", "model", "forward_mac"])

        def published(self, table):
            return pd.DataFrame()

    with pytest.raises(ValueError, match="not those of the CSV"):
        PrintedFigures(Empty(), [Verdict("net: FLOP", "agrees", "agrees exactly")]).judged  # noqa: B018
