"""The command ``python -m measure model NAME``: one model on this machine, answered in the terminal."""

import argparse
import dataclasses
import json
import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from measure.answering import text
from measure.answering.answer import answer, first_cell
from measure.cache import rates
from measure.cache.folders import Workloads
from measure.cache.rates import Rates
from measure.cache.words import EAGER, FULL_PRECISION, STREAM_ARRAYS
from measure.cli.flags import CommandLine, check_one_output, data_flag
from measure.cli.tables import aligned, markdown
from measure.cli.terminal import stop_as_by_ctrl_c
from measure.diagnosis.host_checks import warning_of_load
from measure.machine import devices
from measure.machine.device import Device
from measure.machine.environment import current
from measure.roofs import roofs
from measure.run import arguments, plan, runner
from measure.run.destination import check_folder, check_writable, machine_folder
from measure.run.estimate import datasheet
from measure.run.memory_fit import Memory
from measure.run.sections.operators import ProfileTask
from measure.run.sections.roofs import RoofTask
from measure.run.task import Cache, Columns, Failure, Request, Sitting, Task
from measure.run.worker import Worker
from measure.timing.sampling import Sampling

SECTIONS = ("workload", "roofs", "inference", "operators")


def parser() -> CommandLine:
    flags = CommandLine(
        prog="python -m measure model",
        description="Answer for one model on this machine: what it asks for, the roof above it, what it reaches, its "
        "costliest layers, and what to try first. What the cache lacks of that is measured, coarsely, and kept: a "
        "product and the streams for the roof, a round of each cell, and a profile of the first.",
    )
    flags.add_argument("model", metavar="NAME", help="a built-in model, LIBRARY:NAME or package.module:function")
    sizes = "inputs in one forward pass (default: %(default)s)"
    flags.add_argument("--batch-sizes", nargs="+", metavar="N", default=["1"], help=sizes)
    formats = "fp32, tf32, fp16, bf16 (default: %(default)s)"
    flags.add_argument("--precisions", nargs="+", metavar="P", default=[FULL_PRECISION], help=formats)
    flags.add_argument("--device", default="auto", help="cpu, cuda, cuda:N, mps or auto (default: %(default)s)")
    flags.add_argument("--threads", metavar="N", help="CPU threads (default: the physical cores)")
    flags.add_argument("--layers", action="store_true", help="list the layers, with FLOP, bytes, bound and time")
    flags.add_argument("--json", action="store_true", help="print JSON (docs/json.md)")
    flags.add_argument("--markdown", action="store_true", help="print Markdown")
    flags.add_argument("--data", type=Path, default=Path("data"), help="the cache's folder (default: %(default)s)")
    flags.add_argument("--machine", metavar="NAME", help="the machine's folder below it (default: from the hardware)")
    limit = "give a call up that takes longer than this (default: %(default)s)"
    flags.add_argument("--call-limit", metavar="TIME", default="60s", help=limit)
    return flags


def main(argv: Sequence[str]) -> int:
    """Return exit code 0. Raises UserError for bad input, and where the model cannot be counted."""
    said = parser().parse_args(argv)
    check_one_output({"--json": said.json, "--markdown": said.markdown})
    check_folder(said.data, "--data")
    device, threads = devices.find(said.device), arguments.parse_threads(said.threads)
    quick = as_quick_run(said)
    request = make_request(quick)
    environment = current(device, threads)
    arguments.check_device(request, environment)
    folder = machine_folder(said.data, said.machine, environment)
    cache = Cache(Workloads(said.data), folder, environment, Sitting(seed=arguments.make_seed(None)))
    tasks = tasks_to_do(cache, request)
    if tasks:
        check_writable(said.data)
        stop_as_by_ctrl_c()
    worker = Worker(device.torch_name, threads, arguments.make_sampling(quick))
    table = markdown if said.markdown else aligned
    try:
        _do([task for task in tasks if not task.is_of_machine], cache, worker, device)
        found = answer(cache, request)
        if not said.json:  # what is known is told before what takes longer
            print("\n".join(text.heading(found, table)), flush=True)
            print("\n".join(text.bound_lines(found, *first_look(cache, request, worker))), flush=True)
        measuring = [task for task in tasks if task.is_of_machine]
        if measuring:
            if warning := warning_of_load():
                print(warning, file=sys.stderr)
            _do(measuring, cache, worker, device)
            found = answer(cache, request)
    finally:
        worker.close()
    if said.json:
        print(json.dumps(dataclasses.asdict(found), indent=2, allow_nan=False))
    else:
        print("\n".join(["", *text.lines(found, table, said.layers, data_flag(said.data))]))
    return 0


def as_quick_run(said: argparse.Namespace) -> argparse.Namespace:
    """Return the flags of a quick run of measuring that asks for the same."""
    words = ["--models", said.model, "--batch-sizes", *said.batch_sizes, "--precisions", *said.precisions]
    words += ["--data", str(said.data), "--variants", EAGER, "--sections", *SECTIONS, "--quick"]
    quick: argparse.Namespace = arguments.parser().parse_args([*words, "--call-limit", said.call_limit])
    return quick


def make_request(quick: argparse.Namespace) -> Request:
    """Return what is asked for: of each cell of one model a round at least."""
    request = arguments.make_request_of_one("NAME", quick)
    return replace(request, training_models=[], rounds=1, most_rounds=1, quick=False)


@dataclass(frozen=True)
class GlanceTask(Task):
    """Look at the roof for a fraction of a second. Nothing of it is stored."""

    precisions: tuple[str, ...]

    label, effort = "a first look at the roof", 1.0

    @property
    def columns(self) -> Columns:
        return {}

    @classmethod
    def missing(cls, request: Request, cache: Cache) -> list[Self]:
        return []  # no plan has it

    def run(self, device: Device, _sampling: Sampling, _beat: Callable[[], None]) -> Rates:
        return roofs.glance(device, self.precisions)

    def store(self, _cache: Cache, _outcome: Rates | Failure) -> None:
        """Keep nothing."""

    def summary(self, _result: Rates) -> str:
        return "done"


def first_look(cache: Cache, request: Request, worker: Worker) -> tuple[Rates | None, str]:
    """Return the best roof that is known within a moment and where it comes from, or None and why there is none."""
    known = rates.measured(cache.rows(cache.folder.roof_measurements()))
    if all(known.ridge(precision) for precision in request.precisions):
        return known, "as measured here before"
    if sheet := datasheet(cache):
        return sheet, "by the datasheet"
    seen = worker.run(GlanceTask(tuple(request.precisions)))
    return (None, seen.reason) if isinstance(seen, Failure) else (seen, "at a rough first look")


def tasks_to_do(cache: Cache, request: Request) -> list[Task]:
    """Return what the cache lacks: counts, a first roof, a round of each cell, a profile of the first."""
    known = rates.measured(cache.rows(cache.folder.roof_measurements()))
    first = {RoofTask(*each) for each in roofs.first_kernels(cache.environment.device, tuple(request.precisions))}

    def is_needed(task: Task) -> bool:
        if isinstance(task, RoofTask):
            return task in first and (known.load > 0 or _is_unknown(task, known))
        return not isinstance(task, ProfileTask) or task.cell == first_cell(request)

    return [task for task in plan.tasks_to_do(request, cache) if is_needed(task)]


def _is_unknown(task: RoofTask, known: Rates) -> bool:
    """Return whether no roof is known of what a kernel measures."""
    return known.byte_per_s is None if task.roof_kernel in STREAM_ARRAYS else task.precision not in known.flop_per_s


def _do(tasks: Sequence[Task], cache: Cache, worker: Worker, device: devices.Device) -> None:
    """Do the tasks and keep what comes of them; progress goes to standard error."""
    if not tasks:
        return
    from measure.cli.console import Console
    from measure.run.progress import RunProgress

    progress = RunProgress(tasks, Console(stderr=True))
    memory = Memory(device.memory_byte(), cache.workloads.models)
    is_of_machine = any(task.is_of_machine for task in tasks)
    with cache.folder.locked(progress.say) if is_of_machine else nullcontext(), progress:
        progress.begin_part("measuring" if is_of_machine else "counts", tasks)
        runner.run(tasks, worker, cache, progress, refusal=memory.refusal)
