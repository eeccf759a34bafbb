"""The paper as Typst sets it."""

import re

import pypdfium2
import pytest
import typst
from helpers.places import ROOT

from measure.errors import UserError
from report.engine.paper import compile_paper
from report.engine.project import Project

STYLE = (ROOT / "report/engine/style.typ").read_text("utf-8")


@pytest.fixture
def project(tmp_path):
    return Project(tmp_path, "index.qmd", {"format": {"typst": {"pdf-standard": "ua-1"}}}, 1)


def typeset(text, folder=None, **options):
    """What Typst makes of a text in the paper's style."""
    return typst.Compiler(root=folder and str(folder)).compile(f"{STYLE}\n{text}".encode(), **options)


@pytest.mark.parametrize(("pixels", "points"), [(600, 450), (4000, 21 / 2.54 * 72)])
def test_a_high_picture_fits_the_page(tmp_path, pixels, points):
    """1 px is 0.75 pt, so 4000 px are 3000 pt; a page leaves room for 21 cm."""
    (tmp_path / "a.svg").write_text(f'<svg xmlns="http://www.w3.org/2000/svg" width="400" height="{pixels}"/>')
    page = '#set page(width: 400pt, height: auto, margin: 0pt)\n#image("a.svg", alt: "a")'
    (height,) = re.findall(r'^<svg[^>]*? height="([\d.]+)pt"', typeset(page, tmp_path, format="svg").decode())
    assert float(height) == pytest.approx(points, abs=0.1)


def test_the_paper_is_for_listeners_too_unless_that_cannot_be(project):
    head = '#set document(title: [T])\n#set text(lang: "en")\n'
    pdf = compile_paper(head, project, pytest.fail)
    assert pypdfium2.raw.FPDFCatalog_IsTagged(pypdfium2.PdfDocument(pdf))
    for untold in ("$a$", "A 论"):
        notes = []
        assert compile_paper(head + untold, project, notes.append)
        assert len(notes) == 1
    with pytest.raises(UserError, match=r"^Typst stops: unknown variable: nosuch"):
        compile_paper("#nosuch", project, pytest.fail)


def test_the_template_names_fonts_that_are_in_the_wheel():
    template = (ROOT / "report/engine/resources/paper.typ").read_text("utf-8")
    named = set(re.findall(r'font: "([^"]+)"', template))
    assert len(named) == 2  # text, and code
    assert named <= set(typst.Fonts(include_system_fonts=False).families())
