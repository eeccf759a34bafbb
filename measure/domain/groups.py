"""Groups of processes: their collectives, what a data-parallel step sends, and the rounds of both."""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from measure.domain.collectives import ALL_GATHER, ALL_REDUCE, REDUCE_SCATTER, bus_factor
from measure.domain.statistics import estimate_rounds, order_statistic_ranks
from measure.domain.words import DRIFTING, TARGET, WIDE, was_disturbed

TIMED_COLLECTIVES = (ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER)
# A data-parallel step: gradients are all-reduced during the backward pass, or stay where they are
OVERLAPPED, NO_COMMUNICATION = COMMUNICATIONS = ("overlapped", "none")
OVERSUBSCRIBED = "oversubscribed"  # a flag: more processes than cores
BACKENDS = {"cpu": "gloo", "cuda": "nccl"}  # torch's, by the kind of device


class CollectiveCell(NamedTuple):
    """A collective of a group at one size of message, on any machine."""

    collective: str
    message_byte: int
    precision: str
    processes: int
    backend: str

    @classmethod
    def of(cls, row: Any) -> "CollectiveCell":
        return cls(*(getattr(row, name) for name in cls._fields))

    def describe(self) -> str:
        return f"{self.collective} {self.message_byte} B {self.precision} on {self.processes} {self.backend} processes"


class DataParallelCell(NamedTuple):
    """A data-parallel training step of a model, with or without its communication, on any machine."""

    model: str
    batch: int
    precision: str
    variant: str
    communication: str
    processes: int
    backend: str

    @classmethod
    def of(cls, row: Any) -> "DataParallelCell":
        return cls(*(getattr(row, name) for name in cls._fields))

    def describe(self) -> str:
        how = f"communication {self.communication}, {self.processes} {self.backend} processes"
        return f"{self.model} batch {self.batch} {self.precision} step {self.variant}, {how}"


def bus_byte_per_s(collective: str, processes: int, message_byte: int, latency_s: float) -> float:
    """Return the bus bandwidth as nccl-tests defines it: what the slowest link carries, whatever the number of ranks.

    Source: NVIDIA, nccl-tests, doc/PERFORMANCE.md.
    """
    return (bus_factor(collective, processes) or 0.0) * message_byte / latency_s


@dataclass(frozen=True)
class GroupTime:
    """The time (s) of a collective or a data-parallel step over its rounds.

    The interval is 95 %; None for two rounds. Without a result, ``status`` and ``reason`` are those of the first round.
    """

    status: str
    reason: str | None
    latency_s: float | None = None
    latency_low_s: float | None = None
    latency_high_s: float | None = None
    rounds: int = 0
    threads: int | None = None
    flags: tuple[str, ...] = ()

    @property
    def relative_half_width(self) -> float | None:
        if self.latency_s is None or self.latency_low_s is None or self.latency_high_s is None:
            return None
        return (self.latency_high_s - self.latency_low_s) / 2 / self.latency_s


def undisturbed(rows: Sequence[Any]) -> list[Any]:
    """Return the rounds with a result that other programs left alone; all with a result if there is none."""
    timed = [row for row in rows if row.status == "ok" and row.latency_s is not None]
    return [row for row in timed if not was_disturbed(row.flags)] or timed


def summarise_rounds(rows: Sequence[Any], target: float = TARGET) -> GroupTime:
    """Summarise the rounds of one collective or step, at least one. Rounds that others disturbed are left out."""
    timed = undisturbed(rows)
    if not timed:
        return GroupTime(rows[0].status, rows[0].reason)
    flags = dict.fromkeys(flag for row in timed for flag in (row.flags or "").split(";") if flag)
    first, count = timed[0], len(timed)
    if count == 1:  # with the interval of its own samples, if they are enough for one
        has_interval = order_statistic_ranks(first.sample_count) is not None
        low_s, high_s = (first.latency_low_s, first.latency_high_s) if has_interval else (None, None)
        return GroupTime("ok", None, first.latency_s, low_s, high_s, 1, first.threads, tuple(flags))
    medians = [row.latency_s for row in timed]
    found = estimate_rounds([[each] for each in medians])
    width = found.relative_half_width
    if width is None:  # of two rounds
        width = (max(medians) - min(medians)) / (max(medians) + min(medians))
    kept = [flag for flag in flags if flag not in (WIDE, DRIFTING)] + [WIDE] * (width > target)
    return GroupTime("ok", None, found.median, found.low, found.high, count, first.threads, tuple(kept))


def group_rows(rows: Iterable[Any], key: Callable[[Any], Hashable]) -> Mapping[Any, list[Any]]:
    """Group rows by their cell, in the order of the rounds."""
    found: defaultdict[Any, list[Any]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: row.round):
        found[key(row)].append(row)
    return found
