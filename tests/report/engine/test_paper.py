import json
import re
from pathlib import Path

import pypdfium2
import pytest
import typst
from helpers.places import ROOT

from measure.errors import UserError
from report.engine.columns import CELL_PADDING, LINE_CHARACTERS
from report.engine.pandoc import run_pandoc, string
from report.engine.paper import compile_paper, paper_arguments, paper_blocks, with_column_widths
from report.engine.project import Project, read_project
from report.engine.source import Line, Places

PICTURE = '<svg xmlns="http://www.w3.org/2000/svg" width="2000" height="10"/>'


@pytest.fixture
def project(tmp_path):
    (tmp_path / "a.svg").write_text(PICTURE)
    return Project(tmp_path, "index.qmd", {}, 1)


def typst_of(project, inline):
    places = Places([Line("![](a.svg)", "index.qmd", 4)])
    (block,) = paper_blocks([{"t": "Para", "c": [inline]}], project, places)
    return block["c"][0]["c"][1]


def figure(content):
    return {"t": "Figure", "c": [["fig-a", [], []], [None, []], [{"t": "Plain", "c": [content]}]]}


def image(path, description=(), **attributes):
    pairs = [[key.replace("_", "-"), value] for key, value in attributes.items()]
    return {"t": "Image", "c": [["", [], pairs], list(description), [path, ""]]}


def test_pictures(project):
    assert typst_of(project, image("a.svg", [string("x")])) == '#box(image("a.svg", width: 100%, alt: "x"))'
    assert (
        typst_of(project, image("a.svg", fig_alt='a "b" \\ µ', width="50%"))
        == r'#box(image("a.svg", width: 50%, alt: "a \"b\" \\ µ"))'
    )


def test_pictures_are_drawn_at_one_scale(project):
    """656 px take the line, so 164 px take a quarter of it."""
    (project.root / "b.svg").write_text(PICTURE.replace("2000", "164"))
    assert typst_of(project, image("b.svg")) == '#box(image("b.svg", width: 25%, alt: ""))'
    (project.root / "c.svg").write_text(PICTURE.replace('width="2000"', "").replace("<svg", '<svg stroke-width="3"'))
    assert typst_of(project, image("c.svg")) == '#box(image("c.svg", width: auto, alt: ""))'


@pytest.mark.parametrize(
    "picture",
    [
        image("https://example.org/a.svg"),
        image("../a.svg"),
        image("none.svg"),
        image("a.svg", width="3cm"),
        image("a.svg", height="50%"),
    ],
)
def test_pictures_that_are_none(project, picture):
    with pytest.raises(UserError, match=r"^index\.qmd:4: "):
        typst_of(project, picture)


def test_a_wide_picture_fits_the_page(project):
    """1 px is 0.75 pt, so the picture's own 2000 px are 1500 pt; the text is 80 pt wide."""
    page = "#set page(width: 100pt, height: auto, margin: 10pt)\n"
    measured = typst.Compiler(root=str(project.root)).compile((page + '#box(image("a.svg"))').encode(), format="svg")
    widths = [float(width) for width in re.findall(r'<image[^>]*? width="([\d.]+)"', measured.decode())]
    assert widths == [80.0]


@pytest.mark.parametrize(("pixels", "points"), [(600, 450), (4000, 21 / 2.54 * 72)])
def test_a_high_picture_fits_the_page(tmp_path, pixels, points):
    """1 px is 0.75 pt, so 4000 px are 3000 pt; a page leaves room for 21 cm."""
    style = ROOT / "report/engine/style.typ"
    (tmp_path / "a.svg").write_text(f'<svg xmlns="http://www.w3.org/2000/svg" width="400" height="{pixels}"/>')
    page = '#set page(width: 400pt, height: auto, margin: 0pt)\n#image("a.svg", alt: "a")'
    drawn = typst.Compiler(root=str(tmp_path)).compile((style.read_text("utf-8") + page).encode(), format="svg")
    (height,) = re.findall(r'^<svg[^>]*? height="([\d.]+)pt"', drawn.decode())
    assert float(height) == pytest.approx(points, abs=0.1)


def test_figures_float_and_the_sentence_in_place_of_one_does_not(project):
    places = Places([Line("![](a.svg)", "index.qmd", 4)])
    assert len(paper_blocks([figure(string("nothing was measured"))], project, places)) == 1
    before, floating, after = paper_blocks([figure(image("a.svg"))], project, places)
    assert before["c"] == ["typst", "#[#set figure(placement: auto)"]
    assert floating["t"] == "Figure"
    assert after["c"] == ["typst", "]"]


def test_a_flag_stays_on_its_line(project):
    words = [string(word) for word in ("--batch-sizes", "-m", "-", "–", "well-known", "-99.5")]
    (block,) = paper_blocks([{"t": "Para", "c": words}], project, Places([]))
    assert [word["c"] for word in block["c"]] == [
        ["typst", r"#box[\-\-batch\-sizes]"], ["typst", r"#box[\-m]"], "-", "–", "well-known", "-99.5",
    ]  # fmt: skip


@pytest.mark.parametrize("width", range(100, 200, 10))
def test_the_words_of_a_command_stay_whole(tmp_path, width):
    command = "python -m measure --batch-sizes 1 --training-batch-sizes 2"
    page = f"#set page(width: {width}pt, height: auto, margin: 0pt)\nRun `{command}` there."
    pdf = typst.Compiler(root=str(tmp_path)).compile((STYLE + page).encode(), format="pdf")
    text = pypdfium2.PdfDocument(pdf)[0].get_textpage().get_text_range()
    assert len(text.splitlines()) > 1
    assert text.replace("\ufffe", "-").split() == ["Run", *command.split(), "there."]


def test_a_formula_has_its_tex_to_be_read_aloud(project):
    formula = {"t": "Math", "c": [{"t": "InlineMath"}, "\\min(\\pi,\n\\beta I)"]}
    (block,) = paper_blocks([{"t": "Para", "c": [formula]}], project, Places([]))
    before, kept, after = block["c"]
    assert before["c"][1] == r'#spoken("\\min(\\pi, \\beta I)")['
    assert kept == formula
    assert after["c"][1] == "]"


def test_the_paper_is_for_listeners_too(project):
    head = '#set document(title: [T])\n#set text(lang: "en")\n'
    pdf = pypdfium2.PdfDocument(compile_paper(head + '#image("a.svg", alt: "a")', project, pytest.fail))
    assert pypdfium2.raw.FPDFCatalog_IsTagged(pdf)
    for untold in ('#image("a.svg")', "$a$"):
        with pytest.raises(UserError, match=r"missing alt text"):
            compile_paper(head + untold, project, pytest.fail)


def test_a_source_that_is_wrong(project):
    with pytest.raises(UserError, match=r"^Typst stops: unknown variable: nosuch"):
        compile_paper("#nosuch", project, pytest.fail)


def test_a_character_that_no_font_has_becomes_a_box(project):
    notes = []
    text = '#set document(title: [论文])\n#set text(lang: "en")\n#title()\n= A 论 \U0001f9ea\n`code 文`\n'
    pages = pypdfium2.PdfDocument(compile_paper(text, project, notes.append))
    printed = "".join(page.get_textpage().get_text_bounded() for page in pages)
    assert "".join(printed.split()) == "□□A□□code□"
    assert pages.get_metadata_value("Title") == "论文"
    (note,) = notes
    assert note.startswith(
        "the PDF shows □ for what no font of the paper has: 论 (U+8BBA), 文 (U+6587), \U0001f9ea (U+1F9EA); "
    )


def test_margins_and_type_are_the_settings(tmp_path):
    (tmp_path / "index.qmd").write_text("text\n")
    (tmp_path / "_quarto.yml").write_text(
        "format:\n  typst:\n    fontsize: 9pt\n    margin:\n      x: 2cm\n      top: 1in\n"
    )
    arguments = paper_arguments(read_project(tmp_path), tmp_path)
    assert {"--variable=fontsize:9pt", "--variable=margin:x: 2cm, top: 1in"} <= set(arguments)
    written = run_pandoc(["--from=markdown", *arguments], "text", tmp_path)
    assert "margin: (x: 2cm, top: 1in)," in written
    assert "size: 9pt, lang:" in written


def test_a_paper_without_such_settings_has_typst_s_own(project):
    arguments = [*paper_arguments(project, project.root), "--metadata=title:T", "--metadata=lang:en"]
    written = run_pandoc(["--from=markdown", *arguments], "text", project.root)
    assert "margin: (" not in written
    assert compile_paper(written, project, pytest.fail)


def glyphs(text):
    page = typst.Compiler(ignore_system_fonts=True).compile(
        f'#set text(font: "Libertinus Serif")\n{text}'.encode(), format="svg"
    )
    return set(re.findall(r'<symbol id="[^"]*"[^>]*>(.*?)</symbol>', page.decode(), re.DOTALL))


def test_no_glyph_is_missing():
    """What no font has is drawn as one and the same box, whatever the character."""
    (missing,) = glyphs("\U0001f9ff")
    assert glyphs("\U0001f9fe") == {missing}
    for character in "·×≥≤√π²³−–—…±≈µβΔ→°½‰∞“”‘’éłß†₂∑\u202f\u00a0":
        assert missing not in glyphs(character), character


def test_the_template_names_fonts_that_are_in_the_wheel():
    template = (ROOT / "report/engine/resources/paper.typ").read_text("utf-8")
    named = set(re.findall(r'font: "([^"]+)"', template))
    assert len(named) == 2  # text, and code
    assert named <= set(typst.Fonts(include_system_fonts=False).families())


def table(*rows):
    width = len(rows[0])
    lines = ["| " + " | ".join(row) + " |" for row in (rows[0], ["---"] * width, *rows[1:])]
    arguments = ["--from=markdown", "--to=json", "--columns=100000"]
    (block,) = json.loads(run_pandoc(arguments, "\n".join(lines), Path()))["blocks"]
    return block["c"]


def shares(content):
    return [width["c"] for _, width in content[2]]


def test_a_table_that_fits_is_left_alone():
    content = table(["a", "b"], ["1", "2"])
    assert with_column_widths(content) == content


def test_long_lines_share_what_the_words_leave():
    """Words of 20 and 5 characters, lines of 20 and 205: the second column gets all that is left."""
    content = with_column_widths(table(["x" * 20, "word"], ["1", "abcde " * 34 + "f"]))
    first = (20 * 1.1 + CELL_PADDING) / LINE_CHARACTERS
    assert shares(content) == pytest.approx([first, 1 - first])


def test_words_that_do_not_fit_share_by_their_length():
    content = with_column_widths(table(["x" * 100, "y" * 300], ["1", "2"]))
    # Words of 100 and 300 characters: 100 * 1.1 + 2.5 and 300 * 1.1 + 2.5.
    assert shares(content) == pytest.approx([112.5 / 445, 332.5 / 445])


def test_a_header_gets_what_its_column_leaves():
    """Words of 40, 40 and 8, lines below of as many: of the 105 characters the header of 27 gets what they leave."""
    content = with_column_widths(table(["a", "b", "one two three seven header"], ["x" * 40, "y" * 40, "12345678"]))
    wide = 40 * 1.1 + CELL_PADDING
    assert shares(content) == pytest.approx([wide / LINE_CHARACTERS] * 2 + [1 - 2 * wide / LINE_CHARACTERS])


def test_given_widths_stay():
    content = table(["x" * 100, "y" * 300], ["1", "2"])
    for (_, width), share in zip(content[2], [0.5, 0.5], strict=True):
        width.update(t="ColWidth", c=share)
    assert shares(with_column_widths(content)) == [0.5, 0.5]


def test_capitals_are_wider_than_other_letters_and_some_letters_narrower():
    """Words of 50 letters: capitals 1.4, i 0.6, x 1.1 of the average character, and the padding of 2.5."""
    content = with_column_widths(table(["A" * 50, "i" * 50, "x" * 50], ["1", "2", "3"]))
    whole = 70 + 30 + 55 + 3 * 2.5
    assert shares(content) == pytest.approx([72.5 / whole, 32.5 / whole, 57.5 / whole])


def test_the_sentence_in_a_tables_place_has_its_caption_above_it(project):
    """As Quarto sets it: pandoc's figure, which has its caption below, becomes one of kind table."""
    sentence = {"t": "Para", "c": [string("Nothing was measured.")]}
    caption = [None, [{"t": "Plain", "c": [string("Caption")]}]]
    blocks = paper_blocks([{"t": "Figure", "c": [["tbl-a", [], []], caption, [sentence]]}], project, Places([]))
    document = json.dumps({"pandoc-api-version": [1, 23, 1], "meta": {}, "blocks": blocks})
    arguments = [*paper_arguments(project, project.root), "--metadata=title:T", "--metadata=lang:en"]
    written = run_pandoc(["--from=json", *arguments], document, project.root)
    (page,) = pypdfium2.PdfDocument(compile_paper(written, project, pytest.fail))
    printed = page.get_textpage().get_text_bounded()
    assert printed.index("Caption") < printed.index("Nothing was measured.")


STYLE = (ROOT / "report/engine/style.typ").read_text("utf-8")
QUARTOS = '#figure([PICTURE], caption: [C], kind: "quarto-float-fig", supplement: "Figure", numbering: "1") <fig-a>\n'


def test_links_and_cross_references_have_one_colour():
    for linked in ("#link(<fig-a>)[here]", "@fig-a"):
        page = typst.Compiler(ignore_system_fonts=True).compile(f"{STYLE}\n{QUARTOS}{linked}".encode(), format="svg")
        assert 'fill="#1d4f91"' in page.decode(), linked


def test_quartos_figures_float():
    """Where a figure does not fit, the text behind it fills the page, and the figure is on top of the next."""
    page = "#set page(width: 10cm, height: 10cm, margin: 1cm)\n"
    tall = QUARTOS.replace("[PICTURE]", "block(height: 5cm)[PICTURE]")
    text = f"#block(height: 4cm)[BEFORE]\n{tall}\n\nBEHIND\n"
    pdf = pypdfium2.PdfDocument(typst.Compiler(ignore_system_fonts=True).compile((STYLE + page + text).encode()))
    printed = [page.get_textpage().get_text_bounded() for page in pdf]
    assert "BEHIND" in printed[0]
    assert "PICTURE" in printed[1]


def test_a_character_of_a_drawing_that_no_font_has_becomes_a_box(project):
    svg = '<svg xmlns="http://www.w3.org/2000/svg" width="300" height="50"><text x="5" y="20">Chip {}</text></svg>'
    (project.root / "b.svg").write_text(svg.format("论 \U0001f9ea"), "utf-8")
    (project.root / "c.svg").write_text(svg.format('"x"'), "utf-8")
    notes = []
    text = '#set document(title: [T])\n#image("b.svg", alt: "论")\n#image("c.svg", alt: "c")\n'
    (page,) = pypdfium2.PdfDocument(compile_paper(text, project, notes.append))
    assert page.get_textpage().get_text_bounded().split() == ["Chip", "□", "□", "Chip", '"x"']
    assert len(notes) == 1
