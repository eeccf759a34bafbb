import csv
import errno
import json
import os
import re
import shutil
import sys
from pathlib import Path

import pytest
from helpers.places import FILTER, ROOT
from helpers.world import WORLD

import report.engine.quarto
from report.__main__ import closing_lines, headline, main

SETTINGS = "title: T\nbibliography: books.bib\nformat:\n  typst:\n    output-file: paper.pdf\n"
FIGURE = '```{python}\n#| label: fig-a\n#| fig-cap: "A."\nopen("ran", "w")\n```\n'
BOOK = "@book{knuth1984, author = {Knuth, Donald}, title = {The TeXbook}, publisher = {A}, year = {1984}}\n"


@pytest.fixture
def project(tmp_path, monkeypatch):
    """Makes a project, and is in its folder."""

    def make(text="text\n", **chapters):
        monkeypatch.chdir(tmp_path)
        (tmp_path / "_quarto.yml").write_text(SETTINGS)
        (tmp_path / "books.bib").write_text(BOOK)
        (tmp_path / "data").mkdir(exist_ok=True)
        (tmp_path / "index.qmd").write_text(text)
        for name, chapter in chapters.items():
            (tmp_path / f"{name}.qmd").write_text(chapter)
        return tmp_path

    return make


@pytest.fixture
def no_quarto(monkeypatch):
    monkeypatch.setattr(report.engine.quarto, "find_quarto", lambda: None)


def refusal(capsys, project, *arguments, code=2):
    """Return the command's answer to bad input: one line, exit code 2, no traceback."""
    assert main(arguments, project) == code
    printed = capsys.readouterr()
    assert printed.out == ""
    lines = [line for line in printed.err.splitlines() if line.startswith("python -m report: ")]
    assert len(lines) == 1
    assert "Traceback" not in printed.err
    return lines[0].removeprefix("python -m report: ")


def test_the_author_reaches_the_cells_and_is_named_once(project, no_quarto, capsys, tmp_path, monkeypatch):
    monkeypatch.delenv("ROOFWRIGHT_AUTHOR", raising=False)
    root = project("By `{python} __import__('os').environ['ROOFWRIGHT_AUTHOR']`.\n")
    out = str(tmp_path / "site")
    assert main(["--formats", "html", "--author", "Jane Doe", "--out", out], root) == 0
    assert "By Jane Doe." in (tmp_path / "site" / "index.html").read_text("utf-8")
    capsys.readouterr()
    (root / "_quarto.yml").write_text(f"author: Ada\n{SETTINGS}")
    assert refusal(capsys, root, "--author", "Jane Doe").startswith("--author: _quarto.yml names an author already;")


def test_it_writes_what_it_is_asked_for(project, no_quarto, capsys, tmp_path):
    root = project("See `{python} __import__('os').environ['ROOFWRIGHT_DATA'].rsplit('/', 1)[1]`.\n")
    out = tmp_path / "elsewhere" / "site"
    assert main(["--formats", "html", "--out", str(out)], root) == 0
    printed = capsys.readouterr()
    assert printed.out.splitlines()[:2] == [f"{out / 'index.html'}  0.0 MB", f"Open {(out / 'index.html').as_uri()}"]
    assert printed.err == f"rendering the paper of data\nrunning the cells of index.qmd\nwriting {out / 'index.html'}\n"
    page = (out / "index.html").read_text("utf-8")
    assert "<p>See data.</p>" in page
    assert "as PDF" not in page  # none was asked for
    assert [path.name for path in out.iterdir()] == ["index.html"]


def test_an_old_quarto_is_passed_over_unless_it_is_asked_for(project, monkeypatch, capsys, tmp_path):
    root = project()
    monkeypatch.setattr(report.engine.quarto, "find_quarto", lambda: "/bin/quarto")
    monkeypatch.setattr(report.engine.quarto, "outdated", lambda quarto: "/bin/quarto is version 1.4.5")
    assert main(["--formats", "html", "--out", str(tmp_path / "site")], root) == 0
    assert "/bin/quarto is version 1.4.5: the embedded engine renders instead" in capsys.readouterr().err
    assert "/bin/quarto is version 1.4.5; update it" in refusal(capsys, root, "--engine", "quarto")


@pytest.mark.parametrize("verb", [[], ["figures"]])
def test_a_read_only_folder_is_said_before_any_cell_runs(project, no_quarto, capsys, monkeypatch, verb):
    root = project(FIGURE)
    (root / "theirs").mkdir()
    monkeypatch.setattr(os, "access", lambda path, _mode: path != root / "theirs")
    message = refusal(capsys, root, *verb, "--out", str(root / "theirs" / "site"))
    assert message.startswith(f"--out: {root / 'theirs'} cannot be written; name ")
    assert not (root / "ran").exists()


@pytest.mark.parametrize(
    ("chapter", "message"),
    [
        ("a\n\nas [@knuth1984; @nobody] says", "chapter.qmd:3: Citeproc: citation nobody not found"),
        ("a\n\n$$\n\\nosuch{x}\n$$\n", "chapter.qmd:4: Could not convert TeX math"),
    ],
)
def test_a_chapter_that_is_wrong(project, no_quarto, capsys, chapter, message):
    root = project("{{< include chapter.qmd >}}\n", chapter=chapter)
    assert refusal(capsys, root, "--formats", "html").startswith(message)


@pytest.mark.parametrize("verb", [["check"], ["--engine", "embedded"]])
def test_a_table_of_another_user_is_named(project, capsys, monkeypatch, verb):
    root, read = project(), Path.read_bytes
    shutil.copytree(WORLD, root / "data", dirs_exist_ok=True)

    def refuse(path):  # as the system does; root may read anything
        if path.name == "samples.csv":
            raise PermissionError(errno.EACCES, "Permission denied")
        return read(path)

    monkeypatch.setattr(Path, "read_bytes", refuse)
    assert re.search(r"samples\.csv: cannot be read \(Permission denied\)", refusal(capsys, root, *verb))


def test_check_reads_every_table_and_says_what_is_in_it(capsys):
    assert main(["check", "--data", str(WORLD)]) == 0
    # The world by hand: 11 models, the CPU with 9 and 6 * 4 cells in its newest environment, the GPU with 2 and 6 * 3
    # The world's chips join the project's
    keys = {
        (row["chip"], row["precision"], row["unit"])
        for folder in (ROOT / "data", WORLD)
        for row in csv.DictReader((folder / "chips.csv").open(encoding="utf-8"))
    }
    roofs = f"{len(keys)} roofs of {len({chip for chip, *_ in keys})} chips"
    expected = f"is sound: {roofs}, 11 models counted, 2 machines with 53 cells"
    assert expected in capsys.readouterr().out


@pytest.mark.parametrize(
    ("settings", "flags"),
    [("", ["--chapters", "one"]), ("roofwright:\n  chapters: [one]\n", []), ("", [])],
    ids=["flag", "metadata", "all"],
)
def test_a_chapter_that_is_not_chosen_vanishes(project, no_quarto, settings, flags):
    """The first of two refers to the second."""
    root = project(
        "{{< include one.qmd >}}\n\n{{< include two.qmd >}}\n",
        one="# One {#sec-one}\n\nAs @sec-two says.\n",
        two="# Two {#sec-two}\n\nTwice `{python} 2 * 21`.\n",
    )
    (root / FILTER).parent.mkdir(parents=True)
    shutil.copy(ROOT / FILTER, root / FILTER)
    filters = f"number-sections: true\nfilters:\n  - at: pre-ast\n    path: {FILTER}\n"
    (root / "_quarto.yml").write_text(f"{SETTINGS}{filters}{settings}")
    before = dict(os.environ)
    assert main(["--formats", "html", *flags], root) == 0
    assert dict(os.environ) == before  # flags do not outlive the command
    page = (root / "_site" / "index.html").read_text("utf-8")
    is_chosen = bool(settings or flags)
    assert "One</h1>" in page
    assert ("As Section “two” [not in this selection] says." in page) == is_chosen
    assert ("Two</h1>" in page) == ("Twice 42." in page) == (not is_chosen)


def test_a_render_ends_with_the_address_that_a_browser_opens(tmp_path):
    page, paper = tmp_path / "my paper" / "index.html", tmp_path / "my paper" / "paper.pdf"
    page.parent.mkdir()
    page.write_bytes(b"x" * 1_500_000)
    paper.write_bytes(b"x" * 200_000)
    opened = f"Open file://{tmp_path}/my%20paper/index.html"
    assert closing_lines([page, paper], tmp_path) == [f"{page}  1.5 MB", f"{paper}  0.2 MB", opened]


FACTS = {
    "machine.at_hand.name": "a chip", "utilisation.roofs.peak": 225.4e9, "utilisation.roofs.bandwidth": 46.5e9,
    "utilisation.processor.device": "a chip", "utilisation.processor.layers": 0.361,
    "utilisation.gpu.device": "another chip", "puzzle.here.ratio": 1.234, "puzzle.here.batch": 64,
    "puzzle.needs.fewer": 5.978,
}  # fmt: skip


def facts(*unknown):
    """Facts as the file has them; those named are unknown."""
    return {key: {"value": None if key.split(".")[-1] in unknown else value} for key, value in FACTS.items()}


def test_the_headline_has_the_numbers_of_the_paper():
    assert headline(facts()) == [
        "a chip: 225 GFLOP/s at fp32 and 46.5 GB/s from memory; the layer-by-layer bound is 36 % of the "
        "latency in the median network",
        "At batch 64, MobileNet-v2 needs 5.98 times fewer FLOP than ResNet-18 and takes 1.23 times as long",
    ]
    assert headline(facts("peak", "layers", "ratio")) == [
        "a chip: its roof was not measured, or not with enough certainty"
    ]
    assert headline(facts("name")) == headline({}) == []
    # Without what was measured while other programs used the machine, where something was
    assert headline(facts() | {"undisturbed.puzzle.here.ratio": {"value": None}}) == headline(facts("ratio"))


def test_the_closing_lines_name_the_program_as_it_was_called(tmp_path, monkeypatch):
    path = tmp_path / "facts.json"
    path.write_text(json.dumps(facts()))
    monkeypatch.setattr(sys, "argv", ["/usr/bin/roofwright", "report"])
    assert closing_lines([path], Path("data"))[-1].startswith("  roofwright measure doctor ")
    monkeypatch.setattr(sys, "argv", ["report/__main__.py"])
    assert " -m measure doctor --data elsewhere " in closing_lines([path], Path("elsewhere"))[-1]
