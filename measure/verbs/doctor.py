"""The command ``python -m measure doctor``: what would spoil a measurement here, and how to fix it."""

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
from measure.machine.gpus import nvidia_findings
from measure.machine.host import OK, PROBLEM, UNCHECKED, WARNING, Finding, memory_findings, processor_findings
from measure.machine.libraries import library_findings, tuning_findings
from measure.verbs.flags import CommandLine, check_folder

STYLES = {OK: "green", WARNING: "yellow", PROBLEM: "red", UNCHECKED: "dim"}


def parser() -> CommandLine:
    flags = CommandLine(
        prog="python -m measure doctor",
        description="Find what would spoil a measurement on this machine, and say how to fix it; measure and change "
        "nothing. A warning shifts figures or widens their intervals, a problem spoils or prevents them. The exit code "
        "is 1 if there is a problem.",
    )
    flags.add_argument("--data", type=Path, default=Path("data"), help="the cache's folder (default: %(default)s)")
    flags.add_argument("--json", action="store_true", help="print JSON instead of lines")
    return flags


def main(argv: Sequence[str]) -> int:
    """Exit code 0, or 1 where there is a problem. Raises UserError for bad input."""
    arguments = parser().parse_args(argv)
    check_folder(arguments.data, "--data")
    findings = examine(arguments.data)
    if arguments.json:
        print(json.dumps([dataclasses.asdict(finding) for finding in findings], indent=2, ensure_ascii=False))
    else:
        show(findings)
    return int(any(finding.level == PROBLEM for finding in findings))


def examine(data: Path) -> list[Finding]:
    """Examine this machine. The load is watched before the libraries are tried, which is load itself."""
    found: list[Finding] = []
    needed = None
    try:
        needed = largest(Workloads(data).models())
    except UserError as problem:
        found.append(Finding(PROBLEM, "cache", str(problem)))
    if installed_version("psutil"):
        processor, memory = host.observe()
        found += [*processor_findings(processor), *memory_findings(memory, needed)]
    installed = libraries.observe()
    found += [*tuning_findings(os.environ), *library_findings(installed)]
    return [*found, *nvidia_findings(gpus.observe(), installed)]


def largest(workloads: Iterable[Workload]) -> tuple[str, int] | None:
    """Return label and memory of the largest forward pass in full precision that was counted."""
    needs = [
        (row.inference_peak_byte, f"{row.model} batch {row.batch} {row.precision}")
        for row in workloads
        if row.inference_peak_byte is not None and row.precision == FULL_PRECISION
    ]
    return max(needs)[::-1] if needs else None


def show(findings: Sequence[Finding]) -> None:
    """Print a line for each finding; in colour on a terminal."""
    from measure.verbs.terminal import Console

    console = Console(highlight=False, markup=False, soft_wrap=True)
    width = max(len(finding.subject) for finding in findings)
    for finding in findings:
        advice = f"; {finding.advice}" if finding.advice else ""
        console.print(
            f"{finding.level:9}  {finding.subject:{width}}  {finding.fact}{advice}", style=STYLES[finding.level]
        )
