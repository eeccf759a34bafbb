"""Python's search for cyclic garbage: where tables are read it takes a quarter of the time and finds nothing."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def unsearched() -> Iterator[None]:
    """Within it nothing is searched for; what is there at its end is not searched from then on.

    The tables are tens of thousands of records without a cycle, which every search would visit.
    """
    searched = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if searched:
            gc.enable()
