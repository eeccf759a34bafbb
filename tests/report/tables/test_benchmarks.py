from dataclasses import replace

import pypandoc
import pytest
from helpers.papers import many, tiny
from helpers.sentences import cells

from report.analysis.available import Missing
from report.tables import benchmarks

TABLES = (benchmarks.ranking, benchmarks.saturations, benchmarks.speed_ups)


def without(kind):
    return replace(many(), machines=tuple(each for each in many().machines if each.chip_kind != kind))


def test_ranking():
    rows = cells(benchmarks.ranking(many()))
    assert len(rows) == 2 * 4 * 5  # two devices, all cells and three batch sizes, five predictors
    assert [row[1] for row in rows[:20:5]] == ["all", "1", "4", "16"]
    one = {row[2]: row[3:] for row in rows if row[:2] == ["CPU", "1"]}
    # On the CPU at batch size 1 latency is 10 ms a GFLOP.
    assert one["FLOP"] == ["1.00 (1.00 to 1.00)", "1.00 (1.00 to 1.00)", "1.00 (1.00 to 1.00)", "1.00", "8"]
    # Ranks 8 1 7 2 6 3 5 4 against 1 to 8: squares' sum 100, 16 of 28 pairs in opposite order.
    assert one["parameters"][0].startswith("−0.19 (")
    assert one["parameters"][0].endswith(") \\*")
    assert one["parameters"][1].startswith("−0.14 (")
    assert [row[2] for row in rows if row[:2] == ["CPU", "1"]][-1] == "parameters"


def test_ranking_without_an_interval():
    rows = cells(benchmarks.ranking(tiny()))
    # lean, broad, deep and tokens at batch size 1 take 4, 20, 100 and some ms: too few models for an interval
    assert {row[0] for row in rows} == {"all", "1", "8"}  # of one device, which has no column
    assert rows[0][2].endswith(" \\*")
    assert "to" not in rows[0][2]


def test_saturations():
    rows = {(row[0], row[2]): row[3:] for row in cells(benchmarks.saturations(many()))}
    assert len(rows) == 16
    # b: 50 images/s, twice that at 4, 2.04 times at 16; at 4 twice the CPU's peak, which it has at 1
    assert rows["CPU", "b"] == [
        "3", "50.0 inputs/s", "102 inputs/s", "2.04", "4", "100 %", "arithmetic", "200 %",
    ]  # fmt: skip
    assert rows["CPU", "a"][5:7] == ["50 %", "arithmetic"]
    assert rows["CPU", "g"][0] == "2"
    assert rows["CPU", "g"][6] == "size of memory"
    assert rows["GPU", "b"][4:7] == ["16", "100 %", "not reached"]


def test_without_a_roof_it_is_not_known_what_limits_a_saturated_model():
    bare = [replace(each, cells=each.cells.assign(attained=float("nan"))) for each in many().machines]
    table = benchmarks.saturations(replace(many(), machines=tuple(bare)))
    rows = {(row[0], row[2]): row[3:] for row in cells(table)}
    assert rows["CPU", "b"][4:] == ["4", "100 %", "–", "–"]
    assert rows["GPU", "b"][6:] == ["not reached", "–"]


def test_one_machine_measured_at_one_batch_size_leaves_the_others():
    cpu, gpu = many().machine("cpu"), many().machine("gpu")
    one = replace(gpu, cells=gpu.cells[gpu.cells.batch == 1])
    assert len(cells(benchmarks.saturations(replace(many(), machines=(cpu, one))))) == 8
    text = benchmarks.saturations(replace(many(), machines=(one,)))
    assert isinstance(text, Missing)
    assert "Example GPU over a full sweep of batch sizes" in text


def test_speed_ups():
    rows = cells(benchmarks.speed_ups(many()))
    assert len(rows) == 23
    assert rows[0] == ["Example GPU", "a", "1", "10.0 ms", "1.00 ms", "10.0", "80.0"]
    cpu, gpu = many().machine("cpu"), many().machine("gpu")
    bare = replace(gpu, cells=gpu.cells.assign(attainable_flop_per_s=float("nan")))
    assert cells(benchmarks.speed_ups(replace(many(), machines=(cpu, bare))))[0][-1] == "–"


@pytest.mark.parametrize("table", TABLES)
def test_pandoc_reads_each_table_as_one(table):
    text = table(many())
    html = pypandoc.convert_text(text, "html", format="markdown")
    assert html.count("<table") == 1
    assert html.count("<tr") == len(text.splitlines()) - 1
    assert "|" not in html


def test_what_is_missing_is_said():
    assert benchmarks.speed_ups(without("gpu")).startswith("No other machine in the cache shares a cell with")
    few = tiny().machine("gpu")
    text = benchmarks.ranking(replace(tiny(), machines=(few,)))
    assert isinstance(text, Missing)
    assert "takes 3 models" in text


def test_latencies():
    table = cells(benchmarks.latencies(tiny()))
    rows = {(row[1], row[2]): row[3:] for row in table if row[0] == "CPU"}
    assert [row[1] for row in table if row[0] == "GPU"] == ["deep", "lean"]
    # half of 1.2 ms has one digit, 0.6 ms
    assert rows["lean", "1"] == ["4.0 ms", "3.8 to 5.0 ms", "1", "6", "250 inputs/s", "25 %"]
    assert rows["broad", "1"][:4] == ["20.0 ms", "–", "1", "3"]
    assert rows["tokens", "8"] == ["–", "oom: needs 9 GB \\| 8 GB are free", "–", "–", "–", "–"]
    assert len(rows) == 8
