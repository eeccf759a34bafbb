"""Inference that this program recorded on its GPUs, kernel by kernel: one row per operator and shape."""

from functools import cache
from typing import NamedTuple

import pandas as pd

from measure.cache.traces import StoredTrace
from measure.domain.trace_records import TraceOperator
from measure.domain.words import INFERENCE
from report.paper import Paper
from report.paper.frames import frame

OPERATOR = ["kind", "operator", "shape", "precision"]
SUMS = ["calls", "kernels", "time_s", "flop", "byte"]


class Recording(NamedTuple):
    """A trace of a network's forward pass; ``batch`` is ``batch 64``."""

    network: str
    batch: str
    precision: str
    chip: str | None
    source: str | None
    trace: StoredTrace


@cache
def recordings(paper: Paper) -> tuple[Recording, ...]:
    """Return the traces of inference that machines of the paper measured; their networks' names hold the cell."""
    found = []
    for trace in paper.traces:
        if trace.is_measured:
            first = trace.devices[0]
            network, batch, precision, phase = str(first.network).rsplit(", ", 3)
            if phase == INFERENCE:
                found.append(Recording(network, batch, precision, first.chip, first.source, trace))
    return tuple(found)


def of_step(recording: Recording) -> pd.DataFrame:
    """Return one row per operator and shape: the sums of its calls in a step, and the ``call_byte`` of one call.

    ``time_s`` is of kernels. Operators without counts are left out.
    """
    rows = [row for row in recording.trace.operators if row.stage == INFERENCE and row.step is not None]
    steps = len({row.step for row in rows})
    counted = frame([row for row in rows if row.byte and row.time_s], TraceOperator)
    sums = counted.rename(columns={"layer_kind": "kind"}).groupby(OPERATOR, as_index=False, dropna=False)[SUMS].sum()
    sums[SUMS] = sums[SUMS].astype(float) / steps
    return sums.assign(call_byte=sums.byte / sums.calls, network=recording.network)
