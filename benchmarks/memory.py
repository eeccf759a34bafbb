"""Compares the peak memory of a step, as counted without running it, with an allocation trace.

    python benchmarks/memory.py
    python benchmarks/memory.py --device cuda --batch 64 --models 'resnet*' vit_b_32

``inference_peak_byte`` and ``training_peak_byte`` of ``Workload`` (``measure/domain/workload_records.py``) are compared
with real steps in fp32, as they are timed (``measure/timing/calls.py``): a forward pass without gradients, and the
second training step, which has momentum but no gradients yet. A step under Adam is compared with the peak of
``measure model NAME --memory --optimizer adam``. Both include the loss and its targets.

The peak is the bytes of parameters, buffers, inputs, targets and momentum, and the most allocated at once by torch's
profiler. Workspace is left out: it depends on the library behind an operator. The last column has it: it is no tensor,
and oneDNN and MKL allocate more of it past torch.

The count is a CPU's. On a GPU dropout keeps a mask of one byte an element instead of four, and attention with dropout
keeps no matrix of weights, so the audio transformers train in less. In inference torch's GRU and plain RNN on a CPU
multiply the inputs of all steps at once; the count goes step by step.
"""

import gc
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from typing import Any

import harness  # noqa: F401 - sets the import paths

from measure.counting import count
from measure.counting.memory import tensors_in
from measure.counting.step_memory import step_memory
from measure.domain.cell import Cell
from measure.domain.models import Model
from measure.domain.variants import ADAM
from measure.domain.words import EAGER, FULL_PRECISION, INFERENCE, STEP
from measure.errors import UserError
from measure.machine import devices, processor
from measure.models import catalog
from measure.run.worker import classify
from measure.timing.calls import prepare
from roofwright.command_line import CommandLine, answer

MODELS = (
    "alexnet vgg11 resnet18 resnet50 densenet121 googlenet squeezenet1_0 shufflenet_v2_x1_0 mobilenet_v2 "
    "mobilenet_v3_large efficientnet_b0 convnext_tiny fcn_resnet50 vit_b_32 swin_t torchaudio:hubert_base "
    "language:gpt2_prefill_128 language:bert_base_encode_128"
)
TOLERANCE = 0.05


@cache
def operators_with_kernels() -> frozenset[str]:
    import torch

    composite = torch._C._dispatch_get_registrations_for_dispatch_key("CompositeImplicitAutograd")
    names = {name.partition(".")[0] for name in torch._C._dispatch_get_all_op_names()}  # without overloads
    return frozenset(names - {name.partition(".")[0] for name in composite})


@dataclass
class Allocation:
    """Memory alive from ``start_ns`` to ``end_ns``, None if it outlives the trace.

    ``operators`` are the profiler's events of the operators that were running, outermost first.
    """

    byte: int
    start_ns: int
    end_ns: int | None = None
    operators: tuple[Any, ...] = ()


def peak_byte(allocations: Sequence[Allocation]) -> int:
    changes = [(each.start_ns, each.byte) for each in allocations]
    changes += [(each.end_ns, -each.byte) for each in allocations if each.end_ns is not None]
    return max(accumulate((byte for _, byte in sorted(changes)), initial=0))  # at the same time, releases come first


def trace(step: Callable[[], object], device_kind: str) -> list[Allocation]:
    """Run the step and return its allocations on a ``cpu`` or ``cuda`` device."""
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # else it reports each start and stop
    from torch._C._profiler import _EventType
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        step()
    changes = []

    def collect(events: Iterable[Any], operators: tuple[Any, ...]) -> None:
        for event in events:
            if event.tag == _EventType.Allocation and event.extra_fields.device.type == device_kind:
                changes.append((event, operators))
            collect(event.children, (*operators, event) if event.tag == _EventType.TorchOp else operators)

    collect(profiler.profiler.kineto_results.experimental_event_tree(), ())
    allocations: list[Allocation] = []
    alive: dict[int, Allocation] = {}
    for event, operators in sorted(changes, key=lambda pair: pair[0].start_time_ns):
        address, byte = event.extra_fields.ptr, event.extra_fields.alloc_size
        if byte > 0:
            alive[address] = Allocation(byte, event.start_time_ns, None, operators)
            allocations.append(alive[address])
        elif address in alive:  # else it was allocated before the trace
            alive.pop(address).end_ns = event.start_time_ns
    return allocations


def is_workspace(allocation: Allocation) -> bool:
    """Workspace is freed before the operator that allocated it returns.

    Columns of a convolution are workspace, and so are copies in a library's own layout. An operator that only calls
    others (``linear``, ``dropout``) has none.
    """
    own = (each for each in allocation.operators if each.name in operators_with_kernels())
    operator, end_ns = next(own, None), allocation.end_ns
    return operator is not None and end_ns is not None and end_ns <= operator.end_time_ns


def traced_peaks(model: Model, batch: int, device: devices.Device, phase: str, variant: str) -> tuple[int, int]:
    """Return the peak of a step after one that warms it up: without workspace, and with it."""
    import torch

    step = prepare(device, model, Cell(model.name, batch, FULL_PRECISION, phase, variant))
    with torch.set_grad_enabled(phase == STEP):
        step()
        if phase == STEP:
            resident = step.resident()
        else:
            resident = [*step.network.parameters(), *step.network.buffers(), *tensors_in(step.inputs)]
        allocations = trace(step, device.kind)
    resident_byte = sum(tensor.nbytes for tensor in resident)
    tensor_byte = peak_byte([each for each in allocations if not is_workspace(each)])
    return resident_byte + tensor_byte, resident_byte + peak_byte(allocations)


def is_within(model: Model, batch: int, device: devices.Device, name: str, counted_byte: int) -> bool:
    phase, variant = CASES[name]
    traced_byte, all_byte = traced_peaks(model, batch, device, phase, variant)
    difference = counted_byte / traced_byte - 1
    is_close = abs(difference) <= TOLERANCE
    sizes = f"{counted_byte / 1e6:9.2f} MB{traced_byte / 1e6:10.2f} MB{difference:+9.2%}{all_byte / 1e6:12.2f} MB"
    verdict = "within" if is_close else "ABOVE"
    print(f"{model.name:28}{name:11}{sizes}  {verdict} {TOLERANCE:.0%}", flush=True)
    return is_close


CASES = {
    INFERENCE: (INFERENCE, EAGER),
    STEP: (STEP, EAGER),
    ADAM: (STEP, ADAM),
}  # phase and variant, by the name printed


def main(words: Sequence[str]) -> int:
    flags = CommandLine(description="Compare counted peaks of memory with real steps: about ten minutes and 4 GB.")
    flags.add_argument("--models", nargs="+", default=MODELS.split(), metavar="NAME", help="(default: eighteen)")
    flags.add_argument("--batch", type=int, default=8, help="inputs of a step (default: %(default)s)")
    flags.add_argument("--device", default="cpu", help="cpu, cuda or cuda:N (default: %(default)s)")
    arguments = flags.parse_args(words)
    device = devices.find(arguments.device)
    if device.kind == "mps":
        raise UserError("--device: torch does not trace the allocations of mps; use cpu or cuda")
    if arguments.batch < 1:
        raise UserError(f"--batch: {arguments.batch} is not a number of inputs; use 1 or more")
    models = catalog.find(arguments.models)
    device.prepare(processor.physical_cores())
    print(f"{'model':28}{'step':11}{'counted':>12}{'traced':>13}{'error':>9}{'and workspace':>15}")
    within = Counter[str]()
    for model in models:
        try:
            row = count.count(model, arguments.batch).workload
            counted = {INFERENCE: row.inference_peak_byte, STEP: row.training_peak_byte}
            counted[ADAM] = step_memory(model, arguments.batch, optimizer=ADAM, device_kind=device.kind).peak.byte
            for name, byte in counted.items():
                within[name] += byte is not None and is_within(model, arguments.batch, device, name, byte)
        except Exception as problem:  # a network may raise anything
            failure = classify(problem)
            print(f"{model.name:28}{failure.status}: {failure.reason}", flush=True)
        gc.collect()
    print()
    for name in CASES:
        verdict = "all" if within[name] == len(models) else "NOT ALL"
        print(f"{name:11}{within[name]} of {len(models)} models within {TOLERANCE:.0%} of the traced peak, {verdict}")
    return 0


if __name__ == "__main__":
    sys.exit(answer("memory.py", lambda: main(sys.argv[1:])))
