"""Check that a chip can have given the results that somebody publishes of it, before they are added.

The limits lie between what is published and its commonest error, a wrong unit. Of the 24,976 timings with counts in
``data/published`` none exceeds 1.41 times the datasheet's rate, and none takes over 0.28 times ``_longest_s``; read as
milliseconds, all but two would.
"""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from measure.cache import table
from measure.cache.schema import file_of
from measure.domain.chips import datasheet_roof, fold_name, rows_by_name
from measure.domain.roofs import Roof
from measure.domain.values import latency, si
from measure.domain.words import BACKWARD, INFERENCE, STEP
from measure.errors import quote
from measure.published.records import (
    Chip,
    PublishedBandwidth,
    PublishedCount,
    PublishedKind,
    PublishedProduct,
    PublishedTiming,
)

# The rates that a timing may reach at a precision: products of fp32 may run as tf32, 16 bits as either format
RATES = {"fp64": ("fp64",), "fp32": ("fp32", "tf32"), "fp16": ("fp16", "bf16")}
# The greatest rate over the datasheet's: convolutions with fewer multiplications than are counted, and clocks above the
# boost clock. A processor's datasheet has its base clock.
ABOVE_ROOF, ABOVE_BASE_CLOCK = 1.5, 3.0
# The longest call: a hundred times what the roof allows, and a millisecond for each operator
BELOW_ROOF, OPERATOR_S = 100, 1e-3
OF_ONE = 0.02  # the rounding error of rate times time if the time is of one input
MOST_CONTRADICTION = 100  # rate times time over the batch: a wrong unit gives a factor of 1000


class Limits:
    """The roofs of the chips, and the counts of the models that others timed."""

    def __init__(self, data: Path, chips: Sequence[Chip]) -> None:
        rows = rows_by_name(chips)
        self._roofs = {name: datasheet_roof(each) for name, each in rows.items()}
        self._kinds = {name: each[0].chip_kind for name, each in rows.items()}
        counts = table.read(file_of(PublishedCount, data), PublishedCount)
        self._counts = {(row.model, row.input_size): row for row in counts if row.status == "ok"}
        self._calls: Counter[tuple[str, int | None, str]] = Counter()
        for row in table.read(file_of(PublishedKind, data), PublishedKind):
            self._calls[row.model, row.input_size, row.stage] += row.calls

    def problem(self, row: Any) -> tuple[str, str]:
        """Return a column and what is wrong with it, or two empty texts."""
        name = fold_name(row.device)
        if name not in self._roofs:
            return "", ""
        roof = self._roofs[name]
        most = ABOVE_BASE_CLOCK if self._kinds[name] == "cpu" else ABOVE_ROOF
        if isinstance(row, PublishedBandwidth):
            if row.working_set_byte is None and row.byte_per_s > most * (roof.byte_per_s or row.byte_per_s):
                limit = si(float(roof.byte_per_s or 0), "B/s")
                return "byte_per_s", f"{si(row.byte_per_s, 'B/s')} is more than the {limit} of {row.device}'s memory"
        elif isinstance(row, PublishedProduct):
            peak = roof.flop_per_s.get(row.precision)
            if peak is not None and row.flop_per_s > most * peak:
                return "flop_per_s", _above(row.flop_per_s, peak, row.device, row.precision)
        else:
            return "latency_s", self._timing_problem(row, roof, most)
        return "", ""

    def _timing_problem(self, row: PublishedTiming, roof: Roof, most: float) -> str:
        if row.throughput_per_s:
            inputs = row.throughput_per_s * row.latency_s
            contradiction = inputs / row.batch
            product = f"{row.throughput_per_s:g} per s × {latency(row.latency_s)}"
            if row.batch > 1 and abs(inputs - 1) < OF_ONE:
                return f"{product} is one input, not the batch of {row.batch}; give the time of the whole batch"
            if not 1 / MOST_CONTRADICTION < contradiction < MOST_CONTRADICTION:
                return f"{product} is {contradiction:.3g} times the batch of {row.batch}; {UNIT}"
        count = self._counts.get((row.model, row.input_size))
        precision = "fp16" if row.autocast else row.precision
        peak = max((roof.flop_per_s[each] for each in RATES[precision] if each in roof.flop_per_s), default=None)
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


UNIT = "name the column by its unit, such as latency_ms"
BATCH = "if this is the time of one input, give the time of the batch"


def _above(rate: float, peak: float, device: str, precision: str) -> str:
    return f"{si(rate, 'FLOP/s')} is more than the {si(peak, 'FLOP/s')} of {device} at {precision}"
