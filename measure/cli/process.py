"""What holds of this process for a while: its environment variables, and that it does not search for garbage."""

import gc
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager


@contextmanager
def in_environment(values: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables, for this process and those that it starts, and put back what was there."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


ALLOCATIONS = 100_000
"""So many more objects than before let the search for cyclic garbage begin; Python's own number is 700."""


@contextmanager
def without_garbage_search() -> Iterator[None]:
    """Pause the search for cyclic garbage within, exempt what is there at the end, and search rarely from then on.

    Tables are tens of thousands of records and documents as many elements, without a cycle; visiting them would take a
    quarter of the time. Charts allocate millions of objects, of which few are in cycles: searching among them takes a
    tenth.
    """
    searched = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.set_threshold(ALLOCATIONS)
        if searched:
            gc.enable()
