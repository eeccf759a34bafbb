"""The tiny paper with cells in other variants."""

from dataclasses import replace

import pandas as pd

from helpers.papers import tiny

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
