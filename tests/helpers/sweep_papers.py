"""Timings of others on real chips, made for arithmetic by hand: sweeps of batch sizes, and whatever a test adds."""

from dataclasses import replace
from functools import cache

import pandas as pd

from helpers.papers import committed_chips
from helpers.published_papers import printed
from measure.cache.hand_kept import PublishedTiming
from measure.cache.schema import TABLES
from measure.cache.workload_records import PublishedCount
from report.paper import elsewhere

T4, V100, L4 = "NVIDIA T4", "NVIDIA V100 SXM2", "NVIDIA L4"

SIZES = (1, 4, 16, 64, 256)


def timing(model="resnet50", batch=1, rate=1.0, **changed):
    """A forward pass on the T4 at fp32 as the loader has it, at so many inputs a second."""
    row = {
        "source": "nvidia_examples", "file": "made.md", "device": T4, "phase": "inference", "model": model,
        "batch": batch, "input_size": float("nan"), "precision": "fp32", "autocast": "", "layout": "", "compiler": "",
        "torch": "", "cuda": "", "latency_s": batch / rate, "input_copied": "yes", "tuned": "yes", "printed": "mean",
    }  # fmt: skip
    return row | changed


def sweep(model, rates, sizes=SIZES, **changed):
    """The rates of a model at these batch sizes."""
    return [timing(model, batch, rate, **changed) for batch, rate in zip(sizes, rates, strict=True)]


def count(model, k=1, **changed):
    """What one input of a model asks for: all of it k times as much."""
    row = {
        "model": model, "input_size": float("nan"), "status": "ok", "forward_flop": k * 1e9, "backward_flop": 2e9 * k,
        "parameter_count": k * 1e6, "parameter_byte": 4e6 * k, "input_byte": 6e5, "activation_byte": k * 1e7,
        "traffic_byte": 4e7 * k,
    }  # fmt: skip
    return row | changed


def frame(timings, counts=(), chips=None):
    """The timings as the paper has them, under the roofs of the chips."""
    return elsewhere.held_against(
        pd.DataFrame(timings, columns=[*TABLES[PublishedTiming].columns]),
        pd.DataFrame(counts, columns=[*TABLES[PublishedCount].columns]),
        elsewhere.datasheet_rooflines(committed_chips() if chips is None else chips),
    )


def with_timings(timings, counts=(), paper=None):
    """A paper, that of what studies printed if no other, with these timings."""
    paper = paper or printed()
    held = frame(timings, counts, paper.chips)
    return replace(paper, elsewhere=replace(paper.elsewhere, timings=held))


@cache
def swept():
    """What studies printed beside sweeps of two models on the T4, and of one on the V100, at two precisions.

    95 % of the best rate: on the T4 at fp32 ash has it at 16 and resnet50 at 64, on the V100 resnet50 at 64.
    """
    cast = {"autocast": "fp16"}
    return with_timings(
        [
            *sweep("timm:ash", (10, 30, 96, 99, 100)), *sweep("timm:ash", (8, 30, 100, 350, 400), **cast),
            *sweep("resnet50", (20, 60, 180, 390, 400)), *sweep("resnet50", (10, 60, 270, 700, 800), **cast),
            *sweep("resnet50", (50, 200, 500, 1000, 1040), device=V100),
        ],
        [count("resnet50")],
    )  # fmt: skip
