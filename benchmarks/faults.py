"""Damages tables, archives and flags at random, and counts the tries without a result or one sentence.

    python benchmarks/faults.py
    python benchmarks/faults.py --quick --seed 7

Each try damages one cell or some bytes of a table in a copy of the tests' small cache, which has every kind, or a zip
of a machine, or gives a flag an odd value. A machine's tables go through the checks of ``add-machine``, and like all
others through everything that the paper reads. A failure is a traceback, a sentence over 400 characters, or one about a
damaged cell that names no line. ``benchmarks/kills.py`` has the kills, ``benchmarks/misbehaving.py`` the models that
misbehave. Exit code 1 if anything failed.
"""

import argparse
import contextlib
import io
import shutil
import sys
import traceback
import zipfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).parents[1]))  # a checkout counts, installed or not

from harness import ROOT, Failure, count

from measure import __main__ as measuring
from measure.cache.folders import Workloads
from measure.domain.workload_records import Workload
from measure.errors import UserError
from measure.published import contributed_checks
from report.paper import load

WORLD = ROOT / "tests" / "data" / "world"
REFERENCES = ROOT / "bib" / "references.bib"
MOST_CHARACTERS = 400
CELLS = (
    "", "0", "-1", "1", "nan", "inf", "1e400", "1e-300", "9" * 30, "x", "x" * 5000, "1,5", "=1+1", "<b>", "\x00", "٣",
    '"', "1_000", " ", "ok", "error", "2026-13-99",
)  # fmt: skip
FLAGS = ("--batch-sizes", "--threads", "--seed", "--budget", "--target", "--models", "--precisions", "--variants")
QUICK = 20

Answer = Callable[[], object]


def end_of(answer: Answer, *, needs_line: bool) -> str:
    """Return whether an action is done or refused. Raises Failure if the refusal is not one good sentence."""
    try:
        answer()
    except UserError as problem:
        text = str(problem)
        if len(text) > MOST_CHARACTERS or "\n" in text:
            raise Failure(f"{len(text)} characters: {text[:300]}") from None
        if needs_line and ", line " not in text:
            raise Failure(f"no line: {text[:300]}") from None
        return "refused"
    except Exception:
        lines = traceback.format_exc().strip().splitlines()
        place = next((f", {line.strip()}" for line in lines[::-1] if "/measure/" in line or "/report/" in line), "")
        raise Failure(lines[-1] + place) from None
    return "done"


def command(words: Sequence[str]) -> Answer:
    """Return the call of a command, whose error line is raised as UserError."""

    def call() -> None:
        error = io.StringIO()
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(error):
            code = measuring.main(list(words))
        if code == 2:
            raise UserError(error.getvalue().strip().rpartition("\n")[2])

    return call


def reading(table: Path, data: Path) -> Answer:
    """Return the reading of a table by all who read it."""

    def read() -> None:
        machine = table.parent.name if table.parent.parent.name == "machines" else "none"
        if machine != "none":
            contributed_checks.check(table.parent, Workloads(data).rows(Workload))
        load(data, REFERENCES, chosen=[machine])  # others' measurements are as they were, and take time

    return read


def table_of(chance: Random, data: Path) -> Path:
    return chance.choice(sorted(path for path in data.rglob("*.csv") if path.stat().st_size))


def damaged_cell(chance: Random, data: Path) -> Answer:
    table = table_of(chance, data)
    lines = table.read_text("utf-8").splitlines()
    line = chance.randrange(1, len(lines))
    cells = lines[line].split(",")
    cells[chance.randrange(len(cells))] = chance.choice(CELLS)
    lines[line] = ",".join(cells)
    table.write_text("\n".join(lines) + "\n", "utf-8")
    return reading(table, data)


def damaged_bytes(chance: Random, data: Path) -> Answer:
    table = table_of(chance, data)
    content = bytearray(table.read_bytes())
    for _ in range(chance.randrange(1, 9)):
        content[chance.randrange(len(content))] = chance.randrange(256)
    table.write_bytes(content[: chance.randrange(len(content))] if chance.random() < 0.5 else content)
    return reading(table, data)


def hostile_archive(chance: Random, data: Path) -> Answer:
    file = data / "box.zip"
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for table in chance.choice(sorted((data / "machines").iterdir())).glob("*.csv"):
            archive.write(table, chance.choice(["", "../", "/", "box/", "../../etc/"]) + table.name)
    content = bytearray(file.read_bytes())
    if chance.random() < 0.7:
        content[chance.randrange(len(content))] ^= chance.randrange(1, 256)
    file.write_bytes(content[: chance.randrange(len(content))] if chance.random() < 0.3 else content)
    return command(["add-machine", str(file), "--data", str(data / "new")])


def odd_flag(chance: Random, data: Path) -> Answer:
    value = "".join(chance.choice("0123456789-+.,;*[]x%\n\t٣é ") for _ in range(chance.randrange(1, 80)))
    words = ["--plan", "--device", "cpu", f"{chance.choice(FLAGS)}={value}", "--data", str(data / "none")]
    return command(words)


FAULTS = {
    "damaged cells": (damaged_cell, 4500),
    "damaged bytes": (damaged_bytes, 500),
    "hostile archives": (hostile_archive, 200),
    "odd flags": (odd_flag, 220),
}
"""How to damage a copy of the cache, and how many tries a whole run has."""


def attempt(kind: str, chance: Random, folder: Path) -> str:
    damage, _ = FAULTS[kind]
    answer = damage(chance, Path(shutil.copytree(WORLD, folder / "data")))
    return end_of(answer, needs_line=kind == "damaged cells")


def main(argv: Sequence[str]) -> int:
    """Print a table of tried and failed. Exit code 0, or 1 if something failed."""
    flags = argparse.ArgumentParser(description="Damage files and flags, and count what is not refused in a sentence.")
    flags.add_argument("--quick", action="store_true", help=f"{QUICK} tries of each kind")
    flags.add_argument("--seed", type=int, default=1, metavar="N", help="of the damage (default: %(default)s)")
    chosen = flags.parse_args(argv)
    chance = Random(chosen.seed)
    kinds = (kind for kind, (_, tries) in FAULTS.items() for _ in range(QUICK if chosen.quick else tries))
    return int(count((kind, partial(attempt, kind, chance)) for kind in kinds) > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
