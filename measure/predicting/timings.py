"""The latencies that predictions learn from: those that others published, and those of the cache's own machines.

Calls that were timed, as arrays: what is fitted, and what is predicted.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache, cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from measure.cache import table
from measure.cache.folders import MachineFolder, Workloads, machine_names
from measure.cache.hand_kept import PublishedTiming, folded
from measure.cache.predictions import HERE, Setting
from measure.cache.schema import file_of
from measure.cache.workload_records import Operator, PublishedCount, PublishedKind, Workload
from measure.domain.latency import TimedCell, timed_cells
from measure.domain.words import BACKWARD, EAGER, INFERENCE, PRECISION_BYTE, PRECISIONS, STEP, stored_as
from measure.predicting import demand as devices
from measure.predicting.demand import Demand, How, Numbers, PredictedDevice, Roof, by_kind

CHANNELS_LAST = "channels_last"


@dataclass(frozen=True, eq=False)
class TimedCall:
    """A latency (s) under a setting, and what the call asks for; ``family`` is empty where the model has none."""

    setting: Setting
    model: str
    family: str
    batch: int
    latency_s: float
    demand: Demand
    roof: Roof
    how: How
    chip_kind: str

    @property
    def architecture(self) -> str:
        """The model without its library and without the tag of its weights: what is left out together."""
        return self.model.partition(":")[2].partition(".")[0] or self.model

    @cached_property
    def terms(self) -> Numbers:
        """The terms (s) of the latency."""
        return self.demand.terms(self.roof, self.how)


@dataclass(frozen=True, eq=False)
class OfOneInput:
    """What one input asks for by kind of layer, fp32, and what each further input of a batch adds to the bytes."""

    flop: Numbers
    byte: Numbers
    further_byte: Numbers
    calls: int


def read(data: Path) -> list[TimedCall]:
    """Return all latencies whose models were counted, on devices whose roofs are known. Raises UserError."""
    return [*published(data), *measured(data, counted(data))]


def published(data: Path) -> Iterator[TimedCall]:
    """Yield the latencies of ``data/published/measurements``; of images laid out or compiled differently, too."""
    chips = devices.of_chips(data)
    counts = {
        (row.model, row.input_size): row
        for row in table.read(file_of(PublishedCount, data), PublishedCount)
        if row.status == "ok"
    }
    asked = of_one_input(data)

    @cache
    def of_shape(shape: tuple[str, int | None], batch: int, width: float, trains: bool) -> Demand | None:
        return _published_demand(asked, counts[shape], batch, width, trains)

    for row in table.read(file_of(PublishedTiming, data), PublishedTiming):
        shape = row.model, row.input_size
        chip = chips.get(folded(row.device))
        computed = row.autocast or row.precision
        roof = None if chip is None else chip.roof(computed)
        if chip is None or roof is None or computed not in PRECISIONS or shape not in counts:
            continue
        setting = Setting(chip.name, row.source, row.torch or "", computed, _variant(row), row.phase)
        how = How(row.compiler is not None, row.input_copied == "yes", row.phase == STEP)
        demand = of_shape(shape, row.batch, width_of(computed), how.trains)
        if demand is not None:
            # A rate is of all calls together; a mean of single ones takes up what interrupted them
            latency_s = row.batch / row.throughput_per_s if row.throughput_per_s else row.latency_s
            family = counts[shape].family or ""
            yield TimedCall(setting, row.model, family, row.batch, latency_s, demand, roof, how, chip.chip_kind)


def width_of(precision: str) -> float:
    """Return the bytes of an element at a precision over those of fp32."""
    return PRECISION_BYTE[stored_as(precision)] / PRECISION_BYTE["fp32"]


def _variant(row: PublishedTiming) -> str:
    parts = (row.compiler, CHANNELS_LAST if row.layout == CHANNELS_LAST else None)
    return "+".join(filter(None, parts)) or EAGER


def of_one_input(data: Path) -> dict[tuple[str, int | None, str], OfOneInput]:
    """Return what the models that others timed ask for, by model, size of the input and stage."""
    rows: dict[tuple[str, int | None, str], list[PublishedKind]] = {}
    for row in table.read(file_of(PublishedKind, data), PublishedKind):
        rows.setdefault((row.model, row.input_size, row.stage), []).append(row)
    return {
        key: OfOneInput(
            by_kind((row.layer_kind, row.flop) for row in found),
            by_kind((row.layer_kind, row.byte) for row in found),
            by_kind((row.layer_kind, row.further_byte) for row in found),
            sum(row.calls for row in found),
        )
        for key, found in rows.items()
    }


def _published_demand(
    asked: Mapping[tuple[str, int | None, str], OfOneInput],
    count: PublishedCount,
    batch: int,
    width: float,
    trains: bool,
) -> Demand | None:
    """Return what a call on a batch asks for; None where a pass of it was not counted."""
    stages = (INFERENCE, BACKWARD) if trains else (INFERENCE,)
    passes = [asked.get((count.model, count.input_size, stage)) for stage in stages]
    found = [each for each in passes if each is not None]
    if len(found) < len(passes):
        return None
    per_input = (count.input_byte or 0) + (count.activation_byte or 0)
    return Demand(
        batch,
        batch * np.sum([each.flop for each in found], axis=0),
        width * np.sum([each.byte + (batch - 1) * each.further_byte for each in found], axis=0),
        sum(each.calls for each in found),
        float(batch * (count.input_byte or 0)),
        width * (count.parameter_byte or 0),
        len(stages) * width * ((count.parameter_byte or 0) + batch * per_input),
    )


def measured(data: Path, counts: "Counted") -> Iterator[TimedCall]:
    """Yield the latencies of the counted calls in each machine's newest environment, where its roofs were measured."""
    for name in machine_names(data):
        folder = MachineFolder(data, name)
        environment = folder.newest_environment()
        device = devices.of_machine(folder, environment)
        if device is not None:
            for cell in timed_cells(folder, environment):
                yield from _of_cell(cell, device, environment.torch or "", counts)


Key = tuple[str, str, int, str, bool]
"""A workload: model, shape of the input, batch size, stored precision, and whether it is trained."""

Counted = Mapping[Key, tuple[Workload, Demand]]
"""What each call of a counted model asks for."""


def counted(data: Path) -> Counted:
    """Return what the calls ask for that ``data/workload`` holds."""
    workloads = Workloads(data)
    return counted_demands(workloads.models(), workloads.operators())


def _of_cell(cell: TimedCell, device: PredictedDevice, software: str, counts: Counted) -> Iterator[TimedCall]:
    """Yield the cell as a latency to learn from, where it has one and was counted."""
    roof = device.roof(cell.precision)
    if cell.latency_s is None or roof is None or cell.phase not in (INFERENCE, STEP):
        return
    trains = cell.phase == STEP
    shapes = [key[1] for key in counts if key[0] == cell.model]
    shape = cell.input_shape or (shapes[-1] if shapes else "")
    found = counts.get((cell.model, shape, cell.batch, stored_as(cell.precision), trains))
    if found is not None:
        workload, demand = found
        setting = Setting(device.name, HERE, software, cell.precision, cell.variant, cell.phase)
        how = How(compiled="compile" in cell.variant, trains=trains)
        yield TimedCall(
            setting, cell.model, workload.family, cell.batch, cell.latency_s, demand, roof, how, device.chip_kind
        )


def counted_demands(workloads: list[Workload], operators: list[Operator]) -> dict[Key, tuple[Workload, Demand]]:
    """Return the workloads that were counted, forward and as a training step, with what a call of each asks for."""
    rows: dict[tuple[str, str, int, str], list[Operator]] = {}
    for operator in operators:
        if operator.autocast is None:
            rows.setdefault((operator.model, operator.input_shape, operator.batch, operator.precision), []).append(
                operator
            )
    found: dict[Key, tuple[Workload, Demand]] = {}
    for workload in workloads:
        key = workload.model, workload.input_shape, workload.batch, workload.precision
        if workload.status == "ok" and workload.autocast is None and key in rows:
            for trains in (False, True):
                if not trains or workload.backward_flop is not None:
                    found[*key, trains] = workload, demand_of(workload, rows[key], trains)
    return found


def demand_of(workload: Workload, operators: list[Operator], trains: bool) -> Demand:
    """Return what a call of a workload asks for, from its operators."""
    stages = (INFERENCE, BACKWARD) if trains else (INFERENCE,)
    chosen = [row for row in operators if row.stage in stages]
    return Demand(
        workload.batch,
        by_kind((row.layer_kind, float(row.calls * row.flop)) for row in chosen),
        by_kind((row.layer_kind, float(row.calls * row.byte)) for row in chosen),
        sum(row.calls for row in chosen),
        float(workload.input_byte or 0),
        float(workload.parameter_byte or 0),
        float(len(stages) * workload.footprint_byte),
    )


Texts = NDArray[np.object_]
Mask = NDArray[np.bool_]
Places = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Sample:
    """One row a call: latencies (s), terms (s), make-ups, and what tells the calls apart.

    ``flop_s`` is the time of the FLOP at the peak, ``kinds_s`` that of each kind of layer at its roof, ``parameter_s``
    that of reading the parameters for each input.
    """

    latency_s: Numbers
    terms: Numbers
    make_ups: Numbers
    flop_s: Numbers
    kinds_s: Numbers
    parameter_s: Numbers
    batch: Numbers
    setting: Texts
    device: Texts
    source: Texts
    architecture: Texts
    family: Texts

    def __len__(self) -> int:
        return len(self.latency_s)

    def where(self, chosen: Mask | Places) -> "Sample":
        """Return the rows that are chosen, or those at some places, each as often as it is named."""
        return Sample(*(getattr(self, field.name)[chosen] for field in fields(self)))

    def weights(self) -> Numbers:
        """Return weights of rows by which a setting's say grows with the square root of their number."""
        _, place, counts = np.unique(numbered(self.setting), return_inverse=True, return_counts=True)
        return np.asarray(counts[place], dtype=float) ** -0.25


def numbered(labels: Texts) -> Places:
    """Return labels as numbers, in the order in which they first occur."""
    numbers: dict[object, int] = {}
    return np.array([numbers.setdefault(label, len(numbers)) for label in labels], dtype=np.intp)


def sample(calls: Sequence[TimedCall]) -> Sample:
    """Return calls, one at least, as arrays."""

    def texts(values: list[object]) -> Texts:
        found = np.empty(len(values), dtype=object)
        found[:] = values
        return found

    return Sample(
        np.array([call.latency_s for call in calls]),
        np.array([call.terms for call in calls]),
        np.array([call.demand.make_up for call in calls]),
        np.array([call.demand.arithmetic_s(call.roof).sum() for call in calls]),
        np.array([call.demand.kinds_at_the_roof_s(call.roof) for call in calls]),
        np.array([call.batch * call.demand.parameter_byte / call.roof.byte_per_s for call in calls]),
        np.array([float(call.batch) for call in calls]),
        texts([call.setting for call in calls]),
        texts([call.setting.device for call in calls]),
        texts([call.setting.source for call in calls]),
        texts([call.architecture for call in calls]),
        texts([call.family or call.architecture for call in calls]),
    )
