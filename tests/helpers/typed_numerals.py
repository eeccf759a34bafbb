"""Numerals that stand typed in the paper's chapters: each is a definition, part of a name, or what the code says.

One, two, half and twice are words of the language and are not looked for.
"""

import ast
import re
from dataclasses import dataclass

from report.engine.project import read_project
from report.engine.source import TextBlock, read_source

WORDS = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve", "dozen",
    "hundred", "thousand", "million", "billion",
)  # fmt: skip
NUMERAL = re.compile(rf"(?<!\w)\d+(?:[.,]\d+)*|\b(?:{'|'.join(WORDS[3:])})s?\b", re.IGNORECASE)
"""A digit behind a letter is part of a name: fp32, v2."""

NO_PROSE = re.compile(r"\$[^$]+\$|`[^`]+`|\{[^}]*\}|\]\([^)]*\)|@[\w:-]+")
"""Formulas, code (inline expressions too), attributes and includes, targets of links, references."""

CITED = re.compile(r"@(?!(?:fig|tbl|sec|eq)-)\w")
SENTENCE = re.compile(r"(?<=[.?!])\s+")
TITLES = ("title", "subtitle", "description")


@dataclass(frozen=True)
class Allowed:
    """Numerals that may stand typed: those in what matches the pattern, and why.

    With a ``number``, the pattern's group has to be it: what the code says.
    """

    pattern: str
    why: str
    number: str | None = None


def texts(root):
    """The place and the text of every typed line, title, caption and alternative text."""
    project = read_project(root)
    for title in TITLES:
        yield f"{project.document}, {title}", str(project.settings.get(title, ""))
    for block in read_source(project):
        if isinstance(block, TextBlock):
            yield from _lines(block)
            continue
        for option in ("fig-cap", "tbl-cap"):
            yield f"{block.opening.place}, {option}", " ".join(str(block.options.get(option, "")).split())


def _lines(prose):
    """The lines that are neither listing nor formula."""
    is_formula = False
    for line, listing in zip(prose.lines, prose.listing, strict=True):
        if line.text.startswith("$$"):
            is_formula = not is_formula
        elif not listing and not is_formula:
            yield line.place, line.text


def complaints(root, allowed):
    """What is wrong with the typed numerals of a paper: sentences, none where nothing is."""
    return list(_complaints(texts(root), allowed))


def _complaints(found, allowed):
    used = set()
    for place, text in found:
        for sentence in SENTENCE.split(text):
            if CITED.search(sentence):
                continue
            bare = NO_PROSE.sub(lambda match: " " * len(match[0]), sentence)
            covered = []
            for entry in allowed:
                for match in re.finditer(entry.pattern, bare):
                    used.add(entry)
                    covered.append(match.span())
                    if entry.number is not None and match[1] != entry.number:
                        yield f"{place}: '{match[0]}', where the code says {entry.number}"
            for numeral in NUMERAL.finditer(bare):
                if not any(start <= numeral.start() and numeral.end() <= end for start, end in covered):
                    yield f"{place}: '{numeral[0]}' is typed in '{sentence.strip()}'"
    for entry in allowed:
        if entry not in used:
            yield f"nothing matches {entry.pattern!r} any more"


def literals(path):
    """The place and the text of every typed part of a text in a module, its docstrings apart."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    apart = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in apart:
            yield f"{path.name}:{node.lineno}", node.value


def literal_complaints(paths, allowed):
    """The same of the texts that modules type between what they compute. A text without a blank is no prose."""
    found = (pair for path in paths for pair in literals(path) if " " in pair[1])
    return list(_complaints(found, allowed))
