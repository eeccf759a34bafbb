import pytest
from helpers.papers import TRIED, tiny, with_variants
from helpers.sentences import check_whole_sentences, plain

from report.findings import variants


def test_tried():
    # Medians of 2, 1 and 0.5, and of one cell alone
    rows = [row for row in TRIED if row[2] == "fp32"] + [("broad", 1, "fp32", "cold", "ok", 0.08)]
    paper = with_variants(rows)
    (cpu,) = paper.machines
    broad_s = cpu.cells.query("model == 'broad' and batch == 1 and precision == 'fp32'").latency_s.item()
    assert broad_s == pytest.approx(0.02)
    text = variants.tried(paper)
    check_whole_sentences(text)
    assert plain(text) == (
        "On the Example CPU (4 cores), against the same cells in eager mode, cold multiplies the speed of 1 cell by "
        "0.250 (broad at fp32 and batch size 1) and kept_memory multiplies the speed of 3 cells by 1.00 in the median, "
        "from 0.500 (deep at fp32 and batch size 1) to 2.00 (lean at fp32 and batch size 1)."
    )


def test_without_variants_the_command_is_named():
    assert "--device cpu --sections workload inference --variants eager channels_last" in variants.tried(tiny())
    assert "--device cuda --sections workload inference --variants eager channels_last" in variants.tried(tiny())
