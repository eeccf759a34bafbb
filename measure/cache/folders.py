"""Read and write the folders of machines and workloads: the only access to measured CSV.

A round of a cell is written samples first and run last: the row in ``runs.csv`` commits it. A profile follows the times
of its operators and kernels, or their counters, in the same way. The run of a training step is written after the runs
of its stages, and commits them. A killed run loses at most its current round: the lock sets a torn last line aside, and
samples without a run are not read.

Checks of whole folders refuse a torn or empty table instead of skipping it.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from operator import attrgetter
from pathlib import Path
from typing import Any, TypeVar

from measure.cache.records import (
    CELL,
    ROUND,
    Environment,
    HardwareCounterProfile,
    KernelCounters,
    KernelTime,
    OperatorTime,
    Profile,
    RoofMeasurement,
    Run,
    Sample,
)
from measure.cache.schema import MACHINE, TABLES, file_of
from measure.cache.table import (
    ChildTable,
    append,
    check_whole,
    in_turn,
    locked,
    merged,
    numbered,
    read,
    set_torn_line_aside,
    write,
)
from measure.cache.workload_records import WORKLOAD, Layer, Operator, ProgramCount, Workload
from measure.domain.models import OWN
from measure.domain.words import STAGES, STEP, same_shape
from measure.errors import UserError

Record = TypeVar("Record")
Tried = TypeVar("Tried", Run, Profile, HardwareCounterProfile)


_cell = attrgetter(*CELL)

_workload = attrgetter(*WORKLOAD)

_round_of_step = attrgetter(*(name for name in ROUND if name != "phase"))
"""What tells the round of a training step apart, and is the same for its stages."""


def _gone(folder: Path) -> UserError:
    """Return the error for a folder that this process put results into, and that does not hold them any more."""
    return UserError(
        f"{folder}: was removed or moved during the run, and its results with it; put the folder back, or run the same "
        "command again"
    )


Counted = tuple[Workload, Sequence[Layer], Sequence[Operator]]
"""A workload with its layers and operators."""


class Counts:
    """A folder of workloads with their layers and operators, written first: a workload's row commits them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.models_path, self.layers_path, self.operators_path = (
            folder / TABLES[record].name for record in (Workload, Layer, Operator)
        )
        self._layers = ChildTable(self.layers_path, Layer, WORKLOAD)
        self._operators = ChildTable(self.operators_path, Operator, WORKLOAD)

    def models(self) -> list[Workload]:
        return read(self.models_path, Workload)

    def layers(self) -> list[Layer]:
        """Return the layers of committed workloads."""
        return self._layers.of(self._committed())

    def operators(self) -> list[Operator]:
        """Return the operators of committed workloads."""
        return self._operators.of(self._committed())

    def _committed(self) -> list[Workload]:
        return [row for row in self.models() if row.status == "ok"]

    def put(self, counted: Sequence[Counted]) -> None:
        """Add workloads, or replace them where they stand.

        A user's own model has one input shape: its rows at another, from before its code was changed, go.
        """
        shapes = {row.model: row.input_shape for row, _, _ in counted if row.source == OWN}
        self._layers.forget()
        self._operators.forget()
        self._layers.put([(row, layers) for row, layers, _ in counted])
        self._operators.put([(row, operators) for row, _, operators in counted])
        known = [row for row in self.models() if row.input_shape == shapes.get(row.model, row.input_shape)]
        rows = merged(known, [row for row, _, _ in counted])
        rows.sort(key=lambda row: (row.model, row.input_shape, row.batch, row.precision, row.autocast or ""))
        write(self.models_path, Workload, rows)

    def leave_out(self, models: Collection[str]) -> None:
        """Remove the workloads of these models, the rows that commit them first."""
        rows = self.models()
        stay = [row for row in rows if row.model not in models]
        if len(stay) < len(rows):
            write(self.models_path, Workload, stay)
        self._layers.leave_out(models)
        self._operators.leave_out(models)


class Workloads:
    """``data/workload``: what the models ask for, on any device; in ``own`` below it what a user's own models ask for.

    They are apart since others' copies of the cache share the first, and not the second.
    """

    def __init__(self, data: Path) -> None:
        self.data, self.folder = data, file_of(Workload, data).parent
        self.shared, self.own = Counts(self.folder), Counts(self.folder / OWN)
        self._has_put = False

    def models(self) -> list[Workload]:
        return self.shared.models() + self.own.models()

    def layers(self) -> list[Layer]:
        """Return the layers of committed workloads."""
        return self.shared.layers() + self.own.layers()

    def operators(self) -> list[Operator]:
        """Return the operators of committed workloads."""
        return self.shared.operators() + self.own.operators()

    def of(self, rows: Iterable[Workload]) -> list[Counted]:
        """Return these workloads, each with its layers and operators."""
        layers, operators = self.layers(), self.operators()
        return [
            (
                row,
                [each for each in layers if _workload(each) == _workload(row)],
                [each for each in operators if _workload(each) == _workload(row)],
            )
            for row in rows
        ]

    def put(self, counted: Iterable[Counted]) -> None:
        """Add workloads, or replace them where they stand, so that counting again changes nothing.

        Runs on two devices may count into one folder at the same time.
        """
        counted = list(counted)
        if self._has_put and not (self.shared.models_path.exists() or self.own.models_path.exists()):
            raise _gone(self.folder)
        own = [each for each in counted if each[0].source == OWN]
        with in_turn(self.folder):
            if len(own) < len(counted):
                self.shared.put([each for each in counted if each[0].source != OWN])
            if own:
                self.own.put(own)
        self._has_put = True

    def leave_out(self, models: Collection[str]) -> None:
        """Remove the workloads of these models."""
        with in_turn(self.folder):
            self.shared.leave_out(models)
            self.own.leave_out(models)


FILES: dict[type[Any], str] = {record: facts.name for record, facts in TABLES.items() if facts.path.startswith(MACHINE)}
"""The files of a machine's folder, by what a row of each is."""

FILE_NAMES = frozenset(FILES.values())
"""The names of these files."""


class MachineFolder:
    """``data/machines/<name>``, or a ``folder`` that lies elsewhere: everything that one machine measured."""

    def __init__(self, data: Path, name: str, folder: Path | None = None) -> None:
        self.name = name
        self.folder = folder or data / "machines" / name
        self._samples = ChildTable(self._path(Sample), Sample, ROUND)
        self._operators = ChildTable(self._path(OperatorTime), OperatorTime, CELL)
        self._kernels = ChildTable(self._path(KernelTime), KernelTime, CELL)
        self._hardware_counters = ChildTable(self._path(KernelCounters), KernelCounters, CELL)
        self._has_put = False

    def _path(self, record: type) -> Path:
        return self.folder / FILES[record]

    def _read(self, record: type[Record]) -> list[Record]:
        return read(self._path(record), record)

    def environments(self) -> list[Environment]:
        return self._read(Environment)

    def newest_environment(self) -> Environment:
        """Return the environment that was recorded last. Raises UserError where there is none."""
        known = self.environments()
        if not known:
            raise UserError(f"{self._path(Environment)} has no environment; measure with python -m measure")
        return max(known, key=attrgetter("recorded_at"))

    def roof_measurements(self) -> list[RoofMeasurement]:
        return self._read(RoofMeasurement)

    def runs(self) -> list[Run]:
        """Return the runs, those of stages only where that of their step is there."""
        rows = self._read(Run)
        steps = {_round_of_step(row) for row in rows if row.phase == STEP}
        return [row for row in rows if row.phase not in STAGES or _round_of_step(row) in steps]

    def samples(self, of: Collection[Run] | None = None) -> list[Sample]:
        """Return the samples of committed runs, or ``of`` some: what a killed run left behind is not among them."""
        return self._samples.of(self.runs() if of is None else of)

    def profiles(self) -> list[Profile]:
        return self._read(Profile)

    def operators(self, of: Collection[Profile] | None = None) -> list[OperatorTime]:
        """Return the times of operators in committed profiles, or in some."""
        return self._operators.of(self.profiles() if of is None else of)

    def kernels(self, of: Collection[Profile] | None = None) -> list[KernelTime]:
        """Return the times of kernels in committed profiles, or in some."""
        return self._kernels.of(self.profiles() if of is None else of)

    def hardware_counter_profiles(self) -> list[HardwareCounterProfile]:
        return self._read(HardwareCounterProfile)

    def hardware_counters(self, of: Collection[HardwareCounterProfile] | None = None) -> list[KernelCounters]:
        """Return what hardware counters said in committed profiles, or in some."""
        return self._hardware_counters.of(self.hardware_counter_profiles() if of is None else of)

    def tables(self) -> dict[type, list[Any]]:
        """Return all that is committed, by what a row is."""
        return {
            Environment: self.environments(),
            RoofMeasurement: self.roof_measurements(),
            Run: self.runs(),
            Sample: self.samples(),
            Profile: self.profiles(),
            OperatorTime: self.operators(),
            KernelTime: self.kernels(),
            HardwareCounterProfile: self.hardware_counter_profiles(),
            KernelCounters: self.hardware_counters(),
        }

    def fill(self, tables: Mapping[type, Sequence[Any]]) -> None:
        """Write whole tables into a folder that nobody reads yet; of what has no row there is no file."""
        for record, rows in tables.items():
            if rows:
                write(self._path(record), record, rows)

    def put_environment(self, environment: Environment) -> None:
        """Add an environment unless it is there already.

        A run puts it before each result: raises UserError where the folder was removed since.
        """
        known = self.environments()
        if self._has_put and not known:
            raise _gone(self.folder)
        if environment.environment_id not in {row.environment_id for row in known}:
            append(self._path(Environment), Environment, [environment])
        self._has_put = True

    def put_roof_measurements(self, rows: Sequence[RoofMeasurement]) -> None:
        write(self._path(RoofMeasurement), RoofMeasurement, merged(self.roof_measurements(), rows))

    def put_run(self, run: Run, samples: Sequence[Sample], stages: Sequence[tuple[Run, Sequence[Sample]]] = ()) -> None:
        """Commit a round of a cell, that of a training step with its stages.

        One that was measured before is replaced only now that the new one is complete.
        """
        rounds = [*stages, (run, samples)]
        rows = [each for each, _ in rounds]
        known = _at_one_shape(self._path(Run), self._read(Run), rows)
        self._samples.put(rounds)
        _commit(self._path(Run), known, rows)

    def put_profile(
        self, profile: Profile, operators: Sequence[OperatorTime], kernels: Sequence[KernelTime] = ()
    ) -> None:
        """Commit a profile, in the same way."""
        known = _at_one_shape(self._path(Profile), self.profiles(), [profile])
        self._operators.put([(profile, operators)])
        if kernels or self._kernels.has(profile):  # there is no table of kernels on a processor
            self._kernels.put([(profile, kernels)])
        _commit(self._path(Profile), known, [profile])

    def put_hardware_counters(self, profile: HardwareCounterProfile, counters: Sequence[KernelCounters]) -> None:
        """Commit what the hardware counters said of a cell, likewise."""
        path = self._path(HardwareCounterProfile)
        known = _at_one_shape(path, self.hardware_counter_profiles(), [profile])
        self._hardware_counters.put([(profile, counters)])
        _commit(path, known, [profile])

    def tried(self) -> dict[type, Sequence[Any]]:
        """Return the rows that say what was tried, those of stages among them, by what a row is."""
        rows = (self._read(Run), self.profiles(), self.hardware_counter_profiles())
        return dict(zip((Run, Profile, HardwareCounterProfile), rows, strict=True))

    def leave_out(self, models: Collection[str]) -> None:
        """Remove what was tried of these models.

        The rows that commit go first: what a killed writer then left of the others is not read.
        """
        for record, rows in self.tried().items():
            stay = [row for row in rows if row.model not in models]
            if len(stay) < len(rows):
                write(self._path(record), record, stay)
        for table in (self._samples, self._operators, self._kernels, self._hardware_counters):
            table.leave_out(models)

    @contextmanager
    def locked(self, say: Callable[[str], object] = print) -> Iterator[None]:
        """Keep other writers out of this folder; set aside torn lines that a killed one left, and say so."""
        with locked(self.folder):
            for table in sorted(self.folder.glob("*.csv")):
                if aside := set_torn_line_aside(table):
                    say(f"A line of {table.name} was torn when a run was killed; it is set aside in {aside}")
            yield


def _at_one_shape(path: Path, known: Sequence[Tried], rows: Sequence[Tried]) -> Sequence[Tried]:
    """Remove from a table the rows of the new rows' cells at inputs of another shape; return those that stay.

    They go before the new ones come, so that no row ever commits children that were measured at another shape.
    """
    shapes = {_cell(row): row.input_shape for row in rows}
    stay = [row for row in known if same_shape(shapes.get(_cell(row)), row.input_shape)]
    if len(stay) < len(known):
        write(path, type(rows[0]), stay)
    return stay


def _commit(path: Path, known: Sequence[Tried], rows: Sequence[Tried]) -> None:
    """Add rows, or put them in the place of those with their keys."""
    together = merged(known, rows)
    if len(together) == len(known) + len(rows):
        append(path, type(rows[0]), rows)
    else:
        write(path, type(rows[0]), together)


def machine_names(data: Path) -> list[str]:
    """Return the names of the machines in a data folder, sorted."""
    return sorted(path.parent.name for path in (data / "machines").glob(f"*/{FILES[Environment]}"))


NEEDS: dict[type[Any], type[Any]] = {
    Sample: Run,
    OperatorTime: Profile,
    KernelTime: Profile,
    KernelCounters: HardwareCounterProfile,
    Layer: Workload,
    Operator: Workload,
}
"""Tables of which no row is read without the row of another that it belongs to, and which that is."""

Rows = dict[type[Any], list[tuple[int, Any]]]
"""The rows of tables, each with its line."""


def check(data: Path) -> None:
    """Raise UserError for the first table of a cache, of those that are measured or counted, that is damaged."""
    read_workloads(data)
    _read({ProgramCount: file_of(ProgramCount, data)})
    tables = (data / "machines").glob("[!.]*/*.csv")
    for machine in sorted({path.parent for path in tables if path.name in FILE_NAMES}):
        read_machine(machine)


def read_workloads(data: Path) -> Rows:
    """Return the rows of the tables of workloads. Raises UserError for a damaged one."""
    workloads = Workloads(data)
    found = [
        _read({Workload: each.models_path, Layer: each.layers_path, Operator: each.operators_path})
        for each in (workloads.shared, workloads.own)
    ]
    return {record: [row for tables in found for row in tables[record]] for record in (Workload, Layer, Operator)}


def read_machine(folder: Path) -> Rows:
    """Return the rows of a machine's tables. Raises UserError for a damaged one, and where the machine is not known."""
    tables = _read({record: folder / name for record, name in FILES.items()})
    if not tables[Environment]:
        raise UserError(f"{folder / FILES[Environment]}: has no row, so the machine is not known; measure again")
    return tables


def _read(files: Mapping[type[Any], Path]) -> Rows:
    """Return the rows of tables. Raises UserError for a damaged one, and for one without a row that others need."""
    for path in files.values():
        check_whole(path)
    tables = {record: numbered(path, record) for record, path in files.items()}
    for record, needed in NEEDS.items():
        if tables.get(record) and not tables[needed]:
            path = files[record]
            raise UserError(
                f"{files[needed]}: has no row, and without one the {len(tables[record])} of {path.name} are not read; "
                f"restore the file or delete {path.name}"
            )
    return tables
