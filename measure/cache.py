"""The only reader and writer of measured CSV.

A cell is written as its samples first and its run last: the row in ``runs.csv`` commits it. A run that is killed
loses at most the cell it was in: a torn last line is dropped, and so are samples that no run committed.
"""

import csv
import dataclasses
import io
import itertools
import os
import types
import typing
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from measure.errors import UserError
from measure.records import CELL, KEYS, WORKLOAD, Ceiling, Environment, Layer, Run, Sample, Workload

Record = TypeVar("Record")


def _column_types(record: type) -> dict[str, tuple[type, bool]]:
    """Column name to (type, whether the cell may be empty), in the order of the header."""
    columns = {}
    for name, hint in typing.get_type_hints(record).items():
        if isinstance(hint, types.UnionType):
            (plain,) = [part for part in typing.get_args(hint) if part is not types.NoneType]
            columns[name] = (plain, True)
        else:
            columns[name] = (hint, False)
    return columns


def _parse(text: str, plain: type, optional: bool) -> Any:
    if text == "":
        if not optional:
            raise ValueError("is empty")
        return None
    try:
        return plain(text)
    except ValueError:
        raise ValueError(
            f"is {text!r}, not {'a number' if plain in (int, float) else plain.__name__}"
        ) from None


def _complete_lines(path: Path) -> str:
    """The file's text without a last line that a killed writer left torn."""
    text = path.read_bytes()
    return text[: text.rfind(b"\n") + 1].decode("utf-8")


def read(path: Path, record: type[Record]) -> list[Record]:
    """All rows of a table, typed. A file that is not there is an empty table.

    Raises UserError naming file, line and column where a cell does not parse, and for a header that this version
    does not know.
    """
    if not path.exists():
        return []
    columns = _column_types(record)
    try:
        lines = csv.reader(io.StringIO(_complete_lines(path), newline=""))
        header = next(lines, None)
        if header is None:
            return []
        _check_header(path, header, columns)
        rows = []
        for cells in lines:
            if len(cells) != len(header):
                raise UserError(
                    f"{path}, line {lines.line_num}: {len(cells)} cells where the header has {len(header)}; "
                    "mend the line or delete it"
                )
            values: dict[str, Any] = dict.fromkeys(columns)
            for name, text in zip(header, cells, strict=True):
                try:
                    values[name] = _parse(text, *columns[name])
                except ValueError as problem:
                    raise UserError(
                        f"{path}, line {lines.line_num}, column {name}: the cell {problem}; mend the line or delete it"
                    ) from None
            rows.append(record(**values))
    except UnicodeDecodeError:
        raise UserError(f"{path}: is not UTF-8 text; restore the file or delete it") from None
    except csv.Error as problem:
        raise UserError(f"{path}, line {lines.line_num}: {problem}; mend the line or delete it") from None
    return rows


def _check_header(path: Path, header: Sequence[str], known: dict[str, tuple[type, bool]]) -> None:
    repeated = {name for name in header if header.count(name) > 1}
    if repeated:
        raise UserError(f"{path}, line 1: the column {sorted(repeated)[0]!r} stands twice; mend the header")
    newer = [name for name in header if name not in known]
    if newer:
        raise UserError(
            f"{path}, line 1: unknown column {newer[0]!r}, so a newer version wrote this table; update this checkout"
        )
    missing = [name for name, (_, optional) in known.items() if name not in header and not optional]
    if missing:
        raise UserError(
            f"{path}, line 1: the column {missing[0]!r} is missing, so an older version wrote this table; "
            "move the file away and measure again"
        )


def _format(rows: Iterable[Any]) -> str:
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    for row in rows:
        writer.writerow(["" if value is None else value for value in vars(row).values()])
    return text.getvalue()


def _header(record: type) -> str:
    return ",".join(_column_types(record)) + "\n"


def _flush(file: typing.IO[bytes]) -> None:
    file.flush()
    os.fsync(file.fileno())


def write(path: Path, record: type[Record], rows: Iterable[Record]) -> None:
    """Replaces a whole table, atomically: readers see the old file or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".csv.part")
    with part.open("wb") as file:
        file.write((_header(record) + _format(rows)).encode())
        _flush(file)
    part.replace(path)


def append(path: Path, record: type[Record], rows: Sequence[Record]) -> None:
    """Adds rows at the end of a table, durably. The header of an existing file decides the order of the columns."""
    if not path.exists():
        write(path, record, rows)
        return
    with path.open("r+b") as file:
        file.seek(0)
        header = file.readline().decode()
        if header != _header(record):
            file.close()
            write(path, record, [*read(path, record), *rows])
            return
        file.seek(len(_complete_lines(path).encode()))
        file.truncate()
        file.write(_format(rows).encode())
        _flush(file)


def merged(old: Sequence[Record], new: Sequence[Record]) -> list[Record]:
    """The old rows, those with a key of the new ones replaced, and the new ones at the end."""
    if not new:
        return list(old)
    key = KEYS[type(new[0])]
    fresh = {tuple(getattr(row, name) for name in key) for row in new}
    return [row for row in old if tuple(getattr(row, name) for name in key) not in fresh] + list(new)


def _completed(old: Environment, new: Environment) -> Environment:
    """The old row, where it is of the same environment with the columns that an earlier version did not have."""
    if old.environment_id != new.environment_id:
        return old
    later = [field.name for field in dataclasses.fields(Environment) if field.default is None]
    unknown = [name for name in later if getattr(old, name) is None]
    return dataclasses.replace(old, **{name: getattr(new, name) for name in unknown})


def _cell(row: Run | Sample) -> tuple[Any, ...]:
    return tuple(getattr(row, name) for name in CELL)


def _workload(row: Workload | Layer) -> tuple[Any, ...]:
    return tuple(getattr(row, name) for name in WORKLOAD)


class Workloads:
    """``data/workload``: what the models ask for, on any device.

    A workload's layers are written first and its row in ``models.csv`` last: that row commits it.
    """

    def __init__(self, data: Path) -> None:
        self.models_path = data / "workload" / "models.csv"
        self.layers_path = data / "workload" / "layers.csv"
        self._with_layers: set[tuple[Any, ...]] | None = None

    def models(self) -> list[Workload]:
        return read(self.models_path, Workload)

    def layers(self) -> list[Layer]:
        """The layers of committed workloads."""
        committed = {_workload(row) for row in self.models() if row.status == "ok"}
        return [row for row in read(self.layers_path, Layer) if _workload(row) in committed]

    def put(self, counted: Iterable[tuple[Workload, Sequence[Layer]]]) -> None:
        """Adds workloads, or replaces them where they stand, so that counting again changes nothing."""
        counted = list(counted)
        if self._with_layers is None:
            self._with_layers = {_workload(row) for row in read(self.layers_path, Layer)}
        again = {_workload(row): layers for row, layers in counted if _workload(row) in self._with_layers}
        if again:
            write(self.layers_path, Layer, _replaced(read(self.layers_path, Layer), again))
        new = [layer for row, layers in counted if _workload(row) not in again for layer in layers]
        append(self.layers_path, Layer, new)
        self._with_layers |= {_workload(layer) for layer in new}
        rows = merged(self.models(), [row for row, _ in counted])
        write(self.models_path, Workload, sorted(rows, key=_place))


def _place(row: Workload) -> tuple[Any, ...]:
    """By which workloads are sorted."""
    return row.model, row.input_shape, row.batch, row.precision, row.autocast or ""


def _replaced(rows: Iterable[Layer], again: Mapping[tuple[Any, ...], Sequence[Layer]]) -> Iterator[Layer]:
    """The layers, each workload's that is in ``again`` by the new ones, in its old place."""
    for workload, old in itertools.groupby(rows, key=_workload):
        yield from again.get(workload, old)


class MachineFolder:
    """``data/machines/<name>``: everything that one machine measured."""

    def __init__(self, data: Path, name: str) -> None:
        self.name = name
        self.folder = data / "machines" / name

    def environments(self) -> list[Environment]:
        return read(self.folder / "machine.csv", Environment)

    def ceilings(self) -> list[Ceiling]:
        return read(self.folder / "ceilings.csv", Ceiling)

    def runs(self) -> list[Run]:
        return read(self.folder / "runs.csv", Run)

    def samples(self) -> list[Sample]:
        """The samples of committed runs: what a killed run left behind is not among them."""
        committed = {_cell(run) for run in self.runs()}
        return [row for row in read(self.folder / "samples.csv", Sample) if _cell(row) in committed]

    def put_environment(self, environment: Environment) -> None:
        """Adds an environment that is new; of a known one only what an earlier version did not record."""
        path, known = self.folder / "machine.csv", self.environments()
        if environment.environment_id not in {row.environment_id for row in known}:
            append(path, Environment, [environment])
            return
        completed = [_completed(row, environment) for row in known]
        if completed != known:
            write(path, Environment, completed)

    def put_ceilings(self, rows: Sequence[Ceiling]) -> None:
        write(self.folder / "ceilings.csv", Ceiling, merged(self.ceilings(), rows))

    def put_run(self, run: Run, samples: Sequence[Sample]) -> None:
        """Commits a cell. A cell that was measured before is replaced only now that the new one is complete."""
        runs_path, samples_path = self.folder / "runs.csv", self.folder / "samples.csv"
        known = self.runs()
        stored = read(samples_path, Sample)
        kept = [row for row in stored if _cell(row) != _cell(run)]
        if len(kept) < len(stored):
            write(samples_path, Sample, [*kept, *samples])
        else:
            append(samples_path, Sample, samples)
        if _cell(run) in {_cell(row) for row in known}:
            write(runs_path, Run, merged(known, [run]))
        else:
            append(runs_path, Run, [run])

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keeps other writers out of this folder; the system releases the lock of a process that died."""
        import fcntl  # only where something is written: a paper renders on systems without it

        self.folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self.folder, os.O_RDONLY)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise UserError(
                    f"{self.folder}: another run is measuring into this folder; wait for it or name another --machine"
                ) from None
            yield
        finally:
            os.close(descriptor)


def machine_names(data: Path) -> list[str]:
    """The names of the machines in a data folder, sorted."""
    return sorted(path.parent.name for path in (data / "machines").glob("*/machine.csv"))
