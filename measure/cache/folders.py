"""Read and write the folders of machines and workloads: the only access to measured CSV.

The samples of a round are written first; its row in ``runs.csv`` commits them. A profile commits its operators and
kernels, or their counters, in the same way, and a training step its stages. A killed run loses at most its current
round: the lock sets a torn last line aside.
"""

import shutil
from collections import defaultdict
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from itertools import starmap
from operator import attrgetter
from pathlib import Path
from typing import Any, TypeVar

from measure.cache import table
from measure.cache.table import ChildTable
from measure.domain import records
from measure.domain.cell import Cell
from measure.domain.latency import CellSample, Rounds, TimedCell, group_rounds, summarise_cell, without_launches
from measure.domain.models import OWN
from measure.domain.records import CELL, ROUND, Environment, OperatorTime, Profile, RoofMeasurement, Run, Sample
from measure.domain.schema import MACHINE, TABLES
from measure.domain.words import INFERENCE, STAGES, STEP, same_shape
from measure.domain.workload_records import WORKLOAD, Layer, Operator, Workload
from measure.errors import UserError, as_called

Record = TypeVar("Record")

# Each child record with the parent record that commits its rows
PARENTS: dict[type[Any], type[Any]] = {
    Sample: Run,
    OperatorTime: Profile,
    records.KernelTime: Profile,
    records.KernelCounters: records.HardwareCounterProfile,
    Layer: Workload,
    Operator: Workload,
}

# The records with a time of measurement
MEASURED: tuple[type[Any], ...] = (
    RoofMeasurement, Run, Profile, records.HardwareCounterProfile, records.CollectiveMeasurement,
    records.DataParallelStep,
)  # fmt: skip

# The records with a model, parents before children
OF_MODELS: tuple[type[Any], ...] = (*dict.fromkeys((*PARENTS.values(), *PARENTS)), records.DataParallelStep)

# The files of a machine's folder by record
FILES: dict[type[Any], str] = {record: facts.name for record, facts in TABLES.items() if facts.path.startswith(MACHINE)}

ADDING, ADDED = ".adding", ".added"  # in a machine's folder: new tables while they are written, and once they count

Counted = tuple[Workload, Sequence[Layer], Sequence[Operator]]  # a workload with its layers and operators

_cell = attrgetter(*CELL)
_workload = attrgetter(*WORKLOAD)
_round_of_step = attrgetter(*(name for name in ROUND if name != "phase"))


def _committed_runs(rows: Sequence[Any]) -> list[Any]:
    """Leave out runs of stages without the run of their step, which is written last."""
    steps = {_round_of_step(row) for row in rows if row.phase == STEP}
    return [row for row in rows if row.phase not in STAGES or _round_of_step(row) in steps]


def committed(tables: Mapping[type[Any], Sequence[tuple[int, Any]]]) -> dict[type[Any], list[Any]]:
    """Return the rows of ``Folder.check`` as ``Folder.tables`` does, without reading the files again."""
    rows = {record: [row for _, row in entries] for record, entries in tables.items()}
    if Run in rows:
        rows[Run] = _committed_runs(rows[Run])
    for record in rows.keys() & PARENTS.keys():
        key = attrgetter(*TABLES[PARENTS[record]].key)
        parents = {key(row) for row in rows[PARENTS[record]] if row.status == "ok"}
        rows[record] = [row for row in rows[record] if key(row) in parents]
    return rows


class Folder:
    """The tables of these records in a folder, by default a machine's tables."""

    def __init__(self, folder: Path, records: Iterable[type[Any]] = FILES) -> None:
        self.folder = folder
        self.paths = {record: folder / TABLES[record].name for record in records}
        self.children: dict[type[Any], ChildTable[Any]] = {
            record: ChildTable(path, record, TABLES[PARENTS[record]].key)
            for record, path in self.paths.items()
            if record in PARENTS
        }

    def rows(self, record: type[Record], of: Collection[Any] | None = None) -> list[Record]:
        """Return a table's committed rows. ``of``: only the children of these rows.

        Runs of stages are left out without the run of their step.
        """
        if record in PARENTS:
            return table.rows_of(record, self.columns(record, of))
        rows: list[Any] = table.read(self.paths[record], record)
        return _committed_runs(rows) if record is Run else rows

    def columns(self, record: type, of: Collection[Any] | None = None, only: Collection[str] = ()) -> table.Columns:
        """Return a child table by column, as ``rows`` does by row, or ``only`` some columns."""
        if of is None:
            of = [row for row in self.rows(PARENTS[record]) if row.status == "ok"]  # others have no children
        return self.children[record].columns_of(of, only)

    def tables(self) -> dict[type[Any], list[Any]]:
        return {record: self.rows(record) for record in self.paths}

    def check(self) -> dict[type[Any], list[tuple[int, Any]]]:
        """Return all rows by record, each with its line.

        Raises UserError for a damaged table, for two rows of one key with other values, for child rows without any
        parent row, and for no environment.
        """
        tables = {record: table.checked(path, record) for record, path in self.paths.items()}
        needed = {Environment, *(PARENTS[record] for record in self.children if tables[record])}
        for record, rows in tables.items():
            if record in needed and not rows:
                raise UserError(f"{self.paths[record]}: has no row, and other tables need one; restore the file")
        return tables

    def leave_out(self, models: Collection[str]) -> None:
        """Remove all rows of these models, parents before children."""
        for record in OF_MODELS:
            if record in self.paths:
                rows = table.read(self.paths[record], record)
                stay = [row for row in rows if row.model not in models]
                if len(stay) < len(rows):
                    table.write(self.paths[record], record, stay)


class Workloads:
    """``data/workload``; its subfolder ``own`` holds the workloads of a user's own models, which are never shared."""

    def __init__(self, data: Path, place: str = "workload") -> None:
        self.data, self.folder = data, data / place

    def folders(self) -> tuple[Folder, Folder]:
        """Return the shared folder and the user's own."""
        records = (Workload, Layer, Operator)
        return Folder(self.folder, records), Folder(self.folder / OWN, records)

    def rows(self, record: type[Record]) -> list[Record]:
        return [row for folder in self.folders() for row in folder.rows(record)]

    def columns(self, record: type) -> table.Columns:
        shared, own = (folder.columns(record) for folder in self.folders())
        return {name: cells + own[name] for name, cells in shared.items()}

    def of(self, rows: Iterable[Workload]) -> list[Counted]:
        """Return these workloads, each with its layers and operators."""
        parts: dict[Any, list[Any]] = defaultdict(list)
        for part in (*self.rows(Layer), *self.rows(Operator)):
            parts[type(part), _workload(part)].append(part)
        return [(row, parts[Layer, _workload(row)], parts[Operator, _workload(row)]) for row in rows]

    def codes(self) -> dict[str, str]:
        """Return the code of each own model that was counted."""
        return {row.model: row.code for row in self.rows(Workload) if row.code}

    def place(self, key: tuple[Any, ...]) -> str:
        """Return the file and line of the workload with this key, for an error."""
        lines = {
            _workload(row): f"{folder.paths[Workload]}, line {line}"
            for folder in self.folders()
            for line, row in table.numbered(folder.paths[Workload], Workload)
        }
        return lines[key]

    def put(self, counted: Iterable[Counted]) -> None:
        """Add workloads, or replace earlier counts of them. Runs on two devices may do so at the same time.

        A user's own model has one input shape and code, a user's configuration one code. Rows from before a change are
        removed.
        """
        counted = list(counted)
        with table.in_turn(self.folder):
            for folder, is_own in zip(self.folders(), (False, True), strict=True):
                new = [each for each in counted if (each[0].source == OWN) == is_own]
                if not new:
                    continue
                folder.children[Layer].put([(row, layers) for row, layers, _ in new])
                folder.children[Operator].put([(row, operators) for row, _, operators in new])
                rows = folder.rows(Workload)
                now = {row.model: row for row, _, _ in new}
                of_now = attrgetter("input_shape", "code") if is_own else attrgetter("code")
                rows = [row for row in rows if of_now(row) == of_now(now.get(row.model, row))]
                rows = table.merged(rows, [row for row, _, _ in new])
                rows.sort(key=lambda row: [value or "" for value in _workload(row)])  # counting again changes nothing
                table.write(folder.paths[Workload], Workload, rows)

    def leave_out(self, models: Collection[str]) -> None:
        with table.in_turn(self.folder):
            for folder in self.folders():
                folder.leave_out(models)


class MachineFolder(Folder):
    """``data/machines/<name>``, or another ``folder``: everything that one machine measured."""

    def __init__(self, data: Path, name: str, folder: Path | None = None) -> None:
        super().__init__(folder or data / "machines" / name)
        self.name = name

    def measured_at(self) -> dict[str, str]:
        """Return the UTC time of the newest row of each environment, by its id."""
        times = {row.environment_id: row.recorded_at for row in self.rows(Environment)}
        for record in MEASURED:
            for row in self.rows(record):
                last = times.get(row.environment_id, "")
                times[row.environment_id] = max(last, row.recorded_at or "")
        return times

    def newest_environment(self) -> Environment:
        """Return the environment that measured last, however early it was first seen.

        Raises UserError if there is none.
        """
        environments, times = self.rows(Environment), self.measured_at()
        if not environments:
            raise UserError(f"{self.paths[Environment]} has no environment; measure with {as_called('measure')}")
        return max(environments, key=lambda row: (times[row.environment_id], row.recorded_at))

    def rows_in(self, environment: Environment, record: type[Any]) -> list[Any]:
        """Return the rows of a table that an environment measured."""
        return [row for row in self.rows(record) if row.environment_id == environment.environment_id]

    def cells(
        self,
        environment: Environment,
        codes: Mapping[str, str] | None = None,
        models: Container[str] | None = None,
        phases: Sequence[str] = (INFERENCE, STEP),
    ) -> list[TimedCell]:
        """Return the cells of an environment, of some models or all, in these ``phases`` and the order of models.

        With ``codes``, leave out cells that measured other code of an own model.
        """
        rows = self.rows_in(environment, Run)
        runs = [row for row in rows if row.phase in phases and (models is None or row.model in models)]
        runs = [row for row in runs if row.code == (codes or {}).get(row.model, row.code)]
        found = []
        for cell, rounds in self.rounds(runs).items():
            run = rounds.deciding
            about = rounds.flags, run.input_shape, run.status, run.reason, rounds.energies
            found.append(summarise_cell(cell, rounds.latencies, *about))
        found = found if environment.device == "cpu" else without_launches(found)
        order = attrgetter("precision", "variant", "batch")  # stages follow their step
        return sorted(
            found, key=lambda each: (each.model, each.phase != INFERENCE, *order(each), phases.index(each.phase))
        )

    def rounds(self, runs: Sequence[Run]) -> dict[Cell, Rounds]:
        """Group runs of one environment by cell, with their latencies and energies."""
        columns = self.columns(Sample, runs, CellSample._fields)
        samples = zip(*(columns[name] for name in CellSample._fields), strict=True)
        return group_rounds(runs, starmap(CellSample, samples))

    def put_environment(self, environment: Environment) -> None:
        """Add an environment, or fill the empty cells of its row."""
        path, rows = self.paths[Environment], self.rows(Environment)
        row = next((row for row in rows if row.environment_id == environment.environment_id), None)
        if row is None:
            table.append(path, Environment, [environment])
            return
        known = {name: value for name, value in asdict(row).items() if value is not None}
        filled = replace(environment, **known)
        if filled != row:
            table.write(path, Environment, [filled if each is row else each for each in rows])

    def put_roof_measurements(self, rows: Sequence[RoofMeasurement]) -> None:
        """Add measurements, or replace earlier ones, all or none: a kernel's sizes belong together."""
        table.write(self.paths[RoofMeasurement], RoofMeasurement, table.merged(self.rows(RoofMeasurement), rows))

    def put_collectives(self, rows: Sequence[records.CollectiveMeasurement]) -> None:
        """Add rounds of collectives, or replace earlier ones, all or none."""
        record = records.CollectiveMeasurement
        table.put(self.paths[record], record, table.read(self.paths[record], record), rows)

    def put_data_parallel_steps(self, rows: Sequence[records.DataParallelStep]) -> None:
        self._put(rows, {})

    def put_run(self, run: Run, samples: Sequence[Sample], stages: Sequence[tuple[Run, Sequence[Sample]]] = ()) -> None:
        """Commit a round of a cell, and with a training step its stages. An earlier one is replaced only now."""
        rounds = [*stages, (run, samples)]
        self._put([row for row, _ in rounds], {Sample: rounds})

    def put_profile(self, row: Profile, operators: Sequence[OperatorTime], kernels: Sequence[Any] = ()) -> None:
        self._put([row], {OperatorTime: [(row, operators)], records.KernelTime: [(row, kernels)]})

    def put_hardware_counters(self, row: records.HardwareCounterProfile, counters: Sequence[Any]) -> None:
        self._put([row], {records.KernelCounters: [(row, counters)]})

    def _put(self, rows: Sequence[Any], children: Mapping[type, Sequence[tuple[Any, Sequence[Any]]]]) -> None:
        """Write the children of rows, then the rows, which commit them and replace earlier rows with their keys."""
        record = type(rows[0])
        path, before = self.paths[record], table.read(self.paths[record], record)
        new = {_cell(row): row for row in rows}

        def is_same(row: Any) -> bool:
            now = new.get(_cell(row), row)
            return row.code == now.code and same_shape(row.input_shape, now.input_shape)

        same = [row for row in before if is_same(row)]
        if len(same) < len(before):  # first, so that no row ever commits children of another network
            table.write(path, record, same)
        for child, owned in children.items():
            self.children[child].put(owned)
        table.put(path, record, same, rows)

    def replace(self, tables: Mapping[type, Sequence[Any]]) -> None:
        """Replace all tables together, under the folder's lock. The next process finishes after a killed one."""
        adding = self.folder / ADDING
        with table.durably(self.folder):
            try:
                adding.mkdir()
                for record, path in self.paths.items():
                    if rows := tables.get(record):
                        table.write(adding / path.name, record, rows)
                    else:
                        (adding / path.name).touch()  # this table goes
                adding.rename(self.folder / ADDED)  # from now on the new tables count
            except BaseException:  # Ctrl-C too
                shutil.rmtree(adding, ignore_errors=True)
                raise
            self._finish_replacing()

    def _finish_replacing(self) -> None:
        """Move complete new tables to their places; remove incomplete ones.

        No reader sees a mixture: without its first table a folder is no machine, and that table is moved last.
        """
        added = self.folder / ADDED
        if added.exists():
            if (added / FILES[Environment]).exists():
                self.paths[Environment].unlink(missing_ok=True)
            for path in sorted(added.iterdir(), key=lambda path: path.name == FILES[Environment]):
                if path.stat().st_size:
                    path.replace(self.folder / path.name)
                else:
                    (self.folder / path.name).unlink(missing_ok=True)
                    path.unlink()
            added.rmdir()
        elif (self.folder / ADDING).exists():
            shutil.rmtree(self.folder / ADDING)

    @contextmanager
    def locked(self, say: Callable[[str], object] = print) -> Iterator[None]:
        """Keep other writers out of this folder. Finish a killed writer's work, and report its torn lines."""
        with table.locked(self.folder):
            self._finish_replacing()
            for path in sorted(self.folder.glob("*.csv")):
                if aside := table.set_torn_line_aside(path):
                    say(f"A killed run left a torn line in {path.name}; it is set aside in {aside}")
            yield


def machine_names(data: Path) -> list[str]:
    """Return the names of the machines' folders. Raises UserError for a folder that cannot be read."""
    return table.folders_with(FILES[Environment], data / "machines")
