"""Divs, numbers and cross-references, on documents that pandoc reads."""

import json
from pathlib import Path

import pytest

from measure.errors import UserError
from report.engine import tree
from report.engine.project import Project
from report.engine.source import Line, Places
from report.engine.tree import CELL_PADDING, LINE_CHARACTERS, column_widths, plain_text

PROJECT = Project(Path(), "a.qmd", {}, 1)


def resolved(text, output="html", number_sections=True):
    places = Places([Line(line, "a.qmd", number) for number, line in enumerate(text.split("\n"), 1)])
    blocks = json.loads(tree.run_pandoc(["--from=markdown", "--to=json"], text, PROJECT, places))["blocks"]
    numbers = tree.Numbers(number_sections, places)
    return tree.transform(numbers.given(tree.visible_in(output, blocks, places)), numbers.references)


FIGURE = "::: {#fig-a}\n![](a.svg)\n\nCaption\n:::\n\n"
TABLE = "| x |\n|---|\n| 1 |\n\n: Caption {#tbl-a}\n\n"


def test_sections():
    text = "# A\n\n## B\n\n# C {.unnumbered}\n\n# D\n\n### E\n"
    assert [plain_text(block) for block in resolved(text)] == ["1 A", "1.1 B", "C", "2 D", "2.0.1 E"]
    assert [plain_text(block) for block in resolved(text, number_sections=False)] == list("ABCDE")


def test_figures_tables_and_equations_count_apart():
    blocks = resolved(FIGURE + TABLE + FIGURE.replace("fig-a", "fig-b") + "$$x$$ {#eq-a}\n")
    assert [block["t"] for block in blocks] == ["Figure", "Table", "Figure", "Para"]
    captions = [plain_text(block["c"][1]) for block in blocks[:3]]
    assert captions == ["Figure\u00a01: Caption", "Table\u00a01: Caption", "Figure\u00a02: Caption"]
    assert plain_text(blocks[3]) == "x(1)"
    nested = "::: {.x}\n" + FIGURE + ":::\n\n" + FIGURE.replace("fig-a", "fig-b") + "@fig-a, @fig-b"
    assert plain_text(resolved(nested)).endswith("Figure\u00a01, Figure\u00a02")  # in the document's order


def test_references():
    text = FIGURE.replace("Caption", "After @tbl-a.^[Or @fig-a.]") + TABLE
    *_, last = blocks = resolved(text + "# A {#sec-a}\n\n@fig-a, @Fig-a, [@fig-a], @sec-a, [here](#sec-a)\n")
    assert plain_text(last) == "Figure\u00a01, Figure\u00a01, Figure\u00a01, Section\u00a01, here"
    assert plain_text(blocks).startswith("Figure\u00a01: After Table\u00a01.Or Figure\u00a01.")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a\n\nsee @fig-none", r"^a\.qmd:3: the cross-reference @fig-none leads nowhere"),
        ("# A {#sec-a .unnumbered}\n\n@sec-a", r"^a\.qmd:3: the cross-reference @sec-a leads nowhere"),
        (FIGURE + "a [@fig-a; @smith]", r"^a\.qmd:7: a bracket holds @fig-a and more"),
        (FIGURE + "[see @fig-a]", r"^a\.qmd:7: a bracket holds @fig-a and more"),
        (FIGURE + "[-@fig-a]", r"^a\.qmd:7: a bracket holds @fig-a and more"),
        ("a\n\n[x](#none)", r"^a\.qmd:3: the link to '#none' leads nowhere"),
        (FIGURE + FIGURE, r"^a\.qmd:7: the label 'fig-a' is defined twice"),
        ("::: {#fig-a}\n![](a.svg)\n\n- x\n:::", r"^a\.qmd:1: 'fig-a' needs content, and its caption"),
        ("::: {#tbl-a}\n" + 2 * "| x |\n|---|\n| 1 |\n\n" + "B\n:::", r"^a\.qmd:1: 'tbl-a' holds two tables"),
        ("a\n\ntext {#eq-a}", r"^a\.qmd:3: the label 'eq-a' does not follow a formula"),
        ("a\n\n: lonely {#tbl-b}", r"^a\.qmd:3: '{#tbl-b}' is not syntax"),
        ("a\n:::", r"^a\.qmd:2: ':::' is not syntax"),
        ("a\n\n::: {.x}\nb", r"^a\.qmd:3: .*[Dd]iv"),
        ("a\n\n::: {.callout-hint}\nx\n:::", r"^a\.qmd:3: the embedded engine does not know 'callout-hint'"),
        ('::: {.callout-note icon="false"}\nx\n:::', r"^a\.qmd:1: the embedded engine does not know 'icon'"),
        ("::: {layout-ncol=2}\nx\n:::", r"^a\.qmd:1: the embedded engine does not know 'layout-ncol'"),
        ('::: {.content-visible when-format="docx"}\nx\n:::', r'^a\.qmd:1: "\.content-visible" needs when-format'),
    ],
)
def test_refusals(text, message):
    with pytest.raises(UserError, match=message):
        resolved(text)


def test_callouts():
    (box,) = resolved("::: {.callout-tip}\n## A *title*\nbody\n\n::: {.callout-note}\ninner\n:::\n:::\n")
    title, body = box["c"][1]
    assert box["c"][0][1] == ["callout", "callout-tip"]
    assert (plain_text(title), plain_text(body)) == ("A title", "bodyNoteinner")
    (box,) = resolved('::: {.callout-note collapse="true" title="T"}\nx\n:::')
    assert box["c"][0][1] == ["callout", "callout-note", "folded"]
    assert plain_text(resolved("::: {.callout-tip}\n# T\n:::\n\n# A\n")) == "T1 A"  # a callout's heading is no section


@pytest.mark.parametrize(("output", "text"), [("html", "1onlyweb"), ("typst", "2onlypaper")])
def test_content_of_a_format(output, text):
    source = (
        '::: {.content-visible when-format="html"}\n1\n:::\n\n'
        '::: {.content-hidden when-format="html"}\n2\n:::\n\n'
        '::: {.content-visible when-format="html"}\n::: {.content-hidden when-format="typst"}\nonlyweb\n:::\n:::\n\n'
        '[onlypaper]{.content-visible when-format="typst"}\n'
    )
    assert plain_text(resolved(source, output)) == text


def test_column_widths():
    """The padding is 2.5 characters a column. Words of 20 and 5 characters, lines of 20 and 204.

    Columns that fit are as wide as their longest lines. Else the second gets what the first leaves, and where already
    the words do not fit each is as wide as its longest word.
    """
    assert column_widths([["abc", "a b"], ["a"]]) == [3 + CELL_PADDING, 1 + CELL_PADDING]
    first = 20 + CELL_PADDING
    assert column_widths([["x" * 20], ["abcd " * 41]]) == pytest.approx([first, LINE_CHARACTERS - first])
    assert column_widths([["x" * 100], ["y" * 300]]) == [102.5, 302.5]
