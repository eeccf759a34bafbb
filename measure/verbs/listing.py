"""The output of a run: ``--list`` and ``--plan``, changed models of one's own, and the contents of the cache.

``docs/json.md`` documents the JSON; a key that does not apply is null.
"""

import shlex
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from operator import itemgetter
from typing import Any

from measure.domain import cautions
from measure.domain.cell import Cell
from measure.domain.groups import CollectiveCell, DataParallelCell
from measure.domain.growth import SAME, compare_counts
from measure.domain.latency import TimedCell
from measure.domain.models import Model
from measure.domain.records import CollectiveMeasurement, DataParallelStep, Environment, Profile, RoofMeasurement, Run
from measure.domain.roofs import flop_per_s
from measure.domain.values import duration, latency, plain, si
from measure.domain.words import INFERENCE, STEP, shape_name
from measure.domain.workload_records import Workload
from measure.errors import as_called
from measure.models.identity import differences
from measure.run.group_tasks import SECTION as DISTRIBUTED
from measure.run.missing import cells_above_roof
from measure.run.plan import Part
from measure.run.request import Request
from measure.run.runner import REASONS
from measure.run.storing import RunCache
from measure.run.tasks import KILLED, Task
from measure.verbs.terminal import Line, Table, aligned, interval

TASK_KEYS: dict[str, Any] = {  # the keys of every task, with the value where a key does not apply
    "model": None, "batch_sizes": [], "phase": None, "precision": None, "variant": None, "round": None,
    "autocast": None, "roof_kernel": None, "size": None, "pace": None, "processes": None,
}  # fmt: skip


def models_as_rows(models: Iterable[Model], counted: Iterable[Workload]) -> list[dict[str, Any]]:
    """Return the models, with their counts for one input, as ``--list --json`` prints them."""
    counts = {(row.model, row.input_shape): row for row in counted if row.batch == 1}
    rows = []
    for model in models:
        shape = shape_name(model.input_shape)
        named = {"model": model.name, "source": model.source, "family": model.family, "input_shape": shape}
        row = counts.get((model.name, shape))
        rows.append(named | {name: getattr(row, name, None) for name in ("parameter_count", "forward_flop", "path")})
    return rows


def models_as_lines(rows: Iterable[dict[str, Any]]) -> list[str]:
    lines = [["model", "source", "family", "input", "parameters", "FLOP", "path"]]
    for row in rows:
        *named, parameters, flop, path = row.values()
        counts = zip((parameters, flop), ("", "FLOP"), strict=True)
        lines.append([*named, *("" if count is None else si(count, unit) for count, unit in counts), path or ""])
    if not any(path for *_, path in lines[1:]):
        lines = [line[:-1] for line in lines]
    return aligned(lines, ("parameters", "FLOP"))


def plan_as_json(tasks: Iterable[Task], environment: Environment, folder: str) -> dict[str, Any]:
    machine = {name: getattr(environment, name) for name in ("name", "device", "environment_id")} | {"folder": folder}
    rows = [{"section": task.section, "label": task.label, **TASK_KEYS, **task.columns} for task in tasks]
    return {"machine": machine, "tasks": rows}


def parts_as_lines(parts: Sequence[Part], ends_s: Sequence[float], budget_s: float) -> list[str]:
    """Return the tasks part by part, with how many end within the budget by their expected ends from the start."""
    lines: list[str] = []
    began_s, ends = 0.0, iter(ends_s)
    for part in parts:
        done_s = list(islice(ends, len(part.tasks)))
        reached = sum(end_s <= budget_s for end_s in done_s)
        how_many = "all" if reached == len(part.tasks) else reached or "none"
        took = duration(done_s[-1] - began_s)
        lines.append(f"{part.title}, about {took}; {how_many} of {len(part.tasks)} within {duration(budget_s)}:")
        lines += [f"  {task.label}" for task in part.tasks]
        began_s = done_s[-1]
    return lines


def contents(request: Request, cache: RunCache, left: Sequence[Part], command: str) -> list[str]:
    runs, profiles, roofs = (cache.rows(record) for record in (Run, Profile, RoofMeasurement))

    def measured(rows: Iterable[Any]) -> list[Any]:
        return [row for row in rows if row.status == "ok"]

    wanted = {cell for phase in (INFERENCE, STEP) for _, cell in request.cells(phase)}
    rounds = Counter(cell for cell in map(Cell.of, measured(runs)) if cell in wanted)
    timed = [cell for cell in rounds if cell.phase == INFERENCE]
    batches = sorted({cell.batch for cell in timed})
    named = {
        "a roof by {} kernel{}": {row.roof_kernel for row in measured(roofs)},
        **{f"{{}} model{{}} at batch {size}": {cell.model for cell in timed if cell.batch == size} for size in batches},
        "training steps of {}": {cell.model for cell in rounds if cell.phase == STEP},
        "operators of {}": {row.model for row in measured(profiles) if Cell.of(row) in wanted},
    }
    held = [text.format(len(names), "s" * (len(names) > 1)) for text, names in named.items() if names]
    if max(rounds.values(), default=0) > 1:
        ends = dict.fromkeys((min(rounds.values()), max(rounds.values())))
        held.append(f"{' to '.join(map(str, ends))} rounds of each")
    text = f"The paper has {', '.join(held) or 'nothing of this machine yet'}."
    failed = _failed(request, wanted, cache, runs, profiles)
    lines = [text, *_groups(request, cache), *_warnings(wanted, cache), *failed]
    if not left:
        return [*lines, f"It lacks nothing{' else' if failed else ''} that these flags name."]
    lacked = ", ".join(f"{part.title} ({len(part.tasks)})" for part in left)
    return [*lines, f"It lacks {lacked}.", f"To add that: {command}"]


def _groups(request: Request, cache: RunCache) -> list[str]:
    """Say what was measured on groups of processes, and name what failed there."""
    if DISTRIBUTED not in request.sections:
        return []
    keys: dict[Any, Any] = {CollectiveMeasurement: CollectiveCell, DataParallelStep: DataParallelCell}
    rows = {record: cache.rows(record) for record in keys}
    times, steps = (len({key.of(row) for row in rows[record] if row.status == "ok"}) for record, key in keys.items())
    lines = [f"{as_called('measure show')} prints {times} times of collectives and {steps} of data-parallel steps."]
    reasons = Counter(
        f"{row.status}: {row.reason}"
        for found in rows.values()
        for row in found
        if row.status not in ("ok", "unsupported")
    )
    return lines + [f"{count} failed on a group of processes, {reason}" for reason, count in reasons.items()]


def _failed(
    request: Request, wanted: Collection[Cell], cache: RunCache, runs: Iterable[Run], profiles: Iterable[Profile]
) -> list[str]:
    """Name the failures: this version tries them again only with ``--force``."""
    untimed = set(wanted) - {Cell.of(run) for run in runs if run.status == "ok"}
    models = {model.name for model in request.models}
    found: list[tuple[str, Any]] = [
        *((f"counts of {row.model}", row) for row in cache.workloads.rows(Workload) if row.model in models),
        *((Cell.of(row).label, row) for row in runs if Cell.of(row) in untimed),
        *((f"operators of {Cell.of(row).label}", row) for row in profiles if Cell.of(row) in wanted),
    ]
    failed = {label: row.model for label, row in found if row.status not in ("ok", "unsupported", KILLED.status)}
    if not failed:
        return []
    more = f" and {len(failed) - REASONS} more" if len(failed) > REASONS else ""
    again = f"the same with --models {shlex.join(sorted(set(failed.values())))} --force tries again"
    return [f"{len(failed)} failed: {', '.join(islice(failed, REASONS))}{more}; {again}."]


def _warnings(wanted: Collection[Cell], cache: RunCache) -> list[str]:
    """Warn of flagged cells, and of each roof below a network."""
    cells = [cell for cell in cache.folder.cells(cache.environment) if cell.latency_s and Cell.of(cell) in wanted]
    above = {row: (rate, cell) for cell, rate, row in sorted(cells_above_roof(cache), key=itemgetter(1))}
    return cautions.flag_warnings([cell.flags for cell in cells]) + [
        cautions.above_roof(f"{cell.model} at batch {cell.batch}", rate, row.precision, flop_per_s(row))
        for row, (rate, cell) in above.items()
    ]


@dataclass(frozen=True)
class Earlier:
    """The changed models of a request, each with its present code; their counts and their cells here from before."""

    codes: dict[str, str | None]
    words: dict[str, str]  # the changed parts
    counts: Sequence[Workload]
    cells: Sequence[TimedCell]

    def announcements(self) -> list[str]:
        return [
            f"{name}: {words} changed since it was measured; measuring it anew" for name, words in self.words.items()
        ]

    def request_of(self, request: Request) -> Request:
        """Return the request with the counts of models that changed.

        Else the paper would hold new times against the counts of another network.
        """
        sections = dict.fromkeys(["workload", *request.sections] if self.counts else request.sections)
        return replace(request, sections=[*sections])

    def lines(self, cache: RunCache, table: Table = aligned) -> list[str]:
        """Return a table of the counts that changed, and of the latencies, where there is one before and one now."""
        rows: list[Line] = [("changed", "before", "now", "now/before")]
        counts = [row for row in cache.workloads.rows(Workload) if (row.model, row.code) in self.codes.items()]
        for row in compare_counts(self.counts, counts):
            if row.b is not None and row.change != SAME:
                ratio = plain(row.b / row.a) if row.a else ""
                rows.append((row.describe(), si(row.a, row.unit), si(row.b, row.unit), ratio))
        runs = cache.rows(Run)
        measured = {Cell.of(run) for run in runs if (run.model, run.code) in self.codes.items()}
        present = {Cell.of(cell): cell for cell in cache.folder.cells(cache.environment)} if self.codes else {}
        for old in self.cells:
            now = present.get(Cell.of(old))
            if now and Cell.of(old) in measured:
                ratio = plain(now.latency_s / old.latency_s) if now.latency_s and old.latency_s else ""
                rows.append((f"latency of {Cell.of(old).label}", _latency(old), _latency(now), ratio))
        return table(rows, ("before", "now", "now/before")) if len(rows) > 1 else []


def read_earlier(cache: RunCache, request: Request) -> Earlier:
    """Read the rows of the request's own models from before their change."""
    codes = {model.name: model.code for model in request.models if model.code}
    runs = cache.rows(Run) if codes else []
    counts = cache.workloads.rows(Workload) if codes else []
    old_runs, old_counts = (
        [row for row in rows if row.model in codes and row.code != codes[row.model]] for rows in (runs, counts)
    )
    words = {row.model: differences(row.code, codes[row.model]) for row in (*old_counts, *old_runs)}
    stale = {Cell.of(run) for run in old_runs}
    cells = [cell for cell in cache.folder.cells(cache.environment) if Cell.of(cell) in stale] if stale else []
    return Earlier({name: codes[name] for name in words}, words, old_counts, cells)


def _latency(cell: TimedCell) -> str:
    """Return a latency with its interval or range, or the status without one."""
    if cell.latency_s is None:
        return cell.status
    ends = interval(cell)
    return f"{latency(cell.latency_s)} ({ends})" if ends else latency(cell.latency_s)
