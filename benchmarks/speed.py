"""Times the commands that users wait for, each next to a peer in the same run.

    python benchmarks/speed.py

A command line is compared with the bare interpreter's start; the embedded renderer with the time that pandoc and
Typst alone need for a page of one sentence, which distinguishes a slow machine from a slow renderer.
A cache of two thousand models, 60 machines and 100,000 published rows (``scale.py``) says whether a paper still renders
when there are many.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).parents[1] / "scripts"))
sys.path.insert(0, str(Path(__file__).parents[1]))  # a checkout counts, installed or not

import scale
from process import apart, peak_byte

ROOT = Path(__file__).parents[1]
HTML_LIMIT_BYTE, MANY_HTML_LIMIT_BYTE = 5_000_000, 6_000_000
MANY = {"models": 2_000, "machines": 60, "rows": 100_000}
MANY_LIMIT_S, MANY_LIMIT_BYTE = 120.0, 2_000_000_000


def seconds(command: Callable[[], object], repeats: int) -> float:
    """Return the median time of a few runs."""
    taken = []
    for _ in range(repeats):
        start = time.perf_counter()
        command()
        taken.append(time.perf_counter() - start)
    return median(taken)


def python(*arguments: str) -> Callable[[], object]:
    return lambda: subprocess.run([sys.executable, *arguments], cwd=ROOT, check=True, capture_output=True)


def smallest_paper() -> None:
    """Render one sentence to HTML and PDF with the same pandoc and Typst."""
    import pypandoc
    import typst

    pypandoc.convert_text("One sentence.", "html", format="markdown", extra_args=["--standalone"])
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "paper.typ"
        source.write_text(pypandoc.convert_text("One sentence.", "typst", format="markdown"))
        typst.compile(source, output=source.with_suffix(".pdf"))


def show(name: str, taken_s: float, target_s: float, peer: str, peer_s: float) -> None:
    verdict = "within" if taken_s <= target_s else "ABOVE"
    print(f"{name:42}{taken_s:8.2f} s, {verdict} {target_s:g} s; {taken_s / peer_s:6.1f} times {peer}")


def show_size(name: str, taken_byte: int, limit_byte: int) -> None:
    verdict = "within" if taken_byte <= limit_byte else "ABOVE"
    print(f"{name:42}{taken_byte / 1e6:8.2f} MB, {verdict} {limit_byte / 1e6:g} MB")


def render_many() -> tuple[float, int, int]:
    """Render ``MANY``; return the time of the processes (s), the memory of the largest and the size of the page (B)."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "site"
        scale.write(Path(folder), **MANY)
        flags = ("--engine", "embedded", "--force", "--data", str(Path(folder) / "data"), "--out", str(out))
        python("-m", "report", *flags)()
        page_byte = (out / "index.html").stat().st_size
    used = os.times()
    return used.children_user + used.children_system, peak_byte(children=True), page_byte


def main(_arguments: Sequence[str]) -> None:
    bare_s = seconds(python("-c", "pass"), 5)
    peer = "the bare interpreter"
    show("python -m measure --help", seconds(python("-m", "measure", "--help"), 5), 0.5, peer, bare_s)
    show("python -m measure --list", seconds(python("-m", "measure", "--list"), 5), 1.0, peer, bare_s)
    show("python -m measure --plan", seconds(python("-m", "measure", "--plan"), 5), 1.0, peer, bare_s)
    # Whatever the machine: the workload table is committed, so this run has nothing left to do anywhere.
    nothing = python("-m", "measure", "--sections", "workload")
    show("a run with nothing left to do", seconds(nothing, 5), 2.0, peer, bare_s)
    with tempfile.TemporaryDirectory() as out:
        render = python("-m", "report", "--engine", "embedded", "--force", "--out", out)
        render_s = seconds(render, 3)
        again_s = seconds(python("-m", "report", "--engine", "embedded", "--out", out), 3)
        html_byte = (Path(out) / "index.html").stat().st_size
        pdf_byte = (Path(out) / "paper.pdf").stat().st_size
    show("HTML and PDF by the embedded engine", render_s, 25.0, "a paper of one sentence", seconds(smallest_paper, 3))
    show("the same with no code changed", again_s, 5.0, "with all code run", render_s)
    show_size("size of the HTML", html_byte, HTML_LIMIT_BYTE)
    print(f"{'size of the PDF':42}{pdf_byte / 1e6:8.2f} MB")
    many_s, many_byte, page_byte = apart(render_many)
    name = f"HTML and PDF of {MANY['models']} models, on one core"
    show(name, many_s, MANY_LIMIT_S, "that of the committed cache", render_s)
    show_size("memory of its largest process", many_byte, MANY_LIMIT_BYTE)
    show_size("size of its page", page_byte, MANY_HTML_LIMIT_BYTE)


if __name__ == "__main__":
    main(sys.argv[1:])
