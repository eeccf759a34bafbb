"""The command ``roofwright``, the command line that both programs share, and ``batch_axis`` for models of your own."""

from collections.abc import Callable
from typing import TypeVar

Function = TypeVar("Function", bound=Callable[..., object])


def batch_axis(axis: int | None) -> Callable[[Function], Function]:
    """Mark the dimension of a function's inputs that is the batch, unless it is the first.

    ``None``: no dimension is, as for packed tokens or the nodes of several graphs, which share one row.
    """
    if not (axis is None or isinstance(axis, int)):
        raise TypeError("batch_axis takes a dimension; write @roofwright.batch_axis(1), or (None) if none is the batch")

    def mark(function: Function) -> Function:
        function.batch_axis = axis  # type: ignore[attr-defined]
        return function

    return mark
