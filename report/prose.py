"""Computed text for the chapters: plain strings that no Markdown reader takes for markup."""

import re

MARKUP = re.compile(r"([\\`*_{}\[\]()<>#+\-.!|~^$@])")


def escape(text: str) -> str:
    """The Markdown that prints this text."""
    return MARKUP.sub(r"\\\1", text)


class Prose(str):
    """Plain text that shows itself in a notebook, inline or from a cell, exactly as it is."""

    def _repr_markdown_(self) -> str:
        return escape(self)
