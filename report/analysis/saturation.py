"""The batch size from which on a larger batch buys little."""

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any

import pandas as pd

from measure.domain.words import EAGER
from report.analysis import available
from report.load.paper import BASE_PRECISION, Machine
from report.text.frame_rows import highest, matching

SHARE = 0.95
"""A model is saturated where it reaches this share of its best throughput."""

FEWEST, STEP = 3, 4
"""The batch sizes of a full sweep, and the largest factor from one to the next."""

ARITHMETIC, MEMORY, CAPACITY, OPEN = "arithmetic", "bandwidth of memory", "size of memory", "not reached"
"""The limits of a model beyond its saturation batch; ``OPEN``: that is the largest measured, and nothing failed."""

COLUMNS = ["model", "batch", "status", "throughput_per_s", "attained", "memory_bound"]


def saturations(cells: pd.DataFrame) -> pd.DataFrame:
    """One row is a model of which a full sweep of batch sizes was measured, at one precision of one machine.

    ``cells`` holds failed ones too. ``batch`` is the smallest of the measured sizes with ``SHARE`` of the best
    throughput; ``gain`` the best throughput over that at the smallest size, ``kept`` that at the largest size over the
    best. ``limit`` is the side of the ridge point on which the model is there by footprint, with ``attained``, the
    share of the attainable rate; at the largest size measured it is ``CAPACITY`` where a larger batch ran out of
    memory, else ``OPEN``. Empty where no roof was measured.
    """
    rows: list[dict[str, Any]] = []
    for model, tried in cells[COLUMNS].sort_values("batch").groupby("model"):
        measured = tried[tried.throughput_per_s.notna()]
        if len(measured) < 2 or not is_full_sweep(tried.batch.tolist()):
            continue
        first, last, best = measured.iloc[0], measured.iloc[-1], highest(measured, "throughput_per_s")
        found = measured[measured.throughput_per_s >= SHARE * best.throughput_per_s].iloc[0]
        rows.append(
            {
                "model": model,
                "batches": tuple(int(batch) for batch in measured.batch),
                "batch": int(found.batch),
                "first_per_s": first.throughput_per_s,
                "best_per_s": best.throughput_per_s,
                "gain": best.throughput_per_s / first.throughput_per_s,
                "kept": last.throughput_per_s / best.throughput_per_s,
                "attained": found.attained,
                "limit": _limit(found, int(last.batch), tried),
            }
        )
    return pd.DataFrame(rows)


def is_full_sweep(batches: Sequence[int]) -> bool:
    """Return whether the batch sizes tried, in ascending order, lie close enough to see where throughput saturates."""
    return len(batches) >= FEWEST and all(next_ <= STEP * size for size, next_ in pairwise(batches))


@lru_cache(maxsize=8)
def of_machine(machine: Machine) -> pd.DataFrame:
    """Return the saturations of a machine's cells at the base precision; at least one row.

    Each ``variant`` has its own, eager mode the first: whether a larger batch pays may hang on it.
    """
    name = available.title(machine)
    what = f"No model was measured on the {name} over a full sweep of batch sizes, so its saturation is not known"
    gap = available.missing_on(machine, what, flags="--batch-sizes 1 2 4 8 16 32 64", does="measures one")
    variants = [(EAGER, machine.cells), *machine.variants.groupby("variant")]
    found = [
        saturations(matching(cells, precision=BASE_PRECISION)).assign(variant=variant) for variant, cells in variants
    ]
    swept = [each for each in found if not each.empty]  # beside an empty frame whole numbers would become fractions
    return available.at_least_one(pd.concat(swept, ignore_index=True) if swept else found[0], gap)


def _limit(found: Any, largest: int, cells: pd.DataFrame) -> str | None:
    if found.batch < largest:
        if pd.isna(found.attained):
            return None
        return MEMORY if found.memory_bound else ARITHMETIC
    return CAPACITY if ((cells.status == "oom") & (cells.batch > largest)).any() else OPEN
