"""The command ``python -m measure doctor``: find causes of bad measurements on this machine, and their remedies."""

import dataclasses
import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from measure.cache.folders import Workloads
from measure.cache.workload_records import Workload
from measure.domain.words import FULL_PRECISION
from measure.errors import UserError
from measure.machine import gpus, host, libraries
from measure.machine.environment import installed_version
from measure.machine.host import OK, PROBLEM, UNCHECKED, WARNING, Finding
from measure.verbs.flags import CommandLine, check_folder
from measure.verbs.terminal import make_console

STYLES = {OK: "green", WARNING: "yellow", PROBLEM: "red", UNCHECKED: "dim"}


def parser() -> CommandLine:
    flags = CommandLine(
        prog="python -m measure doctor",
        description="Check this machine for causes of bad measurements, and say how to fix them. Nothing is measured or"
        " changed. A warning shifts figures or widens their intervals; a problem spoils or prevents them. The exit code"
        " is 1 if there is a problem.",
    )
    flags.add_argument("--data", type=Path, default=Path("data"), help="the cache's folder (default: %(default)s)")
    flags.add_argument("--json", action="store_true", help="print JSON instead of lines")
    return flags


def main(argv: Sequence[str]) -> int:
    """Return 0, or 1 if there is a problem. Raises UserError for bad input."""
    arguments = parser().parse_args(argv)
    check_folder(arguments.data, "--data")
    findings = examine(arguments.data)
    if arguments.json:
        print(json.dumps([dataclasses.asdict(finding) for finding in findings], indent=2, ensure_ascii=False))
    else:
        show(findings)
    return int(any(finding.level == PROBLEM for finding in findings))


def examine(data: Path) -> list[Finding]:
    """Run all checks. The host comes first: importing the libraries would be load of its own."""
    found: list[Finding] = []
    needed = None
    try:
        needed = largest(Workloads(data).models())
    except UserError as problem:
        found.append(Finding(PROBLEM, "cache", str(problem)))
    if installed_version("psutil"):
        found += host.check_host(needed)
    found += libraries.check_tuning(os.environ)
    found += libraries.check_libraries(libraries.find_libraries())
    found += gpus.check_gpus()
    return found


def largest(workloads: Iterable[Workload]) -> tuple[str, int] | None:
    """Return label and bytes of the largest counted forward pass at full precision; None if there is none."""
    needs = [
        (row.inference_peak_byte, f"{row.model} batch {row.batch} {row.precision}")
        for row in workloads
        if row.inference_peak_byte is not None and row.precision == FULL_PRECISION
    ]
    return max(needs)[::-1] if needs else None


def show(findings: Sequence[Finding]) -> None:
    """Print a line per finding, in colour on a terminal."""
    console = make_console(highlight=False, markup=False, soft_wrap=True)
    width = max(len(finding.subject) for finding in findings)
    for finding in findings:
        advice = f"; {finding.advice}" if finding.advice else ""
        console.print(
            f"{finding.level:9}  {finding.subject:{width}}  {finding.fact}{advice}", style=STYLES[finding.level]
        )
