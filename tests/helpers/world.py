"""The one world of the tests: a small cache with every table, made for arithmetic by hand (see its README.md)."""

import csv
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

from helpers.places import ROOT, TESTS
from report.paper import Paper, load

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
    paper = load(data, REFERENCES, chosen, everything=True)
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
def nothing() -> Paper:
    """Load a paper of nothing at all."""
    paper = load(TESTS / "no-such-folder", REFERENCES)
    vars(paper)["reference"] = paper
    return paper
