"""The folders of traces, imported or measured here: ``data/traces/NAME``, named after chip and network."""

import re
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from measure.cache import table
from measure.cache.project import read_both
from measure.cache.traces import MEASURED, traces_folder
from measure.domain.chips import fold_name, rows_by_name
from measure.domain.schema import TABLES
from measure.domain.trace_records import TraceCollective, TraceDevice, TraceOperator, TraceStep
from measure.errors import UserError, unknown
from measure.machine.environment import version
from measure.published.records import Chip
from measure.traces.reading import GpuProperties

if TYPE_CHECKING:
    from measure.traces.summary import TraceSummary  # imports torch

UNNAMED = "unnamed"  # the network in the folder's name, if nothing names it


def chip_names(data: Path) -> dict[str, str]:
    """Return the chips of ``chips.csv`` by each of their folded names."""
    rows = rows_by_name(read_both(Chip, data))
    return {name: found[0].chip for name, found in rows.items()}


def chosen_chip(name: str, chips: dict[str, str]) -> str:
    """Return the chip of this name. Raises UserError for one that ``chips.csv`` lacks."""
    if fold_name(name) not in chips:
        raise unknown("--chip", name, sorted(set(chips.values())))
    return chips[fold_name(name)]


class TraceLabels(NamedTuple):
    """The user's labels of a trace, which replace the trace's own."""

    chip: str | None = None
    network: str | None = None
    source: str | None = None
    licence: str | None = None


def device_rows(found: "TraceSummary", chips: dict[str, str], labels: TraceLabels) -> list[TraceDevice]:
    """Return a row for each device that worked, or one row for a trace of the host alone.

    Raises UserError for devices of several kinds, and for a chip that cannot have run the trace.
    """
    trace = found.trace
    if labels.chip is not None and not found.matches:
        raise UserError(f"--chip: no GPU ran anything in {trace.path}, so its times are the host's; leave --chip out")
    devices = trace.devices if found.matches else {}
    nameless = GpuProperties(None, None, None)
    # A process that sees one device may number it otherwise than the driver.
    only = next(iter(devices.values())) if len({each.name for each in devices.values()}) == 1 else nameless
    rows = []
    for number in sorted({each.event.device for each in found.matches} or {0}):
        device = devices.get(number, only)
        chip = chips.get(fold_name(device.name)) if device.name else None
        if labels.chip and chip and labels.chip != chip:
            raise UserError(f"--chip: {trace.path} was recorded on {chip}; leave --chip out")
        rows.append(
            TraceDevice(
                network=labels.network or trace.network,
                rank=trace.rank,
                device=number,
                chip=labels.chip or chip,
                device_name=device.name,
                capability=device.capability,
                memory_byte=device.memory_byte,
                torch=trace.torch,
                runtime=trace.runtime,
                driver=trace.driver,
                world_size=trace.world_size,
                fingerprint=found.fingerprint,
                source=labels.source,
                licence=labels.licence,
                version=version(),
            )
        )
    names = sorted({row.device_name or "an unknown device" for row in rows})
    if len(names) > 1:
        raise UserError(f"{trace.path}: holds work of {' and '.join(names)}; export a trace for each kind of device")
    return rows


class TraceRows(NamedTuple):
    """The rows of one recorded process, with at least one device."""

    devices: list[TraceDevice]
    steps: list[TraceStep]
    operators: list[TraceOperator]
    collectives: Sequence[TraceCollective] = ()


def put(data: Path, rows: TraceRows) -> Path:
    """Store a trace, and return its folder.

    It replaces the same trace, or an earlier one of the same cell of a machine. Ranks that ran together share a folder.
    """
    rank = rows.devices[0].rank
    # One lock for all traces, or two programs would choose the same folder.
    with table.in_turn(traces_folder(data)):
        folder = _folder(data, rows.devices)
        folder.mkdir(parents=True, exist_ok=True)
        # The devices come last: they commit the other rows.
        records: tuple[type[Any], ...] = TraceOperator, TraceCollective, TraceStep, TraceDevice
        new: tuple[Sequence[Any], ...] = rows.operators, rows.collectives, rows.steps, rows.devices
        for record, of_rank in zip(records, new, strict=True):
            path = folder / TABLES[record].name
            if of_rank or path.exists() or record is not TraceCollective:  # a single process has none
                others = [row for row in table.read(path, record) if row.rank != rank]
                table.write(path, record, [*others, *of_rank])
    return folder


def _folder(data: Path, devices: Sequence[TraceDevice]) -> Path:
    """Return the first folder of the name that is free, or holds this trace or other ranks of its run."""
    first = devices[0]
    name = "-".join(map(_slug, (first.chip or first.device_name or "host", first.network or UNNAMED)))
    folder = traces_folder(data) / name
    for number in count(2):
        old = table.read(folder / TABLES[TraceDevice].name, TraceDevice)
        if not old or _is_of_run(first, old):
            break
        folder = folder.with_name(f"{name}-{number}")
    return folder


def _is_of_run(new: TraceDevice, old: Sequence[TraceDevice]) -> bool:
    if (new.source or "").startswith(MEASURED):
        return any((row.source, row.network) == (new.source, new.network) for row in old)
    of_rank = [row.fingerprint for row in old if row.rank == new.rank]
    if of_rank:
        return new.fingerprint in of_rank
    return new.world_size > 1 and all(row.world_size == new.world_size for row in old)


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9.]+", "-", name.casefold()).strip("-.")[:60] or UNNAMED
