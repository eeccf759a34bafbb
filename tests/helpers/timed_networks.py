"""A paper of networks that others timed on two GPUs, small enough to compute every number of it by hand.

The older GPU has a peak of 100 FLOP/s, the newer of 200; both move 10 B/s. Every network does 100 FLOP an input in
convolutions, and its normalisations move 40 B at fp32. Timed at a batch of 2 in half precision, it needs

    on the older:   convolution max(200 / 100, 13 / 10) = 2 s, normalisation 40 / 10 = 4 s, layer by layer 6 s
    on the newer:   convolution max(200 / 200, 13 / 10) = 1.3 s, normalisation 4 s, layer by layer 5.3 s
    as a whole:     max(2, 11 / 10) = 2 s on the older, max(1, 1.1) = 1.1 s on the newer

where the convolution moves (10 + 8 + 8) / 2 = 13 B, its parameters once, and the whole network (10 + 2 (4 + 2)) / 2 =
11 B. It takes 8 s on the older and 6.4 s on the newer, compiled 5 s and 4 s.
"""

from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd

from measure.domain.roofs import Roofline
from report.paper import Paper, load
from report.paper.elsewhere import Elsewhere, held_against
from report.stats.published import COMPILED

OLDER, NEWER = "NVIDIA Older", "NVIDIA Newer"
ROOFS = {(OLDER, "fp16"): Roofline(100, 10), (NEWER, "fp16"): Roofline(200, 10)}
SECONDS = {(OLDER, ""): 8.0, (NEWER, ""): 6.4, (OLDER, COMPILED): 5.0, (NEWER, COMPILED): 4.0}
NETWORKS = tuple(f"timm:n{number:02}" for number in range(20))


def timing(model: str, device: str = OLDER, compiler: str = "", **about: Any) -> dict[str, Any]:
    """Return a row of models.csv: a forward pass of 2 inputs, stored at fp32 and computed at fp16."""
    return {
        "source": "they", "file": "f.csv", "device": device, "phase": "inference", "model": model, "batch": 2,
        "input_size": 224.0, "precision": "fp32", "autocast": "fp16", "layout": "contiguous", "compiler": compiler,
        "torch": "2.9", "cuda": "", "latency_s": SECONDS.get((device, compiler), 1.0), "latency_min_s": None,
        "latency_max_s": None, "samples": 10, "throughput_per_s": None, "input_copied": "no", "tuned": "yes",
        "printed": "mean",
    } | about  # fmt: skip


def count(model: str, flop: int = 100) -> dict[str, Any]:
    """Return a row of counts.csv."""
    return {
        "model": model, "input_size": 224.0, "status": "ok", "reason": None, "family": "f", "input_shape": "3x224x224",
        "parameter_count": 2, "parameter_byte": 10, "input_byte": 4, "output_byte": 2, "activation_byte": 48,
        "traffic_byte": 58, "forward_flop": flop, "forward_other_flop": 0, "backward_flop": 2 * flop,
        "backward_other_flop": 0, "backward_traffic_byte": 0, "uncounted": None,
    }  # fmt: skip


def kinds(model: str, normalisation_byte: int = 40) -> Iterable[dict[str, Any]]:
    """Yield the rows of counted_kinds.csv."""
    moved = {"convolution": (100, 18, 8), "normalisation": (0, normalisation_byte, normalisation_byte)}
    for kind, (flop, byte, further) in moved.items():
        yield {
            "model": model, "input_size": 224.0, "stage": "inference", "layer_kind": kind, "calls": 1, "flop": flop,
            "other_flop": 0, "byte": byte, "further_byte": further,
        }  # fmt: skip


def paper_of(
    folder: Path, timings: list[dict[str, Any]], counts: Any = None, kind_rows: Any = None, names: Any = NETWORKS
) -> Paper:
    """Return an empty paper, but for these published tables."""
    kind_rows = kind_rows or [row for model in names for row in kinds(model)]
    held = held_against(pd.DataFrame(timings), pd.DataFrame(counts or [*map(count, names)]), ROOFS)
    found = Elsewhere(held, pd.DataFrame(kind_rows), pd.DataFrame(), pd.DataFrame())
    return replace(load(folder), elsewhere=found)


def two_gpus(folder: Path) -> Paper:
    """Return the paper of the module's docstring."""
    return paper_of(folder, [timing(model, *key) for key in SECONDS for model in NETWORKS])


@cache
def project() -> Paper:
    """Return the paper of the project's own data."""
    return load(Path("data"), everything=True)
