"""Check a table of published measurements, as others write it, and add its rows to the cache.

The limits on a chip's results lie between real ones and their commonest error, a wrong unit. Of the 24,976 timings with
counts in ``data/published`` none exceeds 1.41 times the datasheet's rate, and none takes over 0.28 times the longest
time allowed here. Read as milliseconds, all but two would.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from operator import attrgetter
from pathlib import Path
from typing import Any

from measure.cache import table
from measure.cache.project import read_both
from measure.domain.chips import datasheet_roof, fold_name, reachable_peak, rows_by_name
from measure.domain.roofs import Roof
from measure.domain.schema import TABLES, file_of
from measure.domain.values import latency, si
from measure.domain.words import BACKWARD, INFERENCE, STEP
from measure.errors import UserError, quote
from measure.published import kernel_limits, loose_csv, records
from measure.published.aside import KERNELS
from measure.published.records import Chip, PublishedCount, PublishedKind, PublishedTiming
from measure.published.servers import PublishedServer

RECORDS: tuple[type[Any], ...] = (
    PublishedTiming, records.PublishedBandwidth, records.PublishedProduct, *KERNELS.values(), PublishedServer
)  # fmt: skip
Rows = list[tuple[int, Any]]  # each with its line

# The greatest rate over the datasheet's: convolutions with fewer multiplications than are counted, and clocks above the
# boost clock. A processor's datasheet has its base clock.
ABOVE_ROOF, ABOVE_BASE_CLOCK = 1.5, 3.0
# The longest call: a hundred times the roof's time, and a millisecond for each operator
BELOW_ROOF, OPERATOR_S = 100, 1e-3
ROUNDING = 0.02  # the relative rounding error allowed between rate times time and the number of inputs
MOST_CONTRADICTION = 100  # rate times time over the batch: a wrong unit gives a factor of 1000
UNIT = "name the column by its unit, such as latency_ms"
BATCH = "if this is the time of one input, give the time of the batch"


def read(file: Path, data: Path) -> tuple[type[Any], Rows]:
    """Return the record and the rows of a table; devices are spelled as in the table of chips.

    Raises UserError for the first row that its columns refuse, or that its chip cannot have given.
    """
    record, rows = loose_csv.read(file, RECORDS)
    chips = read_both(Chip, data)
    spelled = {fold_name(name): name.strip() for chip in chips for name in (*chip.alias.split(";"), chip.chip)}
    limits, found = Limits(data, chips), []
    for line, row in rows:
        device = spelled.get(fold_name(row.device))
        if not device:
            unknown = f"{quote(row.device)} is neither a chip of {file_of(Chip, data)} nor an alias"
            raise UserError(f"{file}, line {line}, column device: {unknown}; add its rows there first")
        named = replace(row, device=device)
        column, problem = limits.problem(named)
        if problem:
            raise UserError(f"{file}, line {line}, column {column}: {problem}")
        found.append((line, named))
    return record, found


def put(file: Path, record: type[Any], rows: Rows, data: Path, force: bool) -> list[Any]:
    """Add the rows that the cache lacks, each once, and return them; with ``force`` also other values of its keys."""
    path, columns = file_of(record, data), TABLES[record].key
    key = attrgetter(*(columns or TABLES[record].columns))  # without a key, only a whole row repeats another
    with table.in_turn(path.parent):
        old = table.read(path, record)
        by_key, lines = {key(row): row for row in old}, dict[Any, int]()
        for line, row in rows:
            if columns and lines.setdefault(key(row), line) != line:
                raise UserError(f"{file}, line {line}: has the key of line {lines[key(row)]}; delete one of the two")
            if by_key.get(key(row), row) != row and not force:
                other = f"has other values for the same {', '.join(columns)}; add --replace to take these"
                raise UserError(f"{file}, line {line}: {TABLES[record].path} {other}")
        new = list(dict.fromkeys(row for _, row in rows if by_key.get(key(row)) != row))
        if new:
            table.write(path, record, table.merged(old, new) if columns else [*old, *new])
    return new


def contradictions(rows: Sequence[tuple[int, Any]]) -> list[str]:
    """Name the rows with a batch that is not rate times time."""
    return [
        f"line {line} ({row.model} at {row.batch}: {row.throughput_per_s:g} × {row.latency_s:g} s)"
        for line, row in rows
        if abs((inputs_in_time(row) or 1) - 1) > ROUNDING
    ]


def inputs_in_time(row: Any) -> float | None:
    """Return rate times time over the batch: 1 unless rate and time contradict each other; None without a rate."""
    rate = getattr(row, "throughput_per_s", None)
    return rate * row.latency_s / row.batch if rate else None


class Limits:
    """The roofs of the chips, and the counts of the models that others timed."""

    def __init__(self, data: Path, chips: Iterable[Chip]) -> None:
        self._chips = rows_by_name(chips := list(chips))
        self._largest_cache_byte = max((chip.cache_byte or 0 for chip in chips), default=0)
        counts = table.read(file_of(PublishedCount, data), PublishedCount)
        self._counts = {(row.model, row.input_size): row for row in counts if row.status == "ok"}
        self._calls: Counter[tuple[str, int | None, str]] = Counter()
        for row in table.read(file_of(PublishedKind, data), PublishedKind):
            self._calls[row.model, row.input_size, row.stage] += row.calls

    def problem(self, row: Any) -> tuple[str, str]:
        """Return a column and its problem, or two empty texts. A chip without a datasheet has no limits."""
        chip = self._chips.get(fold_name(row.device))
        if not chip:
            return "", ""
        roof, most = datasheet_roof(chip), ABOVE_BASE_CLOCK if chip[0].chip_kind == "cpu" else ABOVE_ROOF
        if isinstance(row, tuple(kernel_limits.LEAST)):
            return kernel_limits.problem(row, roof, self._largest_cache_byte)
        if isinstance(row, PublishedTiming):
            return "latency_s", _contradiction(row) or self._timing_problem(row, roof, most)
        if isinstance(row, records.PublishedBandwidth):
            limit = roof.byte_per_s
            if limit and row.working_set_byte is None and row.byte_per_s > most * limit:
                rates = f"{si(row.byte_per_s, 'B/s')} is more than the {si(limit, 'B/s')}"
                return "byte_per_s", f"{rates} of {row.device}'s memory"
        elif isinstance(row, records.PublishedProduct):
            peak = roof.flop_per_s.get(row.precision)
            if peak and row.flop_per_s > most * peak:
                return "flop_per_s", _above(row.flop_per_s, peak, row.device, row.precision)
        return "", ""

    def _timing_problem(self, row: PublishedTiming, roof: Roof, most: float) -> str:
        count, precision = self._counts.get((row.model, row.input_size)), row.autocast or row.precision
        peak = reachable_peak(roof, precision)
        if count is None or peak is None or count.forward_flop is None or not roof.byte_per_s:
            return ""
        trains = row.phase == STEP
        flop = row.batch * (count.forward_flop + ((trains and count.backward_flop) or 0))
        byte = row.batch * ((count.traffic_byte or 0) + ((trains and count.backward_traffic_byte) or 0))
        calls = sum(self._calls[row.model, row.input_size, stage] for stage in (INFERENCE, *[BACKWARD] * trains))
        ran = f"{quote(row.model)} at batch size {row.batch}"
        if flop / row.latency_s > most * peak:
            is_of_one = row.batch > 1 and flop / row.batch / row.latency_s <= most * peak
            remedy = f"{BATCH}, or {UNIT}" if is_of_one else UNIT
            return f"{ran}: {_above(flop / row.latency_s, peak, row.device, precision)}; {remedy}"
        longest_s = BELOW_ROOF * max(flop / peak, byte / roof.byte_per_s) + OPERATOR_S * calls
        if calls and row.latency_s > longest_s:
            return f"{ran}: {latency(row.latency_s)} is more than the {latency(longest_s)} that is plausible; {UNIT}"
        return ""


def _contradiction(row: PublishedTiming) -> str:
    share = inputs_in_time(row)
    if share is None:
        return ""
    product = f"{row.throughput_per_s:g} per s × {latency(row.latency_s)}"
    if row.batch > 1 and abs(share * row.batch - 1) < ROUNDING:
        return f"{product} is one input, not the batch of {row.batch}; give the time of the whole batch"
    if not 1 / MOST_CONTRADICTION < share < MOST_CONTRADICTION:
        return f"{product} is {share:.3g} times the batch of {row.batch}; {UNIT}"
    return ""


def _above(rate: float, peak: float, device: str, precision: str) -> str:
    return f"{si(rate, 'FLOP/s')} is more than the {si(peak, 'FLOP/s')} of {device} at {precision}"
