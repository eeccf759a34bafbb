"""The papers that readers get, from nothing measured to three machines: the shape of their text, and their facts."""

import json
import re
import shlex
from collections import Counter
from statistics import mean, median

import pypdfium2
import pytest
from helpers import caches, paper_shape
from helpers.pages import Page
from helpers.places import ROOT

from measure.verbs.flags import VERBS, parser_of
from measure.verbs.measure import parser
from report import facts
from report.paper import load

pytestmark = pytest.mark.slow

CHAPTERS = {name: ROOT / "report" / "chapters" / name / f"{name}.qmd" for name in facts.CHAPTERS}
MADE = (caches.nothing_measured, caches.one_cell, caches.made_by_report, caches.three_machines)
NO_TABLE = "method.protocol."
"""Settings of the program, which no table holds."""


@pytest.fixture(scope="module", params=[None, *MADE], ids=lambda make: make.__name__ if make else "reference")
def data(request, tmp_path_factory):
    if request.param is None:
        return ROOT / "data"
    folder = tmp_path_factory.mktemp(request.param.__name__) / "data"
    request.param(folder)
    return folder


@pytest.fixture(scope="module")
def rendered(data, request, tmp_path_factory):
    """The folder of a paper's page and PDF."""
    if data == ROOT / "data":
        return request.getfixturevalue("site")
    return caches.render(data, tmp_path_factory.mktemp("project") / "project")


@pytest.fixture(scope="module")
def html(rendered):
    return (rendered / "index.html").read_text("utf-8")


def test_the_page_has_the_shape_of_a_paper(html):
    assert paper_shape.complaints(html) == []


def test_the_pdf_has_the_shape_of_a_paper(rendered):
    assert paper_shape.pdf_complaints(pypdfium2.PdfDocument(rendered / "paper.pdf")) == []


def test_every_number_of_the_page_is_a_fact_that_stands_there_once(html):
    def once(pairs):
        assert len(dict(pairs)) == len(pairs)
        return dict(pairs)

    known = json.loads(
        re.search(r'<script type="application/json" id="facts">(.*?)</script>', html)[1], object_pairs_hook=once
    )
    shown = {node.attributes["data-key"] for node in Page(html).root.all("span.value")}
    assert len(shown) > 100
    assert [key for key in shown if known.get(key, {"value": None})["value"] is None] == []


def test_every_command_that_fills_a_gap_is_one_that_can_be_typed(html, data):
    codes = [code for gaps in Page(html).root.all("#gaps") for code in gaps.all("code")]
    assert len(codes) > 3 or (data / "machines").exists()
    for code in codes:
        program, flag, package, *words = shlex.split(code.text())
        assert (program, flag, package) == ("python", "-m", "measure")
        is_verb = words[:1] and words[0] in VERBS
        (parser_of(words.pop(0)) if is_verb else parser()).parse_args(words)


@pytest.fixture(scope="module")
def reference():
    """The facts of the project's own data by chapter."""
    paper = load(ROOT / "data", chosen=())
    return {name: facts.of_chapter(name, paper) for name in facts.CHAPTERS}


def test_every_fact_has_one_name_a_meaning_and_a_source(reference):
    found = [entry for name, chapter in reference.items() for entry in facts.entries(name, chapter)]
    assert [key for key, count in Counter(key for key, _, _ in found).items() if count > 1] == []
    assert [key for key, _, meaning in found if not meaning] == []
    assert [
        key for key, value, _ in found if not ((value.source and value.source.table) or key.startswith(NO_TABLE))
    ] == []


def test_every_claim_of_a_reference_block_is_true_and_every_condition_is_there(reference):
    known = {
        name: json.loads(facts.conditions(name, chapter).split("---\n")[1])[name] for name, chapter in reference.items()
    }
    false, unknown = [], []
    for chapter, file in CHAPTERS.items():
        text = file.read_text("utf-8")
        for claim in " ".join(re.findall(r'\.reference[^}]*claims="([^"]*)"', text)).split():
            owner, _, name = claim.rpartition(".")
            if known[owner or chapter].get("claims", {}).get(name) is not True:
                false.append((chapter, claim))
        for path in re.findall(r'(?:when|unless)-meta="([^"]*)"', text):
            owner, *names = path.split(".")
            if len(names) != 1 or names[0] not in known.get(owner, {}):
                unknown.append((chapter, path))
    assert (false, unknown) == ([], [])


def test_every_reference_block_has_claims():
    for file in CHAPTERS.values():
        assert not re.search(r"\{\.reference\s*\}", file.read_text("utf-8")), file.name


OUTSIDE = ("table", "figure", "#refs", ".more", ".callout-note")
"""What is not read as prose: intervals stand there, and the answers to problems are calculations."""


def test_the_prose_is_easy_to_read(site):
    (main,) = Page((site / "index.html").read_text("utf-8")).root.all("main")
    paragraphs = main.all("p", outside=OUTSIDE) + [
        each for each in main.all("li", outside=OUTSIDE) if not each.all("p")
    ]
    prose = [(each, each.text()) for each in paragraphs if not re.search(r"[=÷]", each.text())]
    numbers = [len(each.all("span.value")) for each, _ in prose]
    assert max(numbers) <= 3
    assert median(numbers) <= 2
    sentences = [sentence.split() for _, text in prose for sentence in re.split(r"(?<=[.?!])\s+(?=[A-Z“])", text)]
    assert mean(len(words) for words in sentences if len(words) > 3) <= 20
    assert sum("in the median" in text for _, text in prose) <= 3
