"""The work, bytes, precision and shape of an operator's call in a trace, by the formulas that count models.

The outermost operator with a formula carries the counts of all that it calls, as in ``counting``.
"""

import re
from collections import Counter
from typing import NamedTuple

import torch

from measure.counting import recorder  # noqa: F401 - registers the formulas
from measure.counting.formulas import NOTHING, Work, formula_of
from measure.counting.memory import tensor_byte, tensors_in
from measure.domain.words import shape_name
from measure.traces.arguments import TYPES, call_again, is_view, lacks_list, lacks_numbers, recorded_tensors
from measure.traces.matching import NODES, callers
from measure.traces.reading import OperatorEvent, Signature, Trace

PRECISIONS = {
    torch.float64: "fp64", torch.float32: "fp32", torch.float16: "fp16", torch.bfloat16: "bf16",
    torch.float8_e4m3fn: "fp8", torch.float8_e4m3fnuz: "fp8", torch.float8_e5m2: "fp8", torch.float8_e5m2fnuz: "fp8",
}  # fmt: skip
# Bytes moved per byte of the arguments: 2 if a collective overwrites its input, 1 if its output is an argument too.
COLLECTIVES = {
    "c10d::allreduce_": 2, "c10d::broadcast_": 2, "c10d::allreduce_coalesced_": 2, "c10d::reduce_": 2,
    "symm_mem::multimem_all_reduce_": 2, "vllm::all_reduce": 2, "_c10d_functional::all_reduce": 2,
    "c10d::_allgather_base_": 1, "c10d::_reduce_scatter_base_": 1, "c10d::alltoall_base_": 1,
}  # fmt: skip
NCCL = "nccl::"  # begins the name of the range in which such an operator launches its kernels
GLOO = "gloo::"  # begins the name of a collective on a thread of its own, which an operator of ``COLLECTIVES`` starts
# The places of the groups and of the input among the arguments
CONVOLUTIONS = {"aten::convolution": (8, 0), "aten::_convolution": (8, 0), "aten::convolution_backward": (9, 1)}
TRITON = re.compile(r"triton_\w+")  # Inductor's kernels, which are operators of their own
FUSED = re.compile(r"triton_(poi|red|per)_\w+")  # elementwise or reducing: they multiply no matrices
MOST_SHAPES = 4  # the most tensors in a group's shape

# Why an operator has no counts
NO_FORMULA = "no formula"
NO_LIST = "the tensors of its list were not recorded"
NO_SHAPES = "the trace records no shapes"
NO_NUMBERS = "the trace records no numbers"


class CallCounts(NamedTuple):
    """The counts of one call; ``work`` and ``byte`` are None if they are unknown."""

    work: Work | None
    byte: int | None
    precision: str | None
    shape: str
    groups: int = 1  # of a convolution
    channels: int = 0  # its input's
    reason: str | None = None  # why they are unknown
    is_fused: bool = False  # multiplies no matrices; its bytes are known, its work is not


class CallCounter:
    """Counts the calls of one trace; equal calls once."""

    def __init__(self, trace: Trace) -> None:
        # Tensors in lists have no recorded type: they count as the trace's most frequent floating-point type.
        names: Counter[str] = Counter()
        for each in trace.operators:
            names.update(name for name in each.signature.types if isinstance(name, str) and name in TYPES)
        floats = (TYPES[name] for name, _ in names.most_common() if TYPES[name].is_floating_point)
        self._listed = next(floats, torch.float32)
        self._counts: dict[tuple[str, int], CallCounts] = {}
        self._has_shapes = trace.has_shapes

    def carrier(self, operator: OperatorEvent) -> tuple[OperatorEvent, CallCounts]:
        """Return the operator that carries the counts of ``operator``, and these counts.

        It is the outermost caller with counts, or without shapes with a formula. If there is none, it is the outermost
        call, autograd's nodes and torch's wrappers left out.
        """
        chain = [each for each in callers(operator) if "::" in each.name or TRITON.fullmatch(each.name)]
        chain = [each for each in chain if not each.name.startswith(NODES)]
        for each in reversed(chain):
            counts = self.of(each)
            if counts.work is not None or (not self._has_shapes and formula_of(each.name) is not None):
                return each, counts
        own = next((each for each in reversed(chain) if not each.name.startswith("aten::")), None)
        found = own or next(iter(chain), operator)
        return found, self.of(found)

    def message_byte(self, operator: OperatorEvent) -> int | None:
        """Return the bytes of what a collective sends or receives, whichever is more; None for another operator."""
        name = operator.name
        if name not in COLLECTIVES and not name.startswith((GLOO, NCCL)):
            return None
        sizes = [tensor_byte(each) for each in recorded_tensors(operator.signature, self._listed)]
        if not sizes:
            return None
        return max(sizes) if COLLECTIVES.get(name) == 1 else sum(sizes)  # 1: input and output are two tensors

    def of(self, operator: OperatorEvent) -> CallCounts:
        key = operator.name, id(operator.signature)
        if key not in self._counts:
            self._counts[key] = self._count(operator.name, operator.signature)
        return self._counts[key]

    def _count(self, name: str, signature: Signature) -> CallCounts:
        if not self._has_shapes:
            return CallCounts(None, None, None, "", reason=NO_SHAPES)
        tensors = recorded_tensors(signature, self._listed)
        precision = next((PRECISIONS[each.dtype] for each in tensors if each.dtype in PRECISIONS), None)
        shape = " ".join(shape_name(each.shape) or "1" for each in tensors[:MOST_SHAPES])
        if name in COLLECTIVES or name.startswith((GLOO, NCCL)):
            if not tensors:
                return CallCounts(None, None, precision, shape, reason=NO_LIST)
            passes = COLLECTIVES.get(name, 2)  # the ranges have one list of tensors, which is overwritten
            return CallCounts(NOTHING, passes * sum(map(tensor_byte, tensors)), precision, shape)
        if TRITON.fullmatch(name):  # it reads and writes its tensors
            work = None if signature.flop is None else Work(signature.flop)
            byte = signature.byte or sum(map(tensor_byte, tensors)) or None
            is_fused = work is None and byte is not None and FUSED.fullmatch(name) is not None
            reason = NO_FORMULA if work is None and not is_fused else None
            return CallCounts(work, byte, precision, shape, reason=reason, is_fused=is_fused)
        if is_view(name):
            return CallCounts(NOTHING, 0, precision, shape)
        reason = NO_FORMULA
        if lacks_list(name, signature):
            reason = NO_LIST
        elif formula_of(name) is not None and lacks_numbers(name, signature):
            reason = NO_NUMBERS
        unknown = CallCounts(None, None, precision, shape, reason=reason)
        if formula_of(name) is None and any(each.is_floating_point() for each in tensors):
            return unknown
        called = call_again(name, signature, self._listed)
        if called is None:
            return unknown
        overload, args, kwargs, output = called
        inputs, outputs = tensors_in([args, kwargs]), tensors_in(output)
        work = overload.work(args, kwargs, output, inputs + outputs)
        if work is None:
            return unknown
        byte = sum(byte for _, byte, _ in overload.touches(args, kwargs, inputs, outputs))
        groups, channels = 1, 0
        if name in CONVOLUTIONS:
            place, of_input = CONVOLUTIONS[name]
            groups, channels = args[place], args[of_input].shape[1]
        return CallCounts(work, byte, precision, shape, groups, channels)
