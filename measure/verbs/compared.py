"""Two compared sides and their text: counts, cells, roofs, causes, and the line to quote."""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from statistics import geometric_mean
from typing import Any

from measure.domain import comparison
from measure.domain.causes import CLOCK, ProfiledCell
from measure.domain.cell import Cell
from measure.domain.comparison import CHANGES, RUNS, ComparedRow, Side
from measure.domain.growth import GREW, SAME, SHRANK, CountedRow
from measure.domain.step_parts import Term
from measure.domain.values import latency, percent, plain, si
from measure.domain.words import LOADED
from measure.verbs.terminal import Line, Table, aligned, markdown

LETTERS = 26  # the sides of a comparison that have a letter
MARKS = {comparison.SLOWER: "+", comparison.FASTER: "-"}
MOST_NAMED = 8  # the most cells without a row in the table that are named
MOST_COUNTS = 20  # the most changed counts that are listed
HEADS = {
    table: (*key._fields, "A", "B", "B/A", "95 % interval", "change", "flags") for table, key in comparison.KEYS.items()
}
NUMBERS = ("batch", "size", "message_byte", "processes", "A", "B", "B/A", "95 % interval", "term")

CAVEATS = {  # how a cell was measured, by a flag of a side or by the basis of its interval
    LOADED: "while other programs used the processor (loaded): a difference may be theirs, and stays undecided",
    comparison.PROCESS: "in one process a side: the interval omits the difference between processes, often larger",
    comparison.OTHERS: "in one round a side: the interval takes the difference between processes from other cells",
}
ENVIRONMENT = (  # the columns of an environment that are shown if they changed
    "device", "name", "cores", "threads", "driver", "system", "python", "torch", "torchvision", "torchaudio", "tuning",
)  # fmt: skip


@dataclass(frozen=True)
class Cause:
    """Why a cell's latency differs: both sides' profiles, and the terms of the ratio."""

    row: ComparedRow
    a: ProfiledCell
    b: ProfiledCell
    terms: list[Term]

    def as_json(self) -> dict[str, Any]:
        clocks = {"a_clock_hz": self.a.clock_hz, "b_clock_hz": self.b.clock_hz}
        faults = {"a_page_faults": self.a.page_faults, "b_page_faults": self.b.page_faults}
        cell = {name: getattr(self.row.key, name) for name in Cell._fields}
        return cell | {"ratio": self.row.ratio} | clocks | faults | {"terms": [term._asdict() for term in self.terms]}


@dataclass(frozen=True)
class Compared:
    """Two sides and their differences. ``matters`` is the least change of a latency that matters, as a share."""

    a: Side
    b: Side
    rows: list[ComparedRow]
    counts: list[CountedRow] = field(default_factory=list)
    causes: list[Cause] | None = None
    matters: float = comparison.MATTERS

    @property
    def grown(self) -> list[CountedRow]:
        return [row for row in self.counts if row.change == GREW]

    @property
    def quote(self) -> str:
        timed = [row for row in self.rows if row.table == RUNS and row.ratio is not None]
        loaded = [row for row in timed if row.is_loaded]
        timed = [row for row in timed if not row.is_loaded] or timed
        parts = []
        if timed:
            ratio, low, high = comparison.mean_ratio(timed)
            times = f"{ratio:.3f}" if low is None else f"{ratio:.3f} ({low:.3f} to {high:.3f})"
            if len(timed) == 1:
                change = timed[0].change or "not tested"
                parts.append(f"{timed[0].key.describe()} takes {times} times as long in B as in A: {change}")
            else:
                found = [row.change for row in timed]
                changes = [f"{found.count(change)} {change}" for change in CHANGES if change in found]
                mean = f"{len(timed)} cells take {times} times as long in B as in A (geometric mean)"
                parts.append(f"{mean}: {', '.join(changes) or 'not tested'}")
        if loaded:
            disturbed = "measured while other programs used the processor"
            parts.append(disturbed if loaded == timed else f"left out are {len(loaded)} {disturbed}")
        if self.counts:
            workloads = {(row.model, row.batch, row.precision) for row in self.counts}
            grown = {(row.model, row.batch, row.precision) for row in self.grown}
            parts.append(f"counts grew in {len(grown)} of {len(workloads)} workloads")
        return "; ".join(parts) + "." if parts else ""

    def as_json(self) -> dict[str, Any]:
        """Return the keys of ``docs/json.md``."""
        found: dict[str, Any] = {"a": asdict(self.a.environment), "b": asdict(self.b.environment)}
        found["counts"] = [asdict(row) | {"change": row.change} for row in self.counts]
        found["comparisons"] = [row.columns() for row in self.rows]
        if self.causes is not None:
            found["causes"] = [cause.as_json() for cause in self.causes]
        return found | {"quote": self.quote}


def report(compared: Compared, *, as_markdown: bool = False) -> list[str]:
    bullet, table = ("- ", markdown) if as_markdown else ("", aligned)
    a, b, rows = compared.a, compared.b, compared.rows
    lines = []
    for name, side in (("A", a), ("B", b)):
        environment = side.environment
        where, since = _place(side), environment.recorded_at[:10]
        lines.append(f"{bullet}{name}: {environment.label}, {where}, first measured {since}")
    pairs = [(name, getattr(a.environment, name), getattr(b.environment, name)) for name in ENVIRONMENT]
    changes = [f"{name} {old or 'none'} -> {new or 'none'}" for name, old, new in pairs if old != new]
    lines.append(f"{bullet}Changed: {', '.join(changes) or 'nothing that the environment records'}")
    if compared.counts:
        listed = [row for row in compared.counts if row.change != SAME]
        if listed:
            head: Line = ("model", "batch", "precision", "counted", "A", "B", "B/A")
            lines += ["", *table([head, *map(_count_cells, listed[:MOST_COUNTS])], NUMBERS)]
        lines += ["", *(bullet + line for line in _count_summary(compared.counts, len(listed) - MOST_COUNTS))]
    for name, head in HEADS.items():
        of_table = [row for row in rows if row.table == name]
        cells = [_cells(row) for row in of_table if row.ratio is not None]
        if cells:
            lines += ["", *table([head, *cells], NUMBERS)]
        if of_table:
            lines.append("")
        lines += [re.sub(r"(?=\S)", bullet, line, count=1) for line in summary(of_table)]
    for cause in (compared.causes or ())[:MOST_NAMED]:
        lines += ["", *_cause_lines(cause, bullet, as_markdown)]
    if compared.causes and len(compared.causes) > MOST_NAMED:
        lines += ["", f"{bullet}{len(compared.causes) - MOST_NAMED} more profiled cells; --json has all"]
    return [*lines, *(["", compared.quote] if compared.quote else [])]


def overview(compared: Sequence[Compared], table: Table) -> list[str]:
    """Return many sides against the first as two tables: of the sides, and of their cells."""
    names = [chr(ord("A") + number) if number < LETTERS else f"#{number + 1}" for number in range(len(compared) + 1)]
    first = compared[0].a
    head = "side", "machine", "folder", "cells", "mean ratio to A", *CHANGES
    sides: list[Line] = [head, (names[0], first.environment.label, _place(first), *[""] * (2 + len(CHANGES)))]
    columns = []
    for name, both in zip(names[1:], compared, strict=True):
        rows = {row.key: row for row in both.rows if row.table == RUNS and row.ratio is not None}
        columns.append(rows)
        changes = [row.change for row in rows.values()]
        mean = f"{geometric_mean(row.ratio or 0.0 for row in rows.values()):.3f}" if rows else ""
        numbers = str(len(rows)), mean, *(str(changes.count(change)) for change in CHANGES)
        sides.append((name, both.b.environment.label, _place(both.b), *numbers))
    ratios = [f"{name}/A" for name in names[1:]]
    cells: list[Line] = [(*Cell._fields, "A", *ratios)]
    for cell, side in sorted(first.cells.items(), key=lambda pair: pair[0]):
        found = [rows.get(cell) for rows in columns]
        if any(found):
            marked = ["" if row is None else f"{row.ratio:.3g}{MARKS.get(row.change or '', ' ')}" for row in found]
            cells.append((*map(str, cell), latency(side.latency_s or 0.0), *marked))
    body = table(cells, (*NUMBERS, *ratios)) if len(cells) > 1 else ["No cell of A was measured on another side."]
    note = "Slower than A: +, faster: -; without a mark: within error, undecided or not tested."
    return [*table(sides, head[3:]), "", *body, "", note, "Intervals and roofs: --csv, --json, or compare two."]


def _place(side: Side) -> str:
    return f"{side.folder}@{side.environment.environment_id}"


def _count_cells(row: CountedRow) -> list[str]:
    after = row.reason or "not counted" if row.b is None else si(row.b, row.unit)
    ratio = f"{row.b / row.a:.3f}" if row.a and row.b is not None else ""
    return [row.model, str(row.batch), row.precision, row.quantity, si(row.a, row.unit), after, ratio]


def _count_summary(rows: Sequence[CountedRow], left_out: int) -> list[str]:
    """Count the changed counts, which are exact, and name the models with other inputs."""
    found = [row.change for row in rows]
    numbers = ", ".join(f"{found.count(change)} {change}" for change in (GREW, SHRANK, SAME))
    lines = [f"and {left_out} more; --json names all"] if left_out > 0 else []
    lines.append(f"{len(rows)} counts compared, exact: {numbers}")
    shapes = dict.fromkeys(
        f"{row.model}, {row.a_shape} in A, {row.b_shape} in B" for row in rows if row.a_shape != row.b_shape
    )
    return [*lines, *(f"Counted with inputs of another shape: {each}" for each in shapes)]


def term_rows(head: str, terms: Iterable[Term]) -> list[Line]:
    """Return the terms of a ratio as rows under a head. Only B has a time of the clock."""
    rows: list[Line] = [(head, "A", "B", "B/A", "term")]
    for term in terms:
        ratio = f"{term.b_s / term.a_s:.2f}" if term.a_s > 0 and term.b_s > 0 else ""
        before = "" if term.name == CLOCK else latency(term.a_s)
        rows.append((term.name, before, latency(term.b_s), ratio, f"{term.share:+.3f}"))
    return rows


def _cause_lines(cause: Cause, bullet: str, as_markdown: bool) -> list[str]:
    table = markdown if as_markdown else aligned
    lines = [f"{bullet}{cause.row.key.describe()}: B/A {cause.row.ratio:.3f} is 1 and these terms", ""]
    lines += [*table(term_rows("cause", cause.terms), NUMBERS), ""]
    clocks = cause.a.clock_hz, cause.b.clock_hz
    if None in clocks and cause.a.is_gpu == cause.b.is_gpu:
        lines.append(f"{bullet}The clock was not recorded on both sides: its part is in the other terms.")
    elif CLOCK in [term.name for term in cause.terms]:
        rates = " and ".join(si(each or 0.0, "Hz") for each in clocks)
        lines.append(f"{bullet}Clock: {rates}; its term is an upper bound, and B's other times are at A's clock.")
    if cause.a.page_faults is not None and cause.b.page_faults is not None:
        lines.append(f"{bullet}Page faults of a call: {plain(cause.a.page_faults)} and {plain(cause.b.page_faults)}.")
    return lines


def _cells(row: ComparedRow) -> list[str]:
    has_one_process = row.basis == comparison.PROCESS and row.change in (comparison.SLOWER, comparison.FASTER)
    return [
        *("" if part is None else str(part) for part in row.key),
        latency(row.a.latency_s or 0.0),
        latency(row.b.latency_s or 0.0),
        f"{row.ratio:.3f}",
        "" if row.ratio_low is None else f"{row.ratio_low:.3f} to {row.ratio_high:.3f}",
        (row.change or "not tested") + (" in one process" if has_one_process else ""),
        ", ".join(f"{name}: {side.flags}" for name, side in (("A", row.a), ("B", row.b)) if side.flags),
    ]


def summary(rows: Sequence[ComparedRow]) -> list[str]:
    """Count the changes of a table's rows, and name the rows with a result on one side only."""
    thing = comparison.THINGS[rows[0].table] if rows else ""

    def count(number: int) -> str:
        return f"{number} {thing}{'s' * (number != 1)}"

    lines = []
    compared = [row for row in rows if row.ratio is not None]
    if compared:
        mean, found = geometric_mean(row.ratio for row in compared if row.ratio), [row.change for row in compared]
        changes = ", ".join(f"{found.count(change)} {change}" for change in CHANGES)
        lines.append(f"{count(len(compared))} compared: {changes}; geometric mean of B/A {mean:.3f}")
    for caveat, how in CAVEATS.items():
        if affected := sum(caveat in f"{row.basis} {row.a.flags} {row.b.flags}" for row in compared):
            lines.append(f"{count(affected)} measured {how}")
    undecided = [row for row in compared if row.change == comparison.UNDECIDED]
    groups: dict[str, list[str]] = defaultdict(list)
    groups["undecided; the interval allows"] = [_not_excluded(row) for row in undecided]
    for row in rows:
        if row.ratio is None:
            title, details = _gap(row)
            groups[title].append(row.key.describe() + details)
    for title, names in sorted((title, names) for title, names in groups.items() if names):
        lines += [f"{count(len(names))} {title}:", *(f"  {name}" for name in names[:MOST_NAMED])]
        if len(names) > MOST_NAMED:
            lines.append(f"  and {len(names) - MOST_NAMED} more; --csv names all")
    return lines


def _not_excluded(row: ComparedRow) -> str:
    low, high = row.ratio_low or 0.0, row.ratio_high or 0.0
    ends = [f"{percent(high - 1)} slower"] if high > 1 else []
    ends += [f"{percent(1 - low)} faster"] if low < 1 else []
    return f"{row.key.describe()}: up to {' or '.join(ends)}"


def _gap(row: ComparedRow) -> tuple[str, str]:
    a, b = row.a, row.b
    if not row.has_one_input_shape:
        shapes = f": {a.input_shape} in A, {b.input_shape} in B"
        return "not compared, with inputs of another shape on each side", shapes
    if a.status is None or b.status is None:
        return f"only in {'A' if b.status is None else 'B'}", ""
    if (a.status == "ok") == (b.status == "ok"):
        return "without a result on both sides", ""
    name, side, other = ("A", a, "B") if b.status == "ok" else ("B", b, "A")
    return f"without a result in {name}, with one in {other}", f": {side.status}, {side.reason}"
