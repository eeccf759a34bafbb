"""Long texts that pandoc has no business with: a mark passes through it in the place of each, which is quicker."""

from __future__ import annotations

import re

RAW_BLOCK = re.compile(r"^```\{=html\}\n(.+?)\n```$", re.MULTILINE | re.DOTALL)
MARK = re.compile(r"<!--withheld (\d+)-->")


class Withheld:
    """The texts, and the marks, comments of HTML, that stand for them."""

    def __init__(self) -> None:
        self._texts: list[str] = []

    def mark(self, text: str) -> str:
        """The mark that stands for a text from now on."""
        self._texts.append(text)
        return f"<!--withheld {len(self._texts) - 1}-->"

    def without_raw_blocks(self, markdown: str) -> str:
        """Markdown with a mark, and as many lines as before, in each block of raw HTML."""

        def marked(block: re.Match[str]) -> str:
            lines = "\n" * block[1].count("\n")
            return f"```{{=html}}\n{self.mark(block[1])}{lines}\n```"

        return RAW_BLOCK.sub(marked, markdown)

    def restored(self, html: str) -> str:
        """HTML with the texts in the places of their marks."""
        return MARK.sub(lambda mark: self._texts[int(mark[1])], html)
