"""Measure deep networks and keep the results as CSV; ``measure.model(network, inputs)`` answers for one in Python.

Importing this package alone imports neither torch nor pandas.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from measure.verbs.model import model

__all__ = ["model"]


def __getattr__(name: str) -> Any:
    if name != "model":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from measure.verbs.model import model

    return model
