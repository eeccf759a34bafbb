import json

import pytest

from report import failures
from report.engine.execution import execute
from report.engine.jupyter_kernel import CellError
from report.engine.project import Project
from report.engine.remembering import FOLDER, FORCED, prepares, state

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
TABLE = """\
```{python}
#| label: tbl-a
#| tbl-cap: A
said("table")
```
"""


@pytest.fixture
def render(tmp_path):
    """Renders a text; returns its lines, and what ran for it."""

    def rendered(text):
        log = tmp_path / "log.md"
        log.unlink(missing_ok=True)
        (tmp_path / "index.qmd").write_text(text)
        lines = execute(Project(tmp_path, "index.qmd", {"execute": {"echo": False}}, 1), tmp_path / "data")
        ran = log.read_text().split() if log.exists() else []
        return [line.text for line in lines if line.text], ran

    (tmp_path / "data").mkdir()
    return rendered


TEXT = f"{SETUP}\n{TABLE}\nOne `{{python}} said('word')`.\n"


def test_a_change_of_prose_runs_nothing(render):
    first, ran = render(TEXT)
    assert ran == ["setup", "table", "word"]
    again, ran = render(TEXT.replace("One", "Two"))
    assert ran == []
    assert [line.replace("Two", "One") for line in again] == first


def test_new_code_runs_after_what_prepares_it_and_nothing_else_does(render):
    render(TEXT)
    lines, ran = render(f"{TEXT}And `{{python}} said('more')`.\n")
    assert ran == ["setup", "more"]
    assert lines[-1] == "And more."


def test_what_prepares_otherwise_makes_all_that_follows_anew(render):
    render(TEXT)
    _, ran = render(TEXT.replace("return word", "return word.upper()"))
    assert ran == ["setup", "table", "word"]


def test_a_cell_without_a_label_may_prepare_something():
    assert prepares("rows.append(1)", None)
    assert prepares("n = 1", "fig-a")
    assert not prepares("show(n)", "fig-a")


@pytest.mark.parametrize("changed", ["data/rows.csv", "code.py"])
def test_a_file_that_code_may_read_makes_all_of_it_anew(render, tmp_path, changed):
    render(TEXT)
    (tmp_path / changed).write_text("1")
    assert render(TEXT)[1] == ["setup", "table", "word"]
    assert render(TEXT)[1] == []


def test_prose_hidden_files_and_what_a_render_makes_are_no_state(tmp_path, monkeypatch):
    project = Project(tmp_path, "index.qmd", {}, 1)
    before = state(project, tmp_path)
    for name in ("chapter.qmd", "_site/index.html", "_figures/a.svg", ".git/x", ".lock"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x")
    assert state(project, tmp_path) == before
    monkeypatch.setenv("ROOFWRIGHT_MACHINES", "a")
    assert state(project, tmp_path) != before


def test_a_picture_that_is_gone_is_made_again(render, tmp_path):
    cell = "```{python}\n#| label: fig-a\n#| fig-cap: A\nshown()\n```\n"
    shown = """\
from IPython.display import Markdown
def shown():
    Path("a.svg.md").write_text(said("drawn"))
    return Markdown("![](a.svg.md)")
"""
    setup = SETUP.replace('said("setup")\n', shown)
    render(setup + cell)
    assert render(setup + cell)[1] == []
    (tmp_path / "a.svg.md").unlink()
    assert render(setup + cell)[1] == ["drawn"]


def test_all_runs_where_that_is_asked_for(render, monkeypatch):
    render(TEXT)
    monkeypatch.setenv(FORCED, "1")
    assert render(TEXT)[1] == ["setup", "table", "word"]


def test_a_damaged_memory_is_none(render, tmp_path):
    render(TEXT)
    file = tmp_path / FOLDER / "outputs.json"
    file.write_text(file.read_text()[:-9])
    assert render(TEXT)[1] == ["setup", "table", "word"]


def test_what_is_no_longer_asked_for_is_forgotten(render, tmp_path):
    render(TEXT)
    render(SETUP)
    assert len(json.loads((tmp_path / FOLDER / "outputs.json").read_text())) == 1


def test_where_something_could_not_be_computed_nothing_is_kept(render, tmp_path):
    with failures.noted():
        failures._note("a figure")
        render(TEXT)
        assert not (tmp_path / FOLDER).exists()


def test_code_that_fails_says_so_whatever_is_remembered(render):
    render(TEXT)
    with pytest.raises(Exception, match="NameError") as raised:
        render(f"{TEXT}`{{python}} nothing`\n")
    assert isinstance(raised.value.__cause__, CellError)
