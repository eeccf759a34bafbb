"""A machine's groups of processes: collectives and data-parallel steps, a row each with its rounds joined."""

from collections.abc import Sequence
from typing import Any

import pandas as pd

from measure.domain.groups import (
    NO_COMMUNICATION,
    OVERLAPPED,
    CollectiveCell,
    DataParallelCell,
    GroupTime,
    bus_byte_per_s,
    group_rows,
    summarise_rounds,
    undisturbed,
)
from measure.domain.statistics import estimate_rounds

TIME = ["latency_s", "latency_low_s", "latency_high_s"]
STEP = [name for name in DataParallelCell._fields if name != "communication"]
COLLECTIVE_COLUMNS = [*CollectiveCell._fields, *TIME, "flags", "bus_byte_per_s"]
STEP_COLUMNS = [
    *STEP, "gradient_byte", *TIME, "flags", *(f"alone_{name}" for name in TIME), "ratio", "ratio_low", "ratio_high"
]  # fmt: skip


def collectives(rows: Sequence[Any]) -> pd.DataFrame:
    """Return each collective with its time (s) and ``bus_byte_per_s``, the bus bandwidth as nccl-tests defines it."""
    found = []
    for cell, rounds in sorted(group_rows(rows, CollectiveCell.of).items()):
        time = summarise_rounds(rounds)
        if time.latency_s is not None:
            bus = bus_byte_per_s(cell.collective, cell.processes, cell.message_byte, time.latency_s)
            found.append([*cell, *_interval(time), time.flags, bus])
    return pd.DataFrame(found, columns=COLLECTIVE_COLUMNS)


def data_parallel_steps(rows: Sequence[Any]) -> pd.DataFrame:
    """Return each step with ``gradient_byte``, its time (s) and, in ``alone_``, its time without the exchange.

    ``ratio`` is the first over the second. The same processes of a round took both, so it is taken round by round.
    """
    found = []
    by_step = group_rows(rows, lambda row: tuple(getattr(row, name) for name in STEP))
    for step, rounds in sorted(by_step.items()):
        both = [
            undisturbed([row for row in rounds if row.communication == how]) for how in (OVERLAPPED, NO_COMMUNICATION)
        ]
        exchanged, alone = ({row.round: row.latency_s for row in timed} for timed in both)
        ratios = [[exchanged[each] / alone[each]] for each in exchanged if each in alone]
        if ratios:
            ratio = estimate_rounds(ratios)
            times = [summarise_rounds(timed) for timed in both]
            ends = [*_interval(times[0]), times[0].flags, *_interval(times[1]), ratio.median, ratio.low, ratio.high]
            found.append([*step, both[0][0].gradient_byte, *ends])
    return pd.DataFrame(found, columns=STEP_COLUMNS)


def _interval(time: GroupTime) -> list[float | None]:
    return [time.latency_s, time.latency_low_s, time.latency_high_s]
