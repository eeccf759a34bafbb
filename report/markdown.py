"""Computed text for the chapters: numbers, lists of words, and strings that no Markdown reader takes for markup."""

import re
from collections.abc import Sequence

from measure.domain import values
from measure.domain.values import SPACE, significant
from measure.domain.words import operation

MARKUP = re.compile(r"([\\`*_{}\[\]()<>#+\-.!|~^$@&'\"])")
APOSTROPHE = re.compile(r"(?<=[\w)])'")
"""Made curly here: pandoc pairs quotation marks across what lies between them, and drops blanks before the second."""
AT_THE_START = re.compile(r"^([:=%])")
"""Markup only where a line begins: fences of divs, rules under headings, title blocks."""
CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029]")
"""What a terminal would take for colours and XML may not hold, and ends of lines that Markdown does not know."""
LAST_OF_PLANES = "".join(chr(last - at) for last in range(0xFFFF, 0x110000, 0x10000) for at in (0, 1))
NO_CHARACTER = re.compile(rf"[\ud800-\udfff\ufdd0-\ufdef{LAST_OF_PLANES}]")
"""Halves of surrogate pairs, and the noncharacters (The Unicode Standard, 23.7)."""
REPLACEMENT = "\ufffd"
BLANKS = re.compile(r"[\t\n\r ]+")
"""Line breaks and tabs; and blanks, of which four in a row begin a listing."""
UNREAD = re.compile(r"(?<=:)(?=::)|(?<=\{)(?=[#.=]|\{<)")
"""Within what the engine refuses as syntax that pandoc left as it stands: fences, attributes, shortcodes."""
NOTHING = "[]{}"
"""An empty span."""
CODE = re.compile(r"`(python [^`]+)`")
"""A command that a sentence names, between backticks."""


def washed(text: str) -> str:
    """Return the text with a blank for each control character, and U+FFFD for each that is no character."""
    return NO_CHARACTER.sub(REPLACEMENT, CONTROL.sub(" ", text))


def escape(text: str) -> str:
    """Return the Markdown that prints this text, on one line; a command between backticks is code."""
    parts = CODE.split(_on_one_line(text))
    parts[::2] = [NOTHING.join(map(_escaped, UNREAD.split(part))) for part in parts[::2]]
    parts[1::2] = [f"`{command}`" for command in parts[1::2]]
    return "".join(parts)


def command(text: str) -> str:
    """Return a command as sentences name it: between backticks, unless a name in it would end these or a table's cell.

    Such a name may be in any folder that someone hands in.
    """
    return text if re.search(r"[`|]|\{[#.=<]", text) else f"`{text}`"


def _on_one_line(text: str) -> str:
    return BLANKS.sub(" ", washed(text))


def _escaped(text: str) -> str:
    return AT_THE_START.sub(r"\\\1", MARKUP.sub(r"\\\1", APOSTROPHE.sub("’", text)))


def quoted(text: str) -> str:
    """Return the text as the value of an attribute."""
    return '"' + re.sub(r'([\\"&{}])', r"\\\1", _on_one_line(text)) + '"'


class Markup(str):
    """Markdown that shows itself in a notebook as markup."""

    def _repr_markdown_(self) -> str:
        return str(self)


class Prose(str):
    """Plain text that shows itself in a notebook, inline or from a cell, exactly as it is."""

    def _repr_markdown_(self) -> str:
        return escape(self)

    def as_block(self) -> str:
        """Return the Markdown of a paragraph."""
        return escape(self)


class Gap(Prose):
    """A sentence that says what is missing. ``missing.lua`` knows it by its class, and moves it into one list."""

    def _repr_markdown_(self) -> str:
        return f"[{escape(self)}]{{.gap}}"

    def as_block(self) -> str:
        """Return the Markdown of a paragraph."""
        return f"::: {{.gap}}\n{escape(self)}\n:::\n"


def si(value: float, unit: str, digits: int = 3) -> str:
    """Format a quantity with an SI prefix and a no-break space: ``si(989.4e12, "FLOP/s")`` is ``989 TFLOP/s``."""
    return values.si(float(value), unit, digits, SPACE)


def percent(share: float, digits: int = 2) -> str:
    """Format a share as a percentage with a no-break space: 0.4567 is ``46 %``."""
    return values.percent(share, digits, SPACE)


def intensity(value: float, unit: str = "FLOP/B", digits: int = 3) -> str:
    """Format an operational intensity or a ridge point; never with a prefix, so that all compare at a glance."""
    return f"{significant(value, digits)}{SPACE}{unit}"


def throughput(value: float, digits: int = 3) -> str:
    """Format inputs (images or clips) per second, with thousands set apart and no prefix."""
    text = significant(value, digits)
    return f"{float(text):,.{len(text.partition('.')[2])}f}{SPACE}inputs/s"


def change(share: float, low: float, high: float) -> str:
    """Format a change as a percentage, with its interval: ``26 % (20 to 33 %)``."""
    middle, least, most = (percent(value).replace("-", "−") for value in (share, low, high))
    return f"{middle} ({least.partition(SPACE)[0]}{SPACE}to{SPACE}{most})"


def exact(count: int, unit: str) -> str:
    """Format a whole number in full, with its thousands set apart: ``4,089,184,256 FLOP``."""
    return f"{count:,}{SPACE}{unit}"


def number(count: int, noun: str, plural: str | None = None) -> str:
    """Format a count with its noun in the right number: ``1 model``, ``24 models``, ``no cell``."""
    word = noun if count in (0, 1) else plural or noun + "s"
    return f"{count or 'no'}{SPACE}{word}"


def listing(words: Sequence[str], most: int | None = None) -> str:
    """Join words as in a sentence: ``a``, ``a and b``, ``a, b and c``; of more than ``most`` the first are said."""
    if most is not None and len(words) > most:
        words = [*words[:most], f"{len(words) - most} more"]
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} and {words[-1]}"


def rate_unit(precision: str) -> str:
    """Return the unit of a peak."""
    return f"{operation(precision)}/s"


def ridge_unit(precision: str) -> str:
    return f"{operation(precision)}/B"


def signed_percent(share: float) -> str:
    """Format a share that may be negative as a percentage, with a minus sign in place of the hyphen."""
    return percent(share).replace("-", "−")


def by_number(count: int, one: str, several: str) -> str:
    """Return the word that agrees with a count: ``by_number(3, "has", "have")`` is ``have``."""
    return one if count == 1 else several


def capitalised(text: str) -> str:
    """Return the text with its first letter as a capital and the rest as it is."""
    return f"{text[:1].upper()}{text[1:]}"
