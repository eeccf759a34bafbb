import base64
import hashlib
from urllib.parse import unquote

import pytest

from measure.errors import UserError
from report.engine.page import Withheld, page_arguments, page_blocks
from report.engine.pandoc import plain_text, string
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
    return element, element.split('src="')[1].split('"')[0]


def test_a_picture_is_in_the_page(project):
    element, address = shown(project, "a.svg", fig_alt='"<seen>"', width="50%")
    assert element == f'<img loading="lazy" src="{address}" alt="&quot;&lt;seen&gt;&quot;" style="width:50%">'
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
    withheld = Withheld()
    arguments = page_arguments(project, tmp_path, "paper.pdf", withheld)
    header = withheld.restored((tmp_path / "header.html").read_text())
    assert header == "<style>\np { color: red }</style>\n<meta name='x'>"
    assert "--toc-depth=3" in arguments  # a level below the title
    assert "--variable=paper:paper.pdf" in arguments


def test_no_contents_and_no_paper(project, tmp_path):
    project.settings["format"]["html"]["toc"] = False
    arguments = page_arguments(project, tmp_path, None, Withheld())
    assert not any(argument.startswith(("--toc", "--variable=toc", "--variable=paper")) for argument in arguments)


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


def test_a_style_that_is_not_utf_8(project, tmp_path):
    (tmp_path / "own.css").write_bytes(b"caf\xe9")
    with pytest.raises(UserError, match=r"own\.css: is not UTF-8 text"):
        page_arguments(project, tmp_path, None, Withheld())


def test_scripts_of_the_project_run_and_no_others():
    """Those in blocks of raw HTML and in headers; not what a text of a table would be, nor data."""
    withheld = Withheld()
    withheld.without_raw_blocks(
        '```{=html}\n<script>good()</script>\n<script type="application/json">{}</script>\n```\n\n'
        "`<script>bad()</script>`{=html}\n"
    )
    withheld.mark("<script>header()</script>")
    hashes = [base64.b64encode(hashlib.sha256(script).digest()).decode() for script in (b"good()", b"header()")]
    assert withheld.policy().endswith(f"; script-src 'sha256-{hashes[0]}' 'sha256-{hashes[1]}'")
    assert withheld.policy().startswith("default-src 'none'; ")


def test_the_words_of_a_command_stay_whole(project):
    codes = [["", [], []], "python -m measure --models=<a>"], [["", [], []], "a_b"], [["", ["bash"], []], "--a"]
    paragraph = {"t": "Para", "c": [{"t": "Code", "c": list(code)} for code in codes]}
    (block,) = page_blocks([paragraph], project, Places([]), Withheld())
    command, *others = block["c"]
    assert command["c"] == [
        "html", "<code>python <span>-m</span> measure <span>--models=&lt;a&gt;</span></code>",
    ]  # fmt: skip
    assert [other["c"][1] for other in others] == ["a_b", "--a"]


def test_the_sentence_in_a_tables_place_has_its_caption_above_it(project):
    caption = [{"t": "Plain", "c": [string("Table 1: C")]}]
    sentence = {"t": "Para", "c": [string("Nothing was measured.")]}
    figure = {"t": "Figure", "c": [["tbl-a", [], []], [None, caption], [sentence]]}
    blocks = page_blocks([figure], project, Places([]), Withheld())
    kinds = [block["c"][1] if block["t"] == "RawBlock" else plain_text(block) for block in blocks]
    assert kinds[0] == '<figure class="table" id="tbl-a">'
    assert kinds.index("Table 1: C") < kinds.index("Nothing was measured.")
    assert kinds[-1] == "</div></figure>"
