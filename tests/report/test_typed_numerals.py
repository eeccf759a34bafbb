"""No number of the chapters' prose is typed, but for definitions, names, and what the code is held against here."""

import re
from dataclasses import dataclass

import pytest
from helpers.places import ROOT

from measure.domain.statistics import CONFIDENCE
from measure.predicting.study import HIGH, LOW
from report.chapters.prediction.facts import BATCH
from report.engine.project import read_project
from report.engine.source import Line, read_source
from report.paper.counting_programs import TOLERANCE

NUMERAL = re.compile(r"(?<!\w)\d+(?:[.,]\d+)*")
"""A digit behind a letter is part of a name: fp32, v2."""

NO_PROSE = re.compile(r"\$[^$]+\$|`[^`]+`|\{[^}]*\}|\]\([^)]*\)|@[\w:-]+")
"""Formulas, code (inline expressions too), attributes, links, references."""

CITED = re.compile(r"@(?!(?:fig|tbl|sec|eq)-)\w")
SENTENCE = re.compile(r"(?<=[.?!])\s+(?=\D)")


@dataclass(frozen=True)
class Allowed:
    """A numeral that may stand typed, and why; the pattern's group has to be ``number``, what the code says."""

    pattern: str
    why: str
    number: str | None = None


IN_CHAPTERS = [
    Allowed(r"(?:ResNet-|DenseNet-|ViT-B/)\d+|\bRTX \d+", "names"),
    Allowed(r"\b\d+ bits?\b|\bFrom 32\b|\bas at 16\b", "precisions are called by their bits"),
    Allowed(r"\bbatch size 1\b", "a single input"),
    Allowed(r"The ratio is 2 −", "the two products of a backward pass"),
    Allowed(r"\bwithin (\d+) %", "captions hold no code", f"{TOLERANCE:.0%}"[:-1]),
    Allowed(r"\b95 % intervals?", "captions hold no code; CONFIDENCE below"),
    Allowed(r"\b(90) % intervals?", "captions hold no code", f"{HIGH - LOW:.0%}"[:-1]),
    Allowed(r"at fp16, batch (\d+), in eager mode", "captions hold no code", str(BATCH)),
]


def texts(root):
    """Yield place and text of every typed line and caption, without listings, formulas and numbers of list items."""
    project = read_project(root)
    for document in (project.document, *project.others):
        is_formula = False
        for part in read_source(read_project(root, document)):
            if not isinstance(part, Line):
                for option in ("fig-cap", "tbl-cap"):
                    yield f"{part.opening.place}, {option}", " ".join(str(part.options.get(option, "")).split())
            elif part.text.startswith("$$"):
                is_formula = not is_formula
            elif not part.is_listing and not is_formula:
                yield part.place, re.sub(r"^ *\d+\. ", "", part.text)


def complaints(root, allowed):
    """Yield what is wrong with the typed numerals of a paper."""
    used = set()
    for place, text in texts(root):
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
    yield from (f"nothing matches {entry.pattern!r} any more" for entry in allowed if entry not in used)


def test_no_numeral_of_the_chapters_is_typed():
    assert list(complaints(ROOT, IN_CHAPTERS)) == []


def test_intervals_are_those_that_captions_name():
    assert CONFIDENCE == 0.95


@pytest.mark.parametrize(
    ("text", "allowed", "complained"),
    [
        ("The CPU reaches 231 GFLOP/s.", [], ["231"]),
        ("Known [@key2020]. Yet 7 models are slower.", [], ["7"]),
        ("```{python}\n#| label: fig-a\n#| fig-cap: 'Of 24 models.'\nf()\n```\n", [], ["24"]),
        ("1. fp32 takes $2 x$; `--batch-sizes 1`; `{python} a`; @fig-24; {.x-24}\n\n$$\ny = 2\n$$ {#eq-2}\n", [], []),
        ("Whiskers: 95 % intervals.", [Allowed(r"(\d+) % intervals", "", "95")], []),
        ("Whiskers: 95 % intervals.", [Allowed(r"(\d+) % intervals", "", "99")], ["95 % intervals"]),
        ("None.", [Allowed("24", "")], ["24"]),
    ],
)
def test_numerals_are_complained_of_unless_they_are_code_cited_or_allowed(tmp_path, text, allowed, complained):
    (tmp_path / "_quarto.yml").write_text("project:\n  type: default\n  render:\n    - index.qmd\n", "utf-8")
    (tmp_path / "index.qmd").write_text(text, encoding="utf-8")
    found = [complaint.split("'")[1] for complaint in complaints(tmp_path, allowed)]
    assert found == complained
