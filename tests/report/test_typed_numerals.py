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


CELL = '```{{python}}\n#| label: fig-a\n#| fig-cap: "{}"\nfigures.a(paper)\n```\n'


@pytest.fixture
def paper(tmp_path):
    """Writes a paper of one document with this text; its folder."""

    def written(text):
        (tmp_path / "_quarto.yml").write_text("project:\n  type: default\n  render:\n    - index.qmd\n", "utf-8")
        (tmp_path / "index.qmd").write_text(text, encoding="utf-8")
        return tmp_path

    return written


@pytest.mark.parametrize(
    "text",
    [
        "The CPU reaches 231 GFLOP/s.",
        "# The 24 models",
        "| model | latency |\n|---|---|\n| alexnet | 9.4 ms |",
        "Known [@key2020]. Yet 7 models are slower.",
        "So `{python} chips.a` of 24 models are.",
        CELL.format("Roofs of 24 models."),
    ],
)
def test_a_typed_numeral_is_complained_of(paper, text):
    (complaint,) = complaints(paper(text), [])
    assert complaint.startswith("index.qmd")
    assert "is typed in" in complaint


@pytest.mark.parametrize(
    "text",
    [
        "One of two machines at fp32; `{python} chips.a` models; `--batch-sizes 1`.",
        "1. Formulas such as $2 x$ are none.\n\n$$\ny = 2 x + 3\n$$ {#eq-line-2}\n",
        "A study counts 24 models [@key2020].",
        "In @fig-24-models and [a page](https://example.org/24), {.column-24}",
        "```\nlistings of 24 models\n```",
    ],
)
def test_what_is_code_formula_name_or_cited_is_not(paper, text):
    assert list(complaints(paper(text), [])) == []


def test_what_is_allowed_has_to_be_there_and_what_the_code_says(paper):
    text = CELL.format("Whiskers: 95 % intervals.")
    assert list(complaints(paper(text), [Allowed(r"(\d+) % intervals", "", "95")])) == []
    assert len(list(complaints(paper(text), [Allowed(r"(\d+) % intervals", "", "99")]))) == 1
    assert list(complaints(paper("None."), [Allowed("24", "")])) == ["nothing matches '24' any more"]
