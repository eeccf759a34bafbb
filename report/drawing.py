"""Pictures drawn in a process of their own, beside the one that makes the charts: both take about as long."""

import signal
from concurrent.futures import Future, ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from report.pictures import picture

_process: ProcessPoolExecutor | None = None
_begun: list[Future[None]] = []


def begin(specification: dict[str, Any], place: Path) -> None:
    """Begins to draw a chart into a file, which is there when ``finish`` returns."""
    global _process
    if _process is None:
        # not forked: a Jupyter kernel has threads, whose locks a fork would copy as they are held;
        # deaf to Ctrl-C: a kernel is told so to end, and this process ends with it
        _process = ProcessPoolExecutor(
            1, get_context("spawn"), initializer=signal.signal, initargs=(signal.SIGINT, signal.SIG_IGN)
        )
    _begun.append(_process.submit(_draw, specification, place.resolve()))


def finish() -> None:
    """Waits for the pictures that were begun. Raises ValueError, which names the first that could not be drawn."""
    begun = _begun.copy()
    _begun.clear()
    for drawn in begun:
        drawn.result()


def _draw(specification: dict[str, Any], place: Path) -> None:
    try:
        drawn = picture(specification)
    except ValueError as problem:
        raise ValueError(f"{place.name}: {problem}") from None
    place.write_text(drawn, encoding="utf-8")
