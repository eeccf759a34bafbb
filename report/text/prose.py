"""Computed text for the chapters: plain strings that no Markdown reader takes for markup."""

import re

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
    """A sentence that says what is missing. ``selection.lua`` knows it by its class, and moves it into one list."""

    def _repr_markdown_(self) -> str:
        return f"[{escape(self)}]{{.gap}}"

    def as_block(self) -> str:
        """Return the Markdown of a paragraph."""
        return f"::: {{.gap}}\n{escape(self)}\n:::\n"
