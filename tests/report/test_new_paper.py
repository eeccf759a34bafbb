"""A paper of a reader's own: made, rendered, changed, failing."""

import errno
import os
import re
import shlex
import shutil
import subprocess
import sys
from contextlib import chdir
from pathlib import Path

import pypdfium2
import pytest
from helpers.places import ROOT
from helpers.world import CPU, WORLD

from measure.errors import UserError
from report import __main__ as command
from report import failures, new_paper

ENVIRONMENT = {name: value for name, value in os.environ.items() if name != failures.STRICT} | {"PYTHONPATH": str(ROOT)}
CHAPTERS = re.compile(r"\{\{< include report/(?!chapters/machine).*>\}\}\n\n")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder as ``new`` makes it, with one chapter of the package left, for speed."""
    monkeypatch.delenv(failures.STRICT)
    assert command.main(["new", str(tmp_path / "mine")]) == 0
    index = tmp_path / "mine" / "index.qmd"
    index.write_text(CHAPTERS.sub("", index.read_text()))
    return tmp_path / "mine"


def rendered(folder):
    line = [sys.executable, "-m", "report", "--engine", "embedded"]
    run = subprocess.run(line, cwd=folder, env=ENVIRONMENT, capture_output=True, text=True)
    paper = folder / "_site" / "paper.pdf"
    pages = pypdfium2.PdfDocument(paper) if paper.exists() else []
    return run, " ".join("".join(page.get_textpage().get_text_range() for page in pages).split())


@pytest.mark.slow
def test_a_new_folder_renders_and_says_whose_words_are_whose(folder):
    run, text = rendered(folder)
    assert run.returncode == 0, run.stderr
    assert (folder / "_site" / "index.html").exists()
    for expected in ("My paper", "My Name", "What I asked", "Figure 1: Memory bandwidth", "Table 1: ", "(Source 2026)"):
        assert expected in text
    assert "The author wrote Discussion." in text
    discussion = folder / "discussion.qmd"
    for name in ("Ünal", "Ada"):  # a class, with the table of docs/class.md
        shutil.copytree(WORLD / "machines" / CPU, folder / "data" / "machines" / name)
    table = re.search(r"~~~\n(.*?)~~~", (ROOT / "docs" / "class.md").read_text("utf-8"), re.DOTALL)[1]
    discussion.write_text(
        discussion.read_text() + table + "\n```{python}\nnothing.there\n```\n\n# Mine {#any-label}\n\nEnd.\n"
    )
    run, text = rendered(folder)
    assert run.returncode == 0, run.stderr
    assert re.search(r"could not be computed: discussion\.qmd:\d+: NameError: name 'nothing'", run.stderr)
    assert "End." in text
    assert re.search(r"Who handed in what.*Ada.*Ünal", text)


def test_a_new_paper_has_the_abstract_of_its_author_alone(tmp_path):
    new_paper.new(tmp_path / "other")
    index = (tmp_path / "other" / "index.qmd").read_text()
    assert "chapters/puzzle/" in index
    assert not re.search(r"chapters/(front|published)/", index)
    text = "".join((ROOT / name).read_text("utf-8") for name in re.findall(r"include (report/\S+)", index))
    assert "machine.at_hand.loaded" in text  # the authors' front, which is left out, is not the only place


def test_new_takes_no_folder_that_holds_something(tmp_path, capsys):
    (tmp_path / "notes").write_text("")
    assert command.main(["new", str(tmp_path)]) == 2
    assert command.main(["new"]) == 2
    assert "name a folder that is new" in capsys.readouterr().err
    assert command.main(["new", str(tmp_path / ("x" * 300))]) == 2  # no system takes so long a name
    assert "name another folder" in capsys.readouterr().err


def test_new_names_a_file_and_quotes_the_next_command(tmp_path, capsys):
    there = tmp_path / "notes"
    there.write_text("")
    assert command.main(["new", str(there)]) == 2
    assert f"{there} is a file; name a folder" in capsys.readouterr().err
    odd = tmp_path / "sp ace #1"
    assert command.main(["new", str(odd)]) == 0
    _, cd, where, *_ = shlex.split(capsys.readouterr().out.splitlines()[-1].replace(";", " ;"), comments=True)
    assert (cd, where) == ("cd", str(odd))


def test_a_full_disk_leaves_nothing_of_a_new_folder(tmp_path, monkeypatch):
    write = Path.write_bytes

    def refuse(path, content):
        if "own.bib" in path.name:  # the last file
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(path, content)

    monkeypatch.setattr(Path, "write_bytes", refuse)
    (tmp_path / "empty").mkdir()
    for folder in (tmp_path / "a" / "b", tmp_path / "empty"):
        with pytest.raises(UserError, match="No space left"):
            new_paper.new(folder)
    assert [path.name for path in tmp_path.rglob("*")] == ["empty"]


def test_files_of_the_folder_lie_over_those_of_the_package(folder):
    chapter = folder / "report" / "chapters" / "chips" / "chips.qmd"
    chapter.parent.mkdir(parents=True)
    chapter.write_text("# Mine\n")
    (folder / "data").mkdir()
    assert new_paper.stands_in(folder)
    assert not new_paper.stands_in(ROOT)
    for _ in range(2):  # the second time over the first
        root = new_paper.assemble(folder)
    assert (root / "report" / "chapters" / "chips" / "chips.qmd").read_text() == "# Mine\n"
    assert (root / "data" / "chips.csv").exists()
    listed = (root / new_paper.OWN_FILES).read_text().splitlines()
    assert sorted(listed) == [
        "_quarto.yml",
        "discussion.qmd",
        "index.qmd",
        "own.bib",
        "report/chapters/chips/chips.qmd",
    ]


def test_a_folder_of_something_else_is_no_paper(tmp_path):
    (tmp_path / "_quarto.yml").write_text("project: {type: website}\n")
    assert not new_paper.stands_in(tmp_path)
    with chdir(tmp_path), pytest.raises(UserError, match="not empty"):
        new_paper.new(tmp_path)
