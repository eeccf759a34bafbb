"""One page about a GPU, to be sent to who looks after this project: what ``make gpu-check`` ends with.

``python -m measure.diagnosis.page FOLDER`` prints it, after two commands that wrote into the folder: pytest its results
(``tests.xml``), and a short measurement its tables (``data``).
"""

import platform
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from measure.cache.conventions import ROUNDS
from measure.cache.folders import MachineFolder, machine_names
from measure.cache.hand_kept import VECTOR, Chip, chip_names, folded
from measure.cache.project import kept_by_hand
from measure.cache.records import Cell, Profile, RoofMeasurement, Run, Sample
from measure.cache.table import read
from measure.cache.words import BURST, INFERENCE, STEP, STREAM_ARRAYS
from measure.cli.flags import CommandLine
from measure.cli.quantities import latency
from measure.cli.terminal import answer
from measure.diagnosis import libraries
from measure.diagnosis.finding import gigabytes
from measure.diagnosis.libraries import Libraries
from measure.errors import UserError, one_line
from measure.machine import devices
from measure.machine.environment import version
from measure.timing.statistics import estimate_rounds
from measure.utc import now

COMMAND = "python -m measure.diagnosis.page"

RESULTS = "tests.xml"
"""The file of pytest's results, in the form of JUnit."""

CELLS = 10
"""So many latencies are shown."""

FAILED = ("error", "timeout")
"""The statuses of what should have had a result; a GPU may well be too small for a cell, or without a precision."""


@dataclass(frozen=True)
class Results:
    """How many tests for a GPU passed, and those that did not, a line each."""

    passed: int
    failures: tuple[str, ...]


def results_in(file: Path) -> Results:
    """Return what pytest says in a file; that it says nothing is a failure too."""
    try:
        cases = list(ElementTree.parse(file).iter("testcase"))
    except (OSError, ElementTree.ParseError) as problem:
        return Results(0, (one_line(f"{file.name}: pytest left no results ({problem})"),))
    failures = []
    for case in cases:
        for ending in case:
            if ending.tag in ("failure", "error", "skipped"):
                what = f"{case.get('classname')}.{case.get('name')}"
                failures.append(one_line(f"{what}: {ending.get('message') or ending.tag}"))
                break
    passed = len(cases) - len(failures)
    return Results(passed, tuple(failures or ([] if cases else [f"{file.name}: no test ran"])))


def facts_of(installed: Libraries) -> Iterator[tuple[str, str]]:
    """Yield what the GPU is and what runs on it, by name."""
    try:
        gpu = devices.find("cuda")
        yield "GPU", f"{gpu.identity()['name']}, {gigabytes(gpu.memory_byte())}"
        yield "driver", gpu.driver() or "unknown"
    except UserError as problem:
        yield "GPU", str(problem)
    yield "system", f"{platform.system()} {platform.release()} {platform.machine()}, Python {platform.python_version()}"
    torch = installed.versions.get("torch") or "not installed"
    yield "torch", torch + (", which cannot use the GPU" if installed.cuda is False else "")
    yield "CUPTI", installed.cupti or "in no package of its own"
    triton = installed.versions.get("triton") or "not installed"
    failure = installed.failures.get("triton")
    yield "Triton", triton + (f", which does not import ({failure})" if failure else "")
    yield "C compiler", installed.c_compiler or "none"


def roof_lines(rows: Sequence[RoofMeasurement], sheet: Sequence[Chip]) -> Iterator[str]:
    """Yield the fastest rate of each roof kernel and precision, of streams through memory, beside the datasheet's.

    ``sheet`` are the datasheet's rows about the GPU. Multiply-adds in registers are those of its vector units.
    """
    memory_byte = max((row.size for row in rows if row.roof_kernel in STREAM_ARRAYS), default=0)
    fastest: dict[tuple[str, str], float] = {}
    for row in rows:
        is_stream = row.roof_kernel in STREAM_ARRAYS
        if row.latency_s is None or row.pace == BURST or (is_stream and row.size < memory_byte):
            continue
        roof, rate = (row.roof_kernel, row.precision), (row.byte if is_stream else row.flop) / row.latency_s
        fastest[roof] = max(rate, fastest.get(roof, 0.0))
    for (kernel, precision), rate in fastest.items():
        if kernel in STREAM_ARRAYS:
            printed = [chip.bandwidth_byte_per_s for chip in sheet]
            unit, size = "GB/s", 1e9
        else:
            alike = [chip for chip in sheet if chip.precision == precision and (kernel != "fma" or chip.unit == VECTOR)]
            printed = [chip.peak_flop_per_s for chip in alike]
            unit, size = ("TOP/s" if precision.startswith("int") else "TFLOP/s"), 1e12
        peak = max(printed, default=None)
        share = f", {100 * rate / peak:.0f} % of the datasheet's {peak / size:.4g}" if peak else ""
        yield f"{kernel} {precision}: {rate / size:.4g} {unit}{share}"


def latency_lines(runs: Sequence[Run], samples: Sequence[Sample]) -> Iterator[str]:
    """Yield the latencies of the first cells that were measured, with the GPU's own time and what is held against them.

    ``samples`` are those of ``runs``.
    """
    rounds: dict[Cell, dict[int | None, list[Sample]]] = defaultdict(lambda: defaultdict(list))
    for sample in samples:
        if sample.phase in (INFERENCE, STEP):
            rounds[Cell.of(sample)][sample.round].append(sample)
    for cell, taken in list(rounds.items())[:CELLS]:
        median_s = estimate_rounds([[sample.latency_s for sample in each] for each in taken.values()]).median
        said = f"{cell.label}: {latency(median_s)}"
        own = [[sample.event_s for sample in each if sample.event_s is not None] for each in taken.values()]
        if all(own):
            said += f", {latency(estimate_rounds(own).median)} by the GPU's clock"
        said += f", {len(taken)} of {ROUNDS} rounds"
        flags = {flag for row in runs if Cell.of(row) == cell for flag in (row.flags or "").split(";") if flag}
        yield said + (f" ({', '.join(sorted(flags))})" if flags else "")


def without_result(machine: MachineFolder) -> list[tuple[str, str]]:
    """Return what was tried and has no result: its status, and a line that says why."""
    tried: list[tuple[str, RoofMeasurement | Run | Profile]] = [
        *((f"roof {row.roof_kernel} {row.precision} {row.size}", row) for row in machine.roof_measurements()),
        *((Cell.of(row).label, row) for row in machine.runs() if row.phase in (INFERENCE, STEP)),
        *((f"operators of {Cell.of(row).label}", row) for row in machine.profiles()),
    ]
    return [(row.status, f"{what}: {row.status}: {row.reason}") for what, row in tried if row.status != "ok"]


def page(folder: Path, installed: Libraries) -> tuple[str, bool]:
    """Return the page, and whether all is well: every test passed, and something was measured without an error."""
    tests = results_in(folder / RESULTS)
    failures, is_well = list(tests.failures), not tests.failures
    roofs: list[str] = []
    latencies: list[str] = []
    for machine in (MachineFolder(folder / "data", name) for name in machine_names(folder / "data")):
        names = {folded(environment.name) for environment in machine.environments()}
        sheet = [chip for chip in read(kept_by_hand(Chip, folder / "data"), Chip) if names & chip_names(chip)]
        roofs += roof_lines(machine.roof_measurements(), sheet)
        latencies += latency_lines(machine.runs(), machine.samples())
        for status, line in without_result(machine):
            failures.append(line)
            is_well &= status not in FAILED
    if not (roofs or latencies):
        failures.append("nothing was measured; the last line of python -m measure says why")
        is_well = False
    facts = [*facts_of(installed), ("tests", f"{tests.passed} passed, {len(tests.failures)} failed")]
    width = max(len(name) for name, _ in facts)
    lines = [f"Ridgepoint {version()} on a GPU, {now()}", "", *(f"{name:{width}}  {value}" for name, value in facts)]
    for title, found in (("Roofs", roofs), ("Latencies", latencies), ("Failures", failures)):
        lines += ["", title, *(f"  {line}" for line in found or ["none"])]
    return "\n".join(lines), is_well


def main(argv: Sequence[str]) -> int:
    """Exit code 0, or 1 where not all is well. Raises UserError for bad input."""
    flags = CommandLine(prog=COMMAND, description="Print a page about a GPU, from what make gpu-check found.")
    flags.add_argument("folder", metavar="FOLDER", type=Path, help=f"the folder with {RESULTS} and data")
    text, is_well = page(flags.parse_args(argv).folder, libraries.observe())
    print(text)
    return int(not is_well)


if __name__ == "__main__":
    sys.exit(answer(COMMAND, lambda: main(sys.argv[1:])))
