"""Read a trace of ``torch.profiler``: operators, launches, kernels and steps, by the names of their fields.

A trace is private: it may hold environment variables, tokens and paths. Only the fields named here are read, and
nothing else is kept. Kineto's names of categories and fields changed in 2022; both are read.
"""

import ast
import math
import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from sys import intern
from typing import Any, NamedTuple

from measure.cache.schema import DAY_S, MOST
from measure.errors import UserError, one_line
from measure.traces.json_stream import EVENTS, opened

Thread = tuple[str, str]  # process and thread, as the trace names them

OPERATORS = ("cpu_op", "operator")
KERNELS = {"kernel": "kernel", "gpu_memcpy": "copy", "memcpy": "copy", "gpu_memset": "fill", "memset": "fill"}
LAUNCHES = re.compile(r"(\w+_)?(runtime|driver)")  # CUDA's, HIP's, SYCL's
ANNOTATIONS = ("user_annotation", *OPERATORS)  # in 2021 the profiler's own ranges were operators
STEP = re.compile(r"ProfilerStep#(\d+)")
UPDATE = "Optimizer.step#"  # begins the range of an optimiser's step
PROFILERS_OWN = ("ac2g", "fwdbwd", "gpu_user_annotation", "async_cpu_to_gpu", "forward_backward", "trace", "")
NETWORK = re.compile(r"[\w.-]+(/[\w.-]+)?")
VERSION = re.compile(r"\d+\.\d+[\w.+-]*")


class Signature(NamedTuple):
    """What a trace records of an operator's arguments, one element each; an empty text or list where it has none."""

    shapes: list[Any]
    types: list[Any]
    strides: list[Any]
    values: list[Any]
    flop: int | None = None  # what Inductor states of a Triton kernel, with benchmark_kernel or profile_bandwidth
    byte: int | None = None


NO_ARGUMENTS = Signature([], [], [], [])


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

    @property
    def end(self) -> float:
        return self.start + self.duration


class Launch(NamedTuple):
    """A call of the driver that starts work on a device."""

    name: str
    thread: Thread
    start: float


class Range(NamedTuple):
    """A profiler's step, by its number, or an optimiser's step; times in µs."""

    number: int
    start: float
    end: float


@dataclass
class GpuProperties:
    name: str | None
    capability: str | None
    memory_byte: int | None


@dataclass
class Trace:
    """What is read of one file. ``left_out`` counts the events that are not, by reason."""

    path: Path
    devices: dict[int, GpuProperties] = field(default_factory=dict)
    network: str | None = None
    torch: str | None = None
    runtime: str | None = None  # CUDA's or HIP's version, as a number with points
    driver: str | None = None
    rank: int = 0
    world_size: int = 1
    operators: list[OperatorEvent] = field(default_factory=list)
    launches: dict[int, Launch] = field(default_factory=dict)
    work: list[DeviceEvent] = field(default_factory=list)
    steps: list[Range] = field(default_factory=list)
    updates: list[Range] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)
    has_shapes: bool = False


def read(path: Path) -> Trace:
    """Read a trace, plain or compressed. Raises UserError unless it holds operators or work of a device."""
    trace = Trace(path)
    reader = _Reader(trace)
    with opened(path) as stream:
        for key, value in stream.members():
            if key == EVENTS:
                reader.add_event(value)
            else:
                reader.add_header(key, value)
    if not trace.operators and not trace.work:
        raise UserError(f"{path}: holds no operators and no kernels; export one of torch.profiler around a step")
    return trace


class _Reader:
    """Adds a document's members to a trace; equal texts and signatures are kept once."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._signatures: dict[str, Signature] = {}
        self._threads: dict[Thread, Thread] = {}

    def add_header(self, key: str, value: Any) -> None:
        trace = self._trace
        if key == "deviceProperties":
            for each in _listed(value):
                if isinstance(each, dict) and isinstance(each.get("name"), str) and _whole(each.get("id")) is not None:
                    parts = [_whole(each.get(name)) for name in ("computeMajor", "computeMinor")]
                    capability = None if None in parts else ".".join(map(str, parts))
                    memory_byte = _whole(each.get("totalGlobalMem"))
                    trace.devices[each["id"]] = GpuProperties(_one_name(each["name"]), capability, memory_byte)
        elif key == "distributedInfo" and isinstance(value, dict):
            trace.rank, trace.world_size = _whole(value.get("rank")) or 0, _whole(value.get("world_size")) or 1
        elif key == "metadata" and isinstance(value, dict):  # tools that record benchmarks add it
            trace.network = _matching(NETWORK, value.get("repo_id"))
            trace.torch = _matching(VERSION, value.get("torch_version"))
        elif key in ("cuda_runtime_version", "cuda_driver_version"):
            # 12040 is 12.4 (cudaRuntimeGetVersion)
            if (number := _whole(value)) is not None:
                setattr(trace, key.split("_")[1], f"CUDA {number // 1000}.{number % 1000 // 10}")
        elif key in ("hip_runtime_version", "hip_driver_version") and (number := _whole(value)) is not None:
            # 60443483 is 6.4.43483 (HIP_VERSION)
            text = f"HIP {number // 10_000_000}.{number // 100_000 % 100}.{number % 100_000}"
            setattr(trace, key.split("_")[1], text)

    def add_event(self, event: Any) -> None:
        if not isinstance(event, dict) or event.get("ph") != "X":
            return  # flows and names of threads
        category, name = str(event.get("cat", "")).lower(), str(event.get("name", ""))
        arguments = event.get("args")
        arguments = arguments if isinstance(arguments, dict) else {}
        kind, is_operator = KERNELS.get(category), category in OPERATORS
        is_launch = not (kind or is_operator) and LAUNCHES.fullmatch(category) is not None
        if not (kind or is_operator or is_launch or category in ANNOTATIONS):
            if category not in PROFILERS_OWN:
                self._trace.left_out[f"events of category {category[:40]!r}"] += 1
            return
        start, duration = _number(event.get("ts")), _number(event.get("dur", 0))
        if start is None or duration is None or not 0 <= duration < DAY_S * 1e6:
            self._trace.left_out["events whose clock steps back or is missing"] += 1
        elif kind:
            self._add_work(kind, name, start, duration, arguments)
        elif is_launch:
            correlation = _whole(arguments.get("correlation"))
            if correlation is not None:
                self._trace.launches[correlation] = Launch(intern(name), self._thread(event), start)
        elif match := STEP.match(name):
            self._trace.steps.append(Range(int(match[1]), start, start + duration))
        elif name.startswith(UPDATE):
            self._trace.updates.append(Range(0, start, start + duration))
        elif is_operator:
            self._add_operator(name, self._thread(event), start, duration, arguments)

    def _thread(self, event: dict[str, Any]) -> Thread:
        """Return the same object for all events of a thread: it takes no memory then."""
        thread = str(event.get("pid")), str(event.get("tid"))
        return self._threads.setdefault(thread, thread)

    def _add_work(self, kind: str, name: str, start: float, duration: float, arguments: dict[str, Any]) -> None:
        external = _whole(arguments.get("External id", arguments.get("external id")))
        device, correlation = _whole(arguments.get("device")) or 0, _whole(arguments.get("correlation"))
        event = DeviceEvent(kind, intern(name), device, start, duration, correlation, external)
        self._trace.work.append(event)

    def _add_operator(
        self, name: str, thread: Thread, start: float, duration: float, arguments: dict[str, Any]
    ) -> None:
        shapes = arguments.get("Input Dims", arguments.get("Input dims"))
        signature = NO_ARGUMENTS
        if isinstance(shapes, list):
            types, strides, values = (
                each if isinstance(each, list) else []
                for each in map(arguments.get, ("Input type", "Input Strides", "Concrete Inputs"))
            )
            gigabyte = _number(arguments.get("kernel_num_gb"))
            byte = None if gigabyte is None else round(gigabyte * 1e9)
            signature = Signature(shapes, types, strides, values, _whole(arguments.get("kernel_flop")), byte)
            signature = self._signatures.setdefault(repr(signature), signature)
            self._trace.has_shapes = True
        external = _whole(arguments.get("External id", arguments.get("external id"))) or 0
        sequence = _whole(arguments.get("Sequence number"))
        event = OperatorEvent(intern(name), thread, start, start + duration, external, sequence, signature)
        self._trace.operators.append(event)


def _listed(value: Any) -> list[Any]:
    """Return a list; some tools write it once more as Python's text."""
    if isinstance(value, str):
        try:
            value = ast.literal_eval(value[:1_000_000])
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            return []
    return value if isinstance(value, list) else []


def _number(value: Any) -> float | None:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    return value if is_number else None


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < MOST else None


def _one_name(text: str) -> str:
    return one_line(text)[:80]


def _matching(pattern: re.Pattern[str], value: Any) -> str | None:
    return value if isinstance(value, str) and len(value) <= 100 and pattern.fullmatch(value) else None
