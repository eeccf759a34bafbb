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

_FORMULAS: dict[str, Formula] = {}


def formula(*names: str) -> Callable[[Formula], Formula]:
    """Registers a formula for operators by their qualified names, without overload (``aten::add``)."""

    def register(function: Formula) -> Formula:
        for name in names:
            if name in _FORMULAS:
                raise ValueError(f"two formulas for {name}")
            _FORMULAS[name] = function
        return function

    return register


def formula_of(name: str) -> Formula | None:
    """The formula of an operator; None where there is none. An operation in place is that of its twin."""
    from measure.counting import movements, normalisations, products, recurrent, scalars, windows  # noqa: F401 - they register their formulas

    return _FORMULAS.get(name) or _FORMULAS.get(name.removesuffix("_"))
