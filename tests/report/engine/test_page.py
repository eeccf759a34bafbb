import base64
from urllib.parse import unquote

import pytest

from report.engine.page import Withheld, page_arguments, page_blocks
from report.engine.project import read_project
from report.engine.source import Line, Places

PICTURE = b"""<svg xmlns="http://www.w3.org/2000/svg"><text fill="#123">100 % of "Ada's" \xc2\xb5s</text></svg>"""


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


def shown(project, path, **attributes):
    """The element of HTML that a picture becomes, and its address."""
    pairs = [[key.replace("_", "-"), value] for key, value in attributes.items()]
    image = {"t": "Image", "c": [["", [], pairs], [], [path, ""]]}
    withheld = Withheld()
    places = Places([Line(path, "a.qmd", 1)])
    (paragraph,) = page_blocks([{"t": "Para", "c": [image]}], project, places, withheld)
    element = withheld.restored(paragraph["c"][0]["c"][1])
    return element, element.split('"')[1]


def test_a_picture_is_in_the_page(project):
    element, address = shown(project, "a.svg", fig_alt='"<seen>"', width="50%")
    assert element == f'<img src="{address}" alt="&quot;&lt;seen&gt;&quot;" style="width:50%">'
    head, _, content = address.partition(",")
    assert head == "data:image/svg+xml;charset=utf-8"
    # quotes are single, and so those within are told apart
    drawn = PICTURE.decode().replace("'", "&#39;").replace('"', "'")
    assert unquote(content) == drawn
    assert not set('<>&#"') & set(content)


def test_a_picture_of_pixels_is_in_the_page(project):
    (project.root / "a.png").write_bytes(b"\x89PNG")
    head, _, content = shown(project, "a.png")[1].partition(",")
    assert head == "data:image/png;base64"
    assert base64.b64decode(content) == b"\x89PNG"


def test_styles_and_headers_of_the_project(project, tmp_path):
    arguments = page_arguments(project, tmp_path, "paper.pdf")
    assert (tmp_path / "header.html").read_text() == "<style>\np { color: red }</style>\n<meta name='x'>"
    assert "--toc-depth=2" in arguments
    assert "--variable=paper:paper.pdf" in arguments


def test_no_contents_and_no_paper(project, tmp_path):
    project.settings["format"]["html"]["toc"] = False
    arguments = page_arguments(project, tmp_path, None)
    assert not any(argument.startswith(("--toc", "--variable")) for argument in arguments)


MARKDOWN = "one\n\n```{=html}\n<b>two</b>\n<i>three</i>\n```\n\n```\ncode\n```\n\n```{=html}\n<!--four-->\n```\nfive\n"


def test_raw_html_is_withheld_and_no_line_moves():
    short = Withheld().without_raw_blocks(MARKDOWN)
    assert "two" not in short
    assert "four" not in short
    kept = ("one", "```{=html}", "code", "five")
    assert [line for line in short.split("\n") if line in kept] == ["one", "```{=html}", "code", "```{=html}", "five"]
    for line in kept:
        assert short.split("\n").index(line) == MARKDOWN.split("\n").index(line)


def test_what_was_withheld_comes_back():
    withheld = Withheld()
    assert withheld.restored(withheld.without_raw_blocks(MARKDOWN)) == MARKDOWN.replace(
        "</i>\n```",
        "</i>\n\n```",  # the line that the second line of raw HTML left
    )
    assert withheld.restored(f"<p>{withheld.mark('<img>')}</p>") == "<p><img></p>"


def test_a_mark_of_nothing_else_is_a_comment():
    assert Withheld().restored("<!-- withheld -->") == "<!-- withheld -->"
