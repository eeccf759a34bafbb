"""The appendix on counting: scores of the tiny table, by hand, and what its text says of the committed one."""

from dataclasses import replace
from functools import cache

import pandas as pd
import pytest
from helpers.papers import empty, tiny
from helpers.places import ROOT

from measure.cache.table import read
from report import facts
from report.chapters.counting import figures, tables
from report.display import Missing
from report.paper import counting_programs, frame
from report.paper.printed import CaseCount, ProgramCount


@cache
def committed():
    rows = read(ROOT / "data" / "workload" / "counting_programs.csv", ProgramCount)
    return replace(tiny(), counting_programs=counting_programs.derive(frame(rows, ProgramCount)))


def test_the_tiny_table():
    # Four models: ours right in all; of three others torch too, fvcore in 1, thop in 2 of the 3 that it counted
    found = facts.of_chapter("counting", tiny())
    assert (found.ours.models.number, found.ours.equal.number, found.ours.parameters.number) == (4, 4, 4)
    assert (found.ours.time.number, found.ours.memory.number) == (2, 300e6)
    assert found.others.programs.number == 3
    assert (found.others.best.text, found.others.best_right.number) == ("FlopCounterMode", 4)
    assert (found.others.worst.text, found.others.worst_right.number) == ("fvcore", 1)


def test_our_counts_are_the_published_ones_of_all_80_networks():
    ours = facts.of_chapter("counting", committed()).ours
    assert (ours.models.number, ours.equal.number, ours.parameters.number) == (80, 80, 80)


def test_without_our_own_counts_or_any():
    others = tiny().counting_programs.query("program != 'roofwright'")
    for paper in (replace(tiny(), counting_programs=others), replace(tiny(), counting_programs=others.head(0))):
        found = facts.of_chapter("counting", paper)
        assert all(value.is_missing for _, value, _ in facts.entries("counting", found))


@pytest.mark.parametrize("make", [figures.deviations, tables.accuracy, tables.effort, tables.cases])
def test_what_was_not_counted_is_a_gap_with_its_command(make):
    paper = replace(empty(), counting_programs=tiny().counting_programs.head(0))
    with pytest.raises(Missing, match="python benchmarks"):
        make.__wrapped__(paper)


def test_a_mark_for_each_count_in_per_cent():
    chart = figures.deviations.__wrapped__(tiny())
    rows = [row for rows in chart["datasets"].values() for row in rows if row.get("program") == "fvcore"]
    # 2.01 of 2, 1.02 of 1, 42 of 40, 6.4 of 10
    assert [row["off"] for row in rows] == pytest.approx([0.5, 2, 5, -36])


def test_the_table_names_the_lines_that_are_farthest_off():
    rows = {line.split(" | ")[0].strip("| "): line for line in tables.accuracy.__wrapped__(tiny()).splitlines()[2:]}
    assert rows["fvcore"].split(" | ")[1:5] == ["1", "0", "4", "0"]
    assert "−36.0\u00a0% (ViT)" in rows["fvcore"]
    assert "+5.00\u00a0% (ShuffleNet v2)" in rows["fvcore"]
    assert rows["thop"].split(" | ")[4] == "1"  # failed for one


def test_operators_of_one_operation_share_a_row():
    first, *others = tables.costs.__wrapped__(tiny()).splitlines()[2:]
    assert first.startswith("| 1 |")
    assert "`add`" in first
    assert any("`gelu`" in row and row.startswith("| 5 |") for row in others)


def with_cases():
    """Two small networks: fvcore misses attention, DeepSpeed sees it, calflops fails for one and is off otherwise."""
    by_hand = {"Fused attention": ("2 * 2 * 8  # two products", 32), "LSTM": ("2 * 3", 6)}
    printed = {
        "roofwright": (32, 6), "fvcore": (0, 6), "thop": (0, 7), "deepspeed": (32, 7.5), "calflops": (None, 1200),
    }  # fmt: skip
    rows = []
    for program, flop in printed.items():
        for (case, (arithmetic, right)), number in zip(by_hand.items(), flop, strict=True):
            status = ("error", "StopIteration") if number is None else ("ok", None)
            rows.append(CaseCount(case, program, "1.0", *status, arithmetic, right, number))
    return replace(tiny(), counting_cases=frame(rows, CaseCount))


def test_small_networks():
    found = facts.of_chapter("counting", with_cases()).cases
    assert (found.networks.number, found.programs.number, found.ours.number) == (2, 4, 2)
    # fvcore and DeepSpeed have one each; the first of them is named
    assert (found.best.text, found.best_right.number) == ("fvcore", 1)
    assert found.attention.number == 1


def test_answers_that_differ_are_listed_by_number():
    attention, lstm = tables.cases.__wrapped__(with_cases()).splitlines()[2:]
    assert "2 · 2 · 8 = 32 | 0: fvcore, thop |" in attention
    assert "2 · 3 = 6 | 7: thop; 8: DeepSpeed; 1,200: calflops |" in lstm


def test_small_networks_without_our_own_counts_or_any():
    others = with_cases().counting_cases.query("program != 'roofwright'")
    for counts in (others, others.head(0)):
        found = facts.of_chapter("counting", replace(tiny(), counting_cases=counts)).cases
        assert found.networks.is_missing
        assert found.best.is_missing


def test_suites():
    suites = pd.DataFrame(
        {"suite": ["one", "two"], "cases": [10.0, 1370.0], "wrong": [0.0, 3.0], "source": "thop", "note": ""}
    )
    paper = replace(tiny(), published=replace(tiny().published, counting_suites=suites))
    found = facts.of_chapter("counting", paper).suites
    assert (found.cases.number, found.wrong.number) == (1380, 3)
    assert "| two [@thop] | 1,370 | 3 |" in tables.suites.__wrapped__(paper)
    assert facts.of_chapter("counting", empty()).suites.cases.is_missing
