import os
import shutil
import subprocess
import sys

import pypdfium2
import pytest
from helpers.places import ROOT
from helpers.world import WORLD

import report.engine.quarto
from measure.cache.records import Environment
from measure.cache.table import write
from report import failures
from report.__main__ import main
from report.engine.source import FILTER

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


def refusal(capsys, project, *arguments):
    """What the command says to bad input: one line, exit code 2, no traceback."""
    assert main(arguments, project) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    lines = [line for line in printed.err.splitlines() if line.startswith("python -m report: ")]
    assert len(lines) == 1
    assert "Traceback" not in printed.err
    return lines[0].removeprefix("python -m report: ")


def test_help_imports_no_engine():
    code = (
        "import sys\nfrom report.__main__ import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit:\n    pass\n"
        "print([name for name in ('yaml', 'pypandoc', 'jupyter_client', 'typst') if name in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert "--engine" in run.stdout
    assert run.stdout.splitlines()[-1] == "[]"


def test_it_writes_what_it_is_asked_for(project, no_quarto, capsys, tmp_path):
    root = project("See `{python} __import__('os').environ['ROOFWRIGHT_DATA'].rsplit('/', 1)[1]`.\n")
    out = tmp_path / "elsewhere" / "site"
    assert main(["--formats", "html", "--out", str(out)], root) == 0
    printed = capsys.readouterr()
    first, address, *_ = printed.out.splitlines()
    assert first == f"{out / 'index.html'}  0.0 MB"
    assert address == f"Open {(out / 'index.html').as_uri()}"
    assert printed.err == f"rendering the paper of data\nrunning the cells of index.qmd\nwriting {out / 'index.html'}\n"
    page = (out / "index.html").read_text("utf-8")
    assert "<p>See data.</p>" in page
    assert "as PDF" not in page  # none was asked for
    assert [path.name for path in out.iterdir()] == ["index.html"]


FAILS = """\
```{python}
from report import display

@display.table
def divided(paper):
    return str(1 / 0)
```

```{python}
#| label: tbl-a
#| tbl-cap: "Numbers."
divided(None)
```
"""


def test_what_cannot_be_computed_is_said_there_and_at_the_end(project, no_quarto, capsys, monkeypatch, tmp_path):
    monkeypatch.delenv(failures.STRICT)
    out = tmp_path / "site"
    assert main(["--formats", "html", "--out", str(out)], project(FAILS)) == 0
    printed = capsys.readouterr()
    assert "divided failed with ZeroDivisionError: division by zero" in (out / "index.html").read_text("utf-8")
    last = printed.err.splitlines()[-1]
    assert last.startswith("could not be computed: __main__.divided: ZeroDivisionError: division by zero (")
    assert last.endswith("; please report it")


def test_a_strict_render_ends_there(project, no_quarto, capsys, monkeypatch, tmp_path):
    monkeypatch.delenv(failures.STRICT)
    message = refusal(capsys, project(FAILS), "--strict", "--formats", "html", "--out", str(tmp_path / "site"))
    assert message == "index.qmd:12: ZeroDivisionError: division by zero"
    assert failures.STRICT not in os.environ


def test_quarto_is_taken_where_it_is(project, monkeypatch, capsys):
    root = project()
    page = root / "page"
    page.write_text("")
    monkeypatch.setattr(report.engine.quarto, "find_quarto", lambda: "/bin/quarto")
    monkeypatch.setattr(report.engine.quarto, "outdated", lambda quarto: None)
    monkeypatch.setattr(report.engine.quarto, "render_with_quarto", lambda *arguments: [page])
    assert main([], root) == 0
    assert capsys.readouterr().out == f"{page}  0.0 MB\n"


def test_an_old_quarto_is_passed_over_unless_it_is_asked_for(project, monkeypatch, capsys, tmp_path):
    root = project()
    monkeypatch.setattr(report.engine.quarto, "find_quarto", lambda: "/bin/quarto")
    monkeypatch.setattr(report.engine.quarto, "outdated", lambda quarto: "/bin/quarto is version 1.4.5")
    assert main(["--formats", "html", "--out", str(tmp_path / "site")], root) == 0
    assert "/bin/quarto is version 1.4.5: the embedded engine renders instead" in capsys.readouterr().err
    assert "/bin/quarto is version 1.4.5; update it" in refusal(capsys, root, "--engine", "quarto")


def test_quarto_where_there_is_none(project, no_quarto, capsys):
    message = refusal(capsys, project(), "--engine", "quarto")
    assert "pip install 'roofwright[quarto]'" in message
    assert "quarto.org" in message
    assert "--engine embedded" in message


def test_a_data_folder_that_is_not_there(project, no_quarto, capsys):
    message = refusal(capsys, project(), "--data", "nowhere")
    assert message.startswith("there is no data folder nowhere; ")


@pytest.mark.parametrize("verb", [[], ["figures"]])
@pytest.mark.parametrize("below", ["", "site"])
def test_a_folder_that_cannot_be_written_is_said_before_any_cell_runs(project, no_quarto, capsys, verb, below):
    root = project(FIGURE)
    message = refusal(capsys, root, *verb, "--out", str(root / "index.qmd" / below))
    assert message == f"--out: {root}/index.qmd is a file; name a folder"
    assert not (root / "ran").exists()


def test_a_folder_of_others_is_said_before_any_cell_runs(project, no_quarto, capsys, monkeypatch):
    root = project(FIGURE)
    (root / "theirs").mkdir()
    monkeypatch.setattr(os, "access", lambda path, _mode: path != root / "theirs")
    message = refusal(capsys, root, "--out", str(root / "theirs" / "site"))
    assert message == f"--out: {root}/theirs cannot be written; name another folder"
    assert not (root / "ran").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--engine", "latex"], "--engine: 'latex' is not one of auto, quarto, embedded"),
        (["--formats", "docx"], "--formats: 'docx' is not one of html, pdf"),
        (["--formats"], "--formats: expected at least one argument; see python -m report --help"),
    ],
)
def test_flags(arguments, message, project, capsys):
    assert refusal(capsys, project(), *arguments).startswith(message)


@pytest.mark.parametrize(
    ("chapter", "message"),
    [
        ("a\n\n```{python}\nn = 1\n[][n]\n```\n", "chapter.qmd:5: IndexError: list index out of range"),
        ("a `{python} n`\n", "chapter.qmd:1: `n` raises NameError: name 'n' is not defined"),
        ("a\n\nas [@knuth1984; @nobody] says", "chapter.qmd:3: Citeproc: citation nobody not found"),
        ("a\n\n![](none.svg)\n", "chapter.qmd:3: the picture none.svg is not an SVG in the project"),
        ("a\n\n::: {.x}\nopen\n", "chapter.qmd:3: Div at line 5 column 1 unclosed"),
        ("a $\\nosuch{x}$\n", "chapter.qmd:1: Could not convert TeX math"),
    ],
)
def test_a_chapter_that_is_wrong(project, no_quarto, capsys, chapter, message):
    root = project("# A\n\n{{< include chapter.qmd >}}\n", chapter=chapter)
    said = refusal(capsys, root, "--formats", "html")
    assert said.startswith(message)
    assert not (root / "_site" / "index.html").exists()


def test_check_reads_every_table_and_says_what_is_in_it(capsys):
    assert main(["check", "--data", str(WORLD)]) == 0
    # The world by hand: 11 models, the CPU with 9 and 6 * 4 cells in its newest environment, the GPU with 2 and 6 * 3
    said = "is sound: 101 roofs of 41 chips, 11 models counted, 2 machines with 53 cells"
    assert said in capsys.readouterr().out


def test_why_tells_a_number_and_where_it_comes_from(capsys):
    assert main(["why", "front.data.chips", "--chips", "NVIDIA T4", "NVIDIA A100*"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("front.data.chips: ")
    assert "from data/chips.csv" in said


def test_check_names_the_row_that_is_wrong(capsys, tmp_path):
    data = tmp_path / "data"
    shutil.copytree(WORLD, data)
    chips = data / "chips.csv"
    lines = chips.read_text("utf-8").splitlines()
    chips.write_text("\n".join([*lines, lines[-1]]) + "\n", "utf-8")
    assert main(["check", "--data", str(data)]) == 2
    assert f"{chips}, line {len(lines) + 1}: " in capsys.readouterr().err


def test_check_refuses_layers_that_do_not_sum_to_their_model(capsys, tmp_path):
    data = tmp_path / "data"
    shutil.copytree(WORLD, data)
    layers = data / "workload" / "layers.csv"
    lines = layers.read_text("utf-8").splitlines()
    layers.write_text("\n".join(lines[:-1]) + "\n", "utf-8")
    assert main(["check", "--data", str(data)]) == 2
    assert f"{layers.parent}: the layers of resnet50 at 3x224x224" in capsys.readouterr().err


@pytest.fixture
def chapters(project):
    """A project of two chapters, of which the first refers to the second."""

    def make(settings=""):
        root = project(
            "{{< include one.qmd >}}\n\n{{< include two.qmd >}}\n",
            one="# One {#sec-one}\n\nAs @sec-two says.\n",
            two="# Two {#sec-two}\n\nTwice `{python} 2 * 21`.\n",
        )
        machine = root / "data" / "machines" / "a"
        machine.mkdir(parents=True)
        write(machine / "machine.csv", Environment, [])
        (root / FILTER.parent).mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / FILTER, root / FILTER)
        (root / "_quarto.yml").write_text(
            f"{SETTINGS}number-sections: true\nfilters:\n  - at: pre-ast\n    path: {FILTER}\n{settings}"
        )
        return root

    return make


@pytest.mark.parametrize(
    ("settings", "flags"),
    [("", ["--chapters", "one"]), ("roofwright:\n  chapters: [one]\n", [])],
    ids=["flag", "metadata"],
)
def test_a_chapter_that_is_not_chosen_vanishes(chapters, no_quarto, settings, flags):
    root = chapters(settings)
    assert main(["--formats", "html", *flags], root) == 0
    page = (root / "_site" / "index.html").read_text("utf-8")
    assert "One</h2>" in page
    assert "As Section “Two” [not in this selection] says." in page
    assert "Two</h2>" not in page
    assert "Twice" not in page


def test_without_a_choice_all_chapters_are_there(chapters, no_quarto):
    root = chapters()
    assert main(["--formats", "html"], root) == 0
    page = (root / "_site" / "index.html").read_text("utf-8")
    assert "Twice 42." in page
    assert "not in this selection" not in page


def test_title_author_and_date_are_those_of_the_settings(chapters, no_quarto):
    root = chapters("subtitle: S\nauthor: [Ada Example, Bo]\ndate: 2026-01-31\n")
    assert main([], root) == 0
    page = (root / "_site" / "index.html").read_text("utf-8")
    assert '<h1 class="title">T</h1>' in page
    assert '<p class="subtitle">S</p>' in page
    assert '<p class="author">Ada Example</p>' in page
    assert '<p class="date">2026-01-31</p>' in page
    paper = pypdfium2.PdfDocument(root / "_site" / "paper.pdf")[0].get_textpage().get_text_range()
    for text in ("T", "S", "Ada Example", "Bo", "2026-01-31"):
        assert text in paper.split("\r\n") or f" {text}" in paper or f"{text} " in paper


@pytest.mark.parametrize(
    ("settings", "flags", "message"),
    [
        ("", ["--chapters", "on"], "--chapters, or roofwright: chapters in _quarto.yml: 'on' is not one of one, two"),
        ("roofwright:\n  chapters: [x]\n", [], "--chapters, or roofwright: chapters in _quarto.yml: 'x' is not one of"),
        ("", ["--machines", "x"], "--machines, or roofwright: machines in _quarto.yml: 'x' is not one of a"),
        ("roofwright:\n  figure-width: 9\n", [], "_quarto.yml:11: unknown key 'figure-width'; known here are pdf"),
        ("", ["why"], "why: name a fact, such as training.step.over_forward"),
        ("", ["--formats", "svg"], "--formats of render: 'svg' is not one of html, pdf"),
        ("", ["figures", "--formats", "html"], "--formats of figures: 'html' is not one of svg, png, pdf, json"),
        ("", ["--figures", "fig-a"], "--figures: works with python -m report figures only"),
        ("", ["figures", "--figures", "fig-a"], "there is no figure in the chapters that are chosen; "),
    ],
)
def test_choices_that_are_wrong(chapters, no_quarto, capsys, settings, flags, message):
    assert refusal(capsys, chapters(settings), *flags).startswith(message)


def test_flags_do_not_outlive_the_command(chapters, no_quarto):
    before = dict(os.environ)
    assert main(["--formats", "html", "--chapters", "one"], chapters()) == 0
    assert dict(os.environ) == before
