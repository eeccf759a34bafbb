"""A process of its own for each thing that is measured, so that its memory and its imports are its own."""

import multiprocessing
import platform
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import Any, TypeVar

Result = TypeVar("Result")


def apart(function: Callable[..., Result], *arguments: Any) -> Result:
    """A function's result from a process of its own: started afresh, since a copy of this one would hold its memory."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as process:
        return process.submit(function, *arguments).result()


def peak_byte() -> int:
    """The most memory that this process held until now."""
    import resource

    unit = 1 if platform.system() == "Darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def prepare() -> str:
    """Sets this process up to measure on all cores; gives this machine's key."""
    from measure.machine import devices, environment, processor

    threads = processor.physical_cores()
    cpu = devices.find("cpu")
    cpu.prepare(threads)
    return environment.current(cpu, threads).environment_id
