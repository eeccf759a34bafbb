"""Commands with something wrong, and the check that all of them go through."""

import re
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from helpers.places import ROOT, TESTS
from helpers.world import WORLD
from measure import __main__ as measuring
from measure.cache.table import NAME
from report import __main__ as reporting

REMEDY = re.compile(
    r"\b(say|name|choose|correct|mend|delete|update|restore|give|install|move|see|use|add|save|export|count|write|exchange"
    r"|measure|leave|run|put|make|wait|synchronise|rename)\b"
    r"|is not one of|the nearest are|did you mean|shows them all"
)
"""What to do: an imperative, or a choice."""

Damage = Callable[[Any], object]
"""What is done to the project before; it gets pytest's ``monkeypatch``."""


class Bad(NamedTuple):
    """A command with something wrong, what its complaint names, and what has to be done first."""

    words: str
    culprit: str
    damage: Damage = lambda _monkeypatch: None


def put(path: str, content: bytes) -> Damage:
    def damage(_monkeypatch: Any) -> None:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_bytes(content)

    return damage


def text(path: str, *lines: str) -> Damage:
    """Puts lines into a file."""
    return put(path, ("\n".join(lines) + "\n").encode())


def folder(path: str) -> Damage:
    """Puts a folder where a file should be."""

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
    assert REMEDY.search(error.partition(": ")[2])
    assert contents() == before
