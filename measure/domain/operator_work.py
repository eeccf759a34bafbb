"""The time and the counted work of each operator of a profiled call, by the kind of layer that calls it."""

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from measure.domain.records import OperatorTime
from measure.domain.words import UPDATE
from measure.domain.workload_records import Layer, Operator

PRODUCT = "matrix product"
OUTSIDE, OPTIMISER = "loss", "optimiser"
"""The places of operators that no layer calls."""
# A profile names the operator that a program calls, a count the ones that it runs: a name for both.
FAMILIES = (
    (re.compile(r"linear|bilinear|einsum|inner|(b|add|addb|baddb|scaled_)?mm|matmul|(add)?mv|v?dot"), PRODUCT),
    (re.compile(r".*conv(olution|_|\d).*"), "convolution"),
    (re.compile(r".*(dot_product|flash|efficient|cudnn|multi_head)_.*attention.*"), "fused attention"),
    (re.compile(r".*((batch|layer|group|rms)_norm).*"), r"\1"),
    (re.compile(r"embedding.*"), "embedding"),
)
BACKWARD_NAME = re.compile(r"_backward(_\w+)?$")


@dataclass(frozen=True)
class OperatorWork:
    """One family of operators in one stage and kind of layer: its calls, their time, and their FLOP if counted.

    ``flop`` is the arithmetic of all kinds, products and others. ``share`` is of the operators' time in the call.
    """

    stage: str
    layer_kind: str
    operator: str
    calls: int
    time_s: float
    share: float
    flop: int | None

    @property
    def flop_per_s(self) -> float | None:
        return self.flop / self.time_s if self.flop and self.time_s else None


def family(operator: str) -> str:
    """Return the name that profiles and counts have in common: ``softmax`` of ``_softmax_backward_data``."""
    name = BACKWARD_NAME.sub("", operator.strip("_"))
    for pattern, replacement in FAMILIES:
        if found := pattern.fullmatch(name):
            return found.expand(replacement)
    return name


def operator_work(
    times: Iterable[OperatorTime], layers: Iterable[Layer], counted: Iterable[Operator]
) -> list[OperatorWork]:
    """Join the operators of one profile with the counts of their workload, and sort them by time.

    Times and counts name stages alike. The optimiser and the loss are not counted.
    """
    kinds: dict[str | None, str] = {layer.path: layer.layer_kind for layer in layers}
    flop: dict[tuple[str, str, str], int] = defaultdict(int)
    for row in counted:
        flop[row.stage, row.layer_kind, family(row.operator)] += row.calls * (row.flop + row.other_flop)
    calls: dict[tuple[str, str, str], int] = defaultdict(int)
    time_s: dict[tuple[str, str, str], float] = defaultdict(float)
    for each in times:
        place = kinds.get(each.path) or (OPTIMISER if each.stage == UPDATE else OUTSIDE)
        key = each.stage, place, family(each.operator)
        calls[key] += each.calls
        time_s[key] += each.time_s
    whole_s = sum(time_s.values()) or 1.0
    found = [OperatorWork(*key, calls[key], spent, spent / whole_s, flop.get(key)) for key, spent in time_s.items()]
    return sorted(found, key=lambda row: -row.time_s)


def product_shares(rows: Iterable[OperatorWork]) -> tuple[float, float | None]:
    """Return the share of matrix products in the time and in the counted FLOP; None if nothing is counted."""
    rows = list(rows)
    products = [row for row in rows if row.operator == PRODUCT]
    flop = sum(row.flop or 0 for row in rows)
    return sum(row.share for row in products), sum(row.flop or 0 for row in products) / flop if flop else None
