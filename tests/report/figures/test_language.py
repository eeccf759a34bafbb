from dataclasses import replace

from helpers.papers import tiny
from helpers.spoken import spoken

from report.analysis.available import Missing
from report.charts import figure_data
from report.figures import language


def test_phases():
    drawn = figure_data.specification(language.phases(spoken()))
    points = {
        (row["model"], row["batch"]): (row["phase"], row["x"], row["rate"])
        for rows in drawn["datasets"].values()
        for row in rows
        if "phase" in row
    }
    assert points["gpt2_decode_100", 4] == ("decode", 2, 8e9)
    assert len(points) == 4
    assert "bert_base_encode_128" in drawn["description"] or "gpt2" in drawn["description"]


def test_without_cells_or_a_roof_a_sentence_says_so():
    assert isinstance(language.phases(tiny()), Missing)
    cpu = spoken().machine("cpu")
    bare = replace(spoken(), machines=(replace(cpu, roofs=cpu.roofs.iloc[:0]),))
    assert "roof of the Example CPU (4 cores) has not been measured" in language.phases(bare)
