from dataclasses import replace

from helpers.papers import TRIED, many, tiny, with_variants
from helpers.sentences import check_whole_sentences, plain

from report.analysis.available import Missing
from report.findings import speed_ups


def test_measured():
    text = plain(speed_ups.of_machines(many()))
    # a at batch 1: 10 ms against 1 ms, c: 40 ms against 10 ms; f at 16: 10 ms * 32 * 16 / 2.04 against 2 ** 2.5 / 5 ms
    assert "The Example GPU shares 23 cells with the Example CPU (4 cores) and runs them " in text
    assert "The ends are 4.00 times (c, batch size 1) and 2220 times (f, batch size 16)." in text
    assert "The ratio of their roofs at the models' intensities predicts 80.0 times in the median" in text
    # 4 / 80 and 2218 / 80
    assert "the ends are 0.0500 and 27.7." in text


def test_one_cell():
    cpu, gpu = many().machine("cpu"), many().machine("gpu")
    one = replace(gpu, cells=gpu.cells[(gpu.cells.model == "c") & (gpu.cells.batch == 4)])
    text = plain(speed_ups.of_machines(replace(many(), machines=(cpu, one))))
    assert "shares 1 cell with the Example CPU (4 cores) and runs it 8.00 times as fast (c, batch size 4)." in text


def test_without_a_roof():
    cpu, gpu = many().machine("cpu"), many().machine("gpu")
    bare = replace(gpu, roofs=gpu.roofs.iloc[:0])
    text = speed_ups.of_machines(replace(many(), machines=(cpu, bare)))
    assert "predicts is not known: The fp32 roof of the Example GPU has not been measured; `python -m measure" in text


def test_one_machine():
    text = speed_ups.of_machines(replace(many(), machines=(many().machine("cpu"),)))
    assert isinstance(text, Missing)
    assert "`python -m measure add-machine FILE.zip` here" in text


def test_tried():
    # lean's median of 2 and 1 is 1.5, deep has 0.5: their median is 1; and one cell alone
    rows = [row for row in TRIED if row[2] == "fp32"] + [("broad", 1, "fp32", "cold", "ok", 0.25)]
    paper = with_variants(rows)
    text = speed_ups.of_variants(paper)
    check_whole_sentences(text)
    assert plain(text) == (
        "On the Example CPU (4 cores), against the same cells in eager mode, cold multiplies the speed of 1 model by "
        "0.250 (broad at fp32 and batch size 1). Running with kept_memory multiplies the speed of 2 models by 1.00 in "
        "the median. The ends are 0.500 (deep at fp32 and batch size 1) and 2.00 (lean at fp32 and batch size 1)."
    )


def test_without_variants_the_command_is_named():
    assert "--device cpu --sections workload inference --variants eager channels_last" in speed_ups.of_variants(tiny())
    assert "--device cuda --sections workload inference --variants eager channels_last" in speed_ups.of_variants(tiny())
