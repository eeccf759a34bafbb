"""The data of the paper, loaded once into tidy frames."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from measure.cache.folders import MachineFolder, Workloads, machine_names
from measure.cache.project import MACHINES
from measure.cache.table import read
from measure.cache.traces import StoredTrace, read_trace, trace_names
from measure.domain import records, workload_records
from measure.domain.latency import undisturbed_rounds
from measure.domain.roofs import CacheLevel, Roofline, machine_roof, merge_rounds
from measure.domain.schema import TABLES, file_of
from measure.domain.words import EAGER, LOAD, same_shape
from measure.domain.workload_records import CaseCount, ProgramCount
from measure.published.records import Chip, FlopPerCycle
from report.paper import cells, chips, curated, groups, processor, published, served, workloads
from report.paper import predictions as predictions_table
from report.paper.frames import committed, frame, matching, read_frame
from report.paper.predictions import Predictions
from report.paper.published import Published
from report.paper.roofs import (
    MemoryLevel,
    measured_clock,
    measured_roofs,
    memory_levels,
    roof_at,
    swept_cache,
    with_rates,
)  # fmt: skip
from report.paper.served import Served

BASE_PRECISION = "fp32"  # the precision of the figures that show one precision only

ALONE = 1  # the batch of a single input

LOWER_PRECISIONS = ("bf16", "fp16")
"""The precisions to compare with it: the first that a machine ran."""

REFERENCE, *_ = MACHINES
"""The folder of the reference machine. Text in blocks of class ``reference`` describes it."""

PROJECTS = Path("data")  # the project's own tables, as seen from its folder, where the chapters run

DEVICE_KINDS = {"cpu": "cpu", "cuda": "gpu", "mps": "gpu"}  # device of an environment to kind of chip


@dataclass(frozen=True, eq=False)
class Machine:
    """One machine in its newest environment: its roof measurements and roofs, its cells.

    ``cells`` are eager inference, ``variants`` other variants of it, ``steps`` training (``report.paper.cells``);
    ``profiles`` are profiled cells, ``operators`` and (on a GPU) ``kernels`` the times in them, ``hardware_counters``
    the counters of each kernel; ``collectives`` and ``data_parallel_steps`` are those of groups of processes
    (``report.paper.groups``). All inputs have the shape at which the paper shows the model. ``name`` includes the
    microarchitecture: AMD EPYC, Zen 4, 2 cores. ``measured_at`` is the UTC time of the newest row.
    """

    folder: str
    name: str
    environment: records.Environment
    measured_at: str
    roof_measurements: pd.DataFrame
    roofs: pd.DataFrame
    caches: tuple[CacheLevel, ...]
    levels: tuple[MemoryLevel, ...]
    clock_hz: float | None
    cells: pd.DataFrame
    variants: pd.DataFrame
    steps: pd.DataFrame
    profiles: pd.DataFrame
    operators: pd.DataFrame
    kernels: pd.DataFrame
    hardware_counters: pd.DataFrame
    collectives: pd.DataFrame
    data_parallel_steps: pd.DataFrame

    @property
    def chip_kind(self) -> str:
        return DEVICE_KINDS[self.environment.device]

    def roof(self, precision: str) -> Roofline | None:
        return roof_at(self.roofs, precision)

    @cached_property
    def undisturbed(self) -> "Machine":
        """This machine without the cells and profiles measured under load; itself if it has none.

        A variant is dropped together with its baseline, the cell in eager mode.
        """
        loaded = self.cells[cells.is_loaded(self.cells)]
        beside = self.variants.set_index(cells.INFERENCE_CELL).index.isin(loaded.set_index(cells.INFERENCE_CELL).index)
        kept: dict[str, Any] = {
            "cells": self.cells.drop(loaded.index),
            "variants": self.variants[~beside & ~cells.is_loaded(self.variants)],
            "steps": self.steps[~cells.is_loaded(self.steps)],
            "profiles": self.profiles[~(self.profiles.load.astype(float) >= LOAD)],
        }
        are_all = all(len(rows) == len(getattr(self, name)) for name, rows in kept.items())
        return self if are_all else replace(self, **kept)

    @property
    def lower_precision(self) -> str:
        """The precision to compare with the base: bf16, or fp16 if cells ran at fp16 but not bf16."""
        ran = set(matching(self.cells, status="ok").precision)
        return next((each for each in LOWER_PRECISIONS if each in ran), LOWER_PRECISIONS[0])


@dataclass(frozen=True, eq=False)
class Paper:
    """The frames. ``machines`` are in the reader's order; else CPUs come first, and of both kinds a
    reader's own, the newest first.

    ``chosen`` is True if a reader chose the machines, ``is_whole`` if no model or chip was left out, ``is_undisturbed``
    if ``undisturbed`` dropped cells. ``workloads`` are described in ``report.paper.workloads``.

    ``imported`` machines have hardware counters only. ``published`` holds measurements of others and numbers from
    studies, ``served`` their kernels and servers of language models. ``traces`` are the project's and a reader's.
    ``references`` are the files of the bibliography.
    """

    folder: Path
    chips: pd.DataFrame
    flop_per_cycle: list[FlopPerCycle]
    workloads: pd.DataFrame
    layers: pd.DataFrame
    operators: pd.DataFrame
    counting_programs: pd.DataFrame
    counting_cases: pd.DataFrame
    machines: tuple[Machine, ...]
    imported: tuple[Machine, ...]
    published: Published
    served: Served
    predictions: Predictions
    traces: tuple[StoredTrace, ...] = ()
    references: tuple[Path, ...] = ()
    chosen: bool = False
    is_whole: bool = True
    is_undisturbed: bool = False

    def machine(self, kind: str) -> Machine | None:
        """Return the first machine of this kind ("cpu" or "gpu")."""
        return next((machine for machine in self.machines if machine.chip_kind == kind), None)

    @cached_property
    def undisturbed(self) -> "Paper":
        """The paper without measurements under load: the basis of findings and advice."""
        machines = tuple(machine.undisturbed for machine in self.machines)
        return self if machines == self.machines else replace(self, machines=machines, is_undisturbed=True)

    @cached_property
    def at_hand(self) -> Machine | None:
        """The subject of the text: the first machine that a reader chose, else the reader's newest, else the
        reference machine.
        """

        def weight(machine: Machine) -> tuple[bool, bool, str]:
            folder = machine.folder
            return folder not in MACHINES, folder == REFERENCE, machine.measured_at

        return next(iter(self.machines), None) if self.chosen else max(self.machines, key=weight, default=None)

    @property
    def is_readers(self) -> bool:
        """Whether the machine at hand is a reader's own, not one of the project's."""
        return self.at_hand is not None and self.at_hand.folder not in MACHINES

    @cached_property
    def reference(self) -> "Paper":
        """The paper of the reference machine alone, from the project's own tables."""
        mine = tuple(machine for machine in self.machines if machine.folder == REFERENCE)
        if self.folder.resolve() == PROJECTS.resolve() and mine and self.is_whole:
            return replace(self, machines=mine)
        return load(PROJECTS, *self.references, chosen=[REFERENCE])


def load(
    data: Path,
    *references: Path,
    chosen: Sequence[str] = (),
    choose: Callable[[str, Collection[str]], Collection[str]] = lambda _, names: names,
    projects: Path | None = None,
) -> Paper:
    """Read a data folder. Absent tables are empty. ``references`` are the files of the bibliography.

    ``projects`` is another folder, whose hand-kept tables fill in for tables that ``data`` lacks. Its chips and
    families of processors join those in ``data``, which win where keys are equal. ``chosen`` are the machines' folders
    to read, all if empty. ``choose`` picks from all names of ``models``, and of ``chips``.

    Raises UserError for an unreadable table.
    """
    projects = projects or data

    def having(name: str) -> Path:
        return data if (data / name).exists() else projects

    tables = Workloads(data)
    models = frame(tables.rows(workload_records.Workload), workload_records.Workload)
    layers, operators = (
        read_frame(record, *(folder.paths[record] for folder in tables.folders()))
        for record in (workload_records.Layer, workload_records.Operator)
    )
    workloads.check_sums(models[models.status == "ok"], layers, tables)
    folders = (MachineFolder(data, name) for name in chosen or machine_names(data))
    tried = [found for folder in folders if (found := tried_in(folder))]
    every_model = {*models.model, *(row.model for each in tried for row in each.rows)}
    wanted = set(choose("models", every_model))
    models = models[models.model.isin(wanted)]
    codes = {row.model: row.code for row in models.itertuples() if isinstance(row.code, str)}

    def is_current(row: records.Attempt) -> bool:
        """Whether the reader chose the model and its network is still the counted one."""
        return row.model in wanted and row.code == codes.get(row.model, row.code)

    tried = [each._replace(rows=list(filter(is_current, each.rows))) for each in tried]
    shapes = workloads.measured_shapes(row for each in tried for row in each.rows)
    shown = workloads.shown(models, shapes)
    operators = workloads.parts_of(operators, shown)
    places = operators.groupby("model").indices

    def of_models(tried: Tried) -> pd.DataFrame:
        """Return the operators of models that ran, found once: a search per machine would take seconds."""
        ran = {row.model for row in tried.rows}
        found = [places[model] for model in ran if model in places]
        return operators.take(np.sort(np.concatenate(found))) if found else operators.iloc[:0]

    keys = curated.read_keys(*references)
    by_hand = [data] if data.resolve() == projects.resolve() else [projects, data]
    cores: list[FlopPerCycle] = []
    for folder in by_hand:
        own = curated.flop_per_cycle(folder / "flop_per_cycle.csv", keys)
        cores = [*(row for row in cores if not any(curated.share_model(row, each) for each in own)), *own]
    tables_of_chips = [rows for folder in by_hand if len(rows := chips.read(folder / "chips.csv", keys))]
    roofs = pd.concat(tables_of_chips or [chips.read(data / "chips.csv", keys)])
    roofs = roofs.drop_duplicates([*TABLES[Chip].key], keep="last", ignore_index=True)
    machines = [
        load_machine(each, _machine_name(each.environment, cores, roofs), shapes, shown, of_models(each))
        for each in tried
    ]
    if not chosen:
        machines.sort(key=lambda machine: machine.measured_at, reverse=True)
        machines.sort(key=lambda machine: _rank(machine.folder))
        machines.sort(key=lambda machine: machine.chip_kind)  # "cpu" before "gpu"; a stable sort
    programs = having("workload/counting_programs.csv")
    counted_by_programs = read(file_of(ProgramCount, programs), ProgramCount)
    cases = having("workload/counting_cases.csv")
    traces = {name: folder for folder in (projects, data) for name in trace_names(folder)}  # the last one wins
    every_chip = set(roofs.chip)
    wanted_chips = set(choose("chips", every_chip))
    paper = Paper(
        folder=data,
        chips=roofs[roofs.chip.isin(wanted_chips)],
        flop_per_cycle=cores,
        workloads=shown,
        layers=workloads.parts_of(layers, shown),
        operators=operators,
        counting_programs=frame(counted_by_programs, ProgramCount),
        counting_cases=frame(read(file_of(CaseCount, cases), CaseCount), CaseCount),
        machines=tuple(machine for machine in machines if machine.environment.torch),
        imported=tuple(machine for machine in machines if not machine.environment.torch),
        published=published.read(having("published/chips.csv"), having("published/measurements"), roofs, keys),
        served=served.read(having("published/kernels"), having("published/servers.csv"), roofs, keys),
        predictions=predictions_table.read(having("prediction"), data, having("published/measurements"), data),
        traces=tuple(read_trace(folder, name) for name, folder in traces.items()),
        references=references,
        chosen=bool(chosen),
        is_whole=(wanted, wanted_chips) == (every_model, every_chip),
    )
    return replace(paper, machines=tuple(map(_badged, paper.machines))) if paper.is_readers else paper


def _rank(folder: str) -> int:
    """Return a machine's place in the paper: a reader's own come before the project's."""
    return MACHINES.index(folder) if folder in MACHINES else -1


def _badged(machine: Machine) -> Machine:
    """Mark the name of a machine of the project, as a reader's paper prints it in text, figures and tables."""
    return replace(machine, name=f"{machine.name} (reference)") if machine.folder in MACHINES else machine


ATTEMPTS = records.Run, records.Profile, records.HardwareCounterProfile


class Tried(NamedTuple):
    """A machine's newest environment and the cells tried in it, at any input shape."""

    folder: MachineFolder
    environment: records.Environment
    measured_at: str  # the UTC time of its newest row
    rows: list[records.Attempt]


def tried_in(folder: MachineFolder) -> Tried | None:
    """Return the cells tried in a machine's newest environment; None without an environment."""
    if not folder.rows(records.Environment):
        return None
    environment, times = folder.newest_environment(), folder.measured_at()
    rows = _in(environment, [row for record in ATTEMPTS for row in folder.rows(record)])
    return Tried(folder, environment, times[environment.environment_id], rows)


def _in(environment: records.Environment, rows: list[Any]) -> list[Any]:
    return [row for row in rows if row.environment_id == environment.environment_id]


def _machine_name(environment: records.Environment, cores: Sequence[FlopPerCycle], roofs: pd.DataFrame) -> str:
    """Name a GPU as in ``chips.csv``, else as its driver does; a processor with microarchitecture and cores."""
    if environment.device != "cpu":
        return chips.short_name(next(iter(chips.datasheet(roofs, environment.name).chip), environment.name))
    count = environment.physical_cores or environment.cores
    kind = processor.microarchitecture(cores, environment)
    return ", ".join(filter(None, (environment.name, kind, f"{count} cores" if count else "")))


def load_machine(
    tried: Tried, name: str, shapes: Mapping[str, str], counted: pd.DataFrame, operators: pd.DataFrame
) -> Machine:
    """Read a machine's measurements at the input shapes that the paper shows."""
    folder, environment = tried.folder, tried.environment
    shown = [row for row in tried.rows if same_shape(row.input_shape, shapes.get(row.model))]
    tried_runs, tried_profiles, counter_profiles = (
        [row for row in shown if isinstance(row, record)] for record in ATTEMPTS
    )
    merged = merge_rounds(_in(environment, folder.rows(records.RoofMeasurement)))
    roof_measurements = with_rates(frame(merged, records.RoofMeasurement))
    parts = (part.split(":") for part in (environment.caches or "").split(";") if part)
    roofs, caches = measured_roofs(machine_roof(merged)), tuple(CacheLevel(*map(int, part)) for part in parts)
    tried_runs = undisturbed_rounds(tried_runs)
    runs, samples = frame(tried_runs, records.Run), committed(folder, records.Sample, tried_runs)
    levels = tuple(memory_levels(roof_measurements, caches))
    # Of a GPU alone, whose cores all share it
    cache = swept_cache(caches, levels) if environment.device != "cpu" else None
    given = runs, samples, counted, operators, partial(roof_at, roofs), cache
    inference = cells.derive_inference(*given)
    return Machine(
        folder=folder.name,
        name=name,
        environment=environment,
        measured_at=tried.measured_at,
        roof_measurements=roof_measurements,
        roofs=roofs,
        caches=caches,
        levels=levels,
        clock_hz=measured_clock(roof_measurements),
        cells=inference[inference.variant == EAGER],
        variants=inference[inference.variant != EAGER],
        steps=cells.derive_steps(*given),
        profiles=frame(tried_profiles, records.Profile),
        operators=committed(folder, records.OperatorTime, tried_profiles),
        kernels=committed(folder, records.KernelTime, tried_profiles),
        hardware_counters=committed(folder, records.KernelCounters, counter_profiles),
        collectives=groups.collectives(_in(environment, folder.rows(records.CollectiveMeasurement))),
        data_parallel_steps=groups.data_parallel_steps(_in(environment, folder.rows(records.DataParallelStep))),
    )
