import math
from dataclasses import replace

import pytest
from helpers.fleets import fleet
from helpers.papers import empty, many

from report.analysis import fleet as fleets
from report.analysis.available import DataMissingError, title


def test_speeds():
    # Of latencies of 1, 2 and 4 the median machine has 2: the others are twice and half as fast
    rows = fleets.speeds(fleet(2, 1, 4))
    assert rows.folder.tolist() == ["student-2", "student-1", "student-3"]
    assert rows.speed.tolist() == pytest.approx([2, 1, 0.5])
    assert rows.slowest.tolist() == pytest.approx(rows.fastest.tolist())
    assert set(rows.cells) == {23}
    assert set(rows.name) == {"Example CPU (4 cores)"}
    assert rows.peak.tolist() == pytest.approx([1e11] * 3)


def test_a_speed_is_the_geometric_mean_over_cells():
    paper = fleet(1, 1, 1)
    uneven = paper.machines[0].cells
    times = uneven.latency_s.where(uneven.model != "a", uneven.latency_s / 4)
    machines = (replace(paper.machines[0], cells=uneven.assign(latency_s=times)), *paper.machines[1:])
    row = fleets.speeds(replace(paper, machines=machines)).iloc[0]
    # a has three of the 23 cells, four times as fast
    assert row.speed == pytest.approx(4 ** (3 / 23))
    assert (row.slowest, row.fastest) == pytest.approx((1, 4))


def test_cells_measured_beside_other_work_are_counted():
    paper = fleet(1, 2, 4)
    flagged = paper.machines[0].cells.assign(flags="loaded;wide")
    rows = fleets.speeds(replace(paper, machines=(replace(paper.machines[0], cells=flagged), *paper.machines[1:])))
    assert rows.set_index("folder").loaded.to_dict() == {"student-1": 23, "student-2": 0, "student-3": 0}


def test_a_machine_without_a_roof_has_none():
    paper = fleet(1, 2, 4)
    bare = replace(paper.machines[0], roofs=paper.machines[0].roofs.iloc[:0])
    rows = fleets.speeds(replace(paper, machines=(bare, *paper.machines[1:])))
    assert math.isnan(rows.peak[0])
    assert math.isnan(rows.bandwidth[0])


def test_too_few_machines():
    with pytest.raises(
        DataMissingError, match="Fewer than 3 machines in the cache share cells; `python -m measure add-"
    ):
        fleets.speeds(fleet(1, 2))
    with pytest.raises(DataMissingError, match="No other machine in the cache shares a cell"):
        fleets.speeds(fleet(1))
    with pytest.raises(DataMissingError, match="No machine has been measured yet"):
        fleets.speeds(empty())


def test_of_a_fleet_the_machines_that_figures_show_are_listed():
    machines, left = fleets.listed(fleet(*range(1, fleets.TOLD + 1)))
    assert (len(machines), left) == (fleets.TOLD, 0)
    machines, left = fleets.listed(fleet(*range(1, fleets.TOLD + 2), others=(many().machine("gpu"),)))
    assert [machine.folder for machine in machines] == ["student-1", "example-gpu"]
    assert left == fleets.TOLD


def test_machines_that_are_called_alike_are_told_apart_by_their_folders():
    first, *_ = fleet(1, 2).machines
    assert title(first) == "Example CPU (4 cores, student-1)"
    assert title(first, apart=False) == "Example CPU (4 cores)"
    assert title(replace(many().machine("gpu"), namesake=True)) == "Example GPU (example-gpu)"
    assert title(many().machine("cpu")) == "Example CPU (4 cores)"
