import json
import sys
from pathlib import Path

import pytest
import yaml
from helpers.places import ROOT
from helpers.world import WORLD

from measure.errors import UserError
from report.engine.quarto import outdated, render_with_quarto

# Quarto alone has these: `theme`, `docx`.
SETTINGS = """\
theme: cosmo
format:
  html:
    toc: true
  typst:
    output-file: paper.pdf
  docx: default
project:
  render: [index.qmd, more.qmd]
"""

# Replaces Quarto: writes its files, and how it was called.
FAKE = """\
#!{python}
import json, os, pathlib, sys
names = ("QUARTO_PYTHON", "ROOFWRIGHT_DATA", "SOURCE_DATE_EPOCH")
if sys.argv[1:] == ["--version"]:
    print(os.environ.get("VERSION", "1.9.38"))
    sys.exit()
call = {{"arguments": sys.argv[1:], "directory": os.getcwd(), **{{name: os.environ.get(name) for name in names}}}}
pathlib.Path({record!r}).write_text(json.dumps(call))
if os.environ.get("FAIL"):
    print("Rendering\\x1b[31m\\nFATAL (a filter)\\nERROR: the chapter\\\\nis broken\\x1b[0m", file=sys.stderr)
    sys.exit(3)
pathlib.Path("_site", "_figures").mkdir(parents=True, exist_ok=True)
for name in ("index.html", "more.html", "paper.pdf", "_figures/a.svg"):
    pathlib.Path("_site", name).write_text(name)
"""


@pytest.fixture
def quarto(tmp_path, monkeypatch):
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)
    command = tmp_path / "bin" / "quarto"
    command.parent.mkdir()
    command.write_text(FAKE.format(python=sys.executable, record=str(tmp_path / "call.json")))
    command.chmod(0o755)
    return str(command)


@pytest.fixture
def render(quarto, tmp_path):
    """Renders a project in some formats; returns the files, and how Quarto was called."""
    project = tmp_path / "project"
    project.mkdir()
    (project / "_quarto.yml").write_text(SETTINGS)
    for name in ("index.qmd", "more.qmd"):
        (project / name).write_text("text\n")

    def render(*formats, out=project / "_site", data=Path("/some/data")):
        files = render_with_quarto(quarto, project, [*formats], data, out, lambda step: None)
        return files, json.loads((tmp_path / "call.json").read_text())

    return render


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
    assert outdated(quarto) == (problem and f"{quarto} {problem}")


@pytest.mark.parametrize(
    ("formats", "arguments", "names"),
    [
        (["html"], ["--to", "html"], ["index.html", "more.html"]),
        (["pdf"], ["--to", "typst"], ["paper.pdf"]),
        (["html", "pdf"], [], ["index.html", "paper.pdf", "more.html"]),
    ],
)
def test_it_renders_what_is_asked_for_with_this_python(render, tmp_path, formats, arguments, names):
    project, out = tmp_path / "project", tmp_path / "out"
    files, call = render(*formats, out=out)
    assert files == [out / name for name in names]
    assert [path.read_text() for path in files] == names
    assert call == {
        "arguments": ["render", str(project if "html" in formats else project / "index.qmd"), *arguments],
        "directory": str(project),
        "QUARTO_PYTHON": sys.executable,
        "ROOFWRIGHT_DATA": "/some/data",
        "SOURCE_DATE_EPOCH": None,
    }
    assert not (project / "_site" / "_figures").exists()  # the page holds them


def test_its_failure_is_shown_and_an_output_that_is_missing(render, tmp_path, monkeypatch, capsys):
    (tmp_path / "project" / "_quarto.yml").write_text(SETTINGS.replace("paper.pdf", "other.pdf"))
    with pytest.raises(UserError, match=r"quarto wrote no .*other\.pdf"):
        render("pdf")
    monkeypatch.setenv("FAIL", "1")
    with pytest.raises(UserError, match=r"exit code 3, for the reason printed above$"):
        render("html")
    assert capsys.readouterr().err == "FATAL (a filter)\nERROR: the chapter\nis broken\n"


def test_files_have_the_date_of_the_newest_machine(render, monkeypatch):
    """The world's last row is of 2026-01-02T03:04:05Z: after 20,455 days of 86,400 s three hours and 245 s."""
    assert render("html", data=WORLD)[1]["SOURCE_DATE_EPOCH"] == str(20_455 * 86_400 + 3 * 3600 + 245)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1")
    assert render("html", data=WORLD)[1]["SOURCE_DATE_EPOCH"] == "1"


def test_the_page_links_to_the_pdf():
    """Both engines share one template; Quarto has its variables from `_quarto.yml` alone."""
    formats = yaml.safe_load((ROOT / "_quarto.yml").read_text("utf-8"))["format"]
    assert formats["html"]["variables"]["paper"] == formats["typst"]["output-file"]
    assert "$paper$" in (ROOT / formats["html"]["template"]).read_text("utf-8")


def test_the_pdf_is_made_of_one_document():
    """Quarto writes each document's PDF to the project's one `output-file`, and stops where two have it."""
    project = yaml.safe_load((ROOT / "_quarto.yml").read_text("utf-8"))
    for name in project["project"]["render"][1:]:
        assert yaml.safe_load((ROOT / name).read_text("utf-8").split("---")[1])["format"] == {"html": "default"}
