"""No number in the chapters' prose is typed, except definitions, names and the expected values here."""

import re

from helpers.places import ROOT

from measure.domain.statistics import CONFIDENCE
from measure.predicting.study import NINE
from report.chapters.counting.facts import TOLERANCE
from report.chapters.prediction.facts import BATCH
from report.chapters.training.costs import SEEN
from report.chapters.training.figures import SMALL
from report.engine.project import read_project
from report.engine.source import Line, read_source

NUMERAL = re.compile(r"(?<!\w)\d+(?:[.,]\d+)*")
"""A digit behind a letter is part of a name: fp32, v2."""

NO_PROSE = re.compile(r"\$[^$]+\$|`[^`]+`|\{[^}]*\}|\]\([^)]*\)|@[\w:-]+")
"""Formulas, code (inline expressions too), attributes, links, references."""

CITED = re.compile(r"@(?!(?:fig|tbl|sec|eq)-)\w")
SENTENCE = re.compile(r"(?<=[.?!])\s+(?=\D)")

ALLOWED = re.compile("|".join([
    r"(?:ResNet-|DenseNet-|VGG-|ViT-B/|GPT-)\d+|\bRTX \d+|\bLlama-1B",  # names
    r"\b\d+ bits?\b|\bFrom 32\b|\bas at 16\b",  # precisions are called by their bits
    r"\bbatch size 1\b",  # a single input
    r"The ratio is 2 −",  # the two products of a backward pass
    # Captions hold no code: these numbers are the code's
    rf"\bwithin {TOLERANCE:.0%}".replace("%", " %"),
    *(rf"\b{share:.0%} intervals?".replace("%", " %") for share in (CONFIDENCE, NINE)),
    rf"at fp16, batch {BATCH}, in eager mode",
    rf"\bSlices below {SMALL:.0%}|\bat least {SEEN:.0%} of the forward time".replace("%", " %"),
]))  # fmt: skip


def texts(root):
    """Yield place and text of every typed line and caption, without listings, formulas and numbers of list items."""
    project = read_project(root)
    for document in (project.document, *project.others):
        is_prose = True
        for part in read_source(read_project(root, document)):
            if not isinstance(part, Line):
                for option in ("fig-cap", "tbl-cap"):
                    yield f"{part.opening.place}, {option}", " ".join(str(part.options.get(option, "")).split())
            elif part.text.startswith(("$$", "```")):
                is_prose = not is_prose
            elif is_prose:
                yield part.place, re.sub(r"^ *\d+\. ", "", part.text)


def typed(root):
    """Return the numerals that are typed in the prose of a paper, each with its place."""
    sentences = ((place, sentence) for place, text in texts(root) for sentence in SENTENCE.split(text))
    bare = ((place, NO_PROSE.sub(" ", sentence)) for place, sentence in sentences if not CITED.search(sentence))
    return [(place, numeral) for place, text in bare for numeral in NUMERAL.findall(ALLOWED.sub(" ", text))]


def test_no_numeral_of_the_chapters_is_typed():
    assert typed(ROOT) == []
