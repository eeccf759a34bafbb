"""The registry of formulas: the FLOP of one call of an operator, by the operator's name.

A multiply-add is 2 FLOP. Any other scalar operation (an addition, a comparison, an exponential, a square root) is 1.
Operations on integers and booleans are not counted: they are not floating-point arithmetic.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple


class Work(NamedTuple):
    """The FLOP of one call. The three numbers do not overlap.

    ``flop``: convolutions, matrix products and attention. ``other_flop``: everything else. ``recompute_flop``: results
    of the forward pass that a backward operator computes again because they were not kept.
    """

    flop: int = 0
    other_flop: int = 0
    recompute_flop: int = 0


NOTHING = Work()

Args = Sequence[Any]
Kwargs = Mapping[str, Any]

Formula = Callable[[Args, Kwargs, Any], Work]
"""From an operator's arguments, keyword arguments and output to its work. It reads only shapes and types."""

OtherFlop = Callable[[Args, Any], int]
"""From the arguments and output of an operator without products to its other FLOP."""

FORMULAS: dict[str, Formula] = {}
"""Every formula by its operator's qualified name."""


def formula(*names: str) -> Callable[[Formula], Formula]:
    """Register a formula for operators by their qualified names, without overload (``aten::add``)."""

    def register(function: Formula) -> Formula:
        for name in names:
            if name in FORMULAS:
                raise ValueError(f"two formulas for {name}")
            FORMULAS[name] = function
        return function

    return register


def register_other_flop(counts: Mapping[str, OtherFlop]) -> None:
    """Register the other FLOP of torch's operators. A key holds the names that share a count, separated by spaces."""
    for names, count in counts.items():
        formula(*(f"aten::{name}" for name in names.split()))(_of_other_flop(count))


def _of_other_flop(count: OtherFlop) -> Formula:
    return lambda args, _kwargs, out: Work(0, count(args, out))
