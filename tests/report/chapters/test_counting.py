"""The appendix on counting: scores of the world's tables by hand, and of the committed one."""

from dataclasses import replace

import pandas as pd
import pytest
from helpers.places import ROOT
from helpers.world import cells_of, rows_of, world, wrong

from measure.cache.table import read
from measure.domain.workload_records import ProgramCount
from report.chapters.counting import figures, tables
from report.chapters.counting.facts import number_of, with_deviations
from report.charts.panels import specified
from report.facts import of_chapter
from report.paper import frame


def test_facts_by_hand():
    expected = {
        # Six models: ours right in all, in 0.5 s each. Of four others torch has all, fvcore 1, thop 2 of the 3 counted
        "ours.models": 6, "ours.equal": 6, "ours.parameters": 6, "ours.time": 3,
        "others.programs": 3, "others.best": "FlopCounterMode", "others.best_right": 4, "others.worst": "fvcore",
        "others.worst_right": 1,
        # fvcore and DeepSpeed have one small network each; the first of them is named
        "cases.networks": 2, "cases.programs": 4, "cases.ours": 2, "cases.best": "fvcore", "cases.best_right": 1,
        "cases.attention": 1,
    }  # fmt: skip
    assert wrong("counting", world(), expected) == {}


def test_a_program_in_two_modes_is_one():
    assert number_of(["torch", "ptflops-aten", "ptflops-pytorch"]) == 2
    rows = world().counting_programs
    modes = [rows[rows.program == "torch"].assign(program=f"ptflops-{mode}") for mode in ("aten", "pytorch")]
    paper = replace(world(), counting_programs=pd.concat([rows, *modes]))
    assert wrong("counting", paper, {"others.programs": 4}) == {}
    has_modes = [of_chapter("counting", each).has_modes for each in (paper, world())]
    assert has_modes == [True, False]


def test_our_counts_are_the_published_ones_of_all_80_networks():
    rows = read(ROOT / "data" / "workload" / "counting_programs.csv", ProgramCount)
    committed = replace(world(), counting_programs=frame(rows, ProgramCount))
    assert wrong("counting", committed, {"ours.models": 80, "ours.equal": 80, "ours.parameters": 80}) == {}


def test_suites():
    suites = pd.DataFrame({"suite": ["one", "two"], "cases": [10, 1370], "wrong": [0, 3], "source": "thop", "note": ""})
    paper = replace(world(), published=replace(world().published, counting_suites=suites))
    assert wrong("counting", paper, {"suites.cases": 1380, "suites.wrong": 3}) == {}


def test_a_count_is_right_within_a_hundredth_or_its_rounding():
    ours, fvcore, thop = (
        with_deviations(world().counting_programs).query(f"program == '{name}'").set_index("model")
        for name in ("roofwright", "fvcore", "thop")
    )
    # 40.48e6 rounds to the published 40e6, and is 1.2 % more
    assert ours.loc["shufflenet_v2_x0_5"].deviation == pytest.approx(0.012)
    assert ours[["right", "equal"]].all(axis=None)
    # 2.01 of 2, 1.02 of 1, 42 of 40, 6.4 of 10
    assert fvcore.deviation.tolist() == pytest.approx([0.005, 0.02, 0.05, -0.36])
    assert fvcore.right.tolist() == [True, False, False, False]
    assert not fvcore.equal.any()
    assert not thop.loc["vit_b_16", ["right", "equal"]].any()  # was not counted


def test_a_case_lists_the_other_answers_or_none():
    right = world().counting_cases.query("case == 'LSTM' and program != 'thop'")
    paper = replace(world(), counting_cases=right.assign(forward_flop=right.right_flop))
    (row,) = [line for line in tables.cases.__wrapped__(paper).splitlines() if "LSTM" in line]
    assert row == "| LSTM | 2 · 3 = 6 | – |"
    (row,) = [line for line in tables.cases.__wrapped__(world()).splitlines() if "LSTM" in line]
    assert row.endswith("| 7: thop; 8: DeepSpeed; 1,200: calflops |")


def test_tables_have_a_row_for_each_program_suite_and_cost():
    results = world().counting_programs
    found = cells_of(tables.accuracy.__wrapped__(world()))
    # 6.4 of 10 and 42 of 40; thop failed for one of four
    assert found["fvcore"] == ["1", "0", "4", "0", "−36.0 % (ViT-B/16)", "+5.00 % (ShuffleNet-v2-0.5)"]
    assert found["thop"][:4] == ["2", "1", "2", "1"]
    alone = results[(results.program == "thop") & (results.model == "vit_b_16")]
    paper = replace(world(), counting_programs=alone)
    assert cells_of(tables.accuracy.__wrapped__(paper))["thop"] == ["0", "0", "–", "1", "–", "–"]
    suites = pd.DataFrame({"suite": ["one"], "cases": [1370], "wrong": [3], "source": "thop", "note": "small"})
    paper = replace(world(), published=replace(world().published, counting_suites=suites))
    assert cells_of(tables.suites.__wrapped__(paper)) == {"one [@thop]": ["1,370", "3", "small"]}
    costs = {cost: names.split(", ") for cost, (names,) in cells_of(tables.costs.__wrapped__(world())).items()}
    assert "`add`" in costs["1"]
    assert "`sigmoid`" in costs["4"]  # exponential, sum, division, sign


def test_the_figure_has_deviations_in_per_cent_and_the_tolerance():
    chart = figures.deviations.__wrapped__(world())
    found = {row[:2]: row[2] for row in rows_of(chart, "program", "model", "off")}
    assert found["fvcore", "vit_b_16"] == pytest.approx(-36)
    assert found["thop", "shufflenet_v2_x0_5"] == pytest.approx(10)
    assert rows_of(chart, "low", "high") == [(-1, 1)]
    axis = specified(chart)["layer"][-1]["encoding"]["x"]["axis"]
    assert axis["values"] == [-10, -1, 0, 1, 10]  # within 1.6 * -36 and 1.4 * 10
