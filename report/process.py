"""Settings of the report's process: environment variables, and garbage collection."""

import gc
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager


@contextmanager
def in_environment(values: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables for this process and its children, and restore them at the end."""
    before = dict(os.environ)
    os.environ.update(values)
    try:
        yield
    finally:
        for name in values:
            del os.environ[name]
        os.environ.update(before)


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
