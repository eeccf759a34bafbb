"""Call operators without memory: on tensors of the meta device, or on fake ones, which name a device.

Fake tensors serve networks that fail on the meta device. Their outputs are derived there too, so that both give the
same counts. Small tensors that depend on no input and no weight keep their values: a network may read them.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor, unset_fake_temporarily
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import _disable_current_modes

from measure.counting.fused import transcription_output
from measure.counting.memory import STRIDED, Overload, parts_of, storage_key, tensors_in
from measure.counting.products import grouped_output
from measure.models.tensors import KNOWN_ELEMENTS, map_tensors

# A network calls the same operator on the same shapes many times, and torch derives many output shapes in Python (a
# batch normalisation takes about a hundred primitive steps). Only shape, strides and type of an output matter here, so
# each is derived once.
_OUTPUTS: dict[Any, Any] = {}  # copies of outputs on the meta device, by operator and outlines of arguments

ANSWERS = {
    torch.isfinite: True, torch.Tensor.isfinite: True, torch.isinf: False, torch.Tensor.isinf: False,
    torch.isnan: False, torch.Tensor.isnan: False,
}  # fmt: skip


def _is_plain(tensor: torch.Tensor) -> bool:
    return tensor.is_meta and type(tensor) in (torch.Tensor, nn.Parameter)


def _outline(value: Any) -> Any:
    """Return a hashable form of an argument. Raises TypeError for a tensor with values, which may matter."""
    if isinstance(value, torch.Tensor):
        if not _is_plain(value):
            raise TypeError("not a plain tensor on the meta device")
        return value.shape, value.stride(), value.dtype
    if isinstance(value, (list, tuple)):
        return tuple(map(_outline, value))
    return type(value), value  # 1, 1.0 and True are equal, but differ in type


def _hollow(value: Any) -> Any:
    """Replace the tensors of a value by tensors on the meta device without memory."""
    return map_tensors(value, lambda one: torch.empty_strided(one.shape, one.stride(), dtype=one.dtype, device="meta"))


def _batch_norm(inputs: torch.Tensor, *_rest: Any) -> tuple[torch.Tensor, ...]:
    dtype = torch.promote_types(inputs.dtype, torch.float32)
    return torch.empty_like(inputs), *(inputs.new_empty(inputs.shape[1], dtype=dtype) for _ in range(2))


def _batch_norm_backward(gradient: torch.Tensor, inputs: torch.Tensor, *rest: Any) -> tuple[torch.Tensor | None, ...]:
    if gradient.stride() != inputs.stride():
        return torch.ops.aten.native_batch_norm_backward.default(gradient, inputs, *rest)
    scale, mask = rest[0], rest[-1]
    dtype = inputs.dtype if scale is None else scale.dtype
    parts = (torch.empty_like(inputs), *(inputs.new_empty(inputs.shape[1], dtype=dtype) for _ in range(2)))
    return tuple(part if wanted else None for part, wanted in zip(parts, mask, strict=True))


# Outputs that torch derives slowly or not at all. It takes batch normalisation apart into a hundred steps, and refuses
# one value a channel. Its rule for grouped products allows bf16 alone. The states of a loss over sequences depend on
# their lengths.
SHAPES = {
    torch.ops.aten._grouped_mm.default: grouped_output,
    torch.ops.aten._ctc_loss.Tensor: transcription_output,
    torch.ops.aten.native_batch_norm.default: _batch_norm,
    torch.ops.aten.native_batch_norm_backward.default: _batch_norm_backward,
}


def _is_sparse(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.layout is not STRIDED


def _made(indices: torch.Tensor, values: torch.Tensor, shape: torch.Size) -> torch.Tensor:
    return torch.sparse_coo_tensor(indices, values, shape, check_invariants=False)


def _joined(*tensors: Any) -> torch.Tensor | None:
    """Add sparse tensors, or copy one, by joining their elements."""
    if not all(map(_is_sparse, tensors)):
        return None
    indices, values = zip(*map(parts_of, tensors), strict=True)
    return _made(torch.cat(indices, 1), torch.cat(values), tensors[0].shape)


def _like(tensor: Any, other: Any = None, *_options: Any) -> torch.Tensor | None:
    """Make other values at the same places: under a mask, or for a sparse tensor by a number."""
    sparse = other if _is_sparse(other) else tensor
    indices, values = parts_of(sparse)
    return _made(indices, torch.empty_like(values), sparse.shape)


# Outputs of operators on sparse tensors without memory; torch's own are empty. Equal places are not joined.
SPARSE_OUTPUTS: dict[str, Callable[..., torch.Tensor | None]] = {
    **dict.fromkeys(("clone", "_coalesce", "add"), _joined),
    **dict.fromkeys(("sparse_mask", "mul", "div", "neg", "_sparse_softmax"), _like),
    "detach": lambda tensor: _made(parts_of(tensor)[0], parts_of(tensor)[1], tensor.shape),
    "t": lambda tensor: _made(parts_of(tensor)[0].flip(0), parts_of(tensor)[1], tensor.shape[::-1]),
}
MAKERS = ("_sparse_coo_tensor_with_dims_and_tensors", "sparse_compressed_tensor")


def _sparse_output(name: str, args: Any) -> torch.Tensor | None:
    """Make the output of an operator on sparse tensors in coordinates; None if torch can."""
    is_sparse = any(isinstance(each, torch.Tensor) and each.layout is torch.sparse_coo for each in args)
    return SPARSE_OUTPUTS[name](*args) if is_sparse and name in SPARSE_OUTPUTS else None


def call(operator: Any, overload: Overload, args: Any, kwargs: Any) -> Any:
    """Call an operator. On the meta device, equal calls that neither change nor alias their inputs run once."""
    if (found := _sparse_output(overload.name, args)) is not None:
        return found
    if not overload.is_pure:
        return operator(*args, **kwargs)
    try:
        key = operator, _outline(args), _outline(list(kwargs.items()))
        if key in _OUTPUTS:
            return _hollow(_OUTPUTS[key])
    except (TypeError, NotImplementedError):  # also an argument without a hash, or that cannot be compared
        return operator(*args, **kwargs)
    output = SHAPES.get(operator, operator)(*args, **kwargs)
    if all(map(_is_plain, tensors_in(output))):
        _OUTPUTS[key] = _hollow(output)
    return output


class UsualValues(TorchFunctionMode):
    """Answer that all values are finite. Some networks ask, to guard against overflow (DETR, Switch)."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        output = func(*args, **(kwargs or {}))
        if func in ANSWERS and isinstance(output, FakeTensor) and output.device.type == "cpu":
            with _disable_current_modes():
                return torch.full((), ANSWERS[func]).expand(output.shape)
        return output


def _unviewed(tensor: Any) -> Any:
    """Return a transposed sparse matrix of rows or columns as no view, which fake tensors refuse."""
    if tensor.layout not in (torch.sparse_csr, torch.sparse_csc) or isinstance(tensor, FakeTensor):
        return tensor
    with unset_fake_temporarily():
        parts = parts_of(tensor)
        return torch.sparse_compressed_tensor(*parts, tensor.shape, layout=tensor.layout, check_invariants=False)


class FakeCalls:
    """Calls operators under torch's ``FakeTensorMode``. ``device`` is where the network's tensors claim to be."""

    def __init__(self, mode: Any, device: torch.device) -> None:
        self._mode, self._device = mode, device
        self._changed: dict[int, Any] = {}  # tensors with memory that an unknown value was written to, by storage

    def call(self, operator: Any, overload: Overload, args: Any, kwargs: Any) -> Any:
        if (found := _sparse_output(overload.name, args)) is not None:
            return found
        tensors = tensors_in([args, kwargs])
        is_derived = overload.is_pure and not overload.is_ignored  # the device is asked for by prim::device
        derived = self._derive(operator, overload, args, kwargs) if is_derived else None
        if all(map(self._has_values, tensors)) and all(each.numel() <= KNOWN_ELEMENTS for each in tensors_in(derived)):
            with unset_fake_temporarily():
                return operator(*args, **kwargs)
        for each in overload.changed(args, kwargs):
            if not isinstance(each, FakeTensor):
                self._changed[storage_key(each)] = each.untyped_storage()
        if derived is None:
            output = operator(*map_tensors(args, _unviewed), **kwargs)
            if _is_sparse(output) and overload.name not in MAKERS:
                raise NotImplementedError("how many elements its sparse output has depends on values; use to_dense()")
            return output
        return map_tensors(derived, lambda one: FakeTensor(self._mode, one, self._device) if one.is_meta else one)

    def _has_values(self, tensor: torch.Tensor) -> bool:
        return not isinstance(tensor, FakeTensor) and storage_key(tensor) not in self._changed

    def _derive(self, operator: Any, overload: Overload, args: Any, kwargs: Any) -> Any:
        """Make an operator's output on the meta device; None if it depends on unknown values."""
        with unset_fake_temporarily():
            named = {**_hollow(kwargs), **({"device": "meta"} if "device" in kwargs else {})}
            with suppress(Exception):  # the operator itself says why, and names its own arguments
                return call(operator, overload, _hollow(args), named)
            with suppress(Exception):  # lengths of sequences, for example, are read
                return operator(*map_tensors(args, lambda one: one if self._has_values(one) else _hollow(one)), **named)
        return None
