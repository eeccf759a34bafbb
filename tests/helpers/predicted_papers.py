"""Made fits and errors for arithmetic by hand.

Bead 2 and NVIDIA B2 have fits of their own, at two releases the first; all GPUs are a pool. The processor of the tiny
cache, ``example-cpu``, has one, too. A method's errors are a multiple of ours: see ``TIMES``.
"""

import tempfile
from dataclasses import replace
from functools import cache
from pathlib import Path

from helpers.papers import wide
from measure.cache import table
from measure.cache.predictions import (
    ALL_BATCHES,
    BY_DEVICE,
    BY_FAMILY,
    BY_MODEL,
    BY_SOURCE,
    LIKE_FLOP,
    LIKE_PARAMETERS,
    LIKE_REGRESSION,
    LIKE_RESNET50,
    LIKE_ROOFLINE,
    ONE_KNOWN,
    OURS,
    TERMS,
    Coefficient,
    KindCost,
    PredictionError,
    Setting,
)
from measure.cache.schema import file_of
from measure.domain.words import EAGER, INFERENCE
from report.paper import predictions
from report.paper.predictions import Sources

BEAD = Setting("Bead 2", "epoch_hw", "2.14.0", "bf16", EAGER, INFERENCE)
OLD_BEAD = BEAD._replace(software="2.9.1")
NEXT = BEAD._replace(device="NVIDIA B2")
OWN = Setting("example-cpu", "measured", "2.14.0", "fp32", EAGER, INFERENCE)
POOL = Setting("any GPU", "", "", "16 bits", "", INFERENCE)

MEDIANS = {
    (BY_MODEL, BEAD): 0.04, (BY_MODEL, OLD_BEAD): 0.01, (BY_MODEL, NEXT): 0.05, (BY_MODEL, OWN): 0.08,
    (BY_FAMILY, BEAD): 0.10, (BY_FAMILY, NEXT): 0.08, (BY_FAMILY, OWN): 0.12,
    (BY_DEVICE, BEAD): 0.20, (BY_DEVICE, NEXT): 0.30, (BY_DEVICE, POOL): 0.25,
    (ONE_KNOWN, BEAD): 0.10, (ONE_KNOWN, NEXT): 0.12, (ONE_KNOWN, POOL): 0.11, (BY_SOURCE, POOL): 0.40,
}  # fmt: skip
"""Our median errors; nine in ten are within three times as much."""

TIMES = {OURS: 1, LIKE_ROOFLINE: 3, LIKE_REGRESSION: 4, LIKE_RESNET50: 5, LIKE_FLOP: 6, LIKE_PARAMETERS: 7}
MODELS = {BEAD: 1200, OLD_BEAD: 1000, NEXT: 950, OWN: 25, POOL: 1300}
RATIOS = {(BY_DEVICE, BEAD): 1.5, (BY_DEVICE, NEXT): 0.9}
"""The latency over the prediction in the median, where it is not 1."""

KINDS = {
    BEAD: {"convolution": 1.5, "depthwise convolution": 2.0, "activation": 1.2},
    NEXT: {"convolution": 1.6, "depthwise convolution": 0.8, "activation": 1.1},
    OWN: {"convolution": 1.1, "activation": 6.0},
}


def error(left_out, method, setting, batches=ALL_BATCHES, median=None, calls=0):
    median = TIMES[method] * MEDIANS[left_out, setting] if median is None else median
    return PredictionError(
        *setting, left_out=left_out, method=method, batches=batches, models=MODELS[setting],
        calls=calls or 2 * MODELS[setting], median_error=median, p90_error=3 * median,
        coverage=(0.7 if setting == OWN else 0.9) if method == OURS else None,
        median_ratio=RATIOS.get((left_out, setting), 1.0), low_ratio=0.8, high_ratio=1.3,
    )  # fmt: skip


def errors():
    known = [error(left_out, method, setting) for left_out, setting in MEDIANS for method in TIMES]
    small = [error(BY_MODEL, OURS, BEAD, "2 to 15", 0.2, calls=7), error(BY_MODEL, OURS, NEXT, "2 to 15", 0.3, calls=9)]
    large = [error(BY_MODEL, OURS, setting, "128 and more", 0.02) for setting in (BEAD, NEXT)]
    return [*known, *small, *large]


def coefficients():
    return [
        Coefficient(*setting, term, models, 2 * models, 1.0 + place / 10, 0.9, 3.5)
        for setting, models in MODELS.items()
        for place, term in enumerate(TERMS)
    ]


def kinds():
    return [
        KindCost(*setting, kind, 20, times, 0.9 * times, 1.1 * times, 0.25)
        for setting, found in KINDS.items()
        for kind, times in found.items()
    ]


TABLES = {Coefficient: coefficients, KindCost: kinds, PredictionError: errors}


def put_predictions(data):
    """Write the tables into a data folder."""
    for record, rows in TABLES.items():
        path = file_of(record, data)
        path.parent.mkdir(parents=True, exist_ok=True)
        table.write(path, record, rows())


@cache
def predicted():
    """The wide paper with these fits."""
    with tempfile.TemporaryDirectory() as folder:
        put_predictions(Path(folder))
        sources = Sources(*[Path(folder)] * 4)
        return replace(wide(), predictions=predictions.read(sources))
