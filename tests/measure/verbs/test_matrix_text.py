from pathlib import Path

from helpers.comparing import CELL, ENVIRONMENT

from measure.domain.comparison import Side
from measure.verbs.compare import WIDEST, Pair, _letters, lines
from measure.verbs.terminal import aligned, markdown

PAIRS = [Pair(0, 1, 2.0, 1, 0, 0), Pair(0, 2, 0.5, 0, 1, 0), Pair(1, 2, 0.25, 0, 1, 0)]


def sides(count):
    return [Side(Path(f"m{number}"), ENVIRONMENT, {}, {}) for number in range(count)]


def test_a_few_are_a_table_of_pairs():
    said = lines(sides(3), [CELL], PAIRS, aligned, "")
    assert said[1].startswith("B  Chip")
    assert said[4:8] == [
        "              A             B             C",
        "A                0.500 (0, 1)  2.000 (1, 0)",
        "B  2.000 (1, 0)                4.000 (1, 0)",
        "C  0.500 (0, 1)  0.250 (0, 1)",
    ]
    assert said[-1].endswith("geometric means over the 1 cell that all 3 have.")


def test_many_are_a_list_the_fastest_first():
    count = WIDEST + 1
    # Side n takes 2 ** n as long as the first
    found = [Pair(a, b, 2.0 ** (b - a), 1, 0, 0) for b in range(count) for a in range(b)]
    said = lines(sides(count), [CELL] * 2, found, markdown, "- ")
    rows = [line for line in said if line.startswith("| ")]
    assert rows[2:4] == ["| A | 1.000 |  |", "| B | 2.000 | (1, 0) |"]
    assert len(rows) == 2 + count
    assert "over that of the fastest" in said[-1]


def test_letters_go_on_after_z():
    assert [_letters(place) for place in (0, 25, 26, 27, 52)] == ["A", "Z", "AA", "AB", "BA"]
