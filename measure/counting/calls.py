"""Groups the operator calls of a network's passes: equal calls in modules of one kind."""

from collections import Counter
from typing import Any

from measure.cache.words import BACKWARD, FORWARD, INFERENCE
from measure.counting.layers import kind_of
from measure.counting.passes import Call, Pass
from measure.counting.recorder import Recorder


def call_rows(inference: Recorder, training: Recorder | None) -> list[dict[str, Any]]:
    """Return the counted columns of each ``Operator``, as they first run; without training, inference's alone."""
    stages = {INFERENCE: inference.forward}
    if training is not None:
        stages |= {FORWARD: training.forward, BACKWARD: training.backward}
    return [
        {"stage": stage, "layer_kind": kind, "operator": call.operator, "byte": call.byte, "calls": calls}
        | call.work._asdict()
        for stage, record in stages.items()
        for (kind, call), calls in _by_kind(record).items()
    ]


def _by_kind(record: Pass) -> Counter[tuple[str, Call]]:
    kinds = {module: kind_of(module) for module in record.parts}
    calls: Counter[tuple[str, Call]] = Counter()
    for (module, call), number in record.calls.items():
        calls[kinds[module], call] += number
    return calls
