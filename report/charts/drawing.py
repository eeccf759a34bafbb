"""Charts drawn as SVG pictures, in a process of their own, and the script that draws them in a page."""

import html
import os
import re
import signal
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import cache
from multiprocessing import get_context, parent_process
from pathlib import Path
from textwrap import wrap
from threading import Thread
from typing import Any

import vl_convert

from report import failures
from report.charts.theme import FAMILY, FONTS, WIDTHS, text_width

TEXT = re.compile(r"<text ([^>]*)>([^<]+)")
SIZE = re.compile(r'font-size="([\d.]+)px"')
BUILT_IN = "Liberation Sans"  # in vl-convert; ours is made of it


@cache
def _process() -> ProcessPoolExecutor:
    # not forked: a Jupyter kernel has threads, and a fork would copy their held locks
    return ProcessPoolExecutor(1, get_context("spawn"), initializer=_prepare)


def _prepare() -> None:
    """Hide the system's fonts from this process, and end it with its parent, which handles Ctrl-C for both."""
    os.environ["FONTCONFIG_FILE"] = str(FONTS / "fonts.conf")
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def wait() -> None:
        if parent := parent_process():
            parent.join()
            os._exit(1)

    Thread(target=wait, daemon=True).start()


_begun: list[tuple[dict[str, Any], Path, Future[None]]] = []  # charts being drawn


def begin(specification: dict[str, Any], place: Path) -> None:
    """Begin to draw a chart into a file, which exists when ``finish`` returns."""
    place = place.resolve()
    try:
        drawn = _process().submit(_draw, specification, place)
    except BrokenProcessPool as broken:  # ``finish`` begins anew after the picture that broke it
        drawn = Future()
        drawn.set_exception(broken)
    _begun.append((specification, place, drawn))


def cancel() -> None:
    """Leave out the pictures that are not drawn yet, where nobody waits for them."""
    while _begun:
        _begun.pop()[2].cancel()


def finish() -> None:
    """Wait for all pictures. One that fails holds a sentence about it; the failure is raised if failures are strict."""
    while _begun:
        _, place, drawn = _begun.pop(0)
        try:
            drawn.result()
        except Exception as failure:
            if isinstance(failure, BrokenProcessPool):  # this picture broke the process for the others
                _process.cache_clear()
                for _ in range(len(_begun)):
                    begin(*_begun.pop(0)[:2])
            place.write_text(_placeholder(failures.sentence(f"drawing {place.stem}", failure)), encoding="utf-8")


def _placeholder(sentence: str) -> str:
    lines = wrap(sentence, 80)
    texts = "".join(f'<text x="0" y="{16 * row + 14}">{html.escape(line)}</text>' for row, line in enumerate(lines))
    size = f'width="560" height="{16 * len(lines) + 6}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="{FAMILY}" font-size="12">{texts}</svg>'


def _draw(specification: dict[str, Any], place: Path) -> None:
    place.write_text(picture(specification), encoding="utf-8")


@cache
def _register_fonts() -> None:
    vl_convert.register_font_directory(str(FONTS))


def converted(specification: dict[str, Any], kind: str, **options: Any) -> Any:
    """Draw a chart as ``svg``, ``png`` or ``pdf``. Raises ValueError with one line, without Vega's stack."""
    _register_fonts()
    try:
        return getattr(vl_convert, f"vegalite_to_{kind}")(specification, **options)
    except ValueError as failure:
        lines = str(failure).splitlines()
        raise ValueError(" ".join(line.strip() for line in lines if not re.match(r"\s+at ", line))) from None


def picture(specification: dict[str, Any]) -> str:
    """Draw a chart as SVG. Texts carry their lengths, since the font of a page does not reach its pictures.

    Alternative texts of marks are left out: the page has one for the picture, which is half as long without. vl-convert
    measures with its own copy of the font, because it opens a file anew for each letter.
    """
    config = specification["config"] | {"aria": False, "font": BUILT_IN}
    svg: str = converted(specification | {"config": config}, "svg")
    svg = svg.replace(f' font-family="{BUILT_IN}"', "").replace("<svg", f'<svg font-family="{FAMILY}"', 1)  # said once
    return TEXT.sub(_with_length, svg)


def _with_length(element: re.Match[str]) -> str:
    attributes, text = element[1], html.unescape(element[2])
    size = SIZE.search(attributes)
    weight = "bold" if 'font-weight="bold"' in attributes else "regular"
    if not size or len(text) < 2 or not WIDTHS[weight].keys() >= set(text):
        return element[0]
    return f'<text {attributes} textLength="{text_width(text, float(size[1]), weight):.4g}">{element[2]}'
