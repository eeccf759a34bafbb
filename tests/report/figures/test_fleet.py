from helpers.fleets import fleet

from report.analysis.available import Missing
from report.charts import figure_data
from report.figures import fleet as figures


def test_machines():
    chart = figures.machines(fleet(2, 1, 4, peaks=(1, 2)))
    drawn = figure_data.specification(chart)
    assert "from 2 (student-2)" in drawn["description"].replace("2.00", "2")
    rows = [row for data in drawn["datasets"].values() for row in data]
    assert {row["machine"]: row["speed"] for row in rows if "speed" in row and "machine" in row} == {
        "student-1": 1, "student-2": 2, "student-3": 0.5
    }  # fmt: skip
    # Peaks of 100, 200 and 100 GFLOP/s: the second is twice the median
    assert {row["machine"]: row["ratio"] for row in rows if row.get("roof") == "peak"} == {
        "student-1": 1, "student-2": 2, "student-3": 1
    }  # fmt: skip


def test_of_sixty_as_many_are_drawn_as_have_room():
    chart = figures.machines(fleet(*[1 + k / 100 for k in range(60)]))
    told = str(chart.to_dict(validate=False)).replace("\\xa0", " ")
    assert f"Shown are {figures.MACHINES} of 60 machines" in told


def test_two_machines():
    assert isinstance(figures.machines(fleet(1, 2)), Missing)
