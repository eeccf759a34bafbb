"""Count the small networks of ``docs/counting.md`` with every counting program: see ``counting_programs.py``.

A block of the page that sets ``right``, the right FLOP, is a case. It also defines a ``network`` and its input ``x``.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from peers import CASE_COUNTERS
from process import apart

from measure.domain.workload_records import CaseCount
from report.chapters.counting.facts import program_name

PAGE = Path(__file__).parents[1] / "docs" / "counting.md"
CASE = re.compile(r"^### (?P<name>[^\n]+)\n\n```python\n(?P<code>.*?^right = (?P<arithmetic>[^\n]+)\n)```", re.M | re.S)


@dataclass(frozen=True)
class Case:
    """A network by its heading; ``arithmetic`` is Python, in FLOP."""

    name: str
    code: str
    arithmetic: str

    def build(self) -> tuple[Any, Any, int]:
        """Return the network in eval mode, its input and the right FLOP."""
        names: dict[str, Any] = {}
        exec(self.code, names)
        return names["network"].eval(), names["x"], names["right"]


def read_cases(page: Path = PAGE) -> list[Case]:
    return [Case(**found.groupdict()) for found in CASE.finditer(page.read_text("utf-8"))]


def count_with(program: str, cases: Sequence[Case]) -> list[CaseCount]:
    """Count cases with a program; the main function of its process."""
    import logging
    import warnings

    import torch

    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    with torch.set_grad_enabled(CASE_COUNTERS[program].package is None):  # this program counts the backward pass too
        return [count_case(program, case) for case in cases]


def count_case(program: str, case: Case) -> CaseCount:
    from measure.run.worker import classify

    counter = CASE_COUNTERS[program]
    network, x, right = case.build()
    key = case.name, program, counter.version
    if not counter.installed:
        return CaseCount(*key, "unsupported", f"{counter.package} is not installed", case.arithmetic, right)
    try:
        mac, _ = counter.count(network.to(counter.device), x.to(counter.device))
    except Exception as problem:  # a peer may raise anything
        return CaseCount(*key, "error", classify(problem).reason, case.arithmetic, right)
    return CaseCount(*key, "ok", None, case.arithmetic, right, float(2 * mac))


def count_cases() -> list[CaseCount]:
    """Count all cases with all programs; name the programs that are not installed."""
    counts, cases = [], read_cases()
    for program, counter in CASE_COUNTERS.items():
        if counter.installed:
            print(f"{program}: counting small networks", flush=True)
        else:
            print(f"{program}: not installed; install it with pip install {counter.package}")
        for share in [[case] for case in cases] if counter.is_once and counter.installed else [cases]:
            counts += apart(count_with, program, share)
    return counts


def to_markdown(counts: Sequence[CaseCount]) -> str:
    """Return a table of the FLOP that each program (a column) prints for each case (a row)."""
    programs = list(dict.fromkeys(count.program for count in counts))
    cells: dict[str, dict[str, str]] = {}
    for count in counts:
        row = cells.setdefault(count.case, {"by hand": f"{count.right_flop:,}"})
        row[count.program] = "fails" if count.forward_flop is None else f"{count.forward_flop:,.0f}"
    header = ["network", "by hand", *map(program_name, programs)]
    lines = [header, ["---", *["--:"] * (len(header) - 1)]]
    for name, row in cells.items():
        anchor = re.sub(r"[^\w -]", "", name.lower()).replace(" ", "-")
        lines.append([f"[{name}](#{anchor})", *row.values()])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
