"""What an operator computes: the registry of formulas, by the operator's name.

A multiply-add is 2 FLOP; any other scalar operation (an addition, a comparison, an exponential, a square root) is 1.
Integers and booleans are not counted: their arithmetic is no floating-point operation.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple


class Work(NamedTuple):
    """What one call of an operator computes.

    ``flop`` is convolutions, matrix products and attention; ``other_flop`` the rest; ``recompute_flop`` what a
    backward operator computes again because the forward one did not keep it, which is in neither of the others.
    """

    flop: int = 0
    other_flop: int = 0
    recompute_flop: int = 0


Formula = Callable[[Sequence[Any], Mapping[str, Any], Any], Work]
"""From an operator's arguments, keyword arguments and output to its work. Only shapes and types are looked at."""

NOTHING = Work()

FORMULAS: dict[str, Formula] = {}
"""Every formula by its operator's qualified name."""


def formula(*names: str) -> Callable[[Formula], Formula]:
    """Registers a formula for operators by their qualified names, without overload (``aten::add``)."""

    def register(function: Formula) -> Formula:
        for name in names:
            if name in FORMULAS:
                raise ValueError(f"two formulas for {name}")
            FORMULAS[name] = function
        return function

    return register
