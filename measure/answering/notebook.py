"""The answer about a network that is at hand in Python: ``measure.model(network, inputs)``."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache, partial
from html import escape
from typing import TYPE_CHECKING, Any

from measure.answering import roofline_picture, text
from measure.answering.answer import Answer
from measure.answering.demands import demands, layer_demands, reached
from measure.cache.call import Call
from measure.cache.models import OWN, Model
from measure.cache.rates import Rates, measured
from measure.cache.records import Cell, RoofMeasurement
from measure.cache.words import EAGER, INFERENCE
from measure.cache.workload_records import Layer, Workload
from measure.cli.tables import aligned
from measure.counting.count import count_network, identity
from measure.domain.cells import timed_cell
from measure.machine import devices
from measure.machine.device import Device
from measure.machine.environment import current
from measure.models import meta
from measure.models.casting import torch_dtype
from measure.roofs import roofs
from measure.timing.sampling import QUICK_ROUND, Timing, sample
from measure.timing.stopwatch import Stopwatch

if TYPE_CHECKING:
    import torch
    from torch import nn

PRECISIONS = ("fp32", "fp16", "bf16")


class NotebookAnswer(Answer):
    """An answer that shows itself: as text where it is printed, as a table and a roofline in a notebook."""

    def __str__(self) -> str:
        return "\n".join(
            [*text.heading(self, aligned), "", *text.lines(self, aligned, with_layers=False, data_flag="")]
        )

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """Return what a notebook shows."""
        return f"<pre>{escape(str(self))}</pre>{roofline_picture.svg(self)}"

    @property
    def layer_table(self) -> str:
        """The layers in the order in which they run, as text."""
        return "\n".join(text.layer_lines(self.layers, aligned))


def model(network: "nn.Module", inputs: Any, name: str | None = None) -> NotebookAnswer:
    """Count a network, time its forward pass where it is, and hold it against this machine's roof.

    ``inputs`` are a tensor, a tuple of arguments or a dictionary of keyword arguments, on the network's device; the
    first dimension of the first tensor is the batch. The network runs in eval mode without gradients, and is left as
    it was. The roof is measured once in a process. Nothing is written.

    Raises ValueError for inputs without a tensor, and a network without floating-point parameters of 16 or 32 bits.
    """
    import torch

    call = _call(network, inputs)
    first = next(each for each in _tensors((call.inputs, call.keywords)))
    device, precision = devices.find(_device_name(first)), _precision(network)
    named = Model(name or type(network).__name__, OWN, OWN, tuple(first.shape[1:]) or (1,))
    batch = first.shape[0] if first.ndim else 1
    columns, layers, _ = _counted(call)
    key = identity(named, batch, precision, None)
    workload = Workload(source=OWN, family=OWN, status="ok", **key, **columns)
    rates = _rates(device.torch_name, precision)
    asked = demands([workload], rates, [precision])
    timing, cell = _timed(call, device), Cell(named.name, batch, precision, INFERENCE, EAGER)
    environment = current(device, torch.get_num_threads())
    return NotebookAnswer(
        model=named.name,
        input_shape=workload.input_shape,
        environment=environment,
        rates=rates,
        demands=asked,
        cells=reached([timed_cell(cell, [timing.latencies_s], timing.flags, workload.input_shape)], asked),
        layers=layer_demands([Layer(**key, **layer) for layer in layers], precision, rates, []),
        advice=None,
    )


def _call(network: "nn.Module", inputs: Any) -> Call:
    if isinstance(inputs, Mapping):
        call = Call(network, (), dict(inputs))
    else:
        call = Call(network, tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,))
    if not any(True for _ in _tensors((call.inputs, call.keywords))):
        raise ValueError("inputs hold no tensor; give a tensor, a tuple of arguments or a dictionary of keywords")
    return call


def _tensors(value: Any) -> "Iterator[torch.Tensor]":
    import torch

    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, Mapping):
        yield from _tensors(tuple(value.values()))
    elif isinstance(value, (tuple, list)):
        for part in value:
            yield from _tensors(part)


def _device_name(tensor: "torch.Tensor") -> str:
    kind, index = tensor.device.type, tensor.device.index
    return f"{kind}:{index or 0}" if kind == "cuda" else kind


def _precision(network: "nn.Module") -> str:
    types = {parameter.dtype for parameter in network.parameters()}
    for name in PRECISIONS:
        if torch_dtype(name) in types:
            return name
    raise ValueError(f"the network's parameters are none of {', '.join(PRECISIONS)}; convert it, or count it alone")


def _counted(call: Call) -> tuple[dict[str, Any], list[dict[str, Any]], list[dict[str, Any]]]:
    hollow = meta.copied(call)
    return count_network(hollow.network.eval(), hollow.inputs, hollow.keywords)


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
def _rates(torch_name: str, precision: str) -> Rates:
    """Measure a first roof at a precision, as far as its kernels run here."""
    device = devices.find(torch_name)
    rows = []
    with _settings_kept(device):
        for kernel, of, size, pace, number in roofs.first_kernels(device.kind, (precision,)):
            try:
                timing = roofs.measure(device, kernel, of, size, pace, lambda: None)
            except NotImplementedError:
                continue
            flop, byte = roofs.flop_and_byte(kernel, of, size)
            named: dict[str, Any] = {
                "environment_id": "",
                "roof_kernel": kernel,
                "precision": of,
                "size": size,
                "pace": pace,
            }
            work: dict[str, Any] = {"flop": flop, "byte": byte, "status": "ok", "reason": None, "round": number}
            rows.append(RoofMeasurement(**named, **work, **timing._asdict()))
    return measured(rows)


@contextmanager
def _settings_kept(device: Device) -> Iterator[None]:
    """Put torch's settings back that measuring a roof changes."""
    import torch

    if device.kind != "cuda":
        yield
        return
    before = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = before
