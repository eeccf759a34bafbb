"""The folders of traces, imported or measured here: ``data/traces/NAME``."""

from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from measure.cache import table
from measure.domain.schema import TABLES
from measure.domain.trace_records import TRACE, TraceCollective, TraceDevice, TraceOperator, TraceStep
from measure.errors import UserError, as_called, unknown

MEASURED = "machines/"  # begins the source of a trace that ``measure`` recorded, before the machine's folder


class StoredTrace(NamedTuple):
    """The tables of one trace, with at least one row of ``devices``."""

    name: str
    devices: list[TraceDevice]
    steps: list[TraceStep]
    operators: list[TraceOperator]
    collectives: Sequence[TraceCollective] = ()

    @property
    def label(self) -> str:
        """The network and its chip."""
        first = self.devices[0]
        chip = first.chip or first.device_name or "an unknown chip"
        return f"{first.network or 'an unnamed network'} on {chip}"

    @property
    def is_measured(self) -> bool:
        """Whether a machine of this ``data`` folder recorded it."""
        return (self.devices[0].source or "").startswith(MEASURED)

    @property
    def step_s(self) -> float | None:
        """The median time of a step on the host, or if that is unknown from first to last kernel; None without steps.

        A trace without kernels has no steps.
        """
        times = [step.span_s if step.host_s is None else step.host_s for step in self.steps]
        return median(times) if times else None


def traces_folder(data: Path) -> Path:
    return (data / TRACE).parent


def trace_names(data: Path) -> list[str]:
    """Return the names of the traces' folders. A trace's devices are written last, and commit it.

    Raises UserError for a folder that cannot be read.
    """
    return table.folders_with(TABLES[TraceDevice].name, traces_folder(data))


def read_trace(data: Path, name: str) -> StoredTrace:
    """Read the tables of a trace. Raises UserError for an unknown name."""
    names = trace_names(data)
    if not names:
        raise UserError(f"--data: no traces in {data}; run {as_called('measure import-trace')} first")
    if name not in names:
        raise unknown("NAME", name, names)
    folder = traces_folder(data) / name
    devices = table.read(folder / TABLES[TraceDevice].name, TraceDevice)
    ranks = {row.rank for row in devices}
    records: tuple[type[Any], ...] = TraceStep, TraceOperator, TraceCollective
    parts: list[list[Any]] = [
        [row for row in table.read(folder / TABLES[record].name, record) if row.rank in ranks] for record in records
    ]
    return StoredTrace(name, devices, *parts)
