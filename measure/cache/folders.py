"""Read and write the folders of machines and workloads: the only access to measured CSV.

A round of a cell is written samples first and run last: the row in ``runs.csv`` commits it. A profile commits the times
of its operators and kernels, or their counters, in the same way, and the run of a training step those of its stages. A
killed run loses at most its current round: the lock sets a torn last line aside, and samples without a run are ignored.
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
from measure.cache.table import ChildTable, in_turn, locked, merged, numbered, put, read, set_torn_line_aside, write
from measure.cache.workload_records import WORKLOAD, Layer, Operator, ProgramCount, Workload
from measure.domain.models import OWN
from measure.domain.words import STAGES, STEP, same_shape
from measure.errors import UserError

Record = TypeVar("Record")

TRIED: tuple[type[Any], ...] = (Run, Profile, HardwareCounterProfile)  # the records of a machine's cells

PARENTS: dict[type[Any], type[Any]] = {
    Sample: Run,
    OperatorTime: Profile,
    KernelTime: Profile,
    KernelCounters: HardwareCounterProfile,
    Layer: Workload,
    Operator: Workload,
}
"""The records whose rows are read only if a row of another record commits them, and that record."""

# The files of a machine's folder by record
FILES: dict[type[Any], str] = {record: facts.name for record, facts in TABLES.items() if facts.path.startswith(MACHINE)}
FILE_NAMES = frozenset(FILES.values())

Counted = tuple[Workload, Sequence[Layer], Sequence[Operator]]  # a workload with its layers and operators
Rows = dict[type[Any], list[tuple[int, Any]]]  # the rows of tables by record, each with its line

_cell = attrgetter(*CELL)
_workload = attrgetter(*WORKLOAD)
_round_of_step = attrgetter(*(name for name in ROUND if name != "phase"))


class _Folder:
    """A folder of tables. The rows of ``parents`` commit those of other tables."""

    def __init__(self, folder: Path, parents: Collection[type]) -> None:
        self.folder, self._parents = folder, parents
        self._children: dict[type, ChildTable[Any]] = {
            child: ChildTable(self._path(child), child, TABLES[parent].key)
            for child, parent in PARENTS.items()
            if parent in parents
        }

    def _path(self, record: type) -> Path:
        return self.folder / TABLES[record].name

    def _read(self, record: type[Record]) -> list[Record]:
        return read(self._path(record), record)

    def leave_out(self, models: Collection[str]) -> None:
        """Remove all rows of these models, those that commit others first."""
        for record in (*self._parents, *self._children):
            rows: list[Any] = self._read(record)
            stay = [row for row in rows if row.model not in models]
            if len(stay) < len(rows):
                write(self._path(record), record, stay)
        self._forget()

    def _forget(self) -> None:
        """Look for earlier children anew: another process may have changed them."""
        for children in self._children.values():
            children.owners = None


class Counts(_Folder):
    """A folder of workloads with their layers and operators. One process writes at a time."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, [Workload])
        self.models_path, self.layers_path, self.operators_path = map(self._path, (Workload, Layer, Operator))

    def models(self) -> list[Workload]:
        return self._read(Workload)

    def layers(self) -> list[Layer]:
        return self._children[Layer].of([row for row in self.models() if row.status == "ok"])

    def operators(self) -> list[Operator]:
        return self._children[Operator].of([row for row in self.models() if row.status == "ok"])

    def put(self, counted: Sequence[Counted]) -> None:
        """Add workloads, or replace earlier counts of them.

        A user's own model has one input shape. Its rows at another shape, from before a change to its code, go.
        """
        shapes = {row.model: row.input_shape for row, _, _ in counted if row.source == OWN}
        self._forget()
        self._children[Layer].put([(row, layers) for row, layers, _ in counted])
        self._children[Operator].put([(row, operators) for row, _, operators in counted])
        known = [row for row in self.models() if row.input_shape == shapes.get(row.model, row.input_shape)]
        rows = merged(known, [row for row, _, _ in counted])
        rows.sort(key=lambda row: (row.model, row.input_shape, row.batch, row.precision, row.autocast or ""))
        write(self.models_path, Workload, rows)


class Workloads:
    """``data/workload``, and in ``own`` below it the workloads of a user's own models, which no other cache shares."""

    def __init__(self, data: Path) -> None:
        self.data, self.folder = data, file_of(Workload, data).parent
        self.shared, self.own = Counts(self.folder), Counts(self.folder / OWN)

    def models(self) -> list[Workload]:
        return self.shared.models() + self.own.models()

    def layers(self) -> list[Layer]:
        return self.shared.layers() + self.own.layers()

    def operators(self) -> list[Operator]:
        return self.shared.operators() + self.own.operators()

    def of(self, rows: Iterable[Workload]) -> list[Counted]:
        """Return these workloads, each with its layers and operators."""
        counted: list[Counted] = []
        layers, operators = self.layers(), self.operators()
        for row in rows:
            own_layers = [layer for layer in layers if _workload(layer) == _workload(row)]
            own_operators = [operator for operator in operators if _workload(operator) == _workload(row)]
            counted.append((row, own_layers, own_operators))
        return counted

    def put(self, counted: Iterable[Counted]) -> None:
        """Add workloads, or replace earlier counts of them. Counting again changes nothing.

        Runs on two devices may count into one folder at the same time.
        """
        counted = list(counted)
        own = [each for each in counted if each[0].source == OWN]
        with in_turn(self.folder):
            if len(own) < len(counted):
                self.shared.put([each for each in counted if each[0].source != OWN])
            if own:
                self.own.put(own)

    def leave_out(self, models: Collection[str]) -> None:
        """Remove the workloads of these models."""
        with in_turn(self.folder):
            self.shared.leave_out(models)
            self.own.leave_out(models)


class MachineFolder(_Folder):
    """``data/machines/<name>``, or another ``folder``: everything that one machine measured.

    A table of children is read whole, or ``of`` some of the rows that commit them.
    """

    def __init__(self, data: Path, name: str, folder: Path | None = None) -> None:
        super().__init__(folder or data / "machines" / name, TRIED)
        self.name = name

    def environments(self) -> list[Environment]:
        return self._read(Environment)

    def newest_environment(self) -> Environment:
        """Return the environment that was recorded last. Raises UserError if there is none."""
        known = self.environments()
        if not known:
            raise UserError(f"{self._path(Environment)} has no environment; measure with python -m measure")
        return max(known, key=attrgetter("recorded_at"))

    def roof_measurements(self) -> list[RoofMeasurement]:
        return self._read(RoofMeasurement)

    def runs(self) -> list[Run]:
        """Return the runs. Those of stages need the run of their step."""
        rows = self._read(Run)
        steps = {_round_of_step(row) for row in rows if row.phase == STEP}
        return [row for row in rows if row.phase not in STAGES or _round_of_step(row) in steps]

    def samples(self, of: Collection[Run] | None = None) -> list[Sample]:
        return self._children[Sample].of(self.runs() if of is None else of)

    def profiles(self) -> list[Profile]:
        return self._read(Profile)

    def operators(self, of: Collection[Profile] | None = None) -> list[OperatorTime]:
        return self._children[OperatorTime].of(self.profiles() if of is None else of)

    def kernels(self, of: Collection[Profile] | None = None) -> list[KernelTime]:
        return self._children[KernelTime].of(self.profiles() if of is None else of)

    def hardware_counter_profiles(self) -> list[HardwareCounterProfile]:
        return self._read(HardwareCounterProfile)

    def hardware_counters(self, of: Collection[HardwareCounterProfile] | None = None) -> list[KernelCounters]:
        return self._children[KernelCounters].of(self.hardware_counter_profiles() if of is None else of)

    def tables(self) -> dict[type, list[Any]]:
        """Return all rows by record, without those that no row commits."""
        rows = {record: self._read(record) for record in FILES if record not in PARENTS} | {Run: self.runs()}
        children = {record: each.of(rows[PARENTS[record]]) for record, each in self._children.items()}
        return {record: rows[record] if record in rows else children[record] for record in FILES}

    def fill(self, tables: Mapping[type, Sequence[Any]]) -> None:
        """Write whole tables, except empty ones, into a folder that nobody reads yet."""
        for record, rows in tables.items():
            if rows:
                write(self._path(record), record, rows)

    def put_environment(self, environment: Environment) -> None:
        """Add an environment unless it is there."""
        known = self.environments()
        if environment.environment_id not in {row.environment_id for row in known}:
            put(self._path(Environment), Environment, known, [environment])

    def put_roof_measurements(self, rows: Sequence[RoofMeasurement]) -> None:
        """Add measurements, or replace earlier ones, all or none: a kernel's sizes belong together."""
        write(self._path(RoofMeasurement), RoofMeasurement, merged(self.roof_measurements(), rows))

    def put_run(self, run: Run, samples: Sequence[Sample], stages: Sequence[tuple[Run, Sequence[Sample]]] = ()) -> None:
        """Commit a round of a cell, and with a training step its stages. An earlier one is replaced only now."""
        rounds = [*stages, (run, samples)]
        self._put([row for row, _ in rounds], {Sample: rounds})

    def put_profile(
        self, profile: Profile, operators: Sequence[OperatorTime], kernels: Sequence[KernelTime] = ()
    ) -> None:
        self._put([profile], {OperatorTime: [(profile, operators)], KernelTime: [(profile, kernels)]})

    def put_hardware_counters(self, profile: HardwareCounterProfile, counters: Sequence[KernelCounters]) -> None:
        self._put([profile], {KernelCounters: [(profile, counters)]})

    def _put(self, rows: Sequence[Any], children: Mapping[type, Sequence[tuple[Any, Sequence[Any]]]]) -> None:
        """Write the children of rows, then the rows, which commit them and replace earlier rows with their keys."""
        record = type(rows[0])
        path, before = self._path(record), self._read(record)
        shapes = {_cell(row): row.input_shape for row in rows}
        known = [row for row in before if same_shape(shapes.get(_cell(row)), row.input_shape)]
        if len(known) < len(before):  # first, so that no row ever commits children of another input shape
            write(path, record, known)
        for child, owned in children.items():
            self._children[child].put(owned)
        put(path, record, known, rows)

    def tried(self) -> dict[type, Sequence[Any]]:
        """Return the rows of the cells that were tried, by record, with those of all stages."""
        return {record: self._read(record) for record in TRIED}

    @contextmanager
    def locked(self, say: Callable[[str], object] = print) -> Iterator[None]:
        """Keep other writers out of this folder. Set aside the torn lines of a killed writer, and say so."""
        with locked(self.folder):
            for table in sorted(self.folder.glob("*.csv")):
                if aside := set_torn_line_aside(table):
                    say(f"A killed run left a torn line in {table.name}; it is set aside in {aside}")
            yield


def machine_names(data: Path) -> list[str]:
    """Return the names of the machines in a data folder, sorted."""
    return sorted(path.parent.name for path in (data / "machines").glob(f"*/{FILES[Environment]}"))


def check(data: Path) -> None:
    """Raise UserError for the first damaged table of measurements or counts. Torn and empty tables count as damaged."""
    read_workloads(data)
    _read({ProgramCount: file_of(ProgramCount, data)})
    tables = (data / "machines").glob("[!.]*/*.csv")
    for machine in sorted({path.parent for path in tables if path.name in FILE_NAMES}):
        read_machine(machine)


def read_workloads(data: Path) -> None:
    """Raise UserError for a damaged table of workloads."""
    workloads = Workloads(data)
    for counts in (workloads.shared, workloads.own):
        _read({Workload: counts.models_path, Layer: counts.layers_path, Operator: counts.operators_path})


def read_machine(folder: Path) -> Rows:
    """Return the rows of a machine's tables. Raises UserError for a damaged one, or without an environment."""
    tables = _read({record: folder / name for record, name in FILES.items()})
    if not tables[Environment]:
        raise UserError(f"{folder / FILES[Environment]}: has no row, so the machine is not known; measure again")
    return tables


def _read(files: Mapping[type[Any], Path]) -> Rows:
    """Return the rows of tables. Raises UserError for a damaged one, or if no row commits those of another."""
    tables = {record: numbered(path, record, whole=True) for record, path in files.items()}
    for record, parent in PARENTS.items():
        if tables.get(record) and not tables[parent]:
            rows = f"the {len(tables[record])} of {files[record].name}"
            raise UserError(f"{files[parent]}: has no row, and without one {rows} are not read; restore the file")
    return tables
