"""Compare the counts of two sides. Counts are exact, so no growth is noise."""

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from measure.domain.workload_records import Workload

GREW, SHRANK, SAME = "grew", "shrank", "same"


def _sum(*columns: str) -> Callable[[Workload], int | None]:
    def add(row: Workload) -> int | None:
        values = [getattr(row, name) for name in columns]
        return None if None in values else sum(values)

    return add


# The compared quantities with their units. A training step is the forward and the backward pass.
QUANTITIES: dict[str, tuple[str, Callable[[Workload], int | None]]] = {
    "parameters": ("", _sum("parameter_count")),
    "FLOP": ("FLOP", _sum("forward_flop")),
    "bytes": ("B", _sum("traffic_byte")),
    "peak memory": ("B", _sum("inference_peak_byte")),
    "FLOP of a step": ("FLOP", _sum("forward_flop", "backward_flop", "recompute_flop")),
    "bytes of a step": ("B", _sum("traffic_byte", "backward_traffic_byte")),
    "peak memory of a step": ("B", _sum("training_peak_byte")),
}


@dataclass(frozen=True)
class CountedRow:
    """One count of a model at one batch size and precision on both sides; ``b`` is None if B cannot be counted.

    ``a_shape`` and ``b_shape`` are input shapes. Counts at unequal shapes are compared too: a larger input is growth.
    """

    model: str
    batch: int
    precision: str
    autocast: str | None
    quantity: str
    a: int
    b: int | None
    a_shape: str
    b_shape: str
    reason: str | None = None

    @property
    def unit(self) -> str:
        return QUANTITIES[self.quantity][0]

    @property
    def change(self) -> str:
        """grew, shrank or same. A count missing in B counts as grown."""
        if self.b is None or self.b > self.a:
            return GREW
        return SAME if self.b == self.a else SHRANK

    def describe(self) -> str:
        return f"{self.quantity} of {self.model} batch {self.batch} {self.precision}"


def compare_counts(a: Iterable[Workload], b: Iterable[Workload]) -> list[CountedRow]:
    """Compare the workloads that both sides counted: growth first, the largest at the top.

    If the input shape changed, a workload is paired with the other side's only one of its model, batch and precision.
    """
    sides = [_by_cell(rows) for rows in (a, b)]
    found = []
    for cell in sides[0].keys() & sides[1].keys():
        one, other = (side[cell] for side in sides)
        pairs = [(one[shape], other[shape]) for shape in one.keys() & other.keys()]
        if not pairs and len(one) == len(other) == 1:
            pairs = list(zip(one.values(), other.values(), strict=True))
        found += [row for pair in pairs for row in _rows(*pair)]

    def rank(row: CountedRow) -> tuple[Any, ...]:
        growth = float("inf") if row.b is None else row.b / row.a if row.a else float(row.b > 0)
        quantities = list(QUANTITIES)
        return (GREW, SHRANK, SAME).index(row.change), -growth, row.model, row.batch, quantities.index(row.quantity)

    return sorted(found, key=rank)


def _by_cell(rows: Iterable[Workload]) -> dict[tuple[Any, ...], dict[str, Workload]]:
    found: defaultdict[tuple[Any, ...], dict[str, Workload]] = defaultdict(dict)
    for row in rows:
        found[row.model, row.batch, row.precision, row.autocast][row.input_shape] = row
    return found


def _rows(a: Workload, b: Workload) -> list[CountedRow]:
    if a.status != "ok":
        return []
    about = a.model, a.batch, a.precision, a.autocast
    found = []
    for name, (_, read) in QUANTITIES.items():
        before, after = read(a), read(b) if b.status == "ok" else None
        if before is not None:
            found.append(CountedRow(*about, name, before, after, a.input_shape, b.input_shape, b.reason))
    return found
