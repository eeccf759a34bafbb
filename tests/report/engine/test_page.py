"""The page: pictures, raw HTML, headers and the policy of its scripts."""

import base64
import gzip
import hashlib
import json
import re
from dataclasses import replace
from urllib.parse import unquote

import pytest
from helpers.world import world

from report import display
from report.engine.page import policy, whole_page, withhold
from report.engine.project import read_project

PICTURE = """<svg xmlns="http://www.w3.org/2000/svg" width="80" height="9.5" stroke-width="3">\
<text fill="#123">100 % of "Ada's" µs</text></svg>"""
SETTINGS = (
    "format:\n  html:\n    toc: true\n    toc-depth: 2\n    css: own.css\n    include-in-header:\n      text: <meta>\n"
)


@pytest.fixture
def project(tmp_path):
    for name, text in {
        "a.svg": PICTURE,
        "own.css": "p { color: red }",
        "index.qmd": "",
        "_quarto.yml": SETTINGS,
    }.items():
        (tmp_path / name).write_text(text)
    return read_project(tmp_path)


def test_a_picture_is_in_the_page(project):
    first, element = whole_page(2 * '<img src="a.svg" alt="seen" />\n', [], project.root).splitlines()
    address = element.split('src="')[1].split('"')[0]
    assert element == f'<img loading="lazy" width="80" height="9.5" src="{address}" alt="seen" />'
    assert first == element.replace(' loading="lazy"', "")  # it is painted with the text
    head, _, content = address.partition(",")
    assert head == "data:image/svg+xml;charset=utf-8"
    # quotes are single, and so those within are told apart
    assert unquote(content) == PICTURE.replace("'", "&#39;").replace('"', "'")
    assert not set('<>&#"') & set(content)


MARKDOWN = (
    "one\n\n```{=html}\n<script>good()</script>\n<i>three</i>\n```\n\n```\ncode\n```\n\n"
    '```{=html}\n<script type="application/json">{}</script>\n```\n`<script>bad()</script>`{=html}\n'
)


def test_raw_html_is_withheld_and_no_line_moves(project):
    """The raw HTML of headers too, but no data and no text of a table."""
    texts = []
    short = withhold(MARKDOWN, texts)
    assert "good" not in short
    assert "json" not in short
    for line in ("one", "```{=html}", "code", "`<script>bad()</script>`{=html}"):
        assert short.split("\n").index(line) == MARKDOWN.split("\n").index(line)
    restored = MARKDOWN.replace("</i>\n```", "</i>\n\n```")  # the line that the second line of raw HTML left
    assert whole_page(short, texts, project.root) == restored
    heads = whole_page("<!-- withheld --><th><thead>", texts, project.root)
    assert heads == '<!-- withheld --><th scope="col"><thead>'
    texts.append("<script>header()</script>")
    hashes = [base64.b64encode(hashlib.sha256(script).digest()).decode() for script in (b"good()", b"header()")]
    allowed = policy(texts).split("; script-src ")[1].split()
    assert allowed == [f"'sha256-{each}'" for each in hashes]
    assert policy(texts).startswith("default-src 'none'; ")


def test_only_the_projects_scripts_are_allowed():
    """A name from a stranger's zip opens a comment and a script: a browser that saw them would skip the page's own."""
    stranger = "Box <!--<script>"
    before = display.facts_of(world(), "machine").markdown
    paper = world()
    machine = replace(paper.machines[0], name=stranger)
    block = display.facts_of(replace(paper, machines=(machine, *paper.machines[1:])), "machine").markdown
    assert "<!--" not in block
    assert block.count("<") == before.count("<")
    facts = re.search(r">([\w+/=]+)<", block)
    assert json.loads(gzip.decompress(base64.b64decode(facts[1])))["machine.at_hand.name"]["value"] == stranger
    own = f"{block}<script>own()</script>"
    assert policy([own]).count("sha256-") == 1
