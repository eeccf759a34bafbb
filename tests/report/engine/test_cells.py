from pathlib import Path

import pytest

from measure.errors import UserError
from report.engine.cells import read_cell
from report.engine.project import Project
from report.engine.source import CodeBlock, Line


def cell(text, settings=None):
    lines = [Line(line, "a.qmd", number) for number, line in enumerate(text.split("\n"), 11)]
    block = CodeBlock(Line("```{python}", "a.qmd", 10), lines)
    return read_cell(block, Project(Path(), "index.qmd", settings or {}, 1))


def test_options_and_code():
    read = cell('#| label: fig-a\n#| fig-cap: "A: caption"\n#| fig-alt: alt\n#| output: asis\nf()\ng()')
    assert read.options["label"] == "fig-a"
    assert read.caption == "A: caption"
    assert read.options["output"] == "asis"
    assert read.code == "f()\ng()"
    assert read.first_line == 15  # the fence in line 10, then four options


def test_folded_caption():
    read = cell("#| label: tbl-a\n#| tbl-cap: >\n#|   two\n#|   lines\nf()")
    assert read.caption.split() == ["two", "lines"]


def test_defaults_are_the_documents():
    assert cell("f()").shows("echo")
    assert not cell("f()", {"execute": {"echo": False}}).shows("echo")
    assert cell("#| echo: true\nf()", {"execute": {"echo": False}}).shows("echo")


def test_code_that_is_not_run_may_be_anything():
    assert cell("#| eval: false\nfor x in").code == "for x in"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("#| label: x\n#| fig-width: 5\nf()", r"^a\.qmd:12: unknown key 'fig-width'"),
        ("#| output: maybe\nf()", r"^a\.qmd:11: 'output' must be"),
        ("#| echo: fenced\nf()", r"^a\.qmd:11: 'echo' cannot be 'fenced'"),
        ("#| label: fig-x\nf()", r"^a\.qmd:10: a label 'fig-…' and 'fig-cap' go together"),
        ("#| fig-cap: text\nf()", r"^a\.qmd:10: a label 'fig-…' and 'fig-cap' go together"),
        ("#| label: tbl-x\n#| fig-cap: text\nf()", r"^a\.qmd:10: a label"),
        ("#| label: fig-x\n#| fig-cap: '`{python} n` models'\nf()", r"^a\.qmd:10: 'fig-cap' cannot hold inline"),
        ("#| label: my label\nf()", r"^a\.qmd:10: the label 'my label' may hold"),
        ("#| label: [\nf()", r"^a\.qmd:1\d: this is not valid YAML"),
        ("f()\nfor x in\n", r"^a\.qmd:12: SyntaxError"),
    ],
)
def test_refusals(text, message):
    with pytest.raises(UserError, match=message):
        cell(text)
