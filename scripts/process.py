"""Run each measurement in a process of its own, with its own memory and imports."""

import multiprocessing
import platform
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import Any, TypeVar

Result = TypeVar("Result")


def apart(function: Callable[..., Result], *arguments: Any) -> Result:
    """Run a function in a new process, not a copy of this one, which would hold its memory; return its result."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as process:
        return process.submit(function, *arguments).result()


def peak_byte(children: bool = False) -> int:
    """Return the most memory that this process has held, or the largest of its ended children."""
    import resource

    unit = 1 if platform.system() == "Darwin" else 1024
    who = resource.RUSAGE_CHILDREN if children else resource.RUSAGE_SELF
    return resource.getrusage(who).ru_maxrss * unit


def prepare() -> str:
    """Set this process up to measure on all cores; return this machine's environment id."""
    from measure.machine import devices, environment, processor

    threads = processor.physical_cores()
    cpu = devices.find("cpu")
    cpu.prepare(threads)
    return environment.current(cpu, threads).environment_id
