import re

import pytest

from measure.domain.cautions import FLAGS, Caution, above_roof, flag_warnings, in_use, loaded_roof

# Three clauses, none of which starts a sentence of its own
CLAUSE = r"([a-z](?:(?!\. ).)*[a-z0-9)])"
LINE = re.compile(rf"Warning: {CLAUSE}\. Likely cause: {CLAUSE}\. Try: {CLAUSE}\.")


def clauses(line):
    found = LINE.fullmatch(line)
    assert found, line
    return found.groups()


def test_a_warning_names_its_subject():
    caution = Caution("it is slow", "heat", "a fan")
    assert caution.line() == "Warning: it is slow. Likely cause: heat. Try: a fan."
    assert caution.line("net at batch 1") == "Warning: net at batch 1: it is slow. Likely cause: heat. Try: a fan."


def test_cells_are_counted_by_their_flags():
    assert flag_warnings([]) == flag_warnings([set()]) == []
    found = flag_warnings([{"loaded"}, ("wide", "loaded"), set(), ["capped"]])
    # In the order of the table of flags; one that no cell has is left out
    assert [line.split(": ")[1] for line in found] == [
        "1 of 4 cells (wide)", "2 of 4 cells (loaded)", "1 of 4 cells (capped)",
    ]  # fmt: skip
    assert [line.partition("): ")[2] for line in found] == [
        FLAGS[flag].line().removeprefix("Warning: ") for flag in ("wide", "loaded", "capped")
    ]


@pytest.mark.parametrize(
    ("warn", "about", "place", "words"),
    [
        (in_use, ("two processes compute", "wait for them"), 1, "two processes compute"),
        (in_use, ("two processes compute", "wait for them"), 2, "wait for them"),
        (loaded_roof, (0.256,), 1, "26 %"),
        (above_roof, ("net", 2e12, "fp32", 1.5e12), 0, "net runs at 2.00 TFLOP/s"),
        (above_roof, ("net", 2e12, "fp32", 1.5e12), 0, "fp32 roof of 1.50 TFLOP/s"),
    ],
)
def test_a_warning_says_what_was_seen_its_cause_and_a_remedy(warn, about, place, words):
    assert words in clauses(warn(*about))[place]
