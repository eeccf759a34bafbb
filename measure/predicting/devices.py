"""The roofs of devices: of chips as their datasheets print them, of machines as they were measured."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from measure.cache import rates, table
from measure.cache.folders import MachineFolder
from measure.cache.hand_kept import Chip, chip_names
from measure.cache.records import Environment
from measure.cache.schema import file_of
from measure.cache.words import FULL_PRECISION, TF32
from measure.predicting.demand import Roof

CHIP_KIND = {"cpu": "cpu", "cuda": "gpu", "mps": "soc"}
"""The kind of chip that each of torch's devices is."""


@dataclass(frozen=True, eq=False)
class PredictedDevice:
    """A device by name: its dense peaks (FLOP/s) by precision, bandwidth (B/s), memory (B) and power (W) where known.

    It is of a ``chip_kind``, as in ``data/chips.csv``.
    """

    name: str
    chip_kind: str
    peaks: Mapping[str, float]
    byte_per_s: float
    memory_byte: float | None = None
    power_w: float | None = None

    def roof(self, precision: str) -> Roof | None:
        """Return the roof at a precision; None where the device has no rate at it.

        torch runs convolutions of fp32 in TF32 where the device has it, and other products only if asked to.
        """
        peak = self.peaks.get(precision)
        if peak is None:
            return None
        convolutions = self.peaks.get(TF32, peak) if precision == FULL_PRECISION else peak
        return Roof(max(convolutions, peak), peak, self.byte_per_s)


def of_chips(data: Path) -> dict[str, PredictedDevice]:
    """Return the chips of ``data/chips.csv`` by each of their names, ``folded``; a peak is the faster unit's."""
    rows: dict[str, list[Chip]] = {}
    for row in table.read(file_of(Chip, data), Chip):
        rows.setdefault(row.chip, []).append(row)
    return {
        name: chip
        for found in rows.values()
        for chip in (_of_chip(found),)
        for row in found
        for name in chip_names(row)
    }


def _of_chip(rows: Sequence[Chip]) -> PredictedDevice:
    peaks: dict[str, float] = {}
    for row in rows:
        peaks[row.precision] = max(row.peak_flop_per_s, peaks.get(row.precision, 0.0))
    return PredictedDevice(
        rows[0].chip,
        rows[0].chip_kind,
        peaks,
        max(row.bandwidth_byte_per_s for row in rows),
        max((row.memory_byte for row in rows if row.memory_byte), default=None),
        max((row.power_w for row in rows if row.power_w), default=None),
    )


def of_machine(folder: MachineFolder, environment: Environment) -> PredictedDevice | None:
    """Return a machine of the cache with its roofs in an environment; None where they were not measured."""
    rows = [row for row in folder.roof_measurements() if row.environment_id == environment.environment_id]
    found = rates.measured(rows)
    if found.byte_per_s is None or not found.flop_per_s:
        return None
    kind = CHIP_KIND[environment.device]
    return PredictedDevice(folder.name, kind, found.flop_per_s, found.byte_per_s, environment.memory_byte)
