"""How a run went, in the lines that it ends with."""

from collections.abc import Sequence

from measure.run.progress import duration
from measure.run.runner import Summary
from measure.run.task import Failure, Task

REASONS = 3
"""So many reasons are told of each status; the tables have all."""


def resumption(command: str, force: bool) -> str:
    """Say how a command that left something goes on; one that measures again by force begins anew."""
    if force:
        return f"What is left keeps the rows that it had; to measure all of it again: {command}"
    return f"To go on with what is left: {command}"


def lines(summary: Summary, places: Sequence[str], resume: str, report: str) -> list[str]:
    """Say what was done, what failed and why, what is left, where the files are, and the next command.

    ``resume`` says how to go on with what is left, ``report`` is the command that renders the paper.
    """
    said = [
        f"{summary.statuses['ok']} done, {len(summary.failures)} failed, {summary.left} left; "
        f"the files are in {' and '.join(places)}"
    ]
    for status in dict.fromkeys(failure.status for _, failure in summary.failures):
        said += _failed(status, [pair for pair in summary.failures if pair[1].status == status])
    if summary.cells_s:
        share = summary.executing_s / summary.cells_s
        said.append(f"Of the {duration(summary.cells_s)} that cells took, {share:.0%} passed within their calls")
    if summary.left:
        said.append(resume)
    said.append(f"Next: {report}")
    return said


def _failed(status: str, failures: Sequence[tuple[Task, Failure]]) -> list[str]:
    reasons = [f"    {task.label}: {failure.reason}" for task, failure in failures[:REASONS]]
    more = [f"    and {len(failures) - REASONS} more"] if len(failures) > REASONS else []
    return [f"  {len(failures)} {status}:", *reasons, *more]
