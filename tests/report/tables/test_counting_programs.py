from dataclasses import replace

from helpers.papers import tiny
from helpers.sentences import cells

from report.tables import counting_programs


def by_program(table):
    return {row[0]: [text.replace("\\", "") for text in row[1:]] for row in cells(table)}


def test_accuracy():
    rows = by_program(counting_programs.accuracy(tiny()))
    assert rows["Roofwright"] == ["4", "4", "4", "0", "−0.0400 % (resnet18)", "+1.20 % (shufflenet_v2_x0_5)"]
    assert rows["FlopCounterMode"][2] == "–"
    assert rows["fvcore"] == ["1", "0", "4", "0", "−36.0 % (vit_b_16)", "+5.00 % (shufflenet_v2_x0_5)"]
    assert rows["thop"] == ["2", "1", "2", "1", "0 % (vgg11)", "+10.0 % (shufflenet_v2_x0_5)"]


def test_a_counter_that_was_not_installed():
    results = tiny().counting_programs
    absent = results[results.program == "thop"].assign(
        version=None, right=False, equal=False,
        **dict.fromkeys(["deviation", "parameter_count", "build_s", "count_s", "peak_byte"], float("nan")),
    ).assign(status="unsupported")  # fmt: skip
    paper = replace(tiny(), counting_programs=absent)
    assert by_program(counting_programs.accuracy(paper))["thop"] == ["0", "0", "–", "4", "–", "–"]
    assert by_program(counting_programs.effort(paper))["thop"] == ["–", "–", "–", "–"]


def test_effort():
    rows = by_program(counting_programs.effort(tiny()))
    assert rows["Roofwright"] == ["–", "2.00 s", "400 ms", "300 MB"]
    assert rows["thop"] == ["0.2", "6.00 s", "300 ms", "600 MB"]
