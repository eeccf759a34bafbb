from dataclasses import replace

import pandas as pd
import pytest
from papers import tiny
from rows import run

from measure.records import Run, Sample
from report import cells, variants
from report.available import DataMissingError
from report.paper import frame

COLUMNS = ["model", "batch", "precision", "variant", "status", "latency_s"]
TRIED = [
    ("lean", 1, "fp32", "kept_memory", "ok", 0.002),
    ("lean", 8, "fp32", "kept_memory", "ok", 0.016),
    ("deep", 1, "fp32", "kept_memory", "ok", 0.2),
    ("deep", 1, "fp32", "channels_last", "oom", float("nan")),
    ("lean", 1, "bf16", "channels_last", "ok", 0.004),
    ("lean", 64, "fp32", "channels_last", "ok", 0.001),  # not measured in eager mode
]


def with_variants(rows=TRIED):
    """The tiny paper's CPU alone, on which lean takes 4 ms at batch size 1 and 16 at 8, deep 100 ms at 1."""
    cpu = tiny().machine("cpu")
    return replace(tiny(), machines=(replace(cpu, variants=pd.DataFrame(rows, columns=COLUMNS)),))


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
    runs = [
        run("lean"),
        replace(run("lean"), variant="cold"),
        replace(run("deep"), variant="cold", status="oom"),
    ]
    samples = [
        Sample("e1", "lean", 1, "fp32", "inference", variant, index, 1, latency_s, 0)
        for variant, times in (("eager", (1, 1, 1)), ("cold", (2, 3, 9)))
        for index, latency_s in enumerate(times)
    ]
    found = cells.of_variants(frame(runs, Run), frame(samples, Sample))
    assert list(zip(found.model, found.variant, found.status, strict=True)) == [
        ("deep", "cold", "oom"), ("lean", "cold", "ok"),
    ]  # fmt: skip
    assert found[found.model == "lean"].latency_s.item() == 3
    assert cells.of_variants(frame(runs[:1], Run), frame(samples[:3], Sample)).empty
