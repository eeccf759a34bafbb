"""What processes do in tests of where they come from, and how tests wait for their ends."""

import os
import sys
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import NamedTuple

import pytest


class Said(NamedTuple):
    """What a process says of itself: its number and its parent's, an environment variable, and what it has imported."""

    pid: int
    parent: int
    variable: str | None
    modules: frozenset[str]


def speak(connection: Connection, variable: str) -> None:
    """Be a process that says who it is and then ends as it is told: with an exit code, or by words."""
    connection.send(Said(os.getpid(), os.getppid(), os.environ.get(variable), frozenset(sys.modules)))
    ending = connection.recv()
    if isinstance(ending, int):
        os._exit(ending)
    sys.exit(ending)


def wait_until(is_so: Callable[[], bool]) -> None:
    """Wait for what must happen soon; fail the test where it has not after a minute."""
    for _ in range(600):
        if is_so():
            return
        time.sleep(0.1)
    pytest.fail("it did not happen")


def has_ended(pid: int) -> bool:
    import psutil

    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
