from dataclasses import replace

import pytest
from helpers.papers import tiny, with_variants
from helpers.rows import cell_columns, run

from measure.cache.records import Run, Sample
from report.analysis import variants
from report.analysis.available import DataMissingError
from report.load import cells
from report.load.paper import frame


def test_speed_ups():
    paper = with_variants()
    eager_s = paper.machines[0].cells.query("model == 'lean' and precision == 'bf16'").latency_s.item()
    rows = variants.compared(paper.machines[0])
    found = {(row.model, row.batch, row.precision, row.variant): row.speed_up for row in rows.itertuples()}
    assert found == {
        ("lean", 1, "fp32", "kept_memory"): pytest.approx(2),
        ("lean", 8, "fp32", "kept_memory"): pytest.approx(1),
        ("deep", 1, "fp32", "kept_memory"): pytest.approx(0.5),
        ("lean", 1, "bf16", "channels_last"): pytest.approx(eager_s / 0.004),
    }
    assert set(variants.compared(paper.machines[0], "fp32").variant) == {"kept_memory"}


def test_without_variants_the_command_is_named():
    with pytest.raises(
        DataMissingError,
        match=r"No cell of the Example CPU \(4 cores\) has been measured in eager mode and as a variant; python -m "
        "measure --device cpu --sections workload inference --variants eager channels_last kept_memory measures some",
    ):
        variants.compared(tiny().machine("cpu"))
    with pytest.raises(DataMissingError, match=r"variant at fp32; .*--variants eager channels_last comp"):
        variants.compared(tiny().machine("gpu"), "fp32")


def test_cells_of_variants():
    runs = [run("lean"), replace(run("lean"), variant="cold"), replace(run("deep"), variant="cold", status="oom")]
    samples = [
        Sample(**cell_columns("lean", 1, "inference", variant), sample=index, block=1, latency_s=latency_s, round=0)
        for variant, times in (("eager", (1, 1, 1)), ("cold", (2, 3, 9)))
        for index, latency_s in enumerate(times)
    ]
    found = cells.of_variants(frame(runs, Run), frame(samples, Sample))
    assert list(zip(found.model, found.variant, found.status, strict=True)) == [
        ("deep", "cold", "oom"), ("lean", "cold", "ok"),
    ]  # fmt: skip
    assert found[found.model == "lean"].latency_s.item() == 3
    assert cells.of_variants(frame(runs[:1], Run), frame(samples[:3], Sample)).empty
