"""A user's own models that have changed since they were measured: what is said of them before and after a run."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from measure.cache.records import Run
from measure.cache.workload_records import Workload
from measure.domain.growth import SAME, compare_counts
from measure.domain.latency import Cell, TimedCell
from measure.domain.values import latency, plain, si
from measure.models.identity import differences
from measure.run.request import Request
from measure.run.task import RunCache
from measure.verbs.terminal import Line, Table, aligned


@dataclass(frozen=True)
class Earlier:
    """The changed models of a request, each with its present code; their counts and their cells here from before."""

    codes: dict[str, str | None]
    words: dict[str, str]  # what changed
    counts: Sequence[Workload]
    cells: Sequence[TimedCell]

    def announcements(self) -> list[str]:
        """Say which models are measured anew."""
        return [
            f"{name}: {words} changed since it was measured; measuring it anew" for name, words in self.words.items()
        ]

    def request_of(self, request: Request) -> Request:
        """Return the request with the counts of models whose counts changed.

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
        runs = cache.rows(cache.folder.rows(Run))
        measured = {Cell.of(run) for run in runs if (run.model, run.code) in self.codes.items()}
        present = {Cell.of(cell): cell for cell in cache.folder.cells(cache.environment)} if self.codes else {}
        for old in self.cells:
            now = present.get(Cell.of(old))
            if now and Cell.of(old) in measured:
                ratio = plain(now.latency_s / old.latency_s) if now.latency_s and old.latency_s else ""
                rows.append((f"latency of {Cell.of(old).label}", _latency(old), _latency(now), ratio))
        return table(rows, ("before", "now", "now/before")) if len(rows) > 1 else []


def read_earlier(cache: RunCache, request: Request) -> Earlier:
    """Read what the cache holds of the request's own models as they were before they changed."""
    codes = {model.name: model.code for model in request.models if model.code}
    runs = cache.rows(cache.folder.rows(Run)) if codes else []
    counts = cache.workloads.rows(Workload) if codes else []
    old_runs, old_counts = (
        [row for row in rows if row.model in codes and row.code != codes[row.model]] for rows in (runs, counts)
    )
    words = {row.model: differences(row.code, codes[row.model]) for row in (*old_counts, *old_runs)}
    stale = {Cell.of(run) for run in old_runs}
    cells = [cell for cell in cache.folder.cells(cache.environment) if Cell.of(cell) in stale] if stale else []
    return Earlier({name: codes[name] for name in words}, words, old_counts, cells)


def _latency(cell: TimedCell) -> str:
    """Return a latency with its interval, else its range; or why there is none."""
    if cell.latency_s is None:
        return cell.status
    ends = (cell.latency_low_s, cell.latency_high_s)
    if None in ends:
        ends = (cell.latency_least_s, cell.latency_most_s)
    return f"{latency(cell.latency_s)} ({' to '.join(latency(end) for end in ends if end is not None)})"
