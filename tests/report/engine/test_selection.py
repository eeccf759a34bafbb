"""The Lua filter that leaves chapters out, run by pandoc alone: Quarto runs it on the same document tree."""

import json

import pytest
from helpers.places import ROOT

from measure.errors import UserError
from report.engine.chapters import FILTER
from report.engine.pandoc import run_pandoc

DOCUMENT = """
# Abstract {.unnumbered}

See @sec-two, @fig-two and @fig-one; [@fig-two; @fig-one]; by @Eq-two, after [@knuth; see @lamport].
A [link](#sec-inner) and [another](#sec-one); a note.[^1]

[^1]: @tbl-two

# One {#sec-one}

::: {#fig-one}
![](a.svg)

As @tbl-hand in @sec-inner.
:::

# Two *chapters* {#sec-two}

## Inner {#sec-inner}

::: {#fig-two}
:::

::: {.cell}
::: {#tbl-two}
| a |
|---|
| b |
:::
:::

$$ x $$ {#eq-two}

| a |
|---|
| b |

: Caption {#tbl-hand}

# References {.unnumbered}
"""


@pytest.fixture(autouse=True)
def no_choice(monkeypatch):
    monkeypatch.delenv("ROOFWRIGHT_CHAPTERS", raising=False)


def selected(tmp_path, *chapters, text=DOCUMENT):
    """The document as plain text after the filter, which finds these chapters in the metadata."""
    metadata = tmp_path / "metadata.json"
    metadata.write_text(json.dumps({"roofwright": {"chapters": [*chapters]}} if chapters else {}))
    arguments = ["--from=markdown", "--to=markdown", "--wrap=none", f"--metadata-file={metadata}"]
    return run_pandoc([*arguments, f"--lua-filter={ROOT / FILTER}"], text, tmp_path)


def headings(text):
    return [line.partition(" {")[0] for line in text.split("\n") if line.startswith("#")]


GAPS = """
# One {#sec-one}

First. [Nothing was timed; measure.]{.gap} Last.

## Empty {#sec-empty}

[Nothing was timed; measure.]{.gap}

## Half {#sec-half}

As @fig-none and @tbl-some show, in @sec-empty.

::: {#fig-none .cell}
::: {.gap}
Nothing was timed; measure.
:::

Caption.
:::

::: {#tbl-other .cell}
::: {.gap}
No table.
:::

Caption.
:::

::: {#tbl-some .cell}
| a |
|---|
| b |

: Caption
:::

::: {.content-visible when-format="html"}

## Hidden {#sec-hidden}

[No table.]{.gap}

:::

# Next {.unnumbered}

::: {#gaps}
To measure next:
:::

# References {.unnumbered}

::: {#refs}
:::
"""


def listed(text):
    """The items of lists, in their order."""
    return [line.removeprefix("-").strip() for line in text.split("\n") if line.startswith("- ")]


def test_gaps_leave_the_text_for_one_list_where_each_stands_once(tmp_path):
    text = selected(tmp_path, text=GAPS)
    assert "First. Last." in text
    assert listed(text) == ["Nothing was timed; measure.", "No table."]
    assert text.index("To measure next:") < text.index("- ") < text.index("# References")
    assert "Caption." not in text
    assert ": Caption" in text


def test_a_list_without_a_place_comes_last(tmp_path):
    text = selected(tmp_path, text="# One\n\nFirst. [Nothing was timed.]{.gap}\n\n# Two\n\nLast.\n")
    assert listed(text) == ["Nothing was timed."]
    assert text.index("Last.") < text.index("- ")


def test_without_gaps_there_is_neither_a_list_nor_its_heading(tmp_path):
    text = selected(
        tmp_path, text="# One\n\nFirst.\n\n# Next\n\n::: {#gaps}\nTo measure next:\n:::\n\n# Two\n\nLast.\n"
    )
    assert headings(text) == ["# One", "# Two"]
    assert "To measure" not in text


def test_a_section_of_gaps_alone_goes_and_references_to_it_say_so(tmp_path):
    text = selected(tmp_path, text=GAPS)
    assert headings(text) == ["# One", "## Half", "# Next", "# References"]
    assert "As a figure without data and @tbl-some show, in a section without data." in text


def test_an_answer_is_set_in_bold(tmp_path):
    text = selected(tmp_path, text="# One\n\n::: {.answer}\n\nIt is *so*.\n\n:::\n")
    assert "**It is *so*.**" in text


UNANSWERED = """
# One {#sec-one}

As @fig-lost, @eq-lost and @sec-lost say. [Nothing was timed.]{.gap}

# Two {#sec-two}

What is it?

::: {.answer}

[Nothing was timed.]{.gap}
[Nor was that.]{.gap}

:::

It is measured.

## Lost {#sec-lost}

::: {#fig-lost .cell}
![](a.svg)
:::

$$ x $$ {#eq-lost}

# Three {#sec-three}

What is that?

::: {.answer}

That. [Nothing was timed.]{.gap}

:::

It is told.
"""


def test_a_chapter_without_an_answer_goes_and_what_it_lacks_is_listed(tmp_path):
    text = selected(tmp_path, text=UNANSWERED)
    assert headings(text) == ["# One", "# Three"]
    assert "It is measured." not in text
    assert listed(text) == ["Nothing was timed.", "Nor was that."]
    assert "As a figure without data, an equation without data and a section without data say." in text
    assert "**That.**" in text
    assert "It is told." in text


def test_without_a_choice_nothing_changes(tmp_path):
    as_it_stands = run_pandoc(["--from=markdown", "--to=markdown", "--wrap=none"], DOCUMENT, tmp_path)
    assert selected(tmp_path) == as_it_stands


def test_a_chapter_goes_with_its_headings_and_all_below_them(tmp_path):
    text = selected(tmp_path, "one")
    assert headings(text) == ["# Abstract", "# One", "# References"]
    assert "eq-two" not in text
    assert "Caption" not in text
    assert headings(selected(tmp_path, "two")) == ["# Abstract", "# Two *chapters*", "## Inner", "# References"]


def test_the_environment_chooses_before_the_metadata(tmp_path, monkeypatch):
    monkeypatch.setenv("ROOFWRIGHT_CHAPTERS", "two")
    assert "# One" not in headings(selected(tmp_path, "one"))
    monkeypatch.setenv("ROOFWRIGHT_CHAPTERS", "two,one")
    assert headings(selected(tmp_path, "one")) == headings(selected(tmp_path))


def test_a_reference_into_what_is_left_out_says_so(tmp_path):
    text = selected(tmp_path, "one").replace("\\", "").replace("“", '"').replace("”", '"')
    figure = 'Figure of "Two chapters" [not in this selection]'
    assert f'See Section "Two chapters" [not in this selection], {figure} and @fig-one;' in text
    assert f"; {figure}, [@fig-one]; by" in text
    assert 'by Equation of "Two chapters" [not in this selection], after [@knuth; see @lamport].' in text
    assert "A link and [another](#sec-one)" in text
    assert '[^1]: Table of "Two chapters" [not in this selection]' in text
    # in a caption too, and by the label of a caption that is written by hand
    assert 'As Table of "Two chapters" [not in this selection] in Section "Inner" [not in' in text


def test_references_to_what_is_kept_stay(tmp_path):
    assert "@sec-two, @fig-two and" in selected(tmp_path, "two")


def test_a_name_that_is_no_chapter_stops(tmp_path):
    with pytest.raises(UserError, match=r"'three' is not one of one, two"):
        selected(tmp_path, "one", "three")


EDITIONS = """
As @tbl-all shows, and @tbl-short, @fig-a and [@tbl-all; @knuth].

::: {.content-visible when-format="html"}

::: {#tbl-all}
| a |
|---|
| b |

All, as @fig-a.
:::

Within, @tbl-all.

:::

::: {.content-visible when-format="typst"}
::: {#fig-a}
![](a.svg)

One.
:::
:::

::: {#tbl-short}
| a |
|---|
| b |

Some of @tbl-all.
:::
"""


def test_what_only_one_edition_shows_has_words_in_the_other(tmp_path):
    text = selected(tmp_path, text=EDITIONS)
    hidden = '[a table of the HTML edition]{.content-hidden when-format="html"}'
    table = '[@tbl-all]{.content-visible when-format="html"}' + hidden
    figure = '[@fig-a]{.content-visible when-format="typst"}[a figure of the PDF]{.content-hidden when-format="typst"}'
    in_brackets = '[[@tbl-all]]{.content-visible when-format="html"}' + hidden
    assert f"As {table} shows, and @tbl-short, {figure} and {in_brackets}, [@knuth]." in text
    assert f"Some of {table}." in text
    # there the table has its number
    assert "Within, @tbl-all." in text
    assert "All, as @fig-a." in text


def test_a_sentence_that_begins_with_what_is_not_there_begins_with_a_capital_letter(tmp_path):
    figure = "::: {#fig-gone .cell}\n::: {.gap}\nNothing was timed.\n:::\n\nCaption.\n:::\n"
    text = selected(
        tmp_path, text=f"# One\n\nIt is.\n@fig-gone shows it, as @fig-gone does.\n\n@fig-gone too.\n\n{figure}"
    )
    assert "It is. A figure without data shows it, as a figure without data does." in " ".join(text.split())
    assert "A figure without data too." in text
    html = '::: {.content-visible when-format="html"}\n\n![Caption](a.svg){#fig-live}\n\n:::\n'
    text = selected(tmp_path, text=f"# One\n\n@fig-live shows it.\n\n{html}")
    assert "[A figure of the HTML edition]{.content-hidden" in " ".join(text.split())
