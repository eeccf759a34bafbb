"""Read a trace of ``torch.profiler``: operators, launches, kernels and steps, by the names of their fields.

A trace is private: it may hold environment variables, tokens and paths. Only the fields named here are read, and
nothing else is kept. Kineto's names of categories and fields changed in 2022; both are read. An exporter that writes no
categories, or numbers as text, is read as well.

Ranks that were merged into one file number their launches and operators alike. Mergers put the rank before the number
of each process, as in ``[TP01] 4711``. Each rank becomes a trace of its own.
"""

import ast
import re
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from pathlib import Path
from sys import intern
from typing import Any, NamedTuple, TypeVar

from measure.domain.schema import DAY_S, MOST
from measure.errors import UserError, one_line
from measure.traces.json_stream import EVENTS, opened

Thread = tuple[str, str]  # process and thread, as the trace names them

OPERATORS = ("cpu_op", "operator")
KERNELS = {"kernel": "kernel", "gpu_memcpy": "copy", "memcpy": "copy", "gpu_memset": "fill", "memset": "fill"}
LAUNCHES = re.compile(r"(\w+_)?(runtime|driver)")  # CUDA's, HIP's, SYCL's
ANNOTATIONS = ("user_annotation", *OPERATORS)  # in 2021 the profiler's own ranges were operators
STEP = re.compile(r"ProfilerStep#(\d{1,18})(?!\d)")  # longer: no counter's number
GLOO = re.compile("gloo:([a-z_]{1,30})")  # a collective that the library gloo runs on a thread of its own
NCCL = re.compile("nccl:([a-z_]{1,30})")  # the range in which torch launches a collective of NCCL or RCCL
COMMUNICATION_RANGE = "record_param_comms"  # the range around it, whose fields describe the collective
GROUP = re.compile(r"[\w.:-]{1,64}")
# The served batch of a step, as vLLM and SGLang annotate it where they record the details: the number of requests with
# the sums over them of queries, of tokens in the cache, and of products of queries with queries and with tokens
REQUESTS = r"_(\d{1,9})\(sq(\d{1,15})sk(\d{1,15})sqsq(\d{1,18})sqsk(\d{1,18})\)"
BATCH = re.compile(rf"execute_\d{{1,9}}_context{REQUESTS}_generation{REQUESTS}")
UPDATE = "Optimizer.step#"  # begins the range of an optimiser's step
PROFILERS_OWN = ("ac2g", "fwdbwd", "gpu_user_annotation", "async_cpu_to_gpu", "forward_backward", "trace", "")
RANK = re.compile(r"(.*\D)\d+", re.DOTALL)  # a process of a merged file: its rank, then its number
NETWORK = re.compile(r"[\w.-]+(/[\w.-]+)?")
VERSION, VERSION_KEY = re.compile(r"\d+\.\d+[\w.+-]*"), re.compile("(cuda|hip)_(runtime|driver)_version")
START = attrgetter("start")


class Signature(NamedTuple):
    """The recorded arguments of an operator, one element each; an empty text or list if the trace has none."""

    shapes: list[Any]
    types: list[Any]
    strides: list[Any]
    values: list[Any]
    flop: int | None = None  # with ``byte``: Inductor's counts of a Triton kernel, by benchmark_kernel or
    byte: int | None = None  # profile_bandwidth


NO_ARGUMENTS = Signature([], [], [], [])


class Message(NamedTuple):
    """What a trace records of a collective; None for what it does not."""

    collective: str | None  # torch's name
    group: str | None
    ranks: str | None  # split by spaces; torch names at most 30
    group_size: int | None
    sequence: int | None  # of the collective in its group
    elements: int | None  # of the larger of input and output
    dtype: str | None


@dataclass(slots=True, eq=False)
class OperatorEvent:
    """One call of an operator on the host; times in µs. ``caller`` is set by ``matching``."""

    name: str
    thread: Thread
    start: float
    end: float
    external_id: int
    sequence: int | None  # of the autograd node that it makes or runs
    signature: Signature
    caller: "OperatorEvent | None" = None
    message: Message | None = None


@dataclass(slots=True, eq=False)
class DeviceEvent:
    """A kernel, copy or fill on a device; times in µs."""

    kind: str  # a value of KERNELS
    name: str
    device: int
    start: float
    duration: float
    correlation: int | None
    external_id: int | None
    message: Message | None = None  # of a collective

    @property
    def end(self) -> float:
        return self.start + self.duration


class Launch(NamedTuple):
    """A call of the driver that starts work on a device."""

    name: str
    thread: Thread
    start: float
    kernel: str | None = None  # as ROCm records it


class Batch(NamedTuple):
    """The requests that a server runs in a step; times in µs.

    ``tokens`` are those in the cache with the new ones over all requests, ``scores`` the sum over the requests of their
    product with the new ones.
    """

    start: float
    end: float
    tokens: int
    scores: int


class Range(NamedTuple):
    """A profiler's step, by its number, or an optimiser's step; times in µs."""

    number: int
    start: float
    end: float


Period = TypeVar("Period", Range, Batch)


@dataclass
class GpuProperties:
    name: str | None
    capability: str | None
    memory_byte: int | None


@dataclass
class Trace:
    """The events of one process. ``left_out`` counts the other events by reason."""

    path: Path
    devices: dict[int, GpuProperties] = field(default_factory=dict)
    network: str | None = None
    torch: str | None = None
    runtime: str | None = None  # CUDA's or HIP's version, as a number with points
    driver: str | None = None
    rank: int = 0
    world_size: int = 1
    groups: int = 0  # groups of ranks that the process was in; 0: not recorded
    operators: list[OperatorEvent] = field(default_factory=list)
    launches: dict[int, Launch] = field(default_factory=dict)
    work: list[DeviceEvent] = field(default_factory=list)
    steps: list[Range] = field(default_factory=list)  # by their start, as are the updates
    updates: list[Range] = field(default_factory=list)
    batches: list[Batch] = field(default_factory=list)
    replayed: dict[DeviceEvent, OperatorEvent] = field(default_factory=dict)  # of graphs, set by ``replays``
    left_out: Counter[str] = field(default_factory=Counter)

    @property
    def has_shapes(self) -> bool:
        return any(each.signature.shapes for each in self.operators)

    def step_at(self, time: float) -> int | None:
        """Return the step at a time, None between steps; 0 in a trace without steps."""
        if not self.steps:
            return 0
        step = period_at(self.steps, time)
        return step.number if step else None

    def is_update(self, time: float) -> bool:
        return period_at(self.updates, time) is not None


def period_at(periods: Sequence[Period], time: float) -> Period | None:
    """Return the range or batch at a time, from those sorted by their start; None between them."""
    place = bisect_right(periods, time, key=START) - 1
    return periods[place] if place >= 0 and periods[place].end >= time else None


def seconds(time: float) -> float:
    """Return a time in µs as seconds, to the picosecond."""
    return round(time * 1e-6, 12)


def read(path: Path) -> list[Trace]:
    """Read the trace of each rank in a file, plain or compressed. Raises UserError without operators and kernels."""
    reader = _Reader(path)
    with opened(path) as stream:
        for key, value in stream.members():
            if key == EVENTS:
                reader.add_event(value)
            else:
                reader.add_header(key, value)
    traces = reader.traces()
    for each in traces:
        each.steps.sort(key=START)
        each.updates.sort(key=START)
        each.batches.sort(key=START)
    if not any(each.operators or each.work for each in traces):
        left_out = "".join(f", and {number} {reason}" for reason, number in traces[0].left_out.items())
        remedy = "export one of torch.profiler around a step"
        raise UserError(f"{path}: holds no operators and no kernels{left_out}; {remedy}")
    return traces


class _Reader:
    """Adds a document's members to its traces; equal texts and signatures are kept once."""

    def __init__(self, path: Path) -> None:
        self._trace = Trace(path)  # shared by all ranks: the header, and the events left out
        self._ranks: defaultdict[str, Trace] = defaultdict(lambda: Trace(path))
        self._signatures: dict[str, Signature] = {}
        self._threads: dict[Thread, Thread] = {}

    def traces(self) -> list[Trace]:
        """Return a trace for each rank that ran operators, in the order of their labels, or one for all.

        A label without operators or launches is no rank: an exporter may name its devices.
        """
        shared = self._trace
        ranks = [label for label, each in self._ranks.items() if each.operators or each.launches]
        lists = ("operators", "work", "steps", "updates", "batches")
        if len(ranks) < 2:
            for each in self._ranks.values():
                shared.launches |= each.launches
                for name in lists:
                    getattr(shared, name).extend(getattr(each, name))
            return [shared]
        if lost := sum(len(each.work) for label, each in self._ranks.items() if label not in ranks):
            shared.left_out["kernels of no rank"] += lost
        ranks.sort(key=lambda label: re.sub(r"\d+", lambda number: number[0].zfill(18), label))
        events = [{name: getattr(self._ranks[label], name) for name in ("launches", *lists)} for label in ranks]
        found = [replace(shared, **each, rank=n, world_size=len(ranks)) for n, each in enumerate(events)]
        for each in found[1:]:
            each.left_out = Counter()
        return found

    def add_header(self, key: str, value: Any) -> None:
        trace = self._trace
        if key == "deviceProperties":
            listed = literal(value) if isinstance(value, str) else value  # some tools write Python's text
            for each in listed if isinstance(listed, list) else []:
                if isinstance(each, dict) and isinstance(each.get("name"), str) and _whole(each.get("id")) is not None:
                    parts = [_whole(each.get(name)) for name in ("computeMajor", "computeMinor")]
                    capability = None if None in parts else ".".join(map(str, parts))
                    name, memory_byte = one_line(each["name"])[:80], _whole(each.get("totalGlobalMem"))
                    trace.devices[each["id"]] = GpuProperties(name, capability, memory_byte)
        elif key == "distributedInfo" and isinstance(value, dict):
            trace.rank, trace.world_size = _whole(value.get("rank")) or 0, _whole(value.get("world_size")) or 1
            trace.groups = _whole(value.get("pg_count")) or 0
        elif key == "metadata" and isinstance(value, dict):  # tools that record benchmarks add it
            trace.network = _matching(NETWORK, value.get("repo_id"))
            trace.torch = _matching(VERSION, value.get("torch_version"))
        elif (match := VERSION_KEY.fullmatch(key)) and (number := _whole(value)) is not None:
            text = f"CUDA {number // 1000}.{number % 1000 // 10}"  # 12040 is 12.4 (cudaRuntimeGetVersion)
            if match[1] == "hip":  # 60443483 is 6.4.43483 (HIP_VERSION)
                text = f"HIP {number // 10_000_000}.{number // 100_000 % 100}.{number % 100_000}"
            setattr(trace, match[2], text)

    def add_event(self, event: Any) -> None:
        if not isinstance(event, dict) or event.get("ph") != "X":
            return  # flows and names of threads
        name, arguments = str(event.get("name", "")), event.get("args")
        arguments = arguments if isinstance(arguments, dict) else {}
        category = str(event["cat"]).lower() if "cat" in event else _category(name, arguments)
        kind, is_operator = KERNELS.get(category), category in OPERATORS
        is_launch = not (kind or is_operator) and LAUNCHES.fullmatch(category) is not None
        left_out = self._trace.left_out
        if not (kind or is_operator or is_launch or category in ANNOTATIONS):
            if category not in PROFILERS_OWN:
                left_out[f"events of category {category[:40]!r}"] += 1
            return
        start, duration = _number(event.get("ts")), _number(event.get("dur", 0))
        if start is None or duration is None or not 0 <= duration < DAY_S * 1e6:
            left_out["events with a clock that steps back or is missing"] += 1
            return
        if not name.isprintable():
            left_out["events with a name that cannot be printed"] += 1
            return
        thread = str(event.get("pid")), str(event.get("tid"))
        thread = self._threads.setdefault(thread, thread)  # one object for all events of a thread saves memory
        label = RANK.fullmatch(thread[0]) if isinstance(event.get("pid"), str) else None
        trace = self._ranks[label[1] if label else ""]
        external = _whole(arguments.get("External id", arguments.get("external id")))
        if kind:
            device, correlation = _whole(arguments.get("device")) or 0, _whole(arguments.get("correlation"))
            message = _message(arguments)
            trace.work.append(DeviceEvent(kind, intern(name), device, start, duration, correlation, external, message))
        elif is_launch:
            if (correlation := _whole(arguments.get("correlation"))) is not None:
                earlier = trace.launches.get(correlation)
                if earlier is not None and earlier.thread[0] != thread[0]:
                    raise UserError(
                        f"{trace.path}: holds several processes that number their launches alike, so that no kernel "
                        "can be assigned; import the file of each rank instead"
                    )
                kernel = arguments.get("kernel")
                kernel = intern(kernel) if isinstance(kernel, str) and kernel.isprintable() else None
                trace.launches[correlation] = Launch(intern(name), thread, start, kernel)
        elif match := STEP.match(name):
            trace.steps.append(Range(int(match[1]), start, start + duration))
        elif name.startswith(UPDATE):
            trace.updates.append(Range(0, start, start + duration))
        elif match := BATCH.fullmatch(name):
            sums = [int(each) for each in match.groups()]
            tokens, scores = (sums[place] + sums[place + 5] for place in (2, 4))
            trace.batches.append(Batch(start, start + duration, tokens, scores))
        elif is_operator or GLOO.fullmatch(name) or NCCL.fullmatch(name):
            name = NCCL.sub(r"nccl::\1", GLOO.sub(r"gloo::\1", name))
            sequence, signature = _whole(arguments.get("Sequence number")), self._signature(arguments)
            event = OperatorEvent(intern(name), thread, start, start + duration, external or 0, sequence, signature)
            event.message = _message(arguments) if name == COMMUNICATION_RANGE else None
            trace.operators.append(event)

    def _signature(self, arguments: dict[str, Any]) -> Signature:
        shapes = arguments.get("Input Dims", arguments.get("Input dims"))
        if not isinstance(shapes, list):
            return NO_ARGUMENTS
        types, strides, values = (
            each if isinstance(each, list) else []
            for each in map(arguments.get, ("Input type", "Input Strides", "Concrete Inputs"))
        )
        gigabyte = _number(arguments.get("kernel_num_gb"))
        byte = None if gigabyte is None else _whole(round(gigabyte * 1e9))
        signature = Signature(shapes, types, strides, values, _whole(arguments.get("kernel_flop")), byte)
        return self._signatures.setdefault(repr(signature), signature)


def _message(arguments: dict[str, Any]) -> Message | None:
    """Return what a kernel or range records of its collective; None for one that records nothing."""
    collective, dtype = (_matching(GROUP, arguments.get(name)) for name in ("Collective name", "dtype"))
    group = _matching(GROUP, str(arguments.get("Process Group Name", "")))
    ranks = " ".join(re.findall(r"\d{1,9}", str(arguments.get("Process Group Ranks", ""))[:10_000])) or None
    size, sequence = _whole(arguments.get("Group size")), _whole(arguments.get("Seq"))
    elements = [_whole(arguments.get(f"{side} msg nelems")) for side in ("In", "Out")]
    message = Message(collective, group, ranks, size, sequence, max((n for n in elements if n), default=None), dtype)
    return message if any(each is not None for each in message) else None


def _category(name: str, arguments: dict[str, Any]) -> str:
    """Guess the category of an event without one, as torch.autograd.profiler exports operators."""
    if "stream" in arguments:
        return f"gpu_{name[:6].lower()}" if name.startswith(("Memcpy", "Memset")) else "kernel"
    if "correlation" in arguments:
        return "cuda_runtime"
    if name.startswith(("ProfilerStep#", UPDATE)):
        return "user_annotation"
    return "cpu_op" if "Input Dims" in arguments or "::" in name else ""


def literal(text: str) -> Any:
    """Return the value of a text in Python's notation; None for any other text."""
    try:
        return ast.literal_eval(text[:1_000_000])
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return None


def _number(value: Any) -> float | None:
    if isinstance(value, str) and len(value) <= 40:
        try:
            value = float(value)
        except ValueError:
            return None
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool) and -MOST <= value <= MOST
    return value if is_number else None


def _whole(value: Any) -> int | None:
    if isinstance(value, str) and value.isdecimal() and len(value) <= 20:
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < MOST else None


def _matching(pattern: re.Pattern[str], value: Any) -> str | None:
    return value if isinstance(value, str) and len(value) <= 100 and pattern.fullmatch(value) else None
