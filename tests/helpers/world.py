"""The one world of the tests: a small cache with every table, made for arithmetic by hand (see its README.md).

Around it a project, and commands with something wrong in it.
"""

import csv
import shlex
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from math import isclose
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from helpers.places import ROOT, TESTS
from measure.cache.table import NAME
from report import facts
from report.charts.panels import specified
from report.markdown import SPACE
from report.paper import Paper, chips, curated, load
from report.stats.value import Name

WORLD = TESTS / "data" / "world"
REFERENCES = ROOT / "bib" / "references.bib"
CPU, GPU = "example-cpu", "example-gpu"

Row = dict[str, str]
Change = Callable[[Row], Row | None]


@cache
def world(data: Path = WORLD, chosen: Sequence[str] = ()) -> Paper:
    """Load the world, or a changed copy of it. Its processor is its reference machine as well.

    Its tables are read once; ``chosen`` are the folders of machines to read, all where it is empty.
    """
    paper = load(data, REFERENCES, chosen=chosen)
    own = tuple(machine for machine in paper.machines if machine.folder == CPU)
    vars(paper)["reference"] = replace(paper, machines=own)
    return paper


def mutated(path: Path, changes: Mapping[str, Change]) -> Path:
    """Copy the world to a folder that is not there yet, with the rows of some tables changed; return the folder.

    ``changes`` maps a table's path in the world to a function that returns each row's new cells, or None without it.
    """
    shutil.copytree(WORLD, path)
    for table, change in changes.items():
        change_rows(path / table, change)
    return path


def change_rows(table: Path, change: Change) -> None:
    """Write a table anew from its changed rows, without those that are None."""
    with table.open(encoding="utf-8", newline="") as file:
        lines = csv.DictReader(file)
        names, rows = lines.fieldnames or [], [row for line in lines if (row := change(line)) is not None]
    with table.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, names, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


@cache
def committed_chips() -> pd.DataFrame:
    """Read the project's table of chips."""
    return chips.read(ROOT / "data" / "chips.csv", curated.read_keys(REFERENCES))


@cache
def nothing() -> Paper:
    """Load a paper of nothing at all."""
    paper = load(TESTS / "no-such-folder", REFERENCES)
    vars(paper)["reference"] = paper
    return paper


def numbers(chapter: str, paper: Paper) -> dict[str, Any]:
    """Return a chapter's facts by their keys without its name; the name of an extreme is at ``KEY.name``."""
    if paper.folder == WORLD:  # a changed world has no reference of its own, and would load the project's
        vars(paper).setdefault("reference", world().reference)
    found: dict[str, Any] = {}
    for key, value, _ in facts.entries("", facts.of_chapter(chapter, paper)):
        if isinstance(value, Name):
            found[key.removeprefix(".")] = value.text
        else:
            found |= {key.removeprefix("."): value.number, f"{key.removeprefix('.')}.name": str(value.name)}
    return found


def wrong(chapter: str, paper: Paper, expected: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Return the facts that are not the expected ones, each with the expected value; an unknown key is an error."""
    found = numbers(chapter, paper)
    pairs = {key: (found[key], value) for key, value in expected.items()}

    def is_equal(one: Any, other: Any) -> bool:
        return one == other or (
            isinstance(one, float) and not isinstance(other, str) and isclose(one, other, rel_tol=1e-5)
        )

    return {key: pair for key, pair in pairs.items() if not is_equal(*pair)}


def rows_of(chart: Any, *fields: str) -> list[tuple[Any, ...]]:
    """Return these fields of all rows of a chart that have them."""
    rows = [row for rows in specified(chart)["datasets"].values() for row in rows]
    return [tuple(row[name] for name in fields) for row in rows if set(fields) <= row.keys()]


def cells_of(table: str) -> dict[str, list[str]]:
    """Return the other cells of each row of a Markdown table by its first one, without marks of escape."""
    lines = table.replace("\\", "").replace(SPACE, " ").splitlines()[2:]
    rows = [[cell.strip() for cell in line[1:-1].split("|")] for line in lines]
    return {row[0]: row[1:] for row in rows}


Damage = Callable[[Any], object]
"""Damages the project; it gets pytest's ``monkeypatch``."""


class Bad(NamedTuple):
    """A command with something wrong, a part of its complaint, and the damage before it."""

    words: str
    culprit: str
    damage: Damage = lambda _monkeypatch: None


def put(path: str, content: bytes) -> Damage:
    def damage(_monkeypatch: Any) -> None:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_bytes(content)

    return damage


def text(path: str, *lines: str) -> Damage:
    return put(path, ("\n".join(lines) + "\n").encode())


def folder(path: str) -> Damage:
    """Puts a folder in the place of a file."""

    def damage(_monkeypatch: Any) -> None:
        Path(path).unlink(missing_ok=True)
        Path(path).mkdir(parents=True)

    return damage


def swapped(path: str, old: str, new: str) -> Damage:
    """Changes a file in one place."""

    def damage(_monkeypatch: Any) -> None:
        content = Path(path).read_text("utf-8")
        assert old in content
        Path(path).write_text(content.replace(old, new, 1), "utf-8")

    return damage


def make_project(folder: Path) -> None:
    """Put a project around the world: its cache is ``data``. ``ncu.csv`` and ``step.json`` can be imported."""
    shutil.copytree(WORLD, folder / "data")
    (folder / "bib").mkdir()
    shutil.copy(ROOT / "bib" / "references.bib", folder / "bib")
    shutil.copy(TESTS / "data" / "ncu-raw-format.csv", folder / "ncu.csv")
    (folder / "_quarto.yml").write_text("title: T\nbibliography: bib/references.bib\n")
    (folder / "index.qmd").write_text("A sentence.\n")


def check(bad: Bad, capsys: Any, monkeypatch: Any) -> None:
    """Run the command in the current folder: it exits with 2 after one sentence, and changes nothing."""
    from measure import __main__ as measuring
    from report import __main__ as reporting

    bad.damage(monkeypatch)

    def contents() -> dict[Path, bytes]:
        """A folder's lock may stay behind."""
        return {path: path.read_bytes() for path in Path().rglob("*") if path.is_file() and path.name != NAME}

    before = contents()
    program, *words = shlex.split(bad.words)
    code = measuring.main(words) if program == "measure" else reporting.main(words, Path.cwd())
    printed = capsys.readouterr()
    assert (code, printed.out) == (2, "")
    *progress, error = printed.err.splitlines()
    assert all(line.startswith("rendering the paper of ") for line in progress)
    assert error.startswith(f"python -m {program}")
    assert bad.culprit in error
    assert contents() == before
