"""Tests whether the tests notice a small change of the arithmetic.

    pip install cosmic-ray    # makes the changes; in no extra of this project
    python benchmarks/mutants.py --sample 100
    python benchmarks/mutants.py measure/domain/statistics.py --minutes 10 --seed 7

Each mutant is one file with one operator, number or condition replaced. A random sample of places is drawn, and one
mutant for each. The tests that mirror the file (tests/measure/domain/test_roofs.py for measure/domain/roofs.py) run
against it in a copy of the project. If they pass, the other tests of their folder run as well, without those marked
slow. A mutant that fails no test survives, and its diff is printed. Some survivors are equivalent: the change
makes no difference to any caller. The exit code is 1 if fewer than 85 % die.
"""

import argparse
import ast
import difflib
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
NOT_COPIED = (".git", ".venv", "_site", "_cache", "_figures", "__pycache__")
FOLDERS = ("measure/domain", "measure/counting", "report/stats")
WANTED = 0.85
SURVIVED = "survived"
LOADED = ("hypothesis", "numpy", "pandas", "pytest", "scipy.stats", "torch", "torchvision")
"""Loaded once, before the processes fork in which the tests run."""

LONGER = 5
"""Tests of a mutant may take this many times the processor time that they take without it: it may loop forever."""


class Mutant(NamedTuple):
    file: str
    line: int
    text: str


class Arithmetic(ast.NodeTransformer):
    """Leaves out what computes nothing: annotations, decorators, and texts that stand alone."""

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        node.annotation = ast.Constant(None)
        return self.generic_visit(node)

    def visit_arg(self, node: ast.arg) -> ast.AST:
        node.annotation = None
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns, node.decorator_list = None, []
        return self.generic_visit(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        node.decorator_list = []
        return self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        return None if isinstance(node.value, ast.Constant) else self.generic_visit(node)


def meaning(text: str) -> str:
    return ast.dump(Arithmetic().visit(ast.parse(text)))


def mutants(files: Sequence[str], seed: int) -> Iterator[Mutant]:
    """Yield a mutant for each place of these files, in an order that depends on the seed alone."""
    from cosmic_ray import plugins
    from cosmic_ray.ast import ast_nodes, get_ast
    from cosmic_ray.mutating import mutate_code

    random = Random(seed)
    places: dict[tuple[str, object], list[tuple[str, int]]] = {}
    for file in files:
        nodes = list(ast_nodes(get_ast((ROOT / file).read_text("utf-8"))))
        for name in sorted(plugins.operator_names()):
            operator = plugins.get_operator(name)
            if operator.arguments() or name.endswith("NoOp"):
                continue
            found = (place for node in nodes for place in operator().mutation_positions(node))
            for occurrence, place in enumerate(found):
                places.setdefault((file, place), []).append((name, occurrence))
    for file, place in random.sample(sorted(places), len(places)):
        before = (ROOT / file).read_text("utf-8")
        name, occurrence = random.choice(places[file, place])
        text = mutate_code(before, plugins.get_operator(name)(), occurrence)
        with suppress(SyntaxError):  # `if not found := ...` is none
            if text is not None and meaning(text) != meaning(before):
                yield Mutant(file, place[0][0], text)


def mirror(file: str) -> list[str]:
    """Return the tests of a file, then those of its folder."""
    folder = Path("tests") / Path(file).parent
    own = folder / f"test_{Path(file).name}"
    return [str(own), str(folder)] if (ROOT / own).exists() else [str(folder)]


class Tests:
    """Runs tests in the copy, each time in a process forked from this one."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.usual_s: dict[str, float] = {}

    def _run(self, tests: str, limit_s: int, *, compiles: bool) -> tuple[int, float]:
        """Return their exit code, negative if they took too long, and the processor time (s) that they took.

        What is compiled from a mutant is not kept: it would stand in for another one of the same size and second.
        """
        import pytest

        process = os.fork()
        if process == 0:
            os.chdir(self.folder)
            sys.dont_write_bytecode = not compiles
            os.environ["PYTHONPATH"] = str(self.folder)
            sys.path[:] = [str(self.folder), *(path for path in sys.path if path != str(ROOT))]
            silent = os.open(os.devnull, os.O_RDWR)
            for stream in (0, 1, 2):
                os.dup2(silent, stream)
            resource.setrlimit(resource.RLIMIT_CPU, (limit_s, limit_s + 5))
            signal.alarm(10 * limit_s)  # one that waits takes no processor time
            os._exit(pytest.main(["-q", "-x", "-m", "not slow", "-p", "no:cacheprovider", tests]))
        _, status, used = os.wait4(process, 0)
        return os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime

    def limit_s(self, tests: str) -> int:
        """Return the processor time (s) that tests get; run them on the project as it is, once."""
        if tests not in self.usual_s:
            failed, self.usual_s[tests] = self._run(tests, 3600, compiles=True)
            if failed:
                sys.exit(f"{tests}: fails without any mutant; mend it first")
            print(f"{tests}: {self.usual_s[tests]:.0f} s of processor time", flush=True)
        return 10 + int(LONGER * self.usual_s[tests])

    def end(self, mutant: Mutant) -> str:
        """Return how a mutant ends: killed by its own tests or by the folder's, timed out, or survived."""
        for tests, end in zip(mirror(mutant.file), ("killed", "killed by the folder"), strict=False):
            limit_s = self.limit_s(tests)
            target = self.folder / mutant.file
            before = target.read_text("utf-8")
            target.write_text(mutant.text, "utf-8")
            failed, _ = self._run(tests, limit_s, compiles=False)
            target.write_text(before, "utf-8")
            if failed:
                return end if failed > 0 else "timed out"
        return SURVIVED


def diff(mutant: Mutant) -> str:
    before = (ROOT / mutant.file).read_text("utf-8").splitlines()
    lines = difflib.unified_diff(before, mutant.text.splitlines(), mutant.file, mutant.file, lineterm="", n=1)
    return "\n".join(lines)


def python_files(paths: Sequence[str]) -> list[str]:
    found = [file for path in paths for file in ([ROOT / path] if path.endswith(".py") else (ROOT / path).glob("*.py"))]
    return sorted(str(file.relative_to(ROOT)) for file in found)


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="*", default=FOLDERS, metavar="PATH", help="files or folders to change")
    parser.add_argument("--sample", type=int, default=100, metavar="N", help="how many mutants (default: 100)")
    parser.add_argument("--minutes", type=float, default=60, help="start no mutant after this time (default: 60)")
    parser.add_argument("--seed", type=int, default=0, help="draws other mutants (default: 0)")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    said = make_parser().parse_args(arguments)
    start_s = time.monotonic()
    for name in LOADED:
        __import__(name)
    files = python_files(said.paths)
    ends: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        tests = Tests(shutil.copytree(ROOT, Path(folder) / "copy", ignore=shutil.ignore_patterns(*NOT_COPIED)))
        for mutant, _ in zip(mutants(files, said.seed), range(said.sample), strict=False):
            if time.monotonic() - start_s > 60 * said.minutes:
                break
            end = tests.end(mutant)
            ends[end] += 1
            print(f"{mutant.file}, line {mutant.line}: {end}", flush=True)
            if end == SURVIVED:
                print(diff(mutant), flush=True)
    total = ends.total()
    killed = total - ends[SURVIVED]
    print(f"{killed} of {total} mutants killed, {killed / total:.0%}; {dict(ends)}" if total else "no mutant was tried")
    return int(killed < WANTED * total)


if __name__ == "__main__":
    sys.exit(main())
