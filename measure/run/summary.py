"""How a run went, in the lines that it ends with."""

from collections.abc import Sequence

from measure.cli.quantities import duration
from measure.run.runner import Summary

REASONS = 3
"""So many reasons are shown of each status; the tables have all."""


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
        failed = [(task, failure) for task, failure in summary.failures if failure.status == status]
        said.append(f"  {len(failed)} {status}:")
        said += [f"    {task.label}: {failure.reason}" for task, failure in failed[:REASONS]]
        if len(failed) > REASONS:
            said.append(f"    and {len(failed) - REASONS} more")
    if summary.cells_s:
        share = summary.executing_s / summary.cells_s
        said.append(f"Of the {duration(summary.cells_s)} that cells took, {share:.0%} passed within their calls")
    if summary.left:
        said.append(resume)
    said.append(f"Next: {report}")
    return said
