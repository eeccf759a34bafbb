"""Where in the sources something stands that was found wrong in the document tree."""

from __future__ import annotations

import re

from report.engine.source import Line


class Places:
    """The lines of the assembled document, searched by what stands in them."""

    def __init__(self, lines: list[Line]) -> None:
        self._lines = lines
        # charts and their script, by far the longest lines, hold no place
        self._searched = [line for line in lines if not line.text.startswith("<script")]

    def of(self, text: str, nth: int = 0) -> str:
        """`file:line` of the `nth` line, from 0, that holds `text` as a whole word; of the first line if none."""
        word = re.compile(rf"(?<![\w-]){re.escape(text)}(?![\w-])")
        # the first test is quick
        found = [line for line in self._searched if text in line.text and word.search(line.text)]
        if nth < len(found):
            return found[nth].place
        return (found or self._lines)[0].place

    def at(self, number: int) -> str:
        """`file:line` of the assembled document's line `number`, from 1."""
        return self._lines[min(number, len(self._lines)) - 1].place
