"""Answer for one model on this machine: ``measure model``, and ``measure.model`` for a network at hand."""

import argparse
import copy
import json
import secrets
import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext
from dataclasses import replace
from functools import cache, partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from measure.cache.folders import Workloads
from measure.counting.count import count_call, identity
from measure.domain.cell import Cell
from measure.domain.energy import RoundEnergy
from measure.domain.latency import summarise_cell, without_launches
from measure.domain.models import OWN
from measure.domain.records import OperatorTime, Profile, RoofMeasurement, Run
from measure.domain.roofs import Roof, machine_roof
from measure.domain.variants import OPTIMIZERS
from measure.domain.words import EAGER, FULL_PRECISION, INFERENCE, PRECISIONS, STEP, shape_name, stored_as
from measure.domain.workload_records import WORKLOAD, Layer, Operator, Workload
from measure.errors import UserError, as_called, one_line, text_of
from measure.machine import devices, settings
from measure.machine.checks import warning_of_use
from measure.machine.device import Device
from measure.machine.environment import current
from measure.models.call import Call, copy_to_meta
from measure.roofs import roofs
from measure.run import plan, runner
from measure.run.estimate import MemoryFit
from measure.run.request import Request, parse_threads
from measure.run.sections import put
from measure.run.storing import RunCache, machine_folder
from measure.run.tasks import ProfileTask, RoofTask, Task
from measure.run.worker import Worker, classify
from measure.timing.calls import without_gradients
from measure.timing.sampling import ROUND_SAMPLING, Sampling, Timing, sample
from measure.timing.stopwatch import Stopwatch
from measure.verbs import experiments, operators
from measure.verbs.answer import ModelAnswer, heading, make_answer, result_lines
from measure.verbs.at_hand import call_at_hand, description
from measure.verbs.flags import (
    Verbs,
    add_formats,
    add_place,
    add_verb,
    check_writable,
    parse_batch_size,
    parse_count,
    parse_time,
)
from measure.verbs.listing import read_earlier
from measure.verbs.run_flags import make_sampling, resolve_request_of_one, with_defaults
from measure.verbs.step_memory import answer_memory
from measure.verbs.terminal import aligned, make_console, markdown, stop_as_by_ctrl_c
from roofwright.command_line import data_flag

if TYPE_CHECKING:
    from torch import nn

MOST_OPERATORS = 20
SECTIONS = ("workload", "roofs", "inference", "operators")
DEFAULTS_OF_TENSORS = settings.DEFAULT_DTYPE, settings.DEFAULT_DEVICE  # a network at hand may rely on its user's


def add_verbs(verbs: Verbs) -> None:
    flags = add_verb(verbs, "model", main)
    add = flags.add_argument
    add("model", metavar="NAME", help="a built-in model, LIBRARY:NAME or package.module:function")
    text = "inputs in one forward pass (default: 1)"
    add("--batch-sizes", nargs="+", type=parse_batch_size, default=[1], metavar="N", help=text)
    text = "fp32, tf32, fp16, bf16 (default: fp32)"
    add("--precisions", nargs="+", choices=PRECISIONS, default=[FULL_PRECISION], metavar="P", help=text)
    add("--device", default="auto", metavar="DEVICE", help="cpu, cuda, cuda:N, mps or auto (default: %(default)s)")
    add_place(flags)
    add("--layers", action="store_true", help="list the layers, with FLOP, bytes, bound and time")
    text = "profile a training step too, and list the N longest operators of it and of a forward pass (default: 20)"
    add("--operators", type=parse_count, nargs="?", const=MOST_OPERATORS, metavar="N", help=text)
    alone = flags.add_mutually_exclusive_group()
    text = "the memory of a training step by block and operator, over time and with checkpoints; nothing is run"
    alone.add_argument("--memory", action="store_true", help=text)
    text = "time the first calls of a new process one by one instead, of a forward pass and of a training step"
    alone.add_argument("--warm-up", action="store_true", help=text)
    text = (
        "list the number types of a training step under autocast instead: of each layer's parameters, input, output "
        "and gradients, and of the loss; autocast to bf16, or to fp16 with --precisions fp16"
    )
    alone.add_argument("--types", action="store_true", help=text)
    add("--optimizer", choices=OPTIMIZERS, metavar="O", help="of --memory: sgd (with momentum) or adam (default: sgd)")
    add_formats(flags, {"--json": "print JSON (docs/json.md)", "--markdown": "print Markdown"})
    text = "give a call up that takes longer than this (default: %(default)s)"
    add("--call-limit", type=parse_time, default="60s", metavar="TIME", help=text)


def main(flags: argparse.Namespace) -> int:
    """Answer for one model on this machine: its FLOP and bytes, the roof, the share it reaches, its costliest layers,
    and a first thing to try. Anything missing from the cache is measured, coarsely, and kept: a product and the streams
    for the roof, a round of each cell, and a profile of the first. A model of yours is measured anew after a change of
    its code, in the place of its earlier rows, and shown before and after.
    """
    if flags.optimizer and not flags.memory:
        raise UserError("--optimizer: is of a training step; add --memory")
    if flags.memory and (flags.layers or flags.operators):
        name = "--layers" if flags.layers else "--operators"
        raise UserError(f"{name}: --memory lists blocks and what operators save; leave one of the two out")
    device, threads = devices.find(flags.device), parse_threads(flags.threads)
    stop_as_by_ctrl_c()  # before an own model has a process
    request, sampling = make_request(flags)
    environment = current(device, threads)
    if flags.memory:
        return answer_memory(flags, request, device.kind, environment)
    request.check_device(environment)
    table = markdown if flags.markdown else aligned
    if flags.warm_up or flags.types:
        return experiments.answer(flags, request, device, threads, sampling, table, environment.label)
    folder = machine_folder(flags.data, flags.machine, environment)
    cache = RunCache(Workloads(flags.data), folder, environment, secrets.randbelow(10**6))
    before = read_earlier(cache, request)
    print(*before.announcements(), sep="\n", end="\n" if before.codes else "", file=sys.stderr)
    tasks = tasks_to_do(cache, request)
    if tasks:
        check_writable(flags.data)
    with closing(Worker(device.torch_name, threads, sampling)) as worker:
        if counting := [task for task in tasks if not task.is_of_machine]:
            _do(counting, cache, worker, device)
        found = read_answer(cache, request)
        if not flags.json:  # print the counts before the slow part
            print("\n".join(heading(found, table)), flush=True)
        if measuring := [task for task in tasks if task.is_of_machine]:
            if warning := warning_of_use(device.torch_name):
                print(warning, file=sys.stderr)
            _do(measuring, cache, worker, device)
            found = read_answer(cache, request)
    profiled = read_operators(cache, request) if flags.operators else []
    if flags.json:
        with_operators = {"operators": operators.as_json(profiled)} if flags.operators else {}
        print(json.dumps(found.as_json() | with_operators, indent=2, allow_nan=False))
    else:
        lines = result_lines(found, table, with_layers=flags.layers, data_flag=data_flag(flags.data))
        lines += operators.operator_lines(profiled, flags.operators or 0, table)
        changes = before.lines(cache, table)
        print("", *lines, *(["", *changes] if changes else []), sep="\n")
    return 0


def make_request(flags: argparse.Namespace) -> tuple[Request, Sampling]:
    """Return a request for one round of each cell of one model, and when a round has enough samples."""
    given = {name: getattr(flags, name) for name in ("batch_sizes", "precisions", "data", "call_limit")}
    quick = with_defaults(models=[flags.model], variants=[EAGER], sections=SECTIONS, quick=True, **given)
    request = resolve_request_of_one("NAME", quick)
    steps = request.models if flags.operators else []
    sizes = request.batch_sizes[:1]
    request = replace(request, training_models=steps, training_batch_sizes=sizes, rounds=1, most_rounds=1, quick=False)
    return request, make_sampling(quick)


def first_cell(request: Request) -> Cell:
    """Return the profiled cell of a request: at its first precision and smallest batch size."""
    return Cell(request.models[0].name, request.batch_sizes[0], request.precisions[0], INFERENCE, EAGER)


def profiled_cells(request: Request) -> list[Cell]:
    """Return the cells that are profiled: the first one, and with ``--operators`` a training step of it."""
    return [first_cell(request), *(cell for _, cell in request.cells(STEP))][: 1 + len(request.training_models)]


def tasks_to_do(cache: RunCache, request: Request) -> list[Task]:
    """Return the tasks missing from the cache: counts, a first roof, a round of each cell, a profile of the first."""
    roof = machine_roof(cache.rows(RoofMeasurement))
    first = {RoofTask(*each) for each in roofs.first_kernels(cache.environment.device, tuple(request.precisions))}

    def is_needed(task: Task) -> bool:
        if not isinstance(task, RoofTask):
            return not isinstance(task, ProfileTask) or task.cell in profiled_cells(request)
        is_product = task.roof_kernel == "matmul"
        is_unknown = task.precision not in roof.flop_per_s if is_product else roof.byte_per_s is None
        return task in first and (is_unknown or roof.load > 0)

    return [task for task in plan.tasks_to_do(request, cache) if is_needed(task)]


def _do(tasks: Sequence[Task], cache: RunCache, worker: Worker, device: devices.Device) -> None:
    """Run the tasks, all of this machine or none, and store their results; progress goes to standard error."""
    progress = runner.RunProgress(tasks, make_console(stderr=True))
    refusal = MemoryFit(device.memory_byte(), cache.workloads).refusal
    is_of_machine = tasks[0].is_of_machine

    def store(task: Task, outcome: Any) -> None:
        put(cache, task, outcome, worker.facts)

    with cache.folder.locked(progress.say) if is_of_machine else nullcontext(), progress:
        progress.begin_part("measuring" if is_of_machine else "counts", tasks)
        runner.run(tasks, worker, store, progress, refusal=refusal)


def read_answer(cache: RunCache, request: Request) -> ModelAnswer:
    """Read the answer about a request's one model from the cache. Raises UserError if it could not be counted."""
    (model,), first = request.models, first_cell(request)
    name, shape = model.name, shape_name(model.input_shape)
    of_model = (row for row in cache.workloads.rows(Workload) if (row.model, row.code) == (name, model.code))
    counts = [row for row in of_model if row.input_shape == shape and row.batch in request.batch_sizes]
    if counts and all(row.status != "ok" for row in counts):
        verb = f"{as_called('measure')} --models {shlex.quote(name)}{data_flag(cache.workloads.data)} --sections"
        advice = f"to time it alone: {verb} inference"
        if counts[0].status == "timeout":
            advice = f"name fewer tokens or inputs, or count it for longer: {verb} workload --call-limit 600s --force"
        elif counts[0].status == "error":  # most are the network's own, and timing fails as well
            advice = f"correct it, or if only counting fails, time it alone: {verb} inference"
        raise UserError(f"NAME: {name} could not be counted: {counts[0].reason}; {advice}")
    layers = _rows_of_first(cache, request, Layer)
    runs = {Cell.of(row) for row in cache.rows(Run) if (row.model, row.code) == (name, model.code)}
    cells = [cell for cell in cache.folder.cells(cache.environment) if Cell.of(cell) in runs]
    profiles = [row for row in cache.rows(Profile) if row.code == model.code]
    profile = next((row for row in profiles if Cell.of(row) == first and row.status == "ok"), None)
    operators = [] if profile is None else cache.folder.rows(OperatorTime, [profile])
    roof = machine_roof(cache.rows(RoofMeasurement))
    held = request.precisions, counts, layers, cells, profile, operators
    return make_answer(first, shape, cache.environment, roof, *held)


def _rows_of_first(cache: RunCache, request: Request, record: type[Any]) -> list[Any]:
    """Return the layers or operators that were counted of the first cell."""
    (model,), first = request.models, first_cell(request)
    counted = model.name, shape_name(model.input_shape), first.batch, stored_as(first.precision), None
    return [row for row in cache.workloads.rows(record) if attrgetter(*WORKLOAD)(row) == counted]


def read_operators(cache: RunCache, request: Request) -> list[operators.ProfiledCall]:
    """Read the profiles of a request's one model from the cache."""
    profiles = [row for row in cache.rows(Profile) if row.code == request.models[0].code]
    layers, counted = (_rows_of_first(cache, request, record) for record in (Layer, Operator))
    return operators.read_profiled(cache.folder, profiles, profiled_cells(request), layers, counted)


def model(network: "nn.Module", inputs: Any, name: str | None = None) -> ModelAnswer:
    """Count a network, time its forward pass where it is, and compare it with this machine's roof.

    >>> answer = measure.model(network, images)  # the first dimension of a tensor is the batch
    >>> measure.model(network, {"input": images}, name="mine")  # arguments by keyword, or a tuple of them; a title
    >>> measure.model(network.to(memory_format=torch.channels_last), images)  # a variant is a network changed before
    >>> measure.model(copy.deepcopy(network).bfloat16(), images.bfloat16())  # the precision of the parameters counts
    >>> answer.cells[0].timed.latency_s, answer.demands[0].flop, answer.layer_table  # numbers, and a line a layer

    The network and its inputs are on one device. The network runs in eval mode without gradients; training steps are
    timed by ``python -m measure``. It is timed under the settings of ``measure/machine/settings.py``, such as fp32
    without TF32, and so is the roof, once in a process. Network and settings are restored, and nothing is written.

    Raises ValueError for anything but a network, for inputs that it does not take, and for parameters (or inputs, if
    there are none) without any floating-point type of 16 or 32 bits; NotImplementedError, with a reason, for a network
    that cannot be counted; SettingChangedError for a network that changes such a setting.
    """
    import torch

    call, precision = call_at_hand(network, inputs)
    named, batch, where = description(call, name)
    device = devices.find(where)

    def copied() -> Call:
        return Call(copy.deepcopy(network), call.inputs, call.keywords)

    remade = partial(copy_to_meta, call, keep_constants=True)
    try:
        columns, layers, _ = count_call(copy_to_meta(call), remade, copied, None, None)
    except NotImplementedError as problem:
        raise NotImplementedError(text_of(problem)) from None
    except Exception as problem:  # the network's own, under many frames of torch's
        raise ValueError(f"the network does not take these inputs: {one_line(text_of(problem))}") from None
    key = identity(named, batch, precision, None)
    workload = Workload(source=OWN, family=OWN, status="ok", **key, **columns)
    stopwatch = Stopwatch(call.run, device.synchronize, events=device.events())

    def time_forward() -> Timing:
        held = settings.wanted(as_they_are=DEFAULTS_OF_TENSORS)
        timing = sample(stopwatch, ROUND_SAMPLING, device.sensors())
        settings.check(held, named.name)
        return timing

    with _restored(network, device):
        network.eval()
        settings.apply(settings.wanted(as_they_are=DEFAULTS_OF_TENSORS))
        try:
            timing = without_gradients(time_forward)
        except Exception as problem:  # of a call with values: without, torch checks neither types nor indices
            status, reason = classify(problem).status, one_line(text_of(problem))
            if status == "unsupported":
                raise NotImplementedError(reason) from None
            if status != "error" or isinstance(problem, settings.SettingChangedError):
                raise
            raise ValueError(f"the network does not take these inputs: {reason}") from None
        roof = _roof(device.torch_name, precision)
    cell, shape = Cell(named.name, batch, precision, INFERENCE, EAGER), workload.input_shape
    energy = RoundEnergy.of((timing.block, latency_s, timing.conditions.energy_j) for latency_s in timing.latencies_s)
    energies = [energy] if energy else []
    timed = summarise_cell(cell, [timing.latencies_s], timing.flags, shape, energies=energies)
    environment, counted = current(device, torch.get_num_threads()), [Layer(**key, **layer) for layer in layers]
    cells = without_launches([timed]) if device.is_asynchronous else [timed]
    return make_answer(cell, shape, environment, roof, [precision], [workload], counted, cells)


@cache
def _roof(torch_name: str, precision: str) -> Roof:
    """Measure a first roof at a precision, with the kernels that run here."""
    device, rows = devices.find(torch_name), []
    for kernel, of, size, pace, number in roofs.first_kernels(device.kind, (precision,)):
        try:
            timing = roofs.measure(device, kernel, of, size, pace, lambda: None)
        except NotImplementedError:
            continue
        work = roofs.flop_and_byte(kernel, of, size)
        times = {"pace": pace, "round": number, **timing._asdict()}
        rows.append(RoofMeasurement("", kernel, of, size, *work, "ok", None, **times))
    return machine_roof(rows)


@contextmanager
def _restored(network: "nn.Module", device: Device) -> Iterator[None]:
    """Make a GPU the current one, as events and Triton kernels need. Restore the network's modes and the settings.

    ``Device.prepare`` would do it for good, and on a processor limit the memory of the user's own process.
    """
    import torch

    modes = {module: module.training for module in network.modules()}
    try:
        with settings.preserve(), torch.cuda.device(device.torch_name) if device.kind == "cuda" else nullcontext():
            yield
    finally:
        for module, was_training in modes.items():
            module.training = was_training
