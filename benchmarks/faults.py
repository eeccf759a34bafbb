"""Damages tables, archives and flags at random, and counts the tries that end in neither a result nor one sentence.

    python benchmarks/faults.py
    python benchmarks/faults.py --quick --seed 7

Each try damages one cell or some bytes of a table in a copy of the tests' small cache, which has every kind, or a zip
of a machine, or gives a flag an odd value. A machine's tables go through the checks of ``add-machine``, and like all
others through everything that the paper reads. A failure is a traceback, a sentence over 400 characters, or a sentence
about a damaged cell without its line. Exit code 1 if anything failed.
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


def end_of(answer: Callable[[], object], *, needs_line: bool) -> str:
    """Return "done" or "refused". Raises Failure unless a refusal is one short sentence, with a line if needed."""
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


def run(words: Sequence[str]) -> None:
    """Run a command. Raises its error line as UserError."""
    error = io.StringIO()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(error):
        code = measuring.main(list(words))
    if code == 2:
        raise UserError(error.getvalue().strip().rpartition("\n")[2])


def read(table: Path, data: Path) -> None:
    """Read a table by everything that reads it."""
    machine = table.parent.name if table.parent.parent.name == "machines" else "none"
    if machine != "none":
        contributed_checks.check(table.parent, Workloads(data).rows(Workload))
    load(data, REFERENCES, chosen=[machine])  # without the other machines, which take time


def choose_table(chance: Random, data: Path) -> Path:
    return chance.choice(sorted(path for path in data.rglob("*.csv") if path.stat().st_size))


def damage_cell(chance: Random, data: Path) -> None:
    table = choose_table(chance, data)
    lines = table.read_text("utf-8").splitlines()
    line = chance.randrange(1, len(lines))
    cells = lines[line].split(",")
    cells[chance.randrange(len(cells))] = chance.choice(CELLS)
    lines[line] = ",".join(cells)
    table.write_text("\n".join(lines) + "\n", "utf-8")
    read(table, data)


def damage_bytes(chance: Random, data: Path) -> None:
    table = choose_table(chance, data)
    content = bytearray(table.read_bytes())
    for _ in range(chance.randrange(1, 9)):
        content[chance.randrange(len(content))] = chance.randrange(256)
    table.write_bytes(content[: chance.randrange(len(content))] if chance.random() < 0.5 else content)
    read(table, data)


def damage_archive(chance: Random, data: Path) -> None:
    file = data / "box.zip"
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for table in chance.choice(sorted((data / "machines").iterdir())).glob("*.csv"):
            archive.write(table, chance.choice(["", "../", "/", "box/", "../../etc/"]) + table.name)
    content = bytearray(file.read_bytes())
    if chance.random() < 0.7:
        content[chance.randrange(len(content))] ^= chance.randrange(1, 256)
    file.write_bytes(content[: chance.randrange(len(content))] if chance.random() < 0.3 else content)
    run(["add-machine", str(file), "--data", str(data / "new")])


def give_odd_flag(chance: Random, data: Path) -> None:
    value = "".join(chance.choice("0123456789-+.,;*[]x%\n\t٣é ") for _ in range(chance.randrange(1, 80)))
    run(["--plan", "--device", "cpu", f"{chance.choice(FLAGS)}={value}", "--data", str(data / "none")])


FAULTS = {
    "damaged cells": (damage_cell, 4500),
    "damaged bytes": (damage_bytes, 500),
    "hostile archives": (damage_archive, 200),
    "odd flags": (give_odd_flag, 220),
}
"""Damages and then reads a copy of the cache; the tries of a whole run."""


def attempt(kind: str, chance: Random, folder: Path) -> str:
    damage, _ = FAULTS[kind]
    data = shutil.copytree(WORLD, folder / "data")
    return end_of(partial(damage, chance, data), needs_line=kind == "damaged cells")


def main(argv: Sequence[str]) -> int:
    flags = argparse.ArgumentParser(description="Damage files and flags, and count bad refusals.")
    flags.add_argument("--quick", action="store_true", help=f"{QUICK} tries of each kind")
    flags.add_argument("--seed", type=int, default=1, metavar="N", help="of the damage (default: %(default)s)")
    chosen = flags.parse_args(argv)
    chance = Random(chosen.seed)
    kinds = (kind for kind, (_, tries) in FAULTS.items() for _ in range(QUICK if chosen.quick else tries))
    return int(count((kind, partial(attempt, kind, chance)) for kind in kinds) > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
