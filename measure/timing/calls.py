"""Prepare the call of a cell, a forward pass or a training step; time one round of it, and trace a step's memory."""

import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from traceback import extract_tb
from typing import TYPE_CHECKING, Any

from measure.domain import variants
from measure.domain.cell import Cell
from measure.domain.models import Model
from measure.domain.words import FULL_PRECISION, INFERENCE, SKIPPED, STAGES, STEP, TF32, UPDATE, stored_as
from measure.errors import text_of
from measure.machine import settings
from measure.machine.device import Device
from measure.models import catalog
from measure.models.call import Call
from measure.models.losses import Loss
from measure.models.tensors import held_tensors, torch_dtype
from measure.timing import variant_setup
from measure.timing.sampling import Sampling, Timing, sample
from measure.timing.stopwatch import StagedStopwatch, Stopwatch, run_first_call

if TYPE_CHECKING:
    import torch
    from torch import nn

LEARNING_RATE, MOMENTUM = 1e-3, 0.9  # a small rate keeps weights near their first values: denormal ones are slow
GRAPH_WARM_UPS = 3  # calls before a capture, as in PyTorch's notes
MOST_HALVINGS = 20  # steps for the scale of a loss to settle; 16 halvings bring it from 2^16 to 1


@dataclass(frozen=True)
class Forward(Call):
    """A forward pass to be run by calling it, in ``autocast`` on a ``kind`` of device if set.

    ``held`` are the settings of the process that it is measured under.
    """

    kind: str = "cpu"
    autocast: "torch.dtype | None" = None
    held: Mapping[str, Any] = field(default_factory=dict)

    @property
    def stages(self) -> Mapping[str, Callable[[], object]]:
        return {INFERENCE: self}

    def __call__(self) -> Any:
        with self.casting():  # anew for each call, as programs do: it keeps the cast weights until it ends
            return self.run()

    def casting(self) -> "AbstractContextManager[Any]":
        import torch

        return nullcontext() if self.autocast is None else torch.autocast(self.kind, self.autocast)


class Replay:
    """A forward pass that its first call captures into a CUDA graph. Each call replays the graph, as one launch.

    A graph reads and writes fixed addresses: inputs, weights and output live as long as it. Source: "CUDA Graphs" in
    PyTorch's notes on CUDA semantics.
    """

    def __init__(self, call: Forward) -> None:
        self._call, self.network, self.held = call, call.network, call.held
        self._graph: torch.cuda.CUDAGraph | None = None
        self._output: Any = None

    @property
    def stages(self) -> Mapping[str, Callable[[], object]]:
        return {INFERENCE: self}

    def __call__(self) -> Any:
        if self._graph is None:
            self._graph, self._output = capture(self._call)
        self._graph.replay()
        return self._output


def capture(call: Callable[[], Any]) -> "tuple[torch.cuda.CUDAGraph, Any]":
    """Return a call's CUDA graph and the output that the graph writes, after warm-up calls on a stream of their own.

    Raises NotImplementedError, which names the line, for a call that a graph cannot hold: it waits for the device, or
    reads a value. The process is then spoilt for CUDA.
    """
    import torch

    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(GRAPH_WARM_UPS):  # they compile, choose algorithms, load kernels
            call()
    torch.cuda.current_stream().wait_stream(stream)
    graph, output, problems = torch.cuda.CUDAGraph(), None, list[Exception]()
    try:
        with torch.cuda.graph(graph):
            try:
                output = call()
            except Exception as problem:  # the end of a spoilt capture raises an error that hides the first one
                problems.append(problem)
    except RuntimeError as problem:
        problems.append(problem)
    if not problems:
        return graph, output
    if isinstance(problems[0], torch.OutOfMemoryError) or not isinstance(problems[0], RuntimeError):
        raise problems[0]  # a full memory, or an error of the network's own
    place = extract_tb(problems[0].__traceback__)[-1]
    line = f"{place.line or place.name!r} ({Path(place.filename).name}, line {place.lineno})"
    raise NotImplementedError(f"a CUDA graph cannot capture {line}: {text_of(problems[0])}") from problems[0]


def prepare(
    device: Device, model: Model, cell: Cell, wrap: "Callable[[nn.Module], nn.Module]" = lambda network: network
) -> "Forward | Replay | TrainingStep":
    """Build a cell's network on the device, with random inputs, in its precision and variant.

    ``wrap`` puts the network into another one, which is called in its place.

    Raises NotImplementedError if the device lacks the precision or the variant does not fit the model.
    """
    catalog.refuse_quantised(model)
    variant_setup.begin(cell.variant, device.kind, cell.precision)
    is_graph = variants.is_graph(cell.variant)
    if is_graph and cell.phase == STEP:
        raise NotImplementedError("a CUDA graph is captured of a forward pass, not of a training step")
    device.refuse_emulation(cell.precision)
    device.allow_tf32(cell.precision == TF32)
    held = settings.wanted(cell.precision == TF32)
    for part in variants.parts_of(cell.variant):
        held |= part.settings
    is_autocast = variants.is_autocast(cell.variant)
    dtype = torch_dtype(FULL_PRECISION if is_autocast else stored_as(cell.precision))
    call = catalog.prepare(model, cell.batch, device.torch_name, dtype)
    settings.apply(held)  # an own module or its network may have set any of them
    call = variant_setup.change(cell.variant, call, model)
    autocast = torch_dtype(cell.precision) if is_autocast else None
    forward = Forward(wrap(call.network), call.inputs, call.keywords, device.kind, autocast, held)
    if cell.phase == STEP:
        return TrainingStep(forward, model, variants.uses_adam(cell.variant))
    return Replay(forward) if is_graph else forward


class TrainingStep:
    """A network in train mode with an optimiser, SGD with momentum or Adam. A call takes one step, stage by stage.

    As in a user's program, the outputs live until the backward pass ends, and the gradients until the update. Autocast
    to fp16 scales the loss; a network cast to fp16 trains without scaling.
    """

    def __init__(self, call: Forward, model: Model, uses_adam: bool) -> None:
        import torch

        self._call, self._loss = call, Loss(model.name, model.family)
        self.network, self.held = call.network.train(), call.held
        parameters = self.network.parameters()
        if uses_adam:
            self._optimizer: torch.optim.Optimizer = torch.optim.Adam(parameters, LEARNING_RATE)
        else:
            self._optimizer = torch.optim.SGD(parameters, LEARNING_RATE, MOMENTUM)
        self.scaler = torch.amp.GradScaler(call.kind, enabled=call.autocast == torch.float16)
        self._output: Any = None
        self.distance: Any = None

    @property
    def stages(self) -> Mapping[str, Callable[[], object]]:
        return dict(zip(STAGES, (self.forward, self.backward, self.update), strict=True))

    def forward(self) -> None:
        with self._call.casting():
            self._output = self._call()
            self.distance = self._loss(self._output)

    def backward(self) -> None:
        self.scaler.scale(self.distance).backward()
        self._output = self.distance = None

    def update(self) -> None:
        self.scaler.step(self._optimizer)
        self.scaler.update()
        self._optimizer.zero_grad(set_to_none=True)

    def __call__(self) -> None:
        self.forward()
        self.backward()
        self.update()

    def resident(self) -> "list[torch.Tensor]":
        """Return the tensors that stay between steps: weights, buffers, inputs, targets, the optimiser's state."""
        values = [self._call.inputs, self._call.keywords, self._loss.targets, *self._optimizer.state.values()]
        return [*self.network.parameters(), *self.network.buffers(), *held_tensors(values)]


def measure(device: Device, model: Model, cell: Cell, sampling: Sampling, beat: Callable[[], None]) -> Timing:
    """Time a forward pass without gradients, or training steps, and then trace the memory of one more.

    Call ``device.prepare`` first. Raises the exceptions of torch and ``prepare``.
    """

    def timing() -> Timing:
        call = prepare(device, model, cell)
        beat()
        run_first_call(call, cell.variant, device, beat)
        is_cold = any(part.is_cold for part in variants.parts_of(cell.variant))
        make_clear = device.cache_clearer if is_cold else lambda: None
        if isinstance(call, TrainingStep):
            timed = _measure_steps(call, device, sampling, beat, make_clear)
        else:
            stopwatch = Stopwatch(call, device.synchronize, beat=beat, events=device.events(), clear=make_clear())
            timed = sample(stopwatch, sampling, device.sensors())
        settings.check(call.held, model.name)
        return timed

    return timing() if cell.phase == STEP else without_gradients(timing)


def without_gradients(time: Callable[[], Timing]) -> Timing:
    """Time in inference mode; under ``no_grad`` a network that takes gradients itself, which inference mode forbids."""
    import torch

    try:
        with settings.preserve(), torch.inference_mode():
            return time()
    except NotImplementedError:  # a RuntimeError as well
        raise
    except RuntimeError as problem:
        if not any(word in text_of(problem).lower() for word in ("grad", "inference")):
            raise
    with torch.no_grad():
        return time()


def _measure_steps(
    step: TrainingStep,
    device: Device,
    sampling: Sampling,
    beat: Callable[[], None],
    make_clear: Callable[[], Callable[[], object] | None],
) -> Timing:
    def step_with_beats() -> None:
        for stage in step.stages.values():
            stage()
            beat()

    scale = _settle_scale(step, step_with_beats)
    stopwatch = StagedStopwatch(
        step, device.synchronize, beat=beat, events=device.events(), clear=make_clear(), stages=step.stages,
        is_asynchronous=device.is_asynchronous,
    )  # fmt: skip
    timing = sample(stopwatch, sampling, device.sensors())
    del stopwatch  # with the buffer that clears the caches, which is no memory of a step
    if step.scaler.get_scale() < scale:
        update = timing.stages[UPDATE]
        stages = {**timing.stages, UPDATE: replace(update, flags=(*update.flags, SKIPPED))}
        timing = replace(timing, flags=(*timing.flags, SKIPPED), stages=stages)
    return replace(timing, peak_byte=measure_peak_byte(step_with_beats, step.resident(), device))


def _settle_scale(step: TrainingStep, take: Callable[[], object]) -> float:
    """Take steps until one keeps the scale of the loss, which often begins too large. Return the scale.

    A step with overflowing gradients halves the scale and skips the optimiser. The scale doubles only after 2000 other
    steps, so a scale that has fallen since shows that steps were skipped. Without a scaler the scale is 1.
    """
    scale = step.scaler.get_scale()
    for _ in range(MOST_HALVINGS if step.scaler.is_enabled() else 0):
        before = scale
        take()
        scale = step.scaler.get_scale()
        if scale >= before:
            break
    return scale


def measure_peak_byte(step: Callable[[], object], resident: Iterable[Any], device: Device) -> int:
    """Return the most memory allocated during a step that has run before, workspace included.

    ``resident`` are the tensors that outlive a step. An Apple GPU gives an upper bound: the memory from Metal's driver.
    """
    import torch

    if device.kind == "cuda":
        torch.cuda.reset_peak_memory_stats(device.torch_name)
        step()
        return int(torch.cuda.max_memory_allocated(device.torch_name))
    if device.kind == "mps":  # has no peak counter, but torch keeps the memory that a step frees
        torch.mps.empty_cache()  # drops the rest of earlier steps
        step()
        device.synchronize()
        return int(torch.mps.driver_allocated_memory())
    return _trace_peak_byte(step) + sum(map(_stored_byte, resident))


def _stored_byte(tensor: "torch.Tensor") -> int:
    """Return the bytes that a tensor stores: of a sparse one, such as the momentum of sparse gradients, its parts."""
    if tensor.is_sparse:
        return int(tensor._indices().nbytes + tensor._values().nbytes)
    return int(tensor.nbytes)


def _trace_peak_byte(step: Callable[[], object]) -> int:
    """Return the most bytes allocated at once by a processor's step, without a library's allocations past torch."""
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # else it reports each start and stop
    from torch._C._profiler import _EventType
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        step()
    changes, events = [], list(profiler.profiler.kineto_results.experimental_event_tree())
    while events:
        event = events.pop()
        events += event.children
        if event.tag == _EventType.Allocation:
            changes.append((event.start_time_ns, event.extra_fields.alloc_size, event.extra_fields.ptr))
    byte, peak_byte, alive = 0, 0, set[int]()
    for _, change, address in sorted(changes):  # at the same time, releases come first
        if change > 0:
            alive.add(address)
        elif address in alive:
            alive.remove(address)
        else:  # allocated before the trace
            continue
        byte += change
        peak_byte = max(peak_byte, byte)
    return peak_byte
