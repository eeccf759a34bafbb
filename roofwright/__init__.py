"""The command ``roofwright``, the command line that both programs share, and ``batch_axis`` for models of your own."""

from collections.abc import Callable
from typing import TypeVar

Function = TypeVar("Function", bound=Callable[..., object])


def batch_axis(axis: int | None) -> Callable[[Function], Function]:
    """Say which dimension of its inputs is the batch, where a model's function does not make it the first.

    ``None``: no dimension is, because what belongs to all inputs stands in one row, as tokens that are packed or the
    nodes of several graphs do.
    """
    if not (axis is None or isinstance(axis, int)):
        raise TypeError("batch_axis takes a dimension; write @roofwright.batch_axis(1), or (None) if none is the batch")

    def mark(function: Function) -> Function:
        function.batch_axis = axis  # type: ignore[attr-defined]
        return function

    return mark
