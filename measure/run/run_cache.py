"""The cache as one run on one machine sees it."""

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from measure.cache.folders import MachineFolder, Workloads
from measure.cache.records import Environment
from measure.domain.latency import Cell
from measure.domain.values import now
from measure.errors import UserError
from measure.machine.environment import folder_name, version

if TYPE_CHECKING:
    from measure.run.task import Task

KILLED_STATUS = "killed"


@dataclass(frozen=True)
class Sitting:
    """One run of the command: when it began, its version, and the seed of the order of its cells."""

    sitting: str = field(default_factory=now)
    seed: int = 0
    version: str = field(default_factory=version)


@dataclass(frozen=True)
class RunCache:
    """The tables that a run on one machine reads and writes."""

    workloads: Workloads
    folder: MachineFolder
    environment: Environment
    sitting: Sitting = field(default_factory=Sitting)

    def put(self, task: "Task", outcome: Any) -> None:
        """Write a task's result or Failure."""
        if task.is_of_machine:
            self.folder.put_environment(self.environment)
        task.store(self, outcome)

    def rows(self, table: Sequence[Any]) -> list[Any]:
        """Keep the rows that this environment measured."""
        return [row for row in table if row.environment_id == self.environment.environment_id]

    def tried(self, table: Sequence[Any]) -> list[Any]:
        """Keep the same rows, without tasks that were killed in an earlier sitting: those are done again."""
        sitting = self.sitting.sitting
        return [row for row in self.rows(table) if row.status != KILLED_STATUS or row.sitting == sitting]

    def key(self, cell: Cell) -> dict[str, Any]:
        """Return the columns that identify the cell of a row."""
        return {"environment_id": self.environment.environment_id, **cell._asdict()}

    def signature(self) -> dict[str, Any]:
        """Return the columns that say when a row was measured, in which sitting, by which version."""
        return {"recorded_at": now(), **asdict(self.sitting)}

    def places(self, tasks: Collection["Task"]) -> list[str]:
        """Return the folders that the tasks' rows go into."""
        return sorted({str(self.folder.folder if task.is_of_machine else self.workloads.folder) for task in tasks})


def machine_folder(data: Path, name: str | None, environment: Environment) -> MachineFolder:
    """Return this machine's folder. Raises UserError if another machine measured into the folder of that name."""
    folder = MachineFolder(data, name or folder_name(environment))
    if folder.folder.is_file():
        raise UserError(f"--machine: {folder.folder} is a file; name a folder")
    others = {row.name for row in folder.rows(Environment) if row.hardware_id != environment.hardware_id}
    if others:
        raise UserError(f"--machine: {folder.folder} holds another machine ({others.pop()}); choose another name")
    return folder
