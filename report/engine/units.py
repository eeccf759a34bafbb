"""A thin space between a number and its unit, where no line breaks (ISO 80000-1, 7.1.4 asks for a space)."""

from __future__ import annotations

import re
from typing import Any

from report.engine.pandoc import string

THIN_SPACE = "\u202f"

NUMBER = r"(?<![\w.,])\d[\d.,]*"
UNIT = (
    r"(?:[%‰]|[pnµmkMGTPE]?(?:FLOP(?:/(?:s|B|cycle))?|OP(?:/(?:s|B))?|MAC|B(?:/s)?|T/s|s|W|Hz)"
    r"|inputs/s|[kMGTPE])(?![\w/])"
)
WITHIN = re.compile(rf"({NUMBER})\u00a0(?={UNIT})")
NUMBER_AT_END = re.compile(rf"{NUMBER}$")
UNIT_AT_START = re.compile(UNIT)


def with_thin_spaces(node: Any) -> Any:
    """A copy of a document tree in which each number stands a thin space from its unit.

    Quarto leaves the space as the source has it, which only eyes tell apart.
    """
    if isinstance(node, dict):
        return {key: _inner(value) for key, value in node.items()}
    result: list[Any] = []
    for item in map(_inner, node):
        if isinstance(item, dict) and item.get("t") == "Str":
            item = string(WITHIN.sub(rf"\1{THIN_SPACE}", item["c"]))
            if _follows_number(result) and UNIT_AT_START.match(item["c"]):
                result.pop()
                item = string(result.pop()["c"] + THIN_SPACE + item["c"])
        result.append(item)
    return result


def _inner(value: Any) -> Any:
    return with_thin_spaces(value) if isinstance(value, (list, dict)) else value


def _follows_number(inlines: list[Any]) -> bool:
    """Whether the last two are a text that ends in a number, and a space."""
    if len(inlines) < 2 or not all(isinstance(inline, dict) for inline in inlines[-2:]):
        return False
    before, space = inlines[-2:]
    between = space.get("t") in ("Space", "SoftBreak")
    return between and before.get("t") == "Str" and bool(NUMBER_AT_END.search(before["c"]))
