"""Upkeep of the cache and this machine: ``measure forget``, ``fit`` and ``doctor``.

Each verb imports its own needs, so that the help of none waits for another.
"""

import argparse
import json
import os
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from measure.errors import UserError, as_called, chosen, printable
from measure.verbs.flags import Verbs, add_verb, check_writable
from roofwright.command_line import data_flag

if TYPE_CHECKING:
    from measure.cache.folders import Folder

PARTS = "rows left by a killed command"
HEAD = (
    "left out", "device", "precision", "variant", "options", "phase", "latencies", "median error", "9 in 10 within",
    "covered",
)  # fmt: skip
SUMMARY = "left out", "errors", "median", "9 in 10 within", "covered"  # the table of all kinds, before -> now


def add_verbs(verbs: Verbs) -> None:
    add = add_verb(verbs, "forget", forget).add_argument
    add("models", nargs="+", metavar="MODEL", help="names, or globs such as 'mine:*'")
    add("--machine", nargs="+", metavar="NAME", help="the machines' folders (default: all, and counts)")
    add("--plan", action="store_true", help="print the tables that would lose rows, and remove nothing")
    add_verb(verbs, "fit", fit)
    add_verb(verbs, "doctor", doctor).add_argument("--json", action="store_true", help="print JSON instead of lines")


def forget(flags: argparse.Namespace) -> int:
    """Remove the measurements of models on every machine, and their counts, from the cache. With --machine, remove only
    the measurements on that machine. Only measuring again brings them back.
    """
    from measure.cache import table
    from measure.cache.folders import OF_MODELS, MachineFolder, Workloads, machine_names
    from measure.domain.records import DataParallelStep, HardwareCounterProfile, Profile, Run
    from measure.domain.workload_records import Workload

    words = {Run: "rounds", Profile: "profiles", Workload: "counts"}
    words[HardwareCounterProfile] = "profiles under hardware counters"
    words[DataParallelStep] = "rounds of data-parallel steps"
    machines = machine_names(flags.data)
    named = chosen("--machine", flags.machine or machines, machines)
    folders = [MachineFolder(flags.data, name) for name in machines if name in named]
    workloads = Workloads(flags.data)
    of_models: list[tuple[Folder, Path]] = [(folder, folder.folder) for folder in folders]
    if not flags.machine:
        of_models += [(folder, workloads.folder) for folder in workloads.folders()]
    # Also parts without a round, profile or count: a killed forget leaves them
    tables = [
        (place, words.get(record, PARTS), table.columns(path, record, only=["model"])["model"])
        for folder, place in of_models
        for record, path in folder.paths.items()
        if record in OF_MODELS
    ]
    models = chosen("MODEL", flags.models, {model for _, _, found in tables for model in found})
    removed: dict[Path, Counter[str]] = defaultdict(Counter)
    for place, word, found in tables:
        removed[place][word] += sum(model in models for model in found)
    for place, counts in removed.items():
        parts = counts.pop(PARTS)
        if any(counts.values()) or parts:
            listed = {word: count for word, count in counts.items() if count} or {PARTS: parts}
            print(f"{place}: {', '.join(f'{word}: {count}' for word, count in listed.items())}")
    if not flags.plan:
        for folder in folders:
            with folder.locked():
                folder.leave_out(models)
        if not flags.machine:
            workloads.leave_out(models)
    print(f"{'Would forget' if flags.plan else 'Forgot'} {', '.join(map(printable, sorted(models)))}")
    return 0


def fit(flags: argparse.Namespace) -> int:
    """Fit the model of latencies to the published measurements and the cache's own machines, predict the calls that
    each fit leaves out, and write the tables of data/prediction for predict and the paper. Print the errors of what was
    left out, of image networks by device and of each kind before and now.
    """
    from measure.cache import table
    from measure.domain.schema import file_of
    from measure.domain.values import percent
    from measure.predicting import timings
    from measure.predicting.records import ALL, OURS, Coefficient, HostCost, NetworkFactor, PredictionError
    from measure.predicting.served_records import KernelCoefficient, KernelError, ServedCoefficient, ServedError
    from measure.predicting.served_study import study_served
    from measure.predicting.study import study
    from measure.published.aside import KERNELS, read_set_aside
    from measure.published.servers import PublishedServer
    from measure.verbs.terminal import aligned

    calls = timings.read(flags.data)
    if not calls:
        lack = "holds no latency of a counted model on a device with a measured or published roof"
        raise UserError(f"--data: {flags.data} {lack}; measure one with {as_called('measure')}{data_flag(flags.data)}")
    check_writable(flags.data)
    path = file_of(PredictionError, flags.data)
    with table.held(path.parent / table.NAME, f"is fitting in {path.parent}; wait for it or name another --data"):
        before = _summary(_read_again(flags.data, each) for each in (PredictionError, KernelError, ServedError))
        costs = timings.launch_costs(calls)
        coefficients, networks, errors = study(calls, costs, lambda name: print(name, file=sys.stderr))
        hosts = timings.host_costs(costs)
        written: list[tuple[type[Any], list[Any]]] = [
            (Coefficient, coefficients),
            (HostCost, hosts),
            (NetworkFactor, networks),
            (PredictionError, errors),
        ]
        if file_of(PublishedServer, flags.data).exists():
            served = study_served(flags.data, lambda name: print(name, file=sys.stderr))
            unseen = read_set_aside(flags.data, PublishedServer)
            of_kernels, of_servers = served.look(
                flags.data, lambda data, name: read_set_aside(data, KERNELS[name]), unseen
            )
            written += [(KernelCoefficient, served.coefficients), (KernelError, served.errors + of_kernels)]
            written += [(ServedCoefficient, served.served), (ServedError, served.served_errors + of_servers)]
        for record, rows in written:
            table.write(file_of(record, flags.data), record, [_round(row) for row in rows])
    lines = [
        (
            row.left_out, row.device, row.precision, row.variant, row.options, row.phase, str(row.calls),
            percent(row.median_error), percent(row.p90_error), "" if row.coverage is None else percent(row.coverage),
        )
        for row in errors
        if (row.method, row.batches, row.sort) == (OURS, ALL, ALL)
    ]  # fmt: skip
    print("\n".join(aligned([HEAD, *lines], HEAD[6:])))
    now = _summary(rows for _, rows in written)
    changes = [(*label, *_changes(before.get(label), figures)) for label, figures in now.items()]
    print("\n".join(["", *aligned([SUMMARY, *changes], SUMMARY[2:])]))
    return 0


Figures = tuple[float, float, float | None]  # the median error, the 90th percentile, and the coverage


def _summary(tables: Iterable[list[Any]]) -> dict[tuple[str, str], Figures]:
    """Return the errors of each kind of prediction, by what was left out and the kind: not of single devices."""
    from measure.predicting.records import ALL, BY_DEVICE, OURS, PredictionError
    from measure.predicting.served_records import ASIDE, WHOLE, KernelError, ServedError

    found: dict[tuple[str, str], Figures] = {}
    for row in (row for rows in tables for row in rows):
        label = None
        if isinstance(row, PredictionError):
            is_pool = not row.source and (row.left_out, row.method, row.batches, row.sort) == (
                BY_DEVICE,
                OURS,
                ALL,
                ALL,
            )
            label = ("device", f"{row.device}, {row.precision}, {row.phase}") if is_pool else None
        elif isinstance(row, KernelError) and row.device == WHOLE:
            label = "GPU", row.kind
        elif isinstance(row, ServedError) and row.label == WHOLE and row.left_out != ASIDE:
            label = row.left_out, row.phase if row.batches == WHOLE else f"{row.phase}, {row.batches} requests"
        if label:
            found[label] = row.median_error, row.p90_error, row.coverage
    return found


def _changes(before: Figures | None, now: Figures) -> Iterator[str]:
    from measure.domain.values import percent

    for old, new in zip(before or (None, None, None), now, strict=True):
        after = "" if new is None else percent(new)
        yield after if old is None else f"{percent(old)} -> {after}"


def _read_again(data: Path, record: type[Any]) -> list[Any]:
    """Return the rows of the last fit; none of a damaged table, which this fit replaces."""
    from measure.cache import table
    from measure.domain.schema import file_of

    try:
        return table.read(file_of(record, data), record)
    except UserError:
        return []


def _round(row: Any) -> Any:
    """Return a row with its floats rounded to five significant digits."""
    floats = {name: float(f"{value:.5g}") for name, value in vars(row).items() if isinstance(value, float)}
    return replace(row, **floats)


def doctor(flags: argparse.Namespace) -> int:
    """Check this machine for causes of bad measurements, and say how to fix them. Nothing is measured or changed. A
    warning shifts figures or widens their intervals; a problem spoils or prevents them. The exit code is 1 if there is
    a problem.
    """
    from measure.cache.folders import Workloads
    from measure.domain.words import FULL_PRECISION
    from measure.domain.workload_records import Workload
    from measure.machine import checks

    damage, workloads = [], list[Workload]()
    try:
        workloads = Workloads(flags.data).rows(Workload)
    except UserError as problem:
        damage = [checks.Finding(checks.PROBLEM, "cache", str(problem))]
    needs = [
        (row.inference_peak_byte, f"{row.model} batch {row.batch} {row.precision}")
        for row in workloads
        if row.inference_peak_byte is not None and row.precision == FULL_PRECISION
    ]
    largest = max(needs)[::-1] if needs else None
    host = checks.check_host(largest)  # before the imports of the libraries, which are load of their own
    tuning = checks.check_tuning(os.environ)
    findings = [*damage, *host, *tuning, *checks.check_libraries(), *checks.check_gpus()]
    if flags.json:
        print(json.dumps([asdict(finding) for finding in findings], indent=2, ensure_ascii=False))
    else:
        width = max(len(finding.subject) for finding in findings)
        for finding in findings:
            advice = f"; {finding.advice}" if finding.advice else ""
            print(f"{finding.level:9}  {finding.subject:{width}}  {finding.fact}{advice}")
    return int(any(finding.level == checks.PROBLEM for finding in findings))
