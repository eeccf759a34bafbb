"""The only reader and writer of measured CSV.

A round of a cell is written as its samples first and its run last: the row in ``runs.csv`` commits it. A run that is
killed loses at most the round that it was in: a torn last line is set aside, and samples that no run committed are
not read.
"""

import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, TypeVar

from measure.lock import locked
from measure.records import ROUND, WORKLOAD, Ceiling, Environment, Layer, Run, Sample, Workload
from measure.table import append, merged, read, set_torn_line_aside, write


def _completed(old: Environment, new: Environment) -> Environment:
    """The old row, where it is of the same environment with the columns that an earlier version did not have."""
    if old.environment_id != new.environment_id:
        return old
    later = [field.name for field in dataclasses.fields(Environment) if field.default is None]
    unknown = [name for name in later if getattr(old, name) is None]
    return dataclasses.replace(old, **{name: getattr(new, name) for name in unknown})


Timed = TypeVar("Timed", Run, Sample)


def _round(row: Run | Sample) -> tuple[Any, ...]:
    return tuple(getattr(row, name) for name in ROUND)


def _numbered(rows: Iterable[Timed]) -> list[Timed]:
    """Rows of an earlier version, which measured a cell in one round and did not number it, as those of round 0."""
    return [dataclasses.replace(row, round=0) if row.round is None else row for row in rows]


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
        self._sampled: set[tuple[Any, ...]] | None = None

    def environments(self) -> list[Environment]:
        return read(self.folder / "machine.csv", Environment)

    def ceilings(self) -> list[Ceiling]:
        return read(self.folder / "ceilings.csv", Ceiling)

    def runs(self) -> list[Run]:
        return _numbered(read(self.folder / "runs.csv", Run))

    def samples(self) -> list[Sample]:
        """The samples of committed runs: what a killed run left behind is not among them."""
        committed = {_round(run) for run in self.runs()}
        return [row for row in self._stored() if _round(row) in committed]

    def _stored(self) -> list[Sample]:
        return _numbered(read(self.folder / "samples.csv", Sample))

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
        """Commits a round of a cell. One that was measured before is replaced only now that the new one is complete."""
        runs_path, samples_path = self.folder / "runs.csv", self.folder / "samples.csv"
        if self._sampled is None:
            self._sampled = {_round(row) for row in self._stored()}
        if _round(run) in self._sampled:
            write(
                samples_path,
                Sample,
                [*(row for row in self._stored() if _round(row) != _round(run)), *samples],
            )
        else:
            append(samples_path, Sample, samples)
        self._sampled |= {_round(row) for row in samples}
        known = self.runs()
        if _round(run) in {_round(row) for row in known}:
            write(runs_path, Run, merged(known, [run]))
        else:
            append(runs_path, Run, [run])

    def locked(self) -> AbstractContextManager[None]:
        """Keeps other writers out of this folder."""
        return locked(self.folder)

    def repair(self) -> list[Path]:
        """Sets aside the torn lines that a killed writer left; the files that they went to."""
        tables = sorted(self.folder.glob("*.csv"))
        return [aside for path in tables if (aside := set_torn_line_aside(path))]


def machine_names(data: Path) -> list[str]:
    """The names of the machines in a data folder, sorted."""
    return sorted(path.parent.name for path in (data / "machines").glob("*/machine.csv"))
