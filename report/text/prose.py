"""Computed text for the chapters: plain strings that no Markdown reader takes for markup."""

import re

MARKUP = re.compile(r"([\\`*_{}\[\]()<>#+\-.!|~^$@&'\"])")
APOSTROPHE = re.compile(r"(?<=[\w)])'")
"""Made curly here: pandoc pairs quotation marks across what lies between them, and drops blanks before the second."""
AT_THE_START = re.compile(r"^([:=%])")
"""Markup only where a line begins: fences of divs, rules under headings, title blocks."""
CONTROL = re.compile(r"[\x00-\x20\x7f]+")
"""Line breaks, tabs, what a terminal would take for colours; and blanks, of which four in a row begin a listing."""
UNREAD = re.compile(r"(?<=:)(?=::)|(?<=\{)(?=[#.=]|\{<)")
"""Within what the engine refuses as syntax that pandoc left as it stands: fences, attributes, shortcodes."""
NOTHING = "[]{}"
"""An empty span."""


def escape(text: str) -> str:
    """Return the Markdown that prints this text, on one line."""
    return NOTHING.join(map(_escaped, UNREAD.split(CONTROL.sub(" ", text))))


def _escaped(text: str) -> str:
    return AT_THE_START.sub(r"\\\1", MARKUP.sub(r"\\\1", APOSTROPHE.sub("’", text)))


def quoted(text: str) -> str:
    """Return the text as the value of an attribute."""
    return '"' + re.sub(r'([\\"&{}])', r"\\\1", CONTROL.sub(" ", text)) + '"'


class Markup(str):
    """Markdown that shows itself in a notebook as markup."""

    def _repr_markdown_(self) -> str:
        return str(self)


class Prose(str):
    """Plain text that shows itself in a notebook, inline or from a cell, exactly as it is."""

    def _repr_markdown_(self) -> str:
        return escape(self)
