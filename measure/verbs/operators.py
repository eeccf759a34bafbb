"""The operators of one model's profiles, as ``measure model --operators`` prints them."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from measure.cache.folders import MachineFolder
from measure.domain.cell import Cell
from measure.domain.operator_work import OperatorWork, operator_work, product_shares
from measure.domain.records import KernelTime, OperatorTime, Profile
from measure.domain.values import latency, percent, plain, si
from measure.domain.words import INFERENCE
from measure.domain.workload_records import Layer, Operator
from measure.verbs.terminal import Line, Table, text

LONGEST_KERNEL = 90
NUMBERS = ("calls", "time", "share", "FLOP", "FLOP/s")


@dataclass(frozen=True)
class KernelTotal:
    """All calls of one GPU kernel in one stage; ``share`` is of the kernels' time in the call."""

    stage: str
    kernel: str
    calls: int
    time_s: float
    share: float


@dataclass(frozen=True)
class ProfiledCall:
    """A profiled call, a forward pass or a training step; ``kernels`` is empty on a processor."""

    phase: str
    status: str
    reason: str | None
    operators: list[OperatorWork]
    kernels: list[KernelTotal]


def read_profiled(
    folder: MachineFolder, profiles: Iterable[Profile], cells: Iterable[Cell], layers: Sequence[Layer],
    counted: Sequence[Operator],
) -> list[ProfiledCall]:  # fmt: skip
    """Return the profiles of these cells, with the layers and the counted operators of their workload."""
    by_cell = {Cell.of(row): row for row in profiles}
    found = []
    for profile in (by_cell[cell] for cell in cells if cell in by_cell):
        is_done = profile.status == "ok"
        times = folder.rows(OperatorTime, [profile]) if is_done else []
        kernels = kernel_totals(folder.rows(KernelTime, [profile])) if is_done else []
        rows = operator_work(times, layers, counted)
        found.append(ProfiledCall(profile.phase, profile.status, profile.reason, rows, kernels))
    return found


def kernel_totals(rows: Iterable[KernelTime]) -> list[KernelTotal]:
    """Sum the kernels of one profile over the layers and operators that launched them, and sort them by time."""
    calls: dict[tuple[str, str], int] = defaultdict(int)
    time_s: dict[tuple[str, str], float] = defaultdict(float)
    for row in rows:
        calls[row.stage, row.kernel] += row.calls
        time_s[row.stage, row.kernel] += row.time_s
    whole_s = sum(time_s.values()) or 1.0
    found = [KernelTotal(*key, calls[key], spent, spent / whole_s) for key, spent in time_s.items()]
    return sorted(found, key=lambda each: -each.time_s)


def as_json(calls: Iterable[ProfiledCall]) -> list[dict[str, Any]]:
    """Return the key ``operators`` of ``docs/json.md``."""
    return [asdict(call) for call in calls]


def operator_lines(calls: Iterable[ProfiledCall], most: int, table: Table) -> list[str]:
    """Return each call's ``most`` longest families of operators, and on a GPU its longest kernels."""
    lines = []
    for call in calls:
        name = "forward pass" if call.phase == INFERENCE else "training step"
        if call.status != "ok":
            lines += ["", f"Operators of a {name}: {call.status}, {call.reason}"]
            continue
        whole_s = sum(row.time_s for row in call.operators)
        of_time, of_flop = product_shares(call.operators)
        flop = "" if of_flop is None else f" and {percent(of_flop)} of the counted FLOP"
        lines += ["", f"Operators of a {name}, {latency(whole_s)} in all:", ""]
        rows: list[Line] = [("stage", "layers", "operator", "calls", "time", "share", "FLOP", "FLOP/s")]
        for row in call.operators[:most]:
            amounts = text(row.flop or None, partial(si, unit="FLOP")), text(row.flop_per_s, partial(si, unit="FLOP/s"))
            times = plain(row.calls), latency(row.time_s), percent(row.share)
            rows.append((row.stage, row.layer_kind, row.operator, *times, *amounts))
        lines += table(rows, NUMBERS)
        lines += [*_rest(call.operators[most:]), f"Matrix products take {percent(of_time)} of the time{flop}."]
        if call.kernels:
            kernels: list[Line] = [("stage", "kernel", "calls", "time", "share")]
            for each in call.kernels[:most]:
                times = plain(each.calls), latency(each.time_s), percent(each.share)
                kernels.append((each.stage, each.kernel[:LONGEST_KERNEL], *times))
            lines += ["", *table(kernels, NUMBERS), *_rest(call.kernels[most:])]
    return lines


def _rest(left: Sequence[OperatorWork | KernelTotal]) -> list[str]:
    if not left:
        return []
    return [f"and {len(left)} more, {percent(sum(each.share for each in left))} of the time"]
