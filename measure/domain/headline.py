"""Two lines about a machine: its roof with the typical share of it, and the largest surprise."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import median
from typing import TYPE_CHECKING

from measure.domain.latency import TimedCell, read_cells
from measure.domain.roofs import Roof, machine_roof
from measure.domain.values import latency, percent, plain, si
from measure.domain.words import EAGER, FULL_PRECISION, INFERENCE, LOADED

if TYPE_CHECKING:
    from measure.cache.folders import MachineFolder, Workloads
    from measure.cache.records import Environment
    from measure.cache.workload_records import Workload

SURPRISING = 1.1
"""A model with fewer FLOP is a surprise if it takes longer by this factor; less may be chance."""


@dataclass(frozen=True)
class FlopCell:
    """A timed cell with the FLOP and the footprint (B) of its call."""

    cell: TimedCell
    flop: int
    byte: int

    @property
    def latency_s(self) -> float:
        return self.cell.latency_s or 0.0

    def roof_share(self, roof: Roof) -> float | None:
        """Return the share of the roof that the cell reaches; None if the roof is unknown."""
        roofline = roof.at(self.cell.precision)
        if roofline is None or not self.byte:
            return None
        return self.flop / self.latency_s / roofline.attainable(self.flop / self.byte)


def headline(folder: "MachineFolder", environment: "Environment", workloads: "Workloads") -> list[str]:
    """Return two lines about a machine; one if no model was timed. Raises UserError for an unreadable table."""
    rows = [row for row in folder.roof_measurements() if row.environment_id == environment.environment_id]
    roof, cells = machine_roof(rows), counted(read_cells(folder, environment), workloads.models())
    roofline = roof.at(FULL_PRECISION)
    first = f"{environment.name}: its roof was not measured"
    if roofline is not None:
        peak, bandwidth = si(roofline.peak_flop_per_s, "FLOP/s"), si(roofline.bandwidth_byte_per_s, "B/s")
        first = f"{environment.name}: {peak} at {FULL_PRECISION} and {bandwidth} from memory"
        first += " (measured beside other programs)" if roof.load else ""
    shares = [share for each in cells if (share := each.roof_share(roof)) is not None]
    if shares:
        models = len({each.cell.model for each in cells})
        first += f"; {'the model reaches' if models == 1 else f'{models} models typically reach'} "
        first += f"{percent(median(shares))} of that"
    return [first, surprise(cells, roof)] if cells else [first]


def counted(cells: Iterable[TimedCell], workloads: "Iterable[Workload]") -> list[FlopCell]:
    """Return the timed forward passes at full precision in eager mode that were counted, but for loaded ones."""
    known = {
        (row.model, row.input_shape, row.batch): row
        for row in workloads
        if row.status == "ok" and row.precision == FULL_PRECISION and row.autocast is None
    }
    found = []
    for cell in cells:
        row = known.get((cell.model, cell.input_shape or "", cell.batch))
        is_plain = (cell.phase, cell.precision, cell.variant) == (INFERENCE, FULL_PRECISION, EAGER)
        if is_plain and LOADED not in cell.flags and cell.latency_s and row is not None and row.forward_flop:
            found.append(FlopCell(cell, row.forward_flop, row.footprint_byte))
    return found


def surprise(cells: Sequence[FlopCell], roof: Roof) -> str:
    """Name the pair of models whose FLOP mislead most, or else the model farthest from its roof."""
    found = []
    for one, other in combinations(cells, 2):
        light, heavy = sorted((one, other), key=lambda each: each.flop)
        slower = light.latency_s / heavy.latency_s
        if light.cell.batch == heavy.cell.batch and slower >= SURPRISING and light.flop < heavy.flop:
            found.append((slower * heavy.flop / light.flop, light, heavy))
    if found:
        _, light, heavy = max(found, key=lambda each: each[0])
        return (
            f"At batch {light.cell.batch}, {light.cell.model} needs {plain(heavy.flop / light.flop)} times fewer FLOP "
            f"than {heavy.cell.model} and takes {plain(light.latency_s / heavy.latency_s)} times as long"
        )
    shares = [(share, each) for each in cells if (share := each.roof_share(roof)) is not None]
    if not shares:
        slowest = max(cells, key=lambda each: each.latency_s / each.flop)
        return f"{slowest.cell.model} takes {latency(slowest.latency_s)} at batch {slowest.cell.batch}"
    share, farthest = min(shares, key=lambda each: each[0])
    return f"{farthest.cell.model} is farthest from its roof: {percent(share)} at batch {farthest.cell.batch}"
