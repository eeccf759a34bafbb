import json
import os
import stat
import sys
from pathlib import Path

import pytest

from measure.errors import UserError
from report.engine.quarto import find_quarto, outdated, render_with_quarto

SETTINGS = "format:\n  html:\n    toc: true\n  typst:\n    output-file: paper.pdf\n"

# Stands in for Quarto: writes what it would write, and how it was called.
FAKE = """\
#!{python}
import json, os, pathlib, sys
names = ("QUARTO_PYTHON", "RIDGEPOINT_DATA")
if sys.argv[1:] == ["--version"]:
    print(os.environ.get("VERSION", "1.9.38"))
    sys.exit()
call = {{"arguments": sys.argv[1:], "directory": os.getcwd(), **{{name: os.environ.get(name) for name in names}}}}
pathlib.Path({record!r}).write_text(json.dumps(call))
if os.environ.get("FAIL"):
    print("ERROR: the chapter is broken", file=sys.stderr)
    sys.exit(3)
site = pathlib.Path("_site")
site.mkdir(exist_ok=True)
(site / "index.html").write_text("page")
(site / "paper.pdf").write_text("paper")
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


def render(quarto, project, formats, out):
    return render_with_quarto(str(quarto), project, formats, Path("/some/data"), out, lambda step: None)


def test_it_is_found_on_the_path(quarto):
    assert find_quarto() == str(quarto)


def test_it_is_found_beside_python(quarto, monkeypatch):
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(sys, "executable", str(quarto.parent / "python"))
    assert find_quarto() == str(quarto)


def test_it_is_found_nowhere(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    assert find_quarto() is None


@pytest.mark.parametrize("version", ["1.9.0", "1.10.3", "2.0.1"])
def test_a_version_that_is_new_enough(quarto, monkeypatch, version):
    monkeypatch.setenv("VERSION", version)
    assert outdated(str(quarto)) is None


def test_an_old_version_is_named(quarto, monkeypatch):
    monkeypatch.setenv("VERSION", "1.4.553")
    assert outdated(str(quarto)) == f"{quarto} is version 1.4.553, and the paper needs 1.9 or later"


def test_one_without_a_version_is_no_quarto(quarto, monkeypatch):
    monkeypatch.setenv("VERSION", "")
    assert "does not tell its version" in outdated(str(quarto))


def test_it_renders_all_formats_at_once_with_this_python(quarto, project, tmp_path):
    written = render(quarto, project, ["html"], project / "_site")
    call = json.loads((tmp_path / "call.json").read_text())
    assert call == {
        "arguments": ["render", str(project)],
        "directory": str(project),
        "QUARTO_PYTHON": sys.executable,
        "RIDGEPOINT_DATA": "/some/data",
    }
    assert written == [project / "_site" / "index.html"]


def test_it_copies_to_another_folder(quarto, project, tmp_path):
    written = render(quarto, project, ["html", "pdf"], tmp_path / "out")
    assert written == [tmp_path / "out" / "index.html", tmp_path / "out" / "paper.pdf"]
    assert written[1].read_text() == "paper"


def test_its_failure_is_shown(quarto, project, monkeypatch):
    monkeypatch.setenv("FAIL", "1")
    with pytest.raises(UserError, match=r"(?s)exit code 3:.*ERROR: the chapter is broken"):
        render(quarto, project, ["html"], project / "_site")


def test_an_output_that_is_missing(quarto, project):
    (project / "_quarto.yml").write_text(SETTINGS.replace("paper.pdf", "other.pdf"))
    with pytest.raises(UserError, match=r"quarto wrote no .*other\.pdf"):
        render(quarto, project, ["pdf"], project / "_site")
