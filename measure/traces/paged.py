"""Count attention over a paged cache, whose operators record neither the requests' lengths nor their tokens.

vLLM and SGLang can annotate a step with sums over its requests. The heads are in the operator's shapes.
"""

import re
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from measure.counting.formulas import Work
from measure.traces.arguments import TYPES
from measure.traces.counts import CallCounter, CallCounts
from measure.traces.matching import Match
from measure.traces.reading import Batch, OperatorEvent, Signature, Trace, period_at

# The places of the queries (tokens, heads, width) and of the keys or their cache (..., heads, width)
OPERATORS = (
    (re.compile(r"vllm::unified_attention(_with_output)?"), (0, 1)),
    (re.compile(r"sglang_profiler::attention_paged_attention_ragged_\d+"), (2, 3)),
)
SHORTER = 1.5  # a call that is shorter than the longest by this factor attends to fewer tokens
WINDOW = "attends to a window, whose size was not recorded"

Call = tuple[int, int | None]  # the identity of the operator's event, and the replay


def paged_counts(trace: Trace, matches: Iterable[Match], counter: CallCounter) -> dict[Call, CallCounts]:
    """Return the counts of the calls of paged attention in an annotated step.

    Layers of a window read less of the cache. Their calls are shorter than equal calls of the same step, and are not
    counted. If all layers have windows, that does not show.
    """
    times: defaultdict[Call, float] = defaultdict(float)
    calls: dict[Call, tuple[OperatorEvent, CallCounts, Batch]] = {}
    for each in matches:
        if each.operator is None or each.launched is None or each.event.kind != "kernel":
            continue
        carrier, counts = counter.carrier(each.operator)
        batch = period_at(trace.batches, each.launched)
        if batch is not None and counts.work is None and _heads(carrier) is not None:
            call = id(carrier), each.replay
            times[call] += each.event.duration
            calls[call] = carrier, counts, batch
    longest: defaultdict[tuple[Any, ...], float] = defaultdict(float)
    for call, (carrier, _, batch) in calls.items():
        alike = carrier.name, repr(carrier.signature), batch
        longest[alike] = max(longest[alike], times[call])
    found = {}
    for call, (carrier, counts, batch) in calls.items():
        if times[call] * SHORTER < longest[carrier.name, repr(carrier.signature), batch]:
            found[call] = counts._replace(reason=WINDOW)
            continue
        tokens, heads, key_heads, width, size = _heads(carrier) or (0, 0, 0, 0, 0)
        # Queries and results once, keys and values of each request once; a score and its use are 2 width FLOP each
        byte = 2 * size * width * (tokens * heads + batch.tokens * key_heads)
        work = Work(flop=4 * heads * width * batch.scores)
        found[call] = counts._replace(work=work, byte=byte, reason=None)
    return found


def _heads(operator: OperatorEvent) -> tuple[int, int, int, int, int] | None:
    """Return tokens, heads of queries and of keys, their width and the bytes of an element; None if not recorded."""
    places = next((found for name, found in OPERATORS if name.fullmatch(operator.name)), None)
    if places is None:
        return None
    query, key = (_shape(operator.signature, place) for place in places)
    dtype = TYPES.get(operator.signature.types[places[1]]) if query and key else None
    if query is None or key is None or dtype is None or len(query) != 3 or query[2] != key[-1]:
        return None
    return query[0], query[1], key[-2], query[2], dtype.itemsize


def _shape(signature: Signature, place: int) -> list[int] | None:
    if place >= min(len(signature.shapes), len(signature.types)):
        return None
    shape = signature.shapes[place]
    return shape if isinstance(shape, list) and len(shape) > 2 and all(type(each) is int for each in shape) else None
