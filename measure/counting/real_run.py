"""Run a network once, with random inputs and weights, to count what values decide."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from measure.domain.values import si
from measure.errors import text_of
from measure.machine.container import available_memory_byte
from measure.models.call import Call, held_tensors, torch_dtype
from measure.models.draws import same_draws

if TYPE_CHECKING:
    from torch.utils._python_dispatch import TorchDispatchMode

LIMIT_S = 50  # less than the usual limit of a call in a worker, so that it ends with a reason


class LimitError(NotImplementedError):
    """A real run takes more memory or time than it may."""


@contextmanager
def real_call(bare: Call, make: Callable[[], Call], precision: str | None, autocast: str | None) -> Iterator[Call]:
    """Yield the call that ``make`` returns, which may run inside for ``LIMIT_S``. ``bare`` is it without memory.

    Random numbers are the same in every run, so the counts are too. Raises LimitError if it takes too much.
    """
    import torch

    weights = [*bare.network.parameters(), *bare.network.buffers()]
    # Networks are built in fp32 and then cast; each weight has a gradient.
    least_byte = sum(2 * tensor.numel() * max(4, tensor.element_size()) for tensor in weights)
    least_byte += sum(tensor.numel() * tensor.element_size() for tensor in held_tensors([bare.inputs, bare.keywords]))
    free_byte = available_memory_byte()
    if least_byte > free_byte:
        need = f"one real run takes {si(least_byte, 'B')} for weights, gradients and inputs"
        raise LimitError(f"{need}, and {si(free_byte, 'B')} are free")
    dtype = torch_dtype(precision) if autocast and precision else None
    try:
        with same_draws(), _time_limit(), torch.autocast(autocast or "cpu", dtype, enabled=autocast is not None):
            yield make()
    except (MemoryError, RuntimeError) as problem:
        if not isinstance(problem, MemoryError) and "allocate memory" not in text_of(problem):
            raise
        raise LimitError(f"one real run takes more memory than the {si(free_byte, 'B')} that are free") from problem


def _time_limit() -> "TorchDispatchMode":
    """Return a context that raises LimitError at the first operator after ``LIMIT_S``, in either pass."""
    from torch.utils._python_dispatch import TorchDispatchMode

    end = time.monotonic() + LIMIT_S

    class TimeLimit(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if time.monotonic() > end:
                remedy = "name fewer tokens or inputs, or count it with --force while the machine is idle"
                raise LimitError(f"one real run takes longer than {LIMIT_S} s; {remedy}")
            return func(*args, **(kwargs or {}))

    return TimeLimit()
