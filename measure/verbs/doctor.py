"""Check this machine for causes of bad measurements: ``measure doctor``."""

import argparse
import dataclasses
import json
import os

from measure.cache.folders import Workloads
from measure.cache.workload_records import Workload
from measure.domain.words import FULL_PRECISION
from measure.errors import UserError
from measure.machine import checks
from measure.machine.checks import PROBLEM, Finding
from measure.verbs.flags import Verbs, add_verb


def add_verbs(verbs: Verbs) -> None:
    """Declare doctor."""
    text = (
        "Check this machine for causes of bad measurements, and say how to fix them. Nothing is measured or changed. A "
        "warning shifts figures or widens their intervals; a problem spoils or prevents them. The exit code is 1 if "
        "there is a problem."
    )
    flags = add_verb(verbs, "doctor", main, text)
    add = flags.add_argument
    add("--json", action="store_true", help="print JSON instead of lines")


def main(arguments: argparse.Namespace) -> int:
    """Return 0, or 1 if there is a problem. Raises UserError for bad input."""
    damage, workloads = [], list[Workload]()
    try:
        workloads = Workloads(arguments.data).rows(Workload)
    except UserError as problem:
        damage = [Finding(PROBLEM, "cache", str(problem))]
    needs = [
        (row.inference_peak_byte, f"{row.model} batch {row.batch} {row.precision}")
        for row in workloads
        if row.inference_peak_byte is not None and row.precision == FULL_PRECISION
    ]
    largest = max(needs)[::-1] if needs else None
    host = checks.check_host(largest)  # before the imports of the libraries, which are load of their own
    tuning = checks.check_tuning(os.environ)
    findings = [*damage, *host, *tuning, *checks.check_libraries(), *checks.check_gpus()]
    if arguments.json:
        print(json.dumps([dataclasses.asdict(finding) for finding in findings], indent=2, ensure_ascii=False))
    else:
        width = max(len(finding.subject) for finding in findings)
        for finding in findings:
            advice = f"; {finding.advice}" if finding.advice else ""
            print(f"{finding.level:9}  {finding.subject:{width}}  {finding.fact}{advice}")
    return int(any(finding.level == PROBLEM for finding in findings))
