"""What a render ends with: where the paper is, what it says in short, and what to do next."""

import os
import shutil
import sys
from collections.abc import Iterable, Sequence
from itertools import combinations
from pathlib import Path
from statistics import median
from typing import NamedTuple

from measure.cache.folders import MachineFolder, Workloads, machine_names
from measure.cache.records import Environment, RoofMeasurement
from measure.cache.workload_records import Workload
from measure.domain.latency import TimedCell
from measure.domain.roofs import Roof, machine_roof
from measure.domain.values import latency, percent, plain, si
from measure.domain.words import EAGER, FULL_PRECISION, INFERENCE, LOADED
from report.paper import options
from roofwright.command_line import data_flag

SURPRISING = 1.1
"""A model with fewer FLOP is a surprise if it takes longer by this factor; less may be chance."""


def lines(written: Sequence[Path], data: Path) -> list[str]:
    """Return where the files are, with the page's address, the headline of the machine measured last, and what next."""
    said = [f"{path}  {path.stat().st_size / 1e6:.1f} MB" for path in written]
    said += [f"Open {path.resolve().as_uri()}" for path in written if path.suffix == ".html"]
    folders = [MachineFolder(data, name) for name in options.machines(data) or machine_names(data)]
    environments = [(row, folder) for folder in folders for row in folder.rows(Environment)]
    if not environments:
        return said
    environment, folder = max(environments, key=lambda each: each[0].recorded_at)
    said += ["", *headline(folder, environment, Workloads(data))]
    following = _next(data)
    width = max(len(command) for command, _ in following)
    return [*said, "", "Next:", *(f"  {command:<{width}}  {what}" for command, what in following)]


def _next(data: Path) -> list[tuple[str, str]]:
    """Return three commands that a reader may run next, each with what it does."""
    python, flag = _python(), data_flag(data)
    return [
        (f"{python} -m measure model resnet50{flag}", "what one model waits for, layer by layer"),
        (f"{python} -m measure --budget 20m{flag}", "more models and rounds; render again afterwards"),
        (f"{python} -m measure doctor{flag}", "what would spoil a measurement on this machine"),
    ]


def _python() -> str:
    """Return what runs this Python from the present folder: ``python`` where that is the one on the PATH."""
    there = Path(sys.executable)
    found = shutil.which("python")
    if found and os.path.samefile(found, there) and Path(found).parent == there.parent:
        return "python"
    return str(there.relative_to(Path.cwd())) if there.is_relative_to(Path.cwd()) else str(there)


class FlopCell(NamedTuple):
    """A timed call with its FLOP and footprint (B)."""

    model: str
    batch: int
    latency_s: float
    flop: int
    byte: int

    def roof_share(self, roof: Roof) -> float | None:
        """Return the share of the roof that the cell reaches; None if the roof is unknown."""
        roofline = roof.at(FULL_PRECISION)
        if roofline is None or not self.byte:
            return None
        return self.flop / self.latency_s / roofline.attainable(self.flop / self.byte)


def headline(folder: "MachineFolder", environment: "Environment", workloads: "Workloads") -> list[str]:
    """Return two lines about a machine; one if no model was timed. Raises UserError for an unreadable table."""
    roof = machine_roof(row for row in folder.rows(RoofMeasurement) if row.environment_id == environment.environment_id)
    first = f"{environment.name}: its roof was not measured"
    if roofline := roof.at(FULL_PRECISION):
        peak, bandwidth = si(roofline.peak_flop_per_s, "FLOP/s"), si(roofline.bandwidth_byte_per_s, "B/s")
        first = f"{environment.name}: {peak} at {FULL_PRECISION} and {bandwidth} from memory"
        first += " (measured beside other programs)" if roof.load else ""
    cells = counted(folder.cells(environment), workloads.rows(Workload))
    shares = [share for each in cells if (share := each.roof_share(roof)) is not None]
    if shares:
        models = len({each.model for each in cells})
        subject = "the model reaches" if models == 1 else f"{models} models typically reach"
        first += f"; {subject} {percent(median(shares))} of that"
    return [first, surprise(cells, roof)] if cells else [first]


def counted(cells: Iterable[TimedCell], workloads: "Iterable[Workload]") -> list[FlopCell]:
    """Return the counted and timed forward passes at full precision in eager mode.

    Cells that other programs disturbed are left out: their surprise is the load.
    """
    rows = {
        (row.model, row.input_shape, row.batch): row
        for row in workloads
        if row.status == "ok" and row.precision == FULL_PRECISION and row.autocast is None and row.forward_flop
    }
    found = []
    for cell in cells:
        row = rows.get((cell.model, cell.input_shape or "", cell.batch))
        is_plain = (cell.phase, cell.precision, cell.variant) == (INFERENCE, FULL_PRECISION, EAGER)
        if row and is_plain and cell.latency_s and LOADED not in cell.flags:
            found.append(FlopCell(cell.model, cell.batch, cell.latency_s, row.forward_flop or 0, row.footprint_byte))
    return found


def surprise(cells: Sequence[FlopCell], roof: Roof) -> str:
    """Name the pair of models whose FLOP mislead most, or else the model farthest from its roof."""
    pairs = []
    for one, other in combinations(cells, 2):
        light, heavy = sorted((one, other), key=lambda each: each.flop)
        slower = light.latency_s / heavy.latency_s
        if light.batch == heavy.batch and slower >= SURPRISING and light.flop < heavy.flop:
            pairs.append((slower * heavy.flop / light.flop, light, heavy))
    if pairs:
        _, light, heavy = max(pairs, key=lambda each: each[0])
        return (
            f"At batch {light.batch}, {light.model} needs {plain(heavy.flop / light.flop)} times fewer FLOP "
            f"than {heavy.model} and takes {plain(light.latency_s / heavy.latency_s)} times as long"
        )
    shares = [(share, each) for each in cells if (share := each.roof_share(roof)) is not None]
    if not shares:
        slowest = max(cells, key=lambda each: each.latency_s / each.flop)
        return f"{slowest.model} takes {latency(slowest.latency_s)} at batch {slowest.batch}"
    share, farthest = min(shares, key=lambda each: each[0])
    return f"{farthest.model} is farthest from its roof: {percent(share)} at batch {farthest.batch}"
