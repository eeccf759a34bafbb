"""One model on this machine: ``python -m measure model NAME``, and ``measure.model(network, inputs)`` in Python."""

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from measure.cache.folders import Workloads
from measure.cache.records import RoofMeasurement
from measure.cache.workload_records import Layer, Workload
from measure.counting.count import count_network, identity
from measure.counting.memory import tensors_in
from measure.domain.demands import demands, layer_demands, reached
from measure.domain.latency import Cell, summarise_cell
from measure.domain.models import OWN, Model
from measure.domain.roofs import Roof, machine_roof
from measure.domain.words import EAGER, FULL_PRECISION, INFERENCE, PRECISION_BYTE, STREAM_ARRAYS
from measure.machine import devices
from measure.machine.checks import warning_of_load
from measure.machine.device import Device
from measure.machine.environment import current
from measure.models.call import Call, copy_to_meta, torch_dtype
from measure.roofs import roofs
from measure.run import plan, runner
from measure.run.cell_tasks import ProfileTask
from measure.run.estimate import MemoryFit, datasheet
from measure.run.request import Request, parse_threads
from measure.run.run_cache import RunCache, Sitting, machine_folder
from measure.run.sections import RoofTask
from measure.run.task import Columns, Failure, Task
from measure.run.worker import Worker
from measure.timing.sampling import QUICK_ROUND, Sampling, Timing, sample
from measure.timing.stopwatch import Stopwatch
from measure.verbs import measure as arguments
from measure.verbs import show
from measure.verbs.flags import CommandLine, check_folder, check_one_output, check_writable, data_flag
from measure.verbs.show import ModelAnswer, answer, first_cell
from measure.verbs.terminal import aligned, make_console, markdown, stop_as_by_ctrl_c

if TYPE_CHECKING:
    from torch import nn

SECTIONS = ("workload", "roofs", "inference", "operators")


def parser() -> CommandLine:
    flags = CommandLine(
        prog="python -m measure model",
        description="Answer for one model on this machine: its FLOP and bytes, the roof, the share it reaches, its "
        "costliest layers, and what to try first. Anything missing from the cache is measured, coarsely, and kept: a "
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
    """Return exit code 0. Raises UserError for bad input, or if the model cannot be counted."""
    flags = parser().parse_args(argv)
    check_one_output({"--json": flags.json, "--markdown": flags.markdown})
    check_folder(flags.data, "--data")
    device, threads = devices.find(flags.device), parse_threads(flags.threads)
    request, sampling = make_request(flags)
    environment = current(device, threads)
    request.check_device(environment)
    folder = machine_folder(flags.data, flags.machine, environment)
    cache = RunCache(Workloads(flags.data), folder, environment, Sitting(seed=arguments.make_seed(None)))
    tasks = tasks_to_do(cache, request)
    if tasks:
        check_writable(flags.data)
        stop_as_by_ctrl_c()
    table = markdown if flags.markdown else aligned
    with closing(Worker(device.torch_name, threads, sampling)) as worker:
        _do([task for task in tasks if not task.is_of_machine], cache, worker, device)
        found = answer(cache, request)
        if not flags.json:  # print what the cache holds before the slow part
            print("\n".join(show.heading(found, table)), flush=True)
            print("\n".join(show.bound_lines(found, *first_look(cache, request, worker))), flush=True)
        measuring = [task for task in tasks if task.is_of_machine]
        if measuring:
            if warning := warning_of_load():
                print(warning, file=sys.stderr)
            _do(measuring, cache, worker, device)
            found = answer(cache, request)
    if flags.json:
        print(json.dumps(asdict(found), indent=2, allow_nan=False))
    else:
        print("\n".join(["", *show.lines(found, table, flags.layers, data_flag(flags.data))]))
    return 0


def make_request(flags: argparse.Namespace) -> tuple[Request, Sampling]:
    """Return a request for one round of each cell of one model, and when a round has enough samples."""
    words = ["--models", flags.model, "--batch-sizes", *flags.batch_sizes, "--precisions", *flags.precisions]
    words += ["--data", str(flags.data), "--variants", EAGER, "--sections", *SECTIONS, "--quick"]
    quick = arguments.parser().parse_args([*words, "--call-limit", flags.call_limit])
    request = arguments.resolve_request_of_one("NAME", quick)
    request = replace(request, training_models=[], rounds=1, most_rounds=1, quick=False)
    return request, arguments.make_sampling(quick)


@dataclass(frozen=True)
class GlanceTask(Task):
    """Look at the roof for a fraction of a second. No plan has it, and nothing of it is stored."""

    precisions: tuple[str, ...]

    label, effort, columns = "a first look at the roof", 1.0, Columns()

    @classmethod
    def missing(cls, request: Request, cache: RunCache) -> list[Self]:
        return []

    def run(self, device: Device, _sampling: Sampling, _beat: Callable[[], None]) -> Roof:
        return roofs.glance(device, self.precisions)

    def store(self, _cache: RunCache, _outcome: Any) -> None:
        """Keep nothing."""

    def summary(self, _result: Roof) -> str:
        return "done"


def first_look(cache: RunCache, request: Request, worker: Worker) -> tuple[Roof | None, str]:
    """Return the best roof that a moment gives and its origin, or None and the reason."""
    roof = machine_roof(cache.rows(cache.folder.roof_measurements()))
    if all(roof.at(precision) for precision in request.precisions):
        return roof, "as measured here before"
    if sheet := datasheet(cache):
        return sheet, "by the datasheet"
    seen = worker.run(GlanceTask(tuple(request.precisions)))
    return (None, seen.reason) if isinstance(seen, Failure) else (seen, "at a rough first look")


def tasks_to_do(cache: RunCache, request: Request) -> list[Task]:
    """Return the tasks missing from the cache: counts, a first roof, a round of each cell, a profile of the first."""
    roof = machine_roof(cache.rows(cache.folder.roof_measurements()))
    first = {RoofTask(*each) for each in roofs.first_kernels(cache.environment.device, tuple(request.precisions))}

    def is_needed(task: Task) -> bool:
        if not isinstance(task, RoofTask):
            return not isinstance(task, ProfileTask) or task.cell == first_cell(request)
        is_stream = task.roof_kernel in STREAM_ARRAYS
        is_unknown = roof.byte_per_s is None if is_stream else task.precision not in roof.flop_per_s
        return task in first and (is_unknown or roof.load > 0)

    return [task for task in plan.tasks_to_do(request, cache) if is_needed(task)]


def _do(tasks: Sequence[Task], cache: RunCache, worker: Worker, device: devices.Device) -> None:
    """Run the tasks and store their results; progress goes to standard error."""
    if not tasks:
        return
    from measure.run.progress import RunProgress

    progress = RunProgress(tasks, make_console(stderr=True))
    memory = MemoryFit(device.memory_byte(), cache.workloads.models)
    is_of_machine = any(task.is_of_machine for task in tasks)
    with cache.folder.locked(progress.say) if is_of_machine else nullcontext(), progress:
        progress.begin_part("measuring" if is_of_machine else "counts", tasks)
        runner.run(tasks, worker, cache, progress, refusal=memory.refusal)


class NotebookAnswer(ModelAnswer):
    """An answer that prints as text, and in a notebook shows a roofline too if Altair is installed."""

    def __str__(self) -> str:
        return "\n".join([*show.heading(self, aligned), "", *show.lines(self, aligned, False, "")])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        text = f"<pre>{escape(str(self))}</pre>"
        chart = roofline(self)
        if chart is None:
            return text
        import altair as alt

        with alt.renderers.enable("html"):
            return text + str(chart._repr_mimebundle_()["text/html"])

    @property
    def layer_table(self) -> str:
        """The layers in the order in which they run."""
        return "\n".join(show.layer_lines(self.layers, aligned))


def roofline(answer: ModelAnswer) -> Any:
    """Draw the roofs, their ridge points and the cells as an Altair chart; None without Altair, a roof or a rate."""
    try:
        import altair as alt
    except ImportError:
        return None
    intensities = {(each.batch, each.precision): each.intensity_flop_per_byte for each in answer.demands}
    points: list[dict[str, Any]] = []
    for cell in answer.cells:
        batch, precision = cell.timed.batch, cell.timed.precision
        if cell.flop_per_s and (intensity := intensities[batch, precision]):
            points.append({"intensity": intensity, "rate": cell.flop_per_s, "batch": batch, "precision": precision})
    byte_per_s, peaks = answer.rates.byte_per_s, answer.rates.flop_per_s
    if not points or not peaks or byte_per_s is None:
        return None
    ridges: list[dict[str, Any]] = [
        {"intensity": peak / byte_per_s, "rate": peak, "precision": precision} for precision, peak in peaks.items()
    ]
    left = min(each["intensity"] for each in points + ridges) / 4
    right = max(each["intensity"] for each in points + ridges) * 4
    corners = []
    for ridge in ridges:
        corners += [ridge | {"intensity": left, "rate": left * byte_per_s}, ridge, ridge | {"intensity": right}]
    scale = alt.Scale(type="log", nice=False)
    x = alt.X("intensity:Q", scale=scale, title="operational intensity (FLOP/B)")
    y = alt.Y("rate:Q", scale=scale, axis=alt.Axis(format="~s"), title="rate (FLOP/s)")
    tips = [alt.Tooltip("batch:N"), "precision:N", alt.Tooltip("rate:Q", format=".3s"), "intensity:Q"]
    roof, ends, cells = (
        alt.Chart(alt.InlineData(values=rows)).encode(x, y, alt.Color("precision:N"))
        for rows in (corners, ridges, points)
    )
    return alt.layer(
        roof.mark_line(),
        ends.mark_point(shape="diamond", filled=True, size=60),
        cells.mark_circle(size=80).encode(tooltip=tips),
        cells.mark_text(dx=8, align="left").encode(text="batch:N"),
    ).properties(width=440, height=260, title=f"{answer.model} on {answer.environment.name}")


def model(network: "nn.Module", inputs: Any, name: str | None = None) -> NotebookAnswer:
    """Count a network, time its forward pass where it is, and hold it against this machine's roof.

    ``inputs`` are a tensor, a tuple of arguments or a dictionary of keyword arguments, on the network's device; the
    first dimension of the first tensor is the batch. The network runs in eval mode without gradients, and is left as
    it was. The roof is measured once in a process. Nothing is written.

    Raises ValueError for inputs without a tensor, and a network without floating-point parameters of 16 or 32 bits.
    """
    import torch

    if isinstance(inputs, Mapping):
        call = Call(network, (), dict(inputs))
    else:
        call = Call(network, tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,))
    tensors = tensors_in((call.inputs, call.keywords))
    if not tensors:
        raise ValueError("inputs hold no tensor; give a tensor, a tuple of arguments or a dictionary of keywords")
    types = {parameter.dtype for parameter in network.parameters()}
    precision = next((each for each in PRECISION_BYTE if torch_dtype(each) in types), None)
    if precision is None:
        known = ", ".join(PRECISION_BYTE)
        raise ValueError(f"the network's parameters are none of {known}; convert it, or count it alone")
    first = tensors[0]
    kind = first.device.type
    device = devices.find(f"{kind}:{first.device.index or 0}" if kind == "cuda" else kind)
    named = Model(name or type(network).__name__, OWN, OWN, tuple(first.shape[1:]) or (1,))
    batch = first.shape[0] if first.ndim else 1
    hollow = copy_to_meta(call)
    columns, layers, _ = count_network(hollow.network.eval(), hollow.inputs, hollow.keywords)
    key = identity(named, batch, precision, None)
    workload = Workload(source=OWN, family=OWN, status="ok", **key, **columns)
    with _at_hand(device):
        roof, timing = _roof(device.torch_name, precision), _timed(call, device)
    asked = demands([workload], roof, [precision])
    cell = Cell(named.name, batch, precision, INFERENCE, EAGER)
    return NotebookAnswer(
        model=named.name,
        input_shape=workload.input_shape,
        environment=current(device, torch.get_num_threads()),
        rates=roof,
        demands=asked,
        cells=reached([summarise_cell(cell, [timing.latencies_s], timing.flags, workload.input_shape)], asked),
        layers=layer_demands([Layer(**key, **layer) for layer in layers], precision, roof, []),
        advice=None,
    )


def _timed(call: Call, device: Device) -> Timing:
    """Time the forward pass in eval mode, and put the network's modes back."""
    import torch

    modes = {module: module.training for module in call.network.modules()}
    call.network.eval()
    try:
        with torch.inference_mode():
            forward = partial(call.network, *call.inputs, **call.keywords)
            stopwatch = Stopwatch(forward, device.synchronize, events=device.events())
            return sample(stopwatch, QUICK_ROUND, device.sensors())
    finally:
        for module, was_training in modes.items():
            module.training = was_training


@cache
def _roof(torch_name: str, precision: str) -> Roof:
    """Measure a first roof at a precision, with the kernels that run here, and restore the settings they change."""
    device, rows = devices.find(torch_name), []
    with _at_hand(device):
        for kernel, of, size, pace, number in roofs.first_kernels(device.kind, (precision,)):
            try:
                timing = roofs.measure(device, kernel, of, size, pace, lambda: None)
            except NotImplementedError:
                continue
            flop, byte = roofs.flop_and_byte(kernel, of, size)
            row: dict[str, Any] = {"roof_kernel": kernel, "precision": of, "size": size, "pace": pace, "round": number}
            row |= {"environment_id": "", "flop": flop, "byte": byte, "status": "ok", "reason": None}
            rows.append(RoofMeasurement(**row, **timing._asdict()))
    return machine_roof(rows)


@contextmanager
def _at_hand(device: Device) -> Iterator[None]:
    """Make a GPU the current one, as events and Triton kernels need, and restore its settings at the end.

    ``Device.prepare`` would do it for good, and on a processor limit the memory of the user's own process.
    """
    if device.kind != "cuda":
        yield
        return
    import torch

    products, convolutions = torch.backends.cuda.matmul, torch.backends.cudnn
    before = products.allow_tf32, convolutions.allow_tf32
    try:
        with torch.cuda.device(device.torch_name):
            yield
    finally:
        products.allow_tf32, convolutions.allow_tf32 = before
