"""The paper: its chapters, figures, tables and sentences, all from the cached measurements."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

CALM = "calm."  # before the names of facts that leave out what was measured while other programs used a machine


@contextmanager
def without_garbage_search() -> Iterator[None]:
    """Pause garbage collection, freeze the objects that exist at the end, and collect rarely from then on.

    Tables are tens of thousands of records without a cycle, whose visits would take a quarter of the time. Charts
    allocate millions of objects with few cycles: collecting takes a tenth.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.set_threshold(100_000)  # Python's default is 700
        if was_enabled:
            gc.enable()
