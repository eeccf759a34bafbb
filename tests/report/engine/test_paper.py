import re

import pypdfium2
import pytest
import typst
from helpers.places import ROOT

from measure.errors import UserError
from report.engine.pandoc import string
from report.engine.paper import compile_paper, paper_blocks
from report.engine.places import Places
from report.engine.project import Project
from report.engine.source import Line

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
    (project.root / "c.svg").write_text(
        PICTURE.replace('width="2000"', "").replace("<svg", '<svg stroke-width="3"')
    )
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
    measured = typst.Compiler(root=str(project.root)).compile(
        (page + '#box(image("a.svg"))').encode(), format="svg"
    )
    widths = [float(width) for width in re.findall(r'<image[^>]*? width="([\d.]+)"', measured.decode())]
    assert widths == [80.0]


@pytest.mark.parametrize(("pixels", "points"), [(600, 450), (4000, 21 / 2.54 * 72)])
def test_a_high_picture_fits_the_page(tmp_path, pixels, points):
    """1 px is 0.75 pt, so 4000 px are 3000 pt; a page leaves room for 21 cm."""
    style = ROOT / "report/engine/style.typ"
    (tmp_path / "a.svg").write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" width="400" height="{pixels}"/>'
    )
    page = '#set page(width: 400pt, height: auto, margin: 0pt)\n#image("a.svg", alt: "a")'
    drawn = typst.Compiler(root=str(tmp_path)).compile(
        (style.read_text("utf-8") + page).encode(), format="svg"
    )
    (height,) = re.findall(r'^<svg[^>]*? height="([\d.]+)pt"', drawn.decode())
    assert float(height) == pytest.approx(points, abs=0.1)


def test_figures_float_and_the_sentence_in_place_of_one_does_not(project):
    places = Places([Line("![](a.svg)", "index.qmd", 4)])
    assert len(paper_blocks([figure(string("nothing was measured"))], project, places)) == 1
    before, floating, after = paper_blocks([figure(image("a.svg"))], project, places)
    assert before["c"] == ["typst", "#[#set figure(placement: auto)"]
    assert floating["t"] == "Figure"
    assert after["c"] == ["typst", "]"]


def test_a_formula_has_its_tex_to_be_read_aloud(project):
    formula = {"t": "Math", "c": [{"t": "InlineMath"}, "\\min(\\pi,\n\\beta I)"]}
    (block,) = paper_blocks([{"t": "Para", "c": [formula]}], project, Places([]))
    before, kept, after = block["c"]
    assert before["c"][1] == r'#spoken("\\min(\\pi, \\beta I)")['
    assert kept == formula
    assert after["c"][1] == "]"


def test_the_paper_is_for_listeners_too(project):
    head = '#set document(title: [T])\n#set text(lang: "en")\n'
    pdf = pypdfium2.PdfDocument(compile_paper(head + '#image("a.svg", alt: "a")', project))
    assert pypdfium2.raw.FPDFCatalog_IsTagged(pdf)
    for untold in ('#image("a.svg")', "$a$"):
        with pytest.raises(UserError, match=r"missing alt text"):
            compile_paper(head + untold, project)


def test_a_source_that_is_wrong(project):
    with pytest.raises(UserError, match=r"^Typst stops: unknown variable: nosuch"):
        compile_paper("#nosuch", project)


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
