"""Numbers for the paper, and strings that no Markdown reader takes for markup."""

import re
from functools import lru_cache

from measure.domain import values
from measure.domain.values import SPACE
from measure.domain.words import operation

MARKUP = re.compile(r"([\\`*_{}\[\]()<>#+\-.!|~^$@&'\"])")
APOSTROPHE = re.compile(r"(?<=[\w)])'")
"""Made curly here: pandoc pairs quotation marks across what lies between them, and drops blanks before the second."""
AT_THE_START = re.compile(r"^( ?)([:=%])")
"""Markup only where a line begins: fences of divs, rules under headings, title blocks."""
CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
"""What a terminal takes for colours and XML may not hold, ends of lines that Markdown does not know, and what turns the
direction of the text after it (Unicode Standard Annex 9)."""
LAST_OF_PLANES = "".join(chr(last - at) for last in range(0xFFFF, 0x110000, 0x10000) for at in (0, 1))
NO_CHARACTER = re.compile(rf"[\ud800-\udfff\ufdd0-\ufdef{LAST_OF_PLANES}]")
"""Halves of surrogate pairs, and the noncharacters (The Unicode Standard, 23.7)."""
REPLACEMENT = "\ufffd"
BLANKS = re.compile(r"[\t\n\r ]+")  # line breaks and tabs; and blanks, of which four in a row begin a listing
UNREAD = re.compile(r"(?<=:)(?=::)|(?<=\{)(?=[#.=]|\{<)")
"""Within what the engine refuses as syntax that pandoc left as it stands: fences, attributes, shortcodes."""
NOTHING = "[]{}"  # an empty span
MISSING = "[–]{.missing}"  # by which missing.lua knows what is not known
CODE = re.compile(r"`(python [^`]+)`")  # a command that a sentence names, between backticks


@lru_cache(maxsize=10_000)  # names and fields of charts come back often
def washed(text: str) -> str:
    """Return the text with a blank for each control character, and U+FFFD for each that is no character."""
    return NO_CHARACTER.sub(REPLACEMENT, CONTROL.sub(" ", text))


def escape(text: str) -> str:
    """Return the Markdown that prints this text, on one line; a command between backticks is code."""
    parts = CODE.split(_on_one_line(text))
    parts[::2] = [NOTHING.join(map(_escaped, UNREAD.split(part))) for part in parts[::2]]
    parts[1::2] = [f"`{command}`" for command in parts[1::2]]
    return "".join(parts)


def _on_one_line(text: str) -> str:
    return BLANKS.sub(" ", washed(text))


def _escaped(text: str) -> str:
    return AT_THE_START.sub(r"\1\\\2", MARKUP.sub(r"\\\1", APOSTROPHE.sub("’", text)))


def quoted(text: str) -> str:
    """Return the text as the value of an attribute, in a table's cell too, where pandoc looks for markup first.

    Blanks at its ends are dropped: pandoc reads no value that begins with one.
    """
    return '"' + re.sub(r'([\\"&{}|<`$])', r"\\\1", _on_one_line(text).strip()) + '"'


class Prose(str):
    """Plain text that shows itself in a notebook exactly as it is."""

    def _repr_markdown_(self) -> str:
        return escape(self)


class Markup(str):
    """Markdown that shows itself in a notebook as markup."""

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
