"""Measure deep networks and keep the results as CSV; ``measure.model(network, inputs)`` answers for one in Python.

``measure.memory(network, inputs)`` counts what its training step holds. Importing this package alone imports neither
torch nor pandas.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from measure.verbs.model import model
    from measure.verbs.step_memory import memory

__all__ = ["memory", "model"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from measure.verbs.model import model
    from measure.verbs.step_memory import memory

    return {"model": model, "memory": memory}[name]
