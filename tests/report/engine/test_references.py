"""Divs, numbers and cross-references, on documents that pandoc reads."""

import json
from pathlib import Path

import pytest

from measure.errors import UserError
from report.engine.blocks import visible_in, with_callouts
from report.engine.pandoc import plain_text, run_pandoc
from report.engine.references import Numbered, with_references
from report.engine.source import Line, Places


def resolved(text, output="html", number_sections=True):
    lines = [Line(line, "a.qmd", number) for number, line in enumerate(text.split("\n"), 1)]
    places = Places(lines)
    blocks = json.loads(run_pandoc(["--from=markdown", "--to=json"], text, Path()))["blocks"]
    blocks = with_callouts(visible_in(output, blocks, places), places)
    return with_references(Numbered(blocks, number_sections, places), places)


def words(text, **options):
    return plain_text(resolved(text, **options))


FIGURE = "::: {#fig-a}\n![](a.svg)\n\nCaption\n:::\n\n"
TABLE = "| x |\n|---|\n| 1 |\n\n: Caption {#tbl-a}\n\n"


def test_sections():
    text = "# A\n\n## B\n\n# C {.unnumbered}\n\n# D\n\n### E\n"
    assert [plain_text(block) for block in resolved(text)] == ["1 A", "1.1 B", "C", "2 D", "2.0.1 E"]
    assert [plain_text(block) for block in resolved(text, number_sections=False)] == list("ABCDE")


def test_figures_tables_and_equations_count_apart():
    text = FIGURE + TABLE + FIGURE.replace("fig-a", "fig-b") + "$$x$$ {#eq-a}\n"
    blocks = resolved(text)
    assert [block["t"] for block in blocks] == ["Figure", "Table", "Figure", "Para"]
    captions = [plain_text(block["c"][1]) for block in blocks[:3]]
    assert captions == ["Figure\u00a01: Caption", "Table\u00a01: Caption", "Figure\u00a02: Caption"]
    assert plain_text(blocks[3]) == "x(1)"


@pytest.mark.parametrize(
    ("reference", "text"),
    [
        ("@fig-a", "Figure\u00a01"),
        ("[@fig-a]", "Figure\u00a01"),
        ("@Fig-a", "Figure\u00a01"),
        ("[-@fig-a]", "1"),
        ("[see @fig-a]", "see\u00a01"),
        ("[@fig-a; @tbl-a]", "Figure\u00a01, Table\u00a01"),
        ("@sec-a", "Section\u00a01"),
        ("[here](#sec-a)", "here"),
    ],
)
def test_references(reference, text):
    blocks = resolved(FIGURE + TABLE + f"# A {{#sec-a}}\n\n{reference}\n")
    assert plain_text(blocks[-1]) == text


def test_references_in_captions_and_notes():
    text = FIGURE.replace("Caption", "After @tbl-a.^[Or @fig-a.]") + TABLE
    assert words(text).startswith("Figure\u00a01: After Table\u00a01.Or Figure\u00a01.")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a\n\nsee @fig-none", r"^a\.qmd:3: the cross-reference @fig-none leads nowhere, 'fig-none' is not there"),
        ("# A {#sec-a .unnumbered}\n\n@sec-a", r"^a\.qmd:3: .* 'sec-a' has no number"),
        (FIGURE + "a [@fig-a; @smith]", r"^a\.qmd:7: one bracket holds a citation and a cross-reference"),
        (FIGURE + "[@fig-a, left]", r"^a\.qmd:7: Quarto drops what follows"),
        ("a\n\n[x](#none)", r"^a\.qmd:3: the link to '#none' leads nowhere"),
        (FIGURE + FIGURE, r"^a\.qmd:7: the label 'fig-a' is defined twice"),
        (
            "::: {#fig-a}\n![](a.svg)\n\n- no caption\n:::",
            r"^a\.qmd:1: the last paragraph of 'fig-a' must be its caption",
        ),
        ("::: {#fig-a}\nCaption\n:::", r"^a\.qmd:1: 'fig-a' holds nothing"),
        (
            "::: {#tbl-a}\n" + 2 * TABLE.replace(": Caption {#tbl-a}\n\n", "") + "B\n:::",
            r"^a\.qmd:1: 'tbl-a' holds 2 tables",
        ),
        (
            "::: {#tbl-a}\n" + TABLE.replace(" {#tbl-a}", "") + "B\n:::",
            r"^a\.qmd:1: the table 'tbl-a' has two captions",
        ),
        ("::: {#lst-a}\nx\n:::", r"^a\.qmd:1: 'lst-a' is a kind of cross-reference"),
        ("a\n\ntext {#eq-a}", r"^a\.qmd:3: the label 'eq-a' does not follow a formula"),
        ("a\n\n: lonely {#tbl-b}", r"^a\.qmd:3: '{#tbl-b}' is not syntax"),
        ("a\n:::", r"^a\.qmd:2: ':::' is not syntax"),
    ],
)
def test_refusals(text, message):
    with pytest.raises(UserError, match=message):
        resolved(text)


def test_a_sentence_in_a_tables_place():
    (figure,) = resolved("::: {#tbl-a}\nNothing was measured.\n\nCaption\n:::\n")
    assert figure["t"] == "Figure"
    assert plain_text(figure["c"][1:]) == "Table\u00a01: CaptionNothing was measured."


def test_a_heading_may_begin_like_a_label():
    assert words("# Def inition\n\n# Fig tree\n") == "1 Def inition2 Fig tree"


def test_column_widths():
    table = resolved('::: {#tbl-a tbl-colwidths="[1,3]"}\n| a | b |\n|---|---|\n| 1 | 2 |\n\nCaption\n:::\n')[0]
    assert [width["c"] for _, width in table["c"][2]] == [0.25, 0.75]


def test_column_widths_for_another_number_of_columns():
    with pytest.raises(UserError, match=r"^a\.qmd:1: tbl-colwidths must hold 1 positive numbers, not \[1,3\]"):
        resolved('::: {#tbl-a tbl-colwidths="[1,3]"}\n| a |\n|---|\n| 1 |\n\nCaption\n:::\n')


def test_an_alternative_text_from_the_figure():
    figure = resolved('::: {#fig-a fig-alt="seen"}\n![](a.svg)\n\nCaption\n:::\n')[0]
    assert figure["c"][2][0]["c"][0]["c"][0][2] == [["fig-alt", "seen"]]


def test_callouts():
    text = "::: {.callout-tip}\n## A *title*\nbody\n\n::: {.callout-note}\ninner\n:::\n:::\n"
    (box,) = resolved(text)
    title, body = box["c"][1]
    assert box["c"][0][1] == ["callout", "callout-tip"]
    assert plain_text(title) == "A title"
    assert plain_text(body) == "bodyNoteinner"


def test_a_callouts_heading_is_no_section():
    assert words("::: {.callout-tip}\n# T\n:::\n\n# A\n") == "T1 A"


@pytest.mark.parametrize(("output", "text"), [("html", "1onlyweb"), ("typst", "2onlypaper")])
def test_conditional_content(output, text):
    source = (
        '::: {.content-visible when-format="html"}\n1\n:::\n\n'
        '::: {.content-hidden when-format="html"}\n2\n:::\n\n'
        '::: {.content-visible when-format="html"}\n::: {.content-hidden when-format="typst"}\nonlyweb\n:::\n:::\n\n'
        '[onlypaper]{.content-visible when-format="typst"}\n'
    )
    assert words(source, output=output) == text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a\n\n::: {.callout-hint}\nx\n:::", r"^a\.qmd:3: the embedded engine does not know the div '\.callout-hint'"),
        ('::: {.callout-note collapse="true"}\nx\n:::', r"^a\.qmd:1: the embedded engine does not know 'collapse'"),
        ("::: {.panel-tabset}\nx\n:::", r"^a\.qmd:1: the embedded engine does not know the div '\.panel-tabset'"),
        ("::: {layout-ncol=2}\nx\n:::", r"^a\.qmd:1: the embedded engine does not know 'layout-ncol'"),
        ('::: {.content-visible when-format="docx"}\nx\n:::', r"^a\.qmd:1: .*needs when-format"),
    ],
)
def test_unknown_divs(text, message):
    with pytest.raises(UserError, match=message):
        resolved(text)
