"""Numbers for the paper, and texts without accidental markup."""

import re
from functools import lru_cache

from measure.domain import values
from measure.domain.values import SPACE
from measure.domain.words import operation

MARKUP = re.compile(r"([\\`*_{}\[\]()<>#+\-.!|~^$@&'\"])")
APOSTROPHE = re.compile(r"(?<=[\w)])'")
"""Made curly here: pandoc would pair quotation marks, and drop blanks before the second."""
AT_THE_START = re.compile(r"^( ?)([:=%])")
"""Markup only at the start of a line: fences of divs, rules under headings, title blocks."""
CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
"""Codes of terminals, forbidden in XML; ends of lines outside Markdown; changes of direction (Unicode Standard
Annex 9)."""
LAST_OF_PLANES = "".join(chr(last - at) for last in range(0xFFFF, 0x110000, 0x10000) for at in (0, 1))
NO_CHARACTER = re.compile(rf"[\ud800-\udfff\ufdd0-\ufdef{LAST_OF_PLANES}]")
"""Halves of surrogate pairs, and the noncharacters (The Unicode Standard, 23.7)."""
REPLACEMENT = "\ufffd"
BLANKS = re.compile(r"[\t\n\r ]+")  # line breaks, tabs, and blanks: four in a row begin a listing
UNREAD = re.compile(r"(?<=:)(?=::)|(?<=\{)(?=[#.=]|\{<)")
"""Places inside fences, attributes and shortcodes, which the engine refuses if pandoc left them."""
NOTHING = "[]{}"  # an empty span
MISSING = "[–]{.missing}"  # missing.lua finds missing values by it
CODE = re.compile(r"`(python [^`]+)`")  # a command that a sentence names, between backticks


@lru_cache(maxsize=10_000)  # names and fields of charts come back often
def washed(text: str) -> str:
    """Replace control characters by blanks, and noncharacters by U+FFFD."""
    return NO_CHARACTER.sub(REPLACEMENT, CONTROL.sub(" ", text))


def escape(text: str) -> str:
    """Return the Markdown that prints this text on one line. A command between backticks is code."""
    parts = CODE.split(_on_one_line(text))
    parts[::2] = [NOTHING.join(map(_escaped, UNREAD.split(part))) for part in parts[::2]]
    parts[1::2] = [f"`{command}`" for command in parts[1::2]]
    return "".join(parts)


def _on_one_line(text: str) -> str:
    return BLANKS.sub(" ", washed(text))


def _escaped(text: str) -> str:
    return AT_THE_START.sub(r"\1\\\2", MARKUP.sub(r"\\\1", APOSTROPHE.sub("’", text)))


def quoted(text: str) -> str:
    """Return the text as the value of an attribute, also in a table's cell, which pandoc searches for markup first.

    Blanks at its ends are dropped: pandoc rejects a value that begins with one.
    """
    return '"' + re.sub(r'([\\"&{}|<`$])', r"\\\1", _on_one_line(text).strip()) + '"'


class Prose(str):
    """Plain text, shown literally in a notebook."""

    def _repr_markdown_(self) -> str:
        return escape(self)


class Markup(str):
    """Markdown, shown as markup in a notebook."""

    def _repr_markdown_(self) -> str:
        return str(self)


def si(value: float, unit: str, digits: int = 3) -> str:
    """Format a quantity with an SI prefix and a no-break space: ``si(989.4e12, "FLOP/s")`` is ``989 TFLOP/s``."""
    return values.si(float(value), unit, digits, SPACE)


def percent(share: float, digits: int = 2) -> str:
    """Format a share as a percentage with a no-break space: 0.4567 is ``46 %``."""
    return values.percent(share, digits, SPACE)


def number(count: int, noun: str) -> str:
    """Format a count with its noun in the right number: ``1 model``, ``24 models``, ``no cell``."""
    return f"{count or 'no'}{SPACE}{noun}{'' if count in (0, 1) else 's'}"


def rate_unit(precision: str) -> str:
    return f"{operation(precision)}/s"
