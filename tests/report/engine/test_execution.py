"""Cells and inline code in a kernel, and their remembered outputs."""

import json

import pytest
from helpers.places import ROOT

from measure.errors import UserError
from report import failures
from report.engine import execution
from report.engine.execution import FORCED, MEMORY, Memory, as_markdown, execute
from report.engine.project import Project

CELL = "```{{python}}\n{}\n```\n"


def run(root, text):
    (root / "index.qmd").write_text(text)
    project = Project(root, "index.qmd", {})
    memory = Memory(project, root / "data")
    (lines,) = execute([project], root / "data", memory)
    memory.save()
    return [line for line in lines if line.text]


@pytest.fixture
def executed(tmp_path):
    """Runs a text; returns its lines."""
    return lambda text: run(tmp_path, text)


def test_what_a_cell_prints_stands_at_its_fence(executed):
    printing = "import sys\nprint('a')\nprint('b')\nprint('hidden', file=sys.stderr)"
    lines = executed("x\n" + CELL.format(f"#| output: asis\n{printing}"))
    assert [(line.text, line.number) for line in lines] == [("x", 1), ("a", 2), ("b", 2)]


def test_a_cells_prints_displays_and_value_keep_this_order(executed):
    code = "print('a')\ndisplay(Markdown('b'))\nprint('c')\nMarkdown('d')"
    lines = executed(CELL.format(f"#| output: asis\nfrom IPython.display import Markdown, display\n{code}"))
    assert [line.text for line in lines] == ["a", "b", "c", "d"]
    assert executed(CELL.format("1;")) == []  # a value before a semicolon is not shown


def test_bad_input_to_a_cell_ends_the_render(executed, tmp_path):
    cells = CELL.format("class UserError(Exception): pass\nraise UserError('no table')") + CELL.format(
        "open('ran', 'w')"
    )
    with pytest.raises(UserError, match=r"^index\.qmd:3: no table$"):
        executed(cells)
    assert not (tmp_path / "ran").exists()
    inline = CELL.format("class UserError(Exception): pass\ndef f():\n    raise UserError('no table')")
    with pytest.raises(UserError, match=r"^index\.qmd:7: no table$"):
        executed(f"{inline}\nIt is `{{python}} f()`.\n")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a\n\n" + CELL.format("#| label: x\nn = 1\nn / 0"), r"^index\.qmd:6: ZeroDivisionError: division by"),
        (CELL.format("def f():\n    1 / 0\n\nf()"), r"^index\.qmd:5: ZeroDivisionError"),
        (CELL.format("from IPython.display import HTML\nHTML('<b>')"), r"^index\.qmd:1: the cell outputs text/html"),
        (CELL.format("print(1)"), r"^index\.qmd:1: the cell outputs stdout"),
        (CELL.format("a = 1\nfor x in"), r"^index\.qmd:3: SyntaxError"),
        ("a\nb `{python} none`", r"^index\.qmd:2: `none` raises NameError: name 'none' is not defined"),
        ("a ``{python} n``", r"^index\.qmd:1: inline code is"),
        ("a `{python} n", r"^index\.qmd:1: inline code is"),
    ],
)
def test_refusals(executed, text, message):
    with pytest.raises(UserError, match=message):
        executed(text)


def test_what_fails_leaves_a_sentence_and_a_line_for_who_renders(executed, monkeypatch):
    monkeypatch.delenv(failures.STRICT)
    text = "a\n\n" + CELL.format("ratio = 1 / 0") + "\n`{python} ratio` and `{python} 1 + 'a'`\n\nb"
    with failures.noted() as lines:
        first, sentence, value, last = (line.text for line in executed(text) if line.text)
    assert (first, last) == ("a", "b")
    assert "index.qmd:4: ZeroDivisionError: division by zero" in sentence.replace("\\", "")
    assert value.count("{.missing}") == 2
    # The first value was to come from the cell.
    assert [line.partition(": ")[0] for line in lines] == ["index.qmd:4", "index.qmd:7"]


PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg=="
AUTHOR_CELLS = f"import sys\nsys.path.insert(0, {str(ROOT)!r})\nfrom report import author_cells\n"
FRAME = "import pandas as pd\nauthor_cells.register()\npd.DataFrame({'a|b': [1.5]})"
SHOWN = {
    "data frame": (AUTHOR_CELLS + FRAME, "a\\|b"),
    "PNG": (f"import base64\nfrom IPython.display import Image\nImage(base64.b64decode('{PIXEL}'))", "_figures/cell-"),
    "SVG": ("from IPython.display import SVG\nSVG('<svg xmlns=\"http://www.w3.org/2000/svg\"/>')", "_figures/cell-"),
    "Vega-Lite": (
        AUTHOR_CELLS + "author_cells.vega_lite({'data': {'values': [{'a': 1}]}, 'mark': 'point'})",
        "_figures/own-",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", SHOWN)
def test_a_cell_may_show(executed, kind):
    code, expected = SHOWN[kind]
    assert any(expected in line.text for line in executed(CELL.format(code)))


CHARTS = """
import altair as alt
author_cells.register()
base = alt.Chart(alt.Data(values=[{"a": 1, "b": "one"}, {"a": 2, "b": "two"}])).mark_point().encode(x="a:Q")
"""
FORMS = [
    "base",
    "base + base",
    "base | base",
    "base & base",
    "alt.concat(base)",
    "base.facet('b:N')",
    "base.repeat(['a'])",
]


def test_data_frames_and_charts_have_no_html_for_quarto(tmp_path):
    """With an index, with whole years as 2022.0, with scripts from elsewhere."""
    outcomes = execution.run([AUTHOR_CELLS + FRAME, CHARTS, *FORMS], tmp_path, tmp_path)
    kinds = [set(output) for outcome in outcomes for output in outcome["outputs"]]
    assert kinds == [{"text/plain", "text/markdown"}] * (1 + len(FORMS))


def test_python_that_dies_is_told_where(tmp_path):
    with pytest.raises(UserError, match=r"^index\.qmd:7: Python died"):
        run(tmp_path, f"{CELL.format('n = 1')}\na\n" + CELL.format("import os\nos._exit(1)"))


# Quarto takes a string's repr, drops its quotes and escapes these characters and no others.
@pytest.mark.parametrize(
    ("output", "markdown"),
    [
        ({"text/plain": "'a*b_c'"}, r"a\*b\_c"),
        ({"text/plain": "'(1,2)-[3]'"}, r"\(1\,2\)\-\[3\]"),
        ({"text/plain": "'10^9^ H~2~O'"}, "10^9^ H~2~O"),
        ({"text/plain": '"it\'s"'}, "it's"),
        ({"text/plain": "-3.5"}, "-3.5"),
        ({"text/plain": "[1, 2]"}, "[1, 2]"),
        ({"text/plain": "<Markdown object>", "text/markdown": "**5\u00a0%**"}, "**5\u00a0%**"),
    ],
)
def test_values_are_markdown_or_repr_and_strings_are_escaped(output, markdown):
    assert as_markdown([output]) == markdown


SETUP = """\
```{python}
#| label: setup
#| include: false
def word(text):
    said(text)
    return text
said("setup")
```
"""
TABLE = CELL.format('#| label: tbl-a\n#| tbl-cap: A\nword("table")')
TEXT = f"{SETUP}\n{TABLE}\nOne `{{python}} word('word')`.\n"
ALL = ["setup", "table", "word"]


@pytest.fixture
def render(tmp_path, monkeypatch):
    """Renders a text; returns its lines, and the codes that ran for it."""
    ran = []

    def here(codes, root, data):
        """Runs code in this process, since another takes a second to start."""
        names, outcomes = {"said": ran.append, "root": root}, []
        for code in codes:
            try:
                value = eval(code, names)
            except SyntaxError:
                value = exec(code, names)
            outputs = [] if value is None else [{"text/markdown": str(value), "text/plain": str(value)}]
            outcomes.append({"outputs": outputs})
        return outcomes

    def rendered(text):
        ran.clear()
        return [line.text for line in run(tmp_path, text)], list(ran)

    monkeypatch.setattr(execution, "run", here)
    (tmp_path / "data").mkdir()
    return rendered


def test_new_prose_runs_nothing_and_new_code_its_preparation(render, tmp_path):
    first, ran = render(TEXT)
    assert ran == ALL
    again, ran = render(TEXT.replace("One", "Two"))
    assert ran == []
    assert [line.replace("Two", "One") for line in again] == first
    lines, ran = render(f"{TEXT}And `{{python}} word('more')`.\n")
    assert ran == ["setup", "more"]
    assert lines[-1] == "And more."
    assert render(TEXT.replace("return text", "return text.upper()"))[1] == ALL
    render(SETUP)
    assert len(json.loads((tmp_path / MEMORY).read_text())) == 1  # what is no longer asked for is forgotten


def test_whatever_code_may_depend_on_makes_all_of_it_anew(render, tmp_path, monkeypatch):
    render(TEXT)
    for name in ("chapter.qmd", "_site/index.html", "_figures/a.svg", ".git/x", ".lock"):  # which it does not read
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x")
    assert render(TEXT)[1] == []
    for name in ("data/rows.csv", "code.py"):
        (tmp_path / name).write_text("1")
        assert render(TEXT)[1] == ALL
    (tmp_path / MEMORY).write_text((tmp_path / MEMORY).read_text()[:-9])  # damaged
    assert render(TEXT)[1] == ALL
    for variable in ("ROOFWRIGHT_MACHINES", FORCED):
        monkeypatch.setenv(variable, "1")
        assert render(TEXT)[1] == ALL


def test_a_picture_that_is_gone_is_made_again(render, tmp_path):
    drawn = '(root / "a.svg.md").write_text(word("drawn")) and "![](a.svg.md)"'
    text = SETUP + CELL.format(f"#| label: fig-a\n#| fig-cap: A\n{drawn}")
    render(text)
    assert render(text)[1] == []
    (tmp_path / "a.svg.md").unlink()
    assert render(text)[1] == ["setup", "drawn"]


def test_where_something_could_not_be_computed_nothing_is_kept(render, tmp_path):
    with failures.noted():
        failures.noted_as("", "a figure")
        render(TEXT)
        assert not (tmp_path / MEMORY).exists()
