"""How a run went, and what the paper has of it, in the lines that the run ends with."""

from collections import Counter
from collections.abc import Sequence

from measure.cache.records import Cell
from measure.cache.words import INFERENCE, STEP
from measure.cli.quantities import duration
from measure.run.plan import Part
from measure.run.runner import Summary
from measure.run.task import Cache, Request

REASONS = 3
"""So many reasons are shown of each status; the tables have all."""


def resumption(command: str, force: bool) -> str:
    """Say how a command that left something goes on; one that measures again by force begins anew."""
    if force:
        return f"What is left keeps the rows that it had; to measure all of it again: {command}"
    return f"To go on with what is left: {command}"


def lines(summary: Summary, places: Sequence[str]) -> list[str]:
    """Say what was done, what failed and why, and where the files are."""
    failed = f", {len(summary.failures)} without a result" if summary.failures else ""
    said = [f"{summary.statuses['ok']} done{failed}, {summary.left} left; the files are in {' and '.join(places)}"]
    for status in dict.fromkeys(failure.status for _, failure in summary.failures):
        failures = [(task, failure) for task, failure in summary.failures if failure.status == status]
        said.append(f"  {len(failures)} {status}:")
        said += [f"    {task.label}: {failure.reason}" for task, failure in failures[:REASONS]]
        if len(failures) > REASONS:
            said.append(f"    and {len(failures) - REASONS} more")
    return said


def share_within_calls(summary: Summary) -> str | None:
    """Say what part of the cells' time passed within their calls; None where no cell was measured."""
    if not summary.cells_s:
        return None
    share = summary.executing_s / summary.cells_s
    return f"of the {duration(summary.cells_s)} that cells took, {share:.0%} passed within their calls"


def contents(request: Request, cache: Cache, left: Sequence[Part], command: str) -> list[str]:
    """Say in three lines what the paper has of this machine, what it lacks of the request, and what adds that."""
    held = _held(request, cache)
    said = [f"The paper has {', '.join(held) if held else 'nothing of this machine yet'}."]
    if not left:
        return [*said, "It lacks nothing of what was asked for."]
    lacked: dict[str, int] = {}
    for part in left:
        lacked[part.title] = lacked.get(part.title, 0) + len(part.tasks)
    said.append(f"It lacks {', '.join(f'{title} ({count})' for title, count in lacked.items())}.")
    return [*said, f"To add that: {command}"]


def _held(request: Request, cache: Cache) -> list[str]:
    """Return what the cache holds of a request for this machine, each in a few words."""
    runs = [row for row in cache.rows(cache.folder.runs()) if row.status == "ok"]
    asked = {cell for phase in (INFERENCE, STEP) for _, cell in request.cells(phase)}
    cells = Counter(cell for cell in map(Cell.of, runs) if cell in asked)  # how many rounds each has
    held = []
    kernels = {row.roof_kernel for row in cache.rows(cache.folder.roof_measurements()) if row.status == "ok"}
    if kernels:
        held.append(f"a roof by {_counted(len(kernels), 'kernel')}")
    for batch in sorted({cell.batch for cell in cells if cell.phase == INFERENCE}):
        models = {cell.model for cell in cells if (cell.phase, cell.batch) == (INFERENCE, batch)}
        held.append(f"{_counted(len(models), 'model')} at batch {batch}")
    trained = {cell.model for cell in cells if cell.phase == STEP}
    profiles = [row for row in cache.rows(cache.folder.profiles()) if row.status == "ok"]
    profiled = {row.model for row in profiles if Cell.of(row) in asked}
    held += [f"training steps of {len(trained)}"] if trained else []
    held += [f"operators of {len(profiled)}"] if profiled else []
    if max(cells.values(), default=0) > 1:
        ends = dict.fromkeys((min(cells.values()), max(cells.values())))
        held.append(f"{' to '.join(map(str, ends))} rounds of each")
    return held


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
