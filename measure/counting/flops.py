"""The registry of formulas: what an operator computes, by its name.

A multiply-add is 2 FLOP; any other scalar operation (an addition, a comparison, an exponential, a square root) is 1.
Integers and booleans are not counted: their arithmetic is not in floating point.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple


class Work(NamedTuple):
    """The FLOP of one call: of convolutions, matrix products and attention; of the rest; and, in neither, those that a
    backward operator computes again because the forward one did not keep the result.
    """

    flop: int = 0
    other_flop: int = 0
    recompute_flop: int = 0


Args = Sequence[Any]
Kwargs = Mapping[str, Any]

Formula = Callable[[Args, Kwargs, Any], Work]
"""From an operator's arguments, keyword arguments and output to its work. Only shapes and types are looked at."""

OtherFlop = Callable[[Args, Any], int]
"""From the arguments and output of an operator without products to its other FLOP."""

NOTHING = Work()

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
    """Register the other FLOP of torch's operators; a key holds the names that share a count, separated by spaces."""
    for names, count in counts.items():
        formula(*(f"aten::{name}" for name in names.split()))(_of_other_flop(count))


def _of_other_flop(count: OtherFlop) -> Formula:
    return lambda args, _kwargs, out: Work(0, count(args, out))
