import json
import os
import stat
import sys
from pathlib import Path

import pytest
from helpers.places import ROOT
from helpers.world import WORLD

from measure.errors import UserError
from report.engine.quarto import find_quarto, outdated, render_with_quarto

SETTINGS = "format:\n  html:\n    toc: true\n  typst:\n    output-file: paper.pdf\n"

# Stands in for Quarto: writes what it would write, and how it was called.
FAKE = """\
#!{python}
import json, os, pathlib, sys
names = ("QUARTO_PYTHON", "ROOFWRIGHT_DATA", "SOURCE_DATE_EPOCH")
if sys.argv[1:] == ["--version"]:
    print(os.environ.get("VERSION", "1.9.38"))
    sys.exit()
call = {{"arguments": sys.argv[1:], "directory": os.getcwd(), **{{name: os.environ.get(name) for name in names}}}}
call |= {{"document": pathlib.Path("index.qmd").read_text(), "files": sorted(os.listdir())}}
pathlib.Path({record!r}).write_text(json.dumps(call))
if os.environ.get("FAIL"):
    print("ERROR: the chapter is broken", file=sys.stderr)
    sys.exit(3)
site = pathlib.Path("_site")
site.mkdir(exist_ok=True)
(site / "index.html").write_text("page")
(site / "paper.pdf").write_text("paper")
(site / "_figures").mkdir(exist_ok=True)
(site / "_figures" / "a.svg").write_text("picture")
"""


@pytest.fixture
def project(tmp_path):
    root = tmp_path / "project"
    root.mkdir()
    (root / "_quarto.yml").write_text(SETTINGS)
    (root / "index.qmd").write_text("text\n")
    return root


@pytest.fixture
def quarto(tmp_path, monkeypatch):
    folder = tmp_path / "bin"
    folder.mkdir()
    command = folder / "quarto"
    command.write_text(FAKE.format(python=sys.executable, record=str(tmp_path / "call.json")))
    command.chmod(command.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)
    return command


def render(quarto, project, formats, out, data=Path("/some/data")):
    return render_with_quarto(str(quarto), project, formats, data, out, lambda step: None)


def call(tmp_path):
    return json.loads((tmp_path / "call.json").read_text())


SITE = ["index.html", "paper.pdf"]


@pytest.mark.parametrize(("on_path", "beside_python"), [(True, False), (False, True), (False, False)])
def test_where_it_is_found(quarto, tmp_path, monkeypatch, on_path, beside_python):
    if not on_path:
        monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(sys, "executable", str((quarto.parent if beside_python else tmp_path) / "python"))
    assert find_quarto() == (str(quarto) if on_path or beside_python else None)


@pytest.mark.parametrize(
    ("version", "problem"),
    [
        ("1.9.0", None),
        ("1.10.3", None),
        ("2.0.1", None),
        ("1.4.553", "is version 1.4.553, and the paper needs 1.9 or later"),
        ("", "does not tell its version, and the paper needs 1.9 or later"),
    ],
)
def test_a_version_has_to_be_new_enough(quarto, monkeypatch, version, problem):
    monkeypatch.setenv("VERSION", version)
    assert outdated(str(quarto)) == (problem and f"{quarto} {problem}")


def test_it_renders_what_is_asked_for_with_this_python(quarto, project, tmp_path, monkeypatch):
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)
    assert render(quarto, project, ["html"], project / "_site") == [project / "_site" / "index.html"]
    assert call(tmp_path) == {
        "arguments": ["render", str(project), "--to", "html"],
        "directory": str(project),
        "QUARTO_PYTHON": sys.executable,
        "ROOFWRIGHT_DATA": "/some/data",
        "SOURCE_DATE_EPOCH": None,
        "document": "text\n",
        "files": ["_quarto.yml", "index.qmd"],
    }
    render(quarto, project, ["pdf"], project / "_site")
    assert call(tmp_path)["arguments"] == ["render", str(project / "index.qmd"), "--to", "typst"]
    render(quarto, project, ["html", "pdf"], project / "_site")
    assert call(tmp_path)["arguments"] == ["render", str(project)]


def test_further_documents_are_pages(quarto, project):
    (project / "_quarto.yml").write_text(SETTINGS + "project:\n  render: [index.qmd, more.qmd]\n")
    (project / "more.qmd").write_text("more\n")
    (project / "_site").mkdir()
    (project / "_site" / "more.html").write_text("page")
    written = render(quarto, project, ["html", "pdf"], project / "_site")
    assert [path.name for path in written] == ["index.html", "paper.pdf", "more.html"]


def test_it_copies_to_another_folder_and_leaves_no_pictures_that_the_page_holds(quarto, project, tmp_path):
    assert render(quarto, project, ["html", "pdf"], tmp_path / "out") == [tmp_path / "out" / name for name in SITE]
    assert (tmp_path / "out" / "paper.pdf").read_text() == "paper"
    assert sorted(path.name for path in (project / "_site").iterdir()) == SITE


def test_its_failure_is_shown_and_an_output_that_is_missing(quarto, project, monkeypatch):
    (project / "_quarto.yml").write_text(SETTINGS.replace("paper.pdf", "other.pdf"))
    with pytest.raises(UserError, match=r"quarto wrote no .*other\.pdf"):
        render(quarto, project, ["pdf"], project / "_site")
    monkeypatch.setenv("FAIL", "1")
    with pytest.raises(UserError, match=r"(?s)exit code 3:.*ERROR: the chapter is broken"):
        render(quarto, project, ["html"], project / "_site")


def test_options_that_quarto_alone_knows_are_quartos(quarto, project):
    settings = SETTINGS + "    linestretch: 2\n  docx: default\ntheme: cosmo\nmargin-header: A\n"
    (project / "_quarto.yml").write_text(settings)
    assert render(quarto, project, ["html"], project / "_site")


def test_files_have_the_date_of_the_newest_machine(quarto, project, tmp_path, monkeypatch):
    """That of the world was recorded at 2026-01-02T03:00:00Z: 20,455 days of 86,400 s and three hours."""
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)
    render(quarto, project, ["html"], project / "_site", WORLD)
    assert call(tmp_path)["SOURCE_DATE_EPOCH"] == str(20_455 * 86_400 + 3 * 3600)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1")
    render(quarto, project, ["html"], project / "_site", WORLD)
    assert call(tmp_path)["SOURCE_DATE_EPOCH"] == "1"


def test_git_ignores_what_quarto_would_have_it_ignore():
    """Quarto adds these lines to the file in each render, unless they stand there."""
    lines = (ROOT / ".gitignore").read_text("utf-8").split("\n")
    assert {"/.quarto/", "**/*.quarto_ipynb"} <= set(lines)
