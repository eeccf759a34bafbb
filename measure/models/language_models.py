"""Language models of common sizes, a model for each task and number of tokens (``measure.cache.language``).

The networks are written in ``transformers``, after their papers, with the sizes that were published with their weights.
"""

import fnmatch
from typing import TYPE_CHECKING, Any

from measure.cache.language import DECODE, SIZES, Task, task_of
from measure.cache.models import Model

if TYPE_CHECKING:
    import torch
    from torch import nn

LENGTHS = (128, 512, 2048)
"""The tokens that globs select; any other number can be named."""

SOURCE = FAMILY = "language"


def matching(pattern: str) -> list[str]:
    """Return the name, whatever its number of tokens, or what a glob selects among the usual ones."""
    if task_of(pattern):
        return [pattern]
    known = [
        f"{name}_{phase}_{length}"
        for name, size in SIZES.items()
        for phase in size.phases
        for length in LENGTHS
        if length + (phase == DECODE) <= size.positions
    ]
    return fnmatch.filter(known, pattern)


def describe(name: str) -> Model:
    return Model(name, SOURCE, FAMILY, native_shape(name))


def native_shape(name: str) -> tuple[int, ...]:
    """Return how many tokens a call reads."""
    return (_task(name).read,)


def _task(name: str) -> Task:
    task = task_of(name)
    assert task is not None, name
    return task


def build(model: Model) -> "nn.Module":
    """Build the network with random weights."""
    from measure.models import transformers

    task = _task(model.name)
    return transformers.build(model.name.partition(f"_{task.phase}_")[0], task)


def make_inputs(model: Model, batch: int, device: str, dtype: "torch.dtype | None") -> tuple[Any, ...]:
    """Return random tokens; to decode also the cache: (layers, keys and values, batch, heads, positions, width)."""
    import torch

    task = _task(model.name)
    tokens = torch.randint(task.size.vocabulary, (batch, *model.input_shape), device=device)
    if task.phase != DECODE:
        return (tokens,)
    size = task.size
    shape = (size.depth, 2, batch, size.key_heads, task.positions, size.width // size.heads)
    return tokens, torch.randn(shape, device=device, dtype=dtype)
