"""Pictures drawn, and the page's script bundled, in a process beside that of the charts: both take about as long."""

import signal
from concurrent.futures import Future, ProcessPoolExecutor
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import vl_convert

from report.charts.pictures import picture

SCRIPT = Path(__file__).with_name("charts.js")

_begun: list[Future[None]] = []


@cache
def _process() -> ProcessPoolExecutor:
    # not forked: a Jupyter kernel has threads, whose locks a fork would copy as they are held;
    # deaf to Ctrl-C: a kernel is told so to end, and this process ends with it
    return ProcessPoolExecutor(
        1, get_context("spawn"), initializer=signal.signal, initargs=(signal.SIGINT, signal.SIG_IGN)
    )


@cache
def _script() -> Future[str]:
    return _process().submit(_bundled)


def begin(specification: dict[str, Any], place: Path) -> None:
    """Begins to draw a chart into a file, which is there when ``finish`` returns."""
    _script()  # before the first picture: it does not wait for the charts
    _begun.append(_process().submit(_draw, specification, place.resolve()))


def finish() -> str:
    """Waits for the pictures that were begun; returns the script that draws charts in a page, Vega included.

    Raises ValueError, which names the first picture that could not be drawn.
    """
    begun = _begun.copy()
    _begun.clear()
    for drawn in begun:
        drawn.result()
    return _script().result()


def _draw(specification: dict[str, Any], place: Path) -> None:
    try:
        drawn = picture(specification)
    except ValueError as problem:
        raise ValueError(f"{place.name}: {problem}") from None
    place.write_text(drawn, encoding="utf-8")


def _bundled() -> str:
    return str(vl_convert.javascript_bundle(SCRIPT.read_text(encoding="utf-8")))
