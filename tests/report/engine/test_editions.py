"""The editions of small documents: numbers, cross-references, callouts and the content of each format."""

import re

import pytest
from helpers.pages import Page

from measure.errors import UserError
from report.engine.embedded import make_editions
from report.engine.project import Project
from report.engine.source import Line

FIGURE = "::: {#fig-a}\n![](a.svg)\n\nCaption\n:::\n\n"


@pytest.fixture
def made(tmp_path):
    """Returns an edition's text."""

    def make(text, edition="html", numbered=True):
        lines = [Line(line, "a.qmd", number) for number, line in enumerate(text.split("\n"), 1)]
        (tmp_path / "body").write_text("$body$")
        editions = [{"format": edition, "template": str(tmp_path / "body"), "variables": {}}]
        job = {"text": text, "filters": [], "numbered": numbered, "bibliography": []}
        return dict(make_editions({**job, "editions": editions}, Project(tmp_path, "a.qmd", {}), lines))[edition]

    (tmp_path / "a.svg").write_text('<svg xmlns="http://www.w3.org/2000/svg" width="200" height="10"/>')
    return make


def words(page):
    return Page(page).root.text()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a\n\nsee @fig-none", r"^a\.qmd:3: the cross-reference '@fig-none' leads nowhere"),
        ("# A {#sec-a .unnumbered}\n\n@sec-a", r"^a\.qmd:3: the cross-reference '@sec-a' leads nowhere"),
        (FIGURE + "a [@fig-a; @smith]", r"^a\.qmd:7: '@fig-a' stands in a bracket with more"),
        (FIGURE + "[see @fig-a]", r"^a\.qmd:7: '@fig-a' stands in a bracket with more"),
        (FIGURE + "[-@fig-a]", r"^a\.qmd:7: '@fig-a' stands in a bracket with more"),
        ("a\n\n![](../a.svg)", r"^a\.qmd:3: the picture"),
        ("a\n\n![](none.svg)", r"^a\.qmd:3: the picture"),
        ("a\n\n[x](#none)", r"^a\.qmd:3: the link to '#none' leads nowhere"),
        (FIGURE + FIGURE, r"^a\.qmd:7: the label '#fig-a' is defined twice"),
        ("::: {#fig-a}\n![](a.svg)\n\n- x\n:::", r"^a\.qmd:1: '#fig-a' needs its caption"),
        ("a\n\ntext {#eq-a}", r"^a\.qmd:3: '{#eq-a}' is not syntax"),
        ("a\n\n: lonely {#tbl-b}", r"^a\.qmd:3: '{#tbl-b}' is not syntax"),
        ("a\n:::", r"^a\.qmd:2: ':::' is not syntax"),
        ("a\n\n::: {.x}\nb", r"^a\.qmd:3: .*[Dd]iv"),
        ("a\n\n::: {.callout-hint}\nx\n:::", r"^a\.qmd:3: the embedded engine does not know 'callout-hint'"),
        ("::: {layout-ncol=2}\nx\n:::", r"^a\.qmd:1: the embedded engine does not know 'layout-ncol'"),
        ('::: {.content-hidden when-format="html"}\nx\n:::', r"^a\.qmd:1: .* does not know 'content-hidden'"),
        ('::: {.content-visible when-format="docx"}\nx\n:::', r"^a\.qmd:1: 'content-visible' needs when-format"),
    ],
)
def test_refusals(made, text, message):
    with pytest.raises(UserError, match=message):
        made(text)


@pytest.mark.parametrize(("edition", "text"), [("html", "1 onlyweb"), ("typst", "2 onlypaper")])
def test_content_of_a_format(made, edition, text):
    source = (
        '::: {.content-visible when-format="html"}\n1\n:::\n\n'
        '::: {.content-visible when-format="typst"}\n2\n:::\n\n'
        '::: {.content-visible when-format="html"}\n[onlyweb]{.content-visible when-format="html"}\n:::\n\n'
        '[onlypaper]{.content-visible when-format="typst"}\n\n```{=latex}\nx\n```\n'
    )
    assert words(made(source, edition)) == text


@pytest.mark.parametrize(
    ("attributes", "width"),
    # 800 px take the line, so 200 px take a quarter of it.
    [('width="2000"', "100%"), ('width="200"', "25%"), ('stroke-width="3"', "auto")],
)
def test_pictures_are_drawn_at_one_scale_in_the_paper(made, tmp_path, attributes, width):
    (tmp_path / "b.svg").write_text(f'<svg xmlns="http://www.w3.org/2000/svg" {attributes} height="10"/>')
    written = made('![](b.svg){fig-alt="a \\"b\\" \\\\ µ"}', "typst")
    assert rf'#box(image("b.svg", width: {width}, alt: "a \"b\" \\ µ"))' in written


def test_an_equation_has_its_number_and_label(made):
    written = made("$$\\pi$$ {#eq-a}\n", "typst")
    assert re.search(r'#numbered-equation\("\(1\)"\)\[\$ pi \$\s+<eq-a>\]', written)


def test_columns_of_a_wide_table_have_widths_in_the_paper_alone(made):
    """Where a line is longer than 160 characters, by the dashes: 41 and 121 of 162 with the colons."""
    table = f"| a | b |\n|:{'-' * 40}|:{'-' * 120}|\n| 1 | 2 |\n"
    assert re.search(r"columns: \(25\.\d*%, 7\d\.\d*%\)", made(table, "typst"))
    assert "width" not in made(table)
    assert "%" not in made(table.replace("-" * 120, "-" * 60), "typst")


@pytest.mark.parametrize("edition", ["html", "typst"])
def test_a_kind_of_the_metadata_has_numbers_of_its_own(made, edition):
    """As in Quarto: `space-before-numbering` is true unless it is set."""
    kinds = "---\ncrossref:\n  custom:\n  - {key: suppfig, reference-prefix: Figure S, space-before-numbering: false}\n"
    kinds += "  - {key: supptbl, reference-prefix: Extra}\n---\n\n"
    table = "::: {#supptbl-a}\n| a |\n|---|\n| b |\n\nCells\n:::\n\n"
    figures = FIGURE + FIGURE.replace("#fig", "#suppfig")
    text = made(f"{kinds}{figures}{table}See @fig-a, @suppfig-a, @supptbl-a.", edition)
    text = words(text) if edition == "html" else re.sub(r"#link\(<[\w-]+>\)\[(.*?)\]", r"\1", text.replace("~", " "))
    for said in ("Figure 1: Caption", "Figure S1: Caption", "Extra 1: Cells", "See Figure 1, Figure S1, Extra 1."):
        assert said in text
