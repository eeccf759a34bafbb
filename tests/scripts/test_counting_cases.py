"""The small networks of docs/counting.md: we count as by hand, and the page shows the programs' output."""

import re

import counting_cases
import pytest
import torch
from helpers.places import ROOT

from measure.cache.table import read
from measure.domain.workload_records import CaseCount
from report.chapters.counting.facts import NAMES, program_name

CASES = counting_cases.read_cases()
COMMITTED = read(ROOT / "data" / "workload" / "counting_cases.csv", CaseCount)
PAGE = counting_cases.PAGE.read_text("utf-8")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_we_count_each_network_as_by_hand(case):
    found = counting_cases.count_case("roofwright", case)
    _, _, right = case.build()
    assert (found.status, found.forward_flop) == ("ok", right)


def test_the_table_was_counted_with_the_networks_of_the_page():
    assert PAGE.count("```python\n") == len(CASES) == len({case.name for case in CASES}) >= 17
    wanted = {(case.name, case.arithmetic, case.build()[2]) for case in CASES}
    assert {(row.case, row.arithmetic, row.right_flop) for row in COMMITTED} == wanted
    assert {row.program for row in COMMITTED} == set(counting_cases.CASE_COUNTERS) <= set(NAMES)
    assert counting_cases.to_markdown(COMMITTED) in PAGE
    for program, version in {(row.program, row.version) for row in COMMITTED if row.version}:
        assert re.search(rf"{program_name(program).partition(' ')[0]} {re.escape(version)}", PAGE), program


@pytest.mark.parametrize("program", [name for name in counting_cases.CASE_COUNTERS if name != "roofwright"])
def test_an_installed_program_prints_what_the_table_says(program):
    counter = counting_cases.CASE_COUNTERS[program]
    rows = [row for row in COMMITTED if row.program == program and row.version == counter.version]
    if not counter.installed or not rows:
        pytest.skip(f"another version of {counter.package}, or none: pip install -e '.[benchmark]'")
    with torch.no_grad():
        found = [counting_cases.count_case(program, case) for case in CASES[: 1 if counter.is_once else None]]
    assert [each.forward_flop for each in found] == [row.forward_flop for row in rows][: len(found)]
