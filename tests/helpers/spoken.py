"""A paper with language models on its CPU and, at one batch size, on its GPU."""

from dataclasses import replace
from functools import cache

import pandas as pd

from helpers.papers import tiny
from report.paper import Paper

CELLS = {
    # network_phase_length, batch, precision: FLOP, footprint byte, latency (s)
    ("gpt2_prefill_100", 1, "fp32"): (20e9, 1e9, 0.4),
    ("gpt2_decode_100", 1, "fp32"): (0.5e9, 1e9, 0.2),
    ("gpt2_decode_100", 4, "fp32"): (2e9, 1e9, 0.25),
    ("bert_base_encode_128", 1, "fp32"): (25e9, 0.5e9, 0.5),
}
"""On the CPU, whose roof is 100 GFLOP/s and 10 GB/s."""


@cache
def spoken() -> Paper:
    cpu, gpu = tiny().machine("cpu"), tiny().machine("gpu")
    (first, *_) = cpu.cells[(cpu.cells.status == "ok") & (cpu.cells.precision == "fp32")].to_dict("records")
    rows = []
    for (model, batch, precision), (flop, byte, latency) in CELLS.items():
        attainable = min(100e9, 10e9 * flop / byte)
        rows.append(
            first
            | {
                "model": model,
                "family": "language",
                "batch": batch,
                "precision": precision,
                "forward_flop": flop,
                "latency_s": latency,
                "latency_low_s": 0.9 * latency,
                "latency_high_s": 1.1 * latency,
                "footprint_intensity": flop / byte,
                "flop_per_s": flop / latency,
                "attained": flop / latency / attainable,
                "parameter_count": 1e8,
                "parameter_byte": 4e8,
                "flags": "",
            }
        )
    paper: Paper = replace(tiny(), machines=(replace(cpu, cells=pd.DataFrame(rows)), gpu))
    return paper
