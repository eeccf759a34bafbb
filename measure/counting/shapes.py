"""Calls operators on the meta device, each once for inputs of the same shapes.

A network calls the same operator on the same shapes many times over, and torch derives the output's shape in Python
for many operators (for a batch normalisation in about a hundred primitive steps). Only shape, strides and type of an
output matter here, so they are derived once.
"""

from contextlib import suppress
from typing import Any

import torch

Outline = tuple[torch.Size, tuple[int, ...], torch.dtype]
"""A tensor without its memory: shape, strides and type."""

_OUTLINES: dict[Any, Any] = {}


class _NotRemembered(Exception):  # noqa: N818 - an answer, not an error
    """A call whose output does not follow from shapes alone."""


def _outline(tensor: torch.Tensor) -> Outline:
    if not tensor.is_meta or type(tensor) not in (torch.Tensor, torch.nn.Parameter):
        raise _NotRemembered
    return tensor.shape, tensor.stride(), tensor.dtype


def _form(value: Any) -> Any:
    """Return, hashable, what of an argument decides the output."""
    if isinstance(value, torch.Tensor):
        return _outline(value)
    if isinstance(value, (list, tuple)):
        return tuple(map(_form, value))
    return type(value), value  # 1, 1.0 and True are equal and not the same


def _outlines(output: Any) -> Any:
    """Return an output's outlines, in a list where it has several tensors or none."""
    if isinstance(output, torch.Tensor):
        return _outline(output)
    if isinstance(output, (list, tuple)):
        return [None if part is None else _outlines(part) for part in output]
    raise _NotRemembered


def _drawn(outlines: Any) -> Any:
    """Make tensors of these outlines."""
    if isinstance(outlines, list):
        return tuple(None if part is None else _drawn(part) for part in outlines)
    shape, strides, dtype = outlines
    return torch.empty_strided(shape, strides, dtype=dtype, device="meta")


def call(operator: Any, args: Any, kwargs: Any) -> Any:
    """Call an operator that changes and aliases none of its inputs; on the meta device its output may be remade."""
    try:
        form = (operator, _form(args), tuple((name, _form(value)) for name, value in kwargs.items()))
        known = _OUTLINES.get(form)
    except (_NotRemembered, TypeError):  # TypeError: an argument that has no hash
        return operator(*args, **kwargs)
    if known is not None:
        return _drawn(known)
    output = operator(*args, **kwargs)
    with suppress(_NotRemembered):
        _OUTLINES[form] = _outlines(output)
    return output
