import base64

import pytest

from report.engine.page import page_arguments, page_blocks
from report.engine.pandoc import plain_text
from report.engine.places import Places
from report.engine.project import read_project
from report.engine.source import Line

PICTURE = b'<svg xmlns="http://www.w3.org/2000/svg"/>'


@pytest.fixture
def project(tmp_path):
    (tmp_path / "a.svg").write_bytes(PICTURE)
    (tmp_path / "own.css").write_text("p { color: red }")
    (tmp_path / "index.qmd").write_text("text\n")
    (tmp_path / "_quarto.yml").write_text(
        "format:\n  html:\n    toc: true\n    toc-depth: 2\n    css: own.css\n"
        "    include-in-header:\n      text: <meta name='x'>\n"
    )
    return read_project(tmp_path)


def test_a_picture_is_in_the_page(project):
    image = {"t": "Image", "c": [["", [], [["fig-alt", "seen"]]], [], ["a.svg", ""]]}
    (paragraph,) = page_blocks([{"t": "Para", "c": [image]}], project, Places([Line("a.svg", "a.qmd", 1)]))
    attributes, description, (address, _) = paragraph["c"][0]["c"]
    head, _, content = address.partition(",")
    assert head == "data:image/svg+xml;base64"
    assert base64.b64decode(content) == PICTURE
    assert plain_text(description) == "seen"
    assert attributes == ["", [], []]


def test_styles_and_headers_of_the_project(project, tmp_path):
    arguments = page_arguments(project, tmp_path, "paper.pdf")
    assert (tmp_path / "header.html").read_text() == "<style>\np { color: red }</style>\n<meta name='x'>"
    assert "--toc-depth=2" in arguments
    assert "--variable=paper:paper.pdf" in arguments


def test_no_contents_and_no_paper(project, tmp_path):
    project.settings["format"]["html"]["toc"] = False
    arguments = page_arguments(project, tmp_path, None)
    assert not any(argument.startswith(("--toc", "--variable")) for argument in arguments)
