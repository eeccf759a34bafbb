"""In a reader's paper both engines mark what was not measured on the reader's machine."""

import re

import pytest
from helpers.pages import filtered
from helpers.places import BADGES

HERE = "---\nmachines:\n  reference: Example CPU\n  here: Own CPU\n---\n"
OWN, OTHERS, NEITHER = ("[1]{.value .of-own}", "[2]{.value .of-reference}", "[3]{.value}")
BAND = "::: {.reference .band}\nNo number in the text of this section was measured on the Own CPU.\n:::"


def shown(text, to="markdown"):
    return filtered(BADGES, text, to)


def marked(text):
    """A text with its marked sentences between braces, and the badge as a star."""
    found = shown(f"{HERE}# A\n\n{OWN}\n\n{text}").partition("\n\n")[2].partition("\n\n")[2]
    found = re.sub(r"`[^`]*`\{=typst\}", "", found)
    for span, instead in (("[reference]{.badge} ", "*"), (OWN, "own"), (OTHERS, "others"), (NEITHER, "count")):
        found = found.replace(span, instead)
    return found.replace("]{.referred}", "}").replace("[", "{")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"It is {OTHERS}.", "*{It is others.}"),
        (f"It is {OWN}, there {OTHERS}.", "It is own, there others."),
        (f"It is {NEITHER}.", "It is count."),
        # One badge before two sentences in a row, one more after another sentence
        (f"A. Is {OTHERS}? It is {OTHERS}! B. {OTHERS}.", "A. *{Is others? }{It is others! }B. *{others.}"),
        (f"- **Title.** It is {OTHERS}.", "- **Title.** *{It is others.}"),
        (f"::: {{.reference}}\nIt is {OTHERS}.\n:::", "::: reference\nIt is others.\n:::"),
        (f"::: {{#fig-a}}\nIt is {OTHERS}.\n:::", "::: {#fig-a}\nIt is others.\n:::"),
    ],
)
def test_a_sentence_with_values_of_others_alone_is_marked(text, expected):
    assert marked(text) == expected


def test_a_section_with_values_of_others_alone_begins_with_a_band():
    chapter = f"# A\n\nIt is {OTHERS}.\n\n## B\n\nIt is {OTHERS}.\n"
    assert shown(HERE + chapter) == f"# A\n\n{BAND}\n\nIt is {OTHERS}.\n\n## B\n\nIt is {OTHERS}."
    asked = f"# A\n\n*Why?*\n\nIt is {OTHERS}."
    assert shown(HERE + asked) == asked.replace("*Why?*", f"*Why?*\n\n{BAND}")
    # With a value of the reader's in the chapter, its other sections have bands
    mixed = shown(f"{HERE}# A\n\nIt is {OWN}.\n\n## B\n\nIt is {OTHERS}.\n")
    assert mixed == f"# A\n\nIt is {OWN}.\n\n## B\n\n{BAND}\n\nIt is {OTHERS}."
    assert "band" not in shown(f"{HERE}# A\n\nIt is {NEITHER}.\n")
    page = '::: {.content-visible when-format="html"}'
    assert "band" not in shown(f"{HERE}# A\n\n{page}\nIt is {OTHERS}.\n:::\n")
    assert "band" not in shown(f"{HERE}# A {{.unnumbered}}\n\nIt is {OTHERS}.\n")


def test_a_figure_or_table_with_the_readers_machine_is_theirs(tmp_path):
    picture = tmp_path / "a.svg"
    for name, is_band in (("Own CPU, fp32", False), ("Another", True)):
        picture.write_text(f"<svg><text>{name}</text></svg>")
        assert ("band" in shown(f"{HERE}# A\n\nIt is {OTHERS}.\n\n![]({picture})\n")) == is_band
        assert ("band" in shown(f"{HERE}# A\n\nIt is {OTHERS}.\n\n| a |\n|---|\n| {name} |\n")) == is_band


def test_the_pdf_has_the_same_marks():
    text = shown(f"{HERE}# A\n\n{OWN}\n\nIt is {OTHERS}.\n", "typst")
    assert "#badge[reference] #referred[It is 2.]" in text


def test_our_own_paper_has_no_marks():
    text = f"# A\n\nIt is {OTHERS}."
    assert shown(text) == text
    assert "band" not in shown(f"---\nmachines:\n  reference: Example CPU\n---\n{text}")
