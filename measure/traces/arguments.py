"""Call an operator again, without memory, on the shapes, types and strides that a trace records of its arguments.

A trace names an operator without its overload, and writes numbers as texts. It records no tensors in lists of optional
tensors (indices), none in long lists, no texts (the approximation of GELU) and, in lists, no types. Before torch 2.0 it
records no numbers either: an operator that needs one to be counted then has no counts.
"""

import math
from contextlib import suppress
from functools import cache
from typing import Any

import torch

from measure.counting.memory import Overload, overload_of, tensors_in
from measure.counting.outputs import call
from measure.traces.reading import Signature, literal

TYPES = {
    "bool": torch.bool, "unsigned char": torch.uint8, "signed char": torch.int8, "char": torch.int8,
    "short": torch.int16, "short int": torch.int16, "int": torch.int32, "long": torch.int64, "long int": torch.int64,
    "long long": torch.int64, "__int64": torch.int64, "c10::Half": torch.float16, "c10::BFloat16": torch.bfloat16,
    "float": torch.float32, "double": torch.float64, "c10::complex<float>": torch.complex64,
    "c10::complex<double>": torch.complex128, "c10::Float8_e4m3fn": torch.float8_e4m3fn,
    "c10::Float8_e4m3fnuz": torch.float8_e4m3fnuz, "c10::Float8_e5m2": torch.float8_e5m2,
    "c10::Float8_e5m2fnuz": torch.float8_e5m2fnuz,
}  # fmt: skip
# Types by their numbers (c10/core/ScalarType.h)
NUMBERS = {
    0: torch.uint8, 1: torch.int8, 2: torch.int16, 3: torch.int32, 4: torch.int64, 5: torch.float16, 6: torch.float32,
    7: torch.float64, 9: torch.complex64, 10: torch.complex128, 11: torch.bool, 15: torch.bfloat16,
    23: torch.float8_e5m2, 24: torch.float8_e4m3fn, 25: torch.float8_e5m2fnuz, 26: torch.float8_e4m3fnuz,
}  # fmt: skip
# Arguments that change neither work nor sizes, and need hardware or a layout that meta tensors lack
DROPPED = ("device", "layout", "memory_format", "generator", "pin_memory")
SCALARS = {"bool": bool, "int": int}  # types of numbers that tell overloads apart
FREE = ("number", "float", "str")  # arguments of these types, such as a scale, change neither work nor sizes
MOST_ELEMENTS = 2**48  # a larger tensor is a damaged record


class _MismatchError(Exception):
    """The recorded arguments do not fit an overload, or one that it needs is not recorded."""


def recorded_tensors(signature: Signature, listed: torch.dtype) -> list[torch.Tensor]:
    """Return the recorded tensors on the meta device. In lists their type is ``listed``."""
    found: list[torch.Tensor] = []
    for place, name in enumerate(signature.types):
        if _type(name) is not None or name == "TensorList" or isinstance(name, list):
            with suppress(_MismatchError):
                found += tensors_in(_tensors(signature, place, listed))
    return found


def call_again(
    name: str, signature: Signature, listed: torch.dtype
) -> tuple[Overload, list[Any], dict[str, Any], Any] | None:
    """Return the first overload that takes the recorded arguments, with them and its output; None if none does."""
    for operator in _overloads(name):
        try:
            overload = overload_of(operator)
            if overload.is_composite or overload.is_ignored:
                continue
            args, kwargs = _bind(operator._schema.arguments, signature, listed)
            return overload, args, kwargs, call(operator, overload, args, kwargs)
        except Exception:  # the next overload may fit; an operator raises anything for arguments that it does not take
            continue
    return None


def lacks_list(name: str, signature: Signature) -> bool:
    """Return whether an operator takes a list of tensors that torch records as empty: indices, or over 30 tensors."""
    return any(
        "Tensor" in str(argument.type) and "List[" in str(argument.type) and not shapes
        for operator in _overloads(name)
        for argument, shapes in zip(operator._schema.arguments, signature.shapes, strict=False)
    )


def lacks_numbers(name: str, signature: Signature) -> bool:
    """Return whether an operator takes numbers and the trace records none of them."""
    return not signature.values and any(
        "Tensor" not in str(argument.type) for operator in _overloads(name) for argument in operator._schema.arguments
    )


@cache
def is_view(name: str) -> bool:
    """Return whether an operator only makes a view, which moves nothing."""
    for operator in _overloads(name):
        with suppress(RuntimeError):  # the interpreter of TorchScript has overloads of its own
            overload = overload_of(operator)
            if overload.is_ignored and not overload.is_composite:
                return True
    return False


@cache
def _overloads(name: str) -> list[Any]:
    # A file may name anything, such as load_library::__func__: only operators are looked up.
    namespace, _, operator = name.partition("::")
    is_name = namespace.isidentifier() and operator.isidentifier()
    if not is_name or not torch._C._jit_get_schemas_for_operator(name):
        return []
    packet = getattr(getattr(torch.ops, namespace), operator)
    return [getattr(packet, each) for each in packet.overloads()]


def _bind(arguments: list[Any], signature: Signature, listed: torch.dtype) -> tuple[list[Any], dict[str, Any]]:
    """Return positional and keyword arguments. Raises _MismatchError if they do not fit."""
    recorded = len(signature.types)
    if recorded > len(arguments):
        raise _MismatchError
    args, kwargs = [], {}
    makes_tensors = not any("Tensor" in str(each.type) for each in arguments)
    for place, argument in enumerate(arguments):
        if argument.name in DROPPED:
            if argument.name == "device" and makes_tensors:
                kwargs["device"] = "meta"
            elif not argument.kwarg_only and argument.name != "memory_format":
                raise _MismatchError
            continue
        value = _value(argument, signature, place, listed) if place < recorded else _default(argument)
        if argument.kwarg_only:
            kwargs[argument.name] = value
        else:
            args.append(value)
    return args, kwargs


def _default(argument: Any) -> Any:
    if argument.has_default_value():
        return argument.default_value
    if str(argument.type).startswith("Optional["):
        return None
    raise _MismatchError


def _value(argument: Any, signature: Signature, place: int, listed: torch.dtype) -> Any:
    wanted, type_name = str(argument.type), signature.types[place]
    inner = wanted.removeprefix("Optional[").removesuffix("]") if wanted.startswith("Optional[") else wanted
    is_free = inner in FREE or argument.name == "non_blocking"
    if not signature.values and "Tensor" not in inner:
        if is_free:
            return _default(argument)
        raise _MismatchError
    if type_name == "":  # None, or a tensor that is not defined
        return torch.empty(0, device="meta") if wanted == "Tensor" else _default(argument)
    if inner in ("Tensor", "List[Tensor]"):
        if (inner == "Tensor") != (_type(type_name) is not None):
            raise _MismatchError
        return _tensors(signature, place, listed)
    if "Tensor" in inner or type_name not in ("Scalar", "ScalarList"):
        raise _MismatchError
    text = signature.values[place] if place < len(signature.values) else None
    value: Any = literal(text) if isinstance(text, str) and len(text) < 10_000 else None
    if type(value) not in (bool, int, float, list):
        if is_free:
            return _default(argument)
        raise _MismatchError
    if inner.startswith("List[") != isinstance(value, list):
        raise _MismatchError
    if inner in SCALARS and not issubclass(type(value), SCALARS[inner]):
        raise _MismatchError
    return NUMBERS[value] if argument.name in ("dtype", "out_dtype") else value


def _type(name: Any) -> torch.dtype | None:
    """Return the type of a recorded tensor; None for another argument's name."""
    return TYPES.get(name) if isinstance(name, str) else None


def _tensors(signature: Signature, place: int, listed: torch.dtype) -> Any:
    """Return the tensor at a place, or the list of tensors. Raises _MismatchError if it is not recorded."""
    if place >= len(signature.shapes):
        raise _MismatchError
    shape, names = signature.shapes[place], signature.types[place]
    strides = signature.strides[place] if place < len(signature.strides) else None
    if (dtype := _type(names)) is not None:
        return _tensor(shape, strides, dtype)
    # A long list is recorded empty, and all of a call's lists are long then.
    if not isinstance(shape, list) or not any(signature.shapes):
        raise _MismatchError
    count = len(shape)
    each_strides, each_name = (
        found if isinstance(found, list) and len(found) == count else [None] * count for found in (strides, names)
    )
    return [_tensor(shape[n], each_strides[n], _type(each_name[n]) or listed) for n in range(count)]


def _are_sizes(value: Any) -> bool:
    return isinstance(value, list) and all(type(each) is int and 0 <= each < MOST_ELEMENTS for each in value)


def _tensor(shape: Any, strides: Any, dtype: torch.dtype) -> torch.Tensor:
    if not _are_sizes(shape) or math.prod(shape) > MOST_ELEMENTS:
        raise _MismatchError
    if _are_sizes(strides) and len(strides) == len(shape):
        return torch.empty_strided(shape, strides, dtype=dtype, device="meta")
    return torch.empty(shape, dtype=dtype, device="meta")
