"""Results from elsewhere: ``measure import-ncu``, ``add-published`` and ``count-published``."""

import argparse
import hashlib
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any

from measure.cache.folders import MachineFolder, Workloads
from measure.domain.cell import Cell
from measure.domain.records import Environment
from measure.domain.schema import SHAPE, TABLES, file_of
from measure.domain.values import now
from measure.domain.words import CALL_LIMIT_S, EAGER, FULL_PRECISION, INFERENCE, PRECISIONS, STEP, shape_name
from measure.errors import UserError, as_called
from measure.machine.device import Device
from measure.machine.environment import folder_name
from measure.models import catalog
from measure.profiling import ncu_csv, ncu_rep
from measure.published import add, count
from measure.published.loose_csv import decode
from measure.published.records import PublishedCount, PublishedTiming
from measure.run import runner
from measure.run.sections import put
from measure.run.storing import RunCache
from measure.run.tasks import Failure, HardwareCounterTask, Task
from measure.run.worker import IsolatedCalls, Worker
from measure.timing.sampling import Sampling
from measure.verbs.flags import Verbs, add_verb, check_writable, next_step, parse_count, parse_folder_name, parse_time
from measure.verbs.terminal import make_console, name_first, stop_as_by_ctrl_c
from roofwright.command_line import INTERRUPTED, data_flag


def add_verbs(verbs: Verbs) -> None:
    _add_published(verbs)
    option = add_verb(verbs, "import-ncu", import_ncu).add_argument
    option("file", metavar="FILE", help="a report of ncu, or the output of ncu --csv")
    option("--model", required=True, metavar="NAME", help="the model, as in --models of measure (required)")
    option("--batch", required=True, type=parse_count, metavar="N", help="the inputs of a step (required)")
    option("--input-shape", metavar="S", help="the shape of an input, such as 3x224x224 (default: as measured here)")
    option("--precision", choices=PRECISIONS, default=FULL_PRECISION, metavar="P", help="the precision (default: fp32)")
    text = "step (of training) or inference (required)"
    option("--phase", required=True, choices=(STEP, INFERENCE), metavar="PHASE", help=text)
    option("--steps", type=parse_count, default=1, metavar="N", help="the counted calls in the file (default: 1)")
    option(
        "--machine", type=parse_folder_name, metavar="NAME", help="the machine's folder (default: from --device-name)"
    )
    option("--device-name", metavar="NAME", help="the GPU's name, for a machine that has measured nothing")


def _add_published(verbs: Verbs) -> None:
    flags = add_verb(verbs, "add-published", add_published)
    paths = [TABLES[each].path.removeprefix("published/") for each in add.RECORDS]
    text = f"the table, with the columns of {', '.join(paths[:-1])} or {paths[-1]}"
    flags.add_argument("file", metavar="FILE", help=text)
    flags.add_argument("--replace", action="store_true", help="replace rows that have the same key but other values")
    flags = add_verb(verbs, "count-published", count_published)
    flags.add_argument("--models", nargs="+", default=["*"], metavar="GLOB", help="count only these (default: all)")
    text = "stop after this time, such as 90s, 10m or 1h30m"
    flags.add_argument("--budget", type=parse_time, metavar="TIME", help=text)
    flags.add_argument("--force", action="store_true", help="count all again")


def import_ncu(flags: argparse.Namespace) -> int:
    """Put the hardware counters of a model, which NVIDIA Nsight Compute wrote as a report (.ncu-rep) or with ncu --csv
    --page raw, into the cache of a machine: one that has measured, or a GPU that is only named. docs/gpu.md has the
    command of ncu with the metrics that are read.
    """
    with closing(IsolatedCalls(CALL_LIMIT_S)) as own:
        models = catalog.find([flags.model], describe=own.describe)
    if len(models) != 1:
        raise UserError(f"--model: {flags.model!r} selects {len(models)} models; name one")
    shape = flags.input_shape or shape_name(models[0].input_shape)
    if not SHAPE.fits(shape):
        raise UserError(f"--input-shape: {shape!r} is not a valid shape; use numbers joined by x, such as 3x224x224")
    model = replace(models[0], input_shape=tuple(map(int, shape.split("x"))))
    batch, steps, file = flags.batch, flags.steps, Path(flags.file)
    try:
        content = file.read_bytes()
    except OSError as problem:
        remedy = "name a report of ncu (.ncu-rep) or the output of ncu --csv --page raw"
        raise UserError(f"{file}: cannot be read ({problem.strerror}); {remedy}") from None
    if file.suffix in ncu_rep.SUFFIXES:
        counted = ncu_rep.read(file, steps, tool="imported")
    else:
        counted = ncu_csv.parse(decode(content, errors="replace").splitlines(), flags.file, steps, tool="imported")
    if counted.uneven is not None:
        kernel = counted.uneven[:80]
        raise UserError(f"--steps: {steps} does not divide the launches of {kernel}; give the number of calls counted")
    folder, environment = _machine(flags.data, flags.machine, flags.device_name)
    task = HardwareCounterTask(model, Cell(model.name, batch, flags.precision, flags.phase, EAGER))
    with folder.locked():
        put(RunCache(Workloads(flags.data), folder, environment), task, counted)
    print(f"{len(counted.kernels)} kernels of {model.name} at batch size {batch} into {folder.folder}")
    if counted.missing:
        print(f"not in the file, so unknown: {', '.join(counted.missing)}")
    if counted.tensor_gap:
        print(f"FLOP of tensor cores are unknown: {counted.tensor_gap}")
    where = data_flag(flags.data)
    counts = f"{as_called('measure')} --sections workload --models {model.name} --batch-sizes {batch}{where}"
    print(f"Next: {counts}, for the counts that the paper holds against them; then {as_called('report')}{where}")
    return 0


def _machine(data: Path, name: str | None, device_name: str | None) -> tuple[MachineFolder, Environment]:
    """Return the machine's folder and its newest environment on a GPU, or a new one with only the GPU's name."""
    if name is not None:
        folder = MachineFolder(data, name)
        owner = max(folder.rows(Environment), key=lambda row: (row.device == "cuda", row.recorded_at), default=None)
        if owner and (owner.device != "cuda" or device_name not in (None, owner.name)):
            raise UserError(f"--machine: {folder.folder} belongs to {owner.name}; name another --machine")
        if owner:
            return folder, owner
    if device_name is None:
        raise UserError("--device-name: name the GPU that was counted, as 'NVIDIA T4', or a --machine that measured")
    identity = hashlib.sha256(device_name.encode()).hexdigest()[:12]
    values: dict[str, Any] = dict.fromkeys(field.name for field in fields(Environment)) | {"recorded_at": now()}
    values |= {"environment_id": identity, "hardware_id": identity, "device": "cuda", "name": device_name}
    environment = Environment(**values)
    return MachineFolder(data, name or folder_name(environment)), environment


def add_published(flags: argparse.Namespace) -> int:
    """Check a CSV table of published measurements, and add its rows to the table below data/published that has its
    columns (docs/data.md). Any delimiter; latency_ms is converted. Adds nothing if a row is wrong or faster than its
    chip.
    """
    file = Path(flags.file)
    record, rows = add.read(file, flags.data)
    check_writable(flags.data)
    new = add.put(file, record, rows, flags.data, flags.replace)
    rest = ": the others are there or repeat a row" if len(new) < len(rows) else ""
    print(f"Added {len(new)} of {len(rows)} rows to {file_of(record, flags.data)}{rest}")
    if wrong := add.contradictions(rows):
        print(f"Rate × time is not the batch in {len(wrong)} of {len(rows)} rows: {name_first(wrong)}")
    if new:
        print(f"Check that bib/references.bib has an entry for {', '.join(sorted({row.source for row in new}))}.")
    if new and record is PublishedTiming:
        print(f"Next: {as_called('measure count-published')}{data_flag(flags.data)}")
    return 0


def count_published(flags: argparse.Namespace) -> int:
    """Count FLOP and bytes of the models in data/published/measurements, forward and backward, for one input at fp32.
    Stop it at any time: the same command resumes.
    """
    deadline = time.monotonic() + flags.budget if flags.budget else None
    shapes, counted = count.timed(flags.data, flags.models), set() if flags.force else count.counted(flags.data)
    tasks = [PublishedCountTask(*shape) for shape in shapes if shape not in counted]
    folder = str(file_of(PublishedCount, flags.data).parent)
    if not tasks:
        print(f"Nothing left to count: see {folder}")
        return 0
    check_writable(flags.data)
    stop_as_by_ctrl_c()
    display = runner.RunProgress(tasks, make_console())
    try:
        with closing(Worker("cpu", 1, Sampling())) as worker, display:
            display.begin_part("counts", tasks)
            summary = runner.run(tasks, worker, partial(_store, flags.data), display, deadline)
    except KeyboardInterrupt:
        print(f"\nStopped after {display.done} of {display.total}; to go on: {flags.command}")
        return INTERRUPTED
    resume = [runner.resumption(flags.command, flags.force)] if summary.left else []
    print("\n".join([*runner.lines(summary, [folder]), *resume]))
    print(next_step(flags.data))
    return 0


@dataclass(frozen=True)
class PublishedCountTask(Task):
    """Count a model at ``input_size`` pixels on each side, or at its own size (None)."""

    name: str
    input_size: int | None
    is_of_machine = False

    @property
    def label(self) -> str:
        return f"{self.name} at {self.input_size or 'its own size'}"

    def run(self, _device: Device, _sampling: Sampling, beat: Callable[[], None]) -> count.Rows:
        return count.count(self.name, self.input_size, beat)


def _store(data: Path, task: Any, outcome: count.Rows | Failure) -> None:
    if isinstance(outcome, Failure):
        outcome = PublishedCount(task.name, task.input_size, outcome.status, outcome.reason), []
    count.add(data, *outcome)
