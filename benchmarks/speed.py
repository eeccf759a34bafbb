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
from collections.abc import Callable
from pathlib import Path

from harness import ROOT, median_s
from process import apart, peak_byte
from scale import write

MANY = {"models": 2_000, "machines": 60, "rows": 100_000}


def python(*arguments: str) -> Callable[[], object]:
    return lambda: subprocess.run([sys.executable, *arguments], cwd=ROOT, check=True, capture_output=True)


def smallest_paper() -> None:
    """Render one sentence to HTML and PDF with the same pandoc and Typst."""
    import pypandoc
    import typst

    pypandoc.convert_text("One sentence.", "html", format="markdown", extra_args=["--standalone"])
    typst.compile(pypandoc.convert_text("One sentence.", "typst", format="markdown").encode())


def show(name: str, value: float, limit: float, unit: str = "s", also: str = "") -> None:
    print(f"{name:42}{value:8.2f} {unit}, {'within' if value <= limit else 'ABOVE'} {limit:g} {unit}{also}")


def render_many() -> tuple[float, int, int]:
    """Render ``MANY``; return the time of the processes (s), the memory of the largest and the size of the page (B)."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "site"
        write(Path(folder), **MANY)
        flags = ("--engine", "embedded", "--force", "--data", str(Path(folder) / "data"), "--out", str(out))
        python("-m", "report", *flags)()
        page_byte = (out / "index.html").stat().st_size
    used = os.times()
    return used.children_user + used.children_system, peak_byte(children=True), page_byte


def main() -> None:
    bare_s = median_s(python("-c", "pass"), 5)
    for name, limit_s, arguments in (
        ("--help", 0.5, ("--help",)),
        ("--list", 1.0, ("--list",)),
        ("--plan", 1.0, ("--plan",)),
        # Whatever the machine: the workload table is committed, so this run has nothing left to do anywhere.
        ("a run with nothing left to do", 2.0, ("--sections", "workload")),
    ):
        taken_s = median_s(python("-m", "measure", *arguments), 5)
        show(f"measure: {name}", taken_s, limit_s, also=f"; {taken_s / bare_s:.1f} times the bare interpreter")
    with tempfile.TemporaryDirectory() as out:
        render = python("-m", "report", "--engine", "embedded", "--force", "--out", out)
        render_s = median_s(render, 3)
        again_s = median_s(python("-m", "report", "--engine", "embedded", "--out", out), 3)
        html_byte, pdf_byte = (Path(out, name).stat().st_size for name in ("index.html", "paper.pdf"))
    peer = f"; {render_s / median_s(smallest_paper, 3):.1f} times a paper of one sentence"
    show("HTML and PDF by the embedded engine", render_s, 25.0, also=peer)
    show("the same with no code changed", again_s, 5.0)
    show("size of the HTML", html_byte / 1e6, 5.0, "MB")
    print(f"{'size of the PDF':42}{pdf_byte / 1e6:8.2f} MB")
    many_s, many_byte, page_byte = apart(render_many)
    show(f"HTML and PDF of {MANY['models']} models, on one core", many_s, 120.0)
    show("memory of its largest process", many_byte / 1e6, 2000.0, "MB")
    show("size of its page", page_byte / 1e6, 6.0, "MB")


if __name__ == "__main__":
    main()
