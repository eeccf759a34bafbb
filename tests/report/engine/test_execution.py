"""Running cells and inline code in a kernel, and what is remembered of them."""

import json

import pytest

from measure.errors import UserError
from report import failures
from report.engine.execution import FORCED, MEMORY, as_markdown, execute, session
from report.engine.project import Project
from report.engine.source import FILTER, Line

CELLS = """\
```{python}
#| include: false
from IPython.display import Markdown, HTML
n = 24
```
before `{python} n` after, `{python} "a_b"`, `code`

```{python}
#| label: fig-a
#| fig-cap: "A *caption*"
Markdown("![](a.svg)")
```

```{python}
#| label: tbl-a
#| tbl-cap: B
#| echo: true
Markdown("| a |")
```

```{python}
#| output: asis
print("---\\nx: 1\\n---")
```

```{python}
print("```")
n
```

```{python}
import sys
print("hidden", file=sys.stderr)
```

```{python}
#| eval: false
#| echo: true
never()
```
"""

ASSEMBLED = """\
before 24 after, a\\_b, `code`
::: {#fig-a}
![](a.svg)
A *caption*
:::
``` {.python}
Markdown("| a |")
```
::: {#tbl-a}
| a |
B
:::
---
x: 1
---
````
```
````
```
24
```
``` {.python}
never()
```"""


def run(root, text, settings=None):
    (root / "index.qmd").write_text(text)
    project = Project(root, "index.qmd", {"execute": {"echo": False}, **(settings or {})}, 1)
    with session(project, root / "data") as code:
        return execute(project, code)


def test_prose_and_outputs_become_one_text(tmp_path):
    lines = run(tmp_path, CELLS)
    assert [line.text for line in lines if line.text] == ASSEMBLED.split("\n")
    places = {line.text: line.place for line in lines}
    assert places["before 24 after, a\\_b, `code`"] == "index.qmd:6"
    assert places["A *caption*"] == "index.qmd:8"  # what a cell puts out stands at its fence


CELL = "```{{python}}\n{}\n```\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a\n\n" + CELL.format("#| echo: true\nn = 1\nn / 0"), r"^index\.qmd:6: ZeroDivisionError: division by"),
        (CELL.format("from IPython.display import HTML\nHTML('<b>')"), r"^index\.qmd:1: the cell outputs text/html"),
        (CELL.format("for x in"), r"^index\.qmd:1: SyntaxError"),
        (CELL.format("import os\nos._exit(1)"), r"^index\.qmd:1: the Jupyter kernel died"),
        ("a\nb `{python} none`", r"^index\.qmd:2: `none` raises NameError: name 'none' is not defined"),
        ("a `{r} n`", r"^index\.qmd:1: inline code is"),
        ("a ``{python} n``", r"^index\.qmd:1: inline code is"),
        ("a `{python} n", r"^index\.qmd:1: inline code is"),
        ("```\n`{python} n`\n```", r"^index\.qmd:2: inline code is"),
    ],
)
def test_refusals(tmp_path, text, message):
    with pytest.raises(UserError, match=message):
        run(tmp_path, text)


def test_of_a_chapter_that_is_left_out_nothing_runs(tmp_path, monkeypatch):
    monkeypatch.setenv("ROOFWRIGHT_CHAPTERS", "one")
    (tmp_path / FILTER.parent).mkdir(parents=True)
    (tmp_path / FILTER).touch()
    (tmp_path / "one.qmd").write_text("# One {#sec-one}\n`{python} 1 + 1`\n")
    cells = CELL.format('#| label: fig-a\n#| fig-cap: "A"\n1 / 0') + CELL.format("1 / 0")
    (tmp_path / "two.qmd").write_text(f"# Two {{#sec-two}}\n`{{python}} 1 / 0`\n{cells}")
    text = "{{< include two.qmd >}}\n{{< include one.qmd >}}\n`{python} 2 + 2`\n"
    lines = run(tmp_path, text, {"filters": [{"at": "pre-ast", "path": str(FILTER)}]})
    assert [line.text for line in lines if line.text] == [
        "# Two {#sec-two}", "`{python} 1 / 0`", "::: {#fig-a}", ":::", "# One {#sec-one}", "2", "4",
    ]  # fmt: skip


LINE = Line("text", "a.qmd", 7)


# Quarto takes a string's repr, drops its quotes and escapes these characters and no others.
@pytest.mark.parametrize(
    ("value", "markdown"),
    [
        ("3.14", r"3\.14"),
        ("a*b_c", r"a\*b\_c"),
        ("(1,2)-[3]", r"\(1\,2\)\-\[3\]"),
        ("10^9^ H~2~O", "10^9^ H~2~O"),
        ("it's", "it's"),
        (-3.5, "-3.5"),
        ([1, 2], "[1, 2]"),
    ],
)
def test_values_are_their_repr_and_strings_are_escaped(value, markdown):
    assert as_markdown([{"text/plain": repr(value)}], "x", LINE) == markdown


def test_markdown_stays_markdown():
    value = {"text/markdown": "**5\u00a0%**", "text/plain": "<IPython.core.display.Markdown object>"}
    assert as_markdown([value], "x", LINE) == "**5\u00a0%**"


@pytest.mark.parametrize(
    "outputs", [[{"text/plain": repr("a\\b")}], [{"text/plain": "''"}], [], [{"text/plain": "…", "text/html": "<b>"}]]
)
def test_what_quarto_garbles_is_refused(outputs):
    with pytest.raises(UserError, match=r"^a\.qmd:7: `x` is .*return IPython\.display\.Markdown"):
        as_markdown(outputs, "x", LINE)


SETUP = """\
```{python}
#| label: setup
#| include: false
from pathlib import Path
LOG = Path("log.md")  # no file whose change asks for another run

def said(word):
    with LOG.open("a") as log:
        log.write(word + " ")
    return word
said("setup")
```
"""
TABLE = CELL.format('#| label: tbl-a\n#| tbl-cap: A\nsaid("table")')
TEXT = f"{SETUP}\n{TABLE}\nOne `{{python}} said('word')`.\n"
ALL = ["setup", "table", "word"]


@pytest.fixture
def render(tmp_path):
    """Renders a text; returns its lines, and what ran for it."""

    def rendered(text):
        log = tmp_path / "log.md"
        log.unlink(missing_ok=True)
        lines = run(tmp_path, text)
        return [line.text for line in lines if line.text], log.read_text().split() if log.exists() else []

    (tmp_path / "data").mkdir()
    return rendered


def test_a_change_of_prose_runs_nothing_and_new_code_what_prepares_it(render):
    first, ran = render(TEXT)
    assert ran == ALL
    again, ran = render(TEXT.replace("One", "Two"))
    assert ran == []
    assert [line.replace("Two", "One") for line in again] == first
    lines, ran = render(f"{TEXT}And `{{python}} said('more')`.\n")
    assert ran == ["setup", "more"]
    assert lines[-1] == "And more."
    assert render(TEXT.replace("return word", "return word.upper()"))[1] == ALL


@pytest.mark.parametrize("changed", ["data/rows.csv", "code.py"])
def test_a_file_that_code_may_read_makes_all_of_it_anew(render, tmp_path, changed):
    render(TEXT)
    (tmp_path / changed).write_text("1")
    assert render(TEXT)[1] == ALL
    for name in ("chapter.qmd", "_site/index.html", "_figures/a.svg", ".git/x", ".lock"):  # no state
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x")
    assert render(TEXT)[1] == []


def test_variables_and_force_make_all_of_it_anew(render, monkeypatch):
    render(TEXT)
    monkeypatch.setenv(FORCED, "1")
    assert render(TEXT)[1] == ALL
    monkeypatch.delenv(FORCED)
    monkeypatch.setenv("ROOFWRIGHT_MACHINES", "a")
    assert render(TEXT)[1] == ALL


def test_a_picture_that_is_gone_is_made_again(render, tmp_path):
    shown = """\
from IPython.display import Markdown
def shown():
    Path("a.svg.md").write_text(said("drawn"))
    return Markdown("![](a.svg.md)")
"""
    text = SETUP.replace('said("setup")\n', shown) + CELL.format("#| label: fig-a\n#| fig-cap: A\nshown()")
    render(text)
    assert render(text)[1] == []
    (tmp_path / "a.svg.md").unlink()
    assert render(text)[1] == ["drawn"]


def test_a_damaged_memory_is_none_and_what_is_no_longer_asked_for_is_forgotten(render, tmp_path):
    render(TEXT)
    file = tmp_path / MEMORY
    file.write_text(file.read_text()[:-9])
    assert render(TEXT)[1] == ALL
    render(SETUP)
    assert len(json.loads(file.read_text())) == 1


def test_where_something_could_not_be_computed_nothing_is_kept(render, tmp_path):
    with failures.noted():
        failures._note("a figure")
        render(TEXT)
        assert not (tmp_path / MEMORY).exists()
