"""The tiny paper without its GPU, beside times of GPUs that others published; made for arithmetic by hand.

The chip of the tables' rows, Bead 2, has a roof of 10 TFLOP/s and 1 TB/s at fp32.
"""

from dataclasses import replace
from typing import Any

import pandas as pd

from helpers.papers import tiny
from measure.cache.hand_kept import PublishedTiming
from measure.cache.schema import TABLES
from measure.cache.workload_records import PublishedCount
from report.paper import Paper, elsewhere

CONDITIONS = {
    "source": "lamikr_benchmark", "file": "a.csv", "phase": "inference", "input_size": 224, "precision": "fp32",
    "autocast": "", "layout": "contiguous", "compiler": "", "torch": "2.4", "cuda": "", "samples": 50,
    "input_copied": "yes", "tuned": "yes", "printed": "samples",
}  # fmt: skip


def timing(model: str = "lean", latency_s: float = 1e-4, **changed: Any) -> dict[str, Any]:
    """A row of the table: a model at batch size 4 on Bead 2."""
    return CONDITIONS | {"device": "Bead 2", "model": model, "batch": 4, "latency_s": latency_s} | changed


TIMINGS = (timing(), timing("broad", 0.408e-3))
"""400 MFLOP over 4 + 4 * 6 MB in 0.1 ms, and 2040 MFLOP over 100 + 4 * 2 MB in 0.408 ms: 4 and 5 TFLOP/s."""


def timed(*timings: dict[str, Any], paper: Paper | None = None) -> Paper:
    """The tiny paper, or another, with its CPU alone and these timings, or ``TIMINGS``."""
    paper = paper or tiny()
    rows = pd.DataFrame(timings or TIMINGS, columns=[*TABLES[PublishedTiming].columns])
    counts = pd.DataFrame(columns=[*TABLES[PublishedCount].columns])
    held = elsewhere.held_against(rows, counts, elsewhere.datasheet_rooflines(paper.chips))
    cpu = paper.machine("cpu")
    assert cpu is not None
    return replace(paper, machines=(cpu,), elsewhere=replace(paper.elsewhere, timings=held))
