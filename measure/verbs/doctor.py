"""Check this machine for causes of bad measurements, and say how to fix them. Nothing is measured or changed. A warning
shifts figures or widens their intervals; a problem spoils or prevents them. The exit code is 1 if there is a problem.

--json  print JSON instead of lines
"""

import dataclasses
import json
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from measure.cache.folders import Workloads
from measure.cache.workload_records import Workload
from measure.domain.words import FULL_PRECISION
from measure.errors import UserError
from measure.machine import checks
from measure.machine.checks import OK, PROBLEM, UNCHECKED, WARNING, Finding
from measure.verbs.flags import CommandLine, verb_parser

COLOURS = {OK: 32, WARNING: 33, PROBLEM: 31, UNCHECKED: 2}
"""Green, yellow, red, dim (ANSI)."""


def parser() -> CommandLine:
    return verb_parser("doctor", __doc__)


def main(argv: Sequence[str]) -> int:
    """Return 0, or 1 if there is a problem. Raises UserError for bad input."""
    arguments = parser().parse_args(argv)
    findings = examine(arguments.data)
    if arguments.json:
        print(json.dumps([dataclasses.asdict(finding) for finding in findings], indent=2, ensure_ascii=False))
        return int(any(finding.level == PROBLEM for finding in findings))
    is_coloured = sys.stdout.isatty() and not os.environ.get("NO_COLOR")  # without rich, which may be missing
    width = max(len(finding.subject) for finding in findings)
    for finding in findings:
        advice = f"; {finding.advice}" if finding.advice else ""
        line = f"{finding.level:9}  {finding.subject:{width}}  {finding.fact}{advice}"
        print(f"\x1b[{COLOURS[finding.level]}m{line}\x1b[0m" if is_coloured else line)
    return int(any(finding.level == PROBLEM for finding in findings))


def examine(data: Path) -> list[Finding]:
    """Run all checks. The host comes first: importing the libraries would be load of its own."""
    found: list[Finding] = []
    needed = None
    try:
        needed = largest(Workloads(data).rows(Workload))
    except UserError as problem:
        found.append(Finding(PROBLEM, "cache", str(problem)))
    found += checks.check_host(needed)
    found += checks.check_tuning(os.environ)
    found += checks.check_libraries()
    found += checks.check_gpus()
    return found


def largest(workloads: Iterable[Workload]) -> tuple[str, int] | None:
    """Return label and bytes of the largest counted forward pass at full precision; None if there is none."""
    needs = [
        (row.inference_peak_byte, f"{row.model} batch {row.batch} {row.precision}")
        for row in workloads
        if row.inference_peak_byte is not None and row.precision == FULL_PRECISION
    ]
    return max(needs)[::-1] if needs else None
