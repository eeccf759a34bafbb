"""Escaped text comes out of pandoc as it went in, whatever it holds."""

import json
import re

import pypandoc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from report.markdown import escape, number, quoted, washed

MARKUP = "\\`*_{}[]()<>#+-.!|~^$@&'\":=%/;,? \t\n0aZé→\u2028\x1b\ufffe"
TEXTS = st.lists(st.text(MARKUP, min_size=1, max_size=30), min_size=10, max_size=10)
"""Ten at a time, as a start of pandoc takes longer than its work."""


def document(paragraphs):
    return json.loads(pypandoc.convert_text("\n\n".join(paragraphs), "json", format="markdown"))["blocks"]


def plain(block):
    """The text of a paragraph; its parts where they are more than text."""
    if block["t"] != "Para":
        return block
    words = {"Str": lambda part: part["c"], "Space": lambda _: " ", "SoftBreak": lambda _: " "}
    words["Span"] = lambda part: part if part["c"][1] else ""  # an empty one keeps signs apart
    return "".join(str(words.get(part["t"], str)(part)) for part in block["c"]).replace("\u00a0", " ")


def flat(text):
    return " ".join(washed(text).split())


@settings(max_examples=10)
@given(TEXTS)
def test_an_escaped_text_is_a_paragraph_of_that_text(texts):
    """Its apostrophes are curly, as a printer sets them."""
    texts = [text for text in texts if flat(text)]
    expected = [re.sub(r"(?<=[\w)])'", "’", flat(text)) for text in texts]
    assert [plain(block) for block in document(["0", *map(escape, texts)])] == ["0", *expected]


@settings(max_examples=10)
@given(TEXTS)
def test_a_quoted_text_is_the_value_of_its_attribute(texts):
    spans = [block["c"][0] for block in document(f"[x]{{key={quoted(text)}}}" for text in texts)]
    assert [span["c"][0][2] if span["t"] == "Span" else span for span in spans] == [
        [["key", flat(text)]] for text in texts
    ]


def test_a_command_between_backticks_is_code():
    assert escape("run `python -m measure *` now!") == "run `python -m measure *` now\\!"


@pytest.mark.parametrize(("count", "text"), [(0, "no cell"), (1, "1 cell"), (24, "24 cells")])
def test_a_noun_follows_its_count(count, text):
    assert number(count, "cell").replace("\u00a0", " ").replace("\u202f", " ") == text


def test_nothing_turns_the_direction_of_the_text_after_it():
    assert washed("A\u202eb\u2066c\u2069") == "A b c "  # right-to-left override, isolate, end of an isolate
