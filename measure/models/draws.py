"""Random numbers that are the same in each run, from Python, NumPy and torch on the CPU.

Global generators, the generators in a user's code, new ones without a seed, and the system's (``os.urandom``,
``secrets``) all get the same state: they are Mersenne Twisters, or become one for a while. The global generator draws
for each ``torch.Generator`` while a network is recorded (``measure/counting/recorder.py``).
"""

import gc
import os
import random
import struct
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from types import CodeType, FunctionType, ModuleType
from typing import Any

WORDS = 624  # of 32 bits in the state of a Mersenne Twister, which reads them one by one before it makes new ones
LOWEST, HIGHEST = 0, 0x12DD9BB3  # a word of the state that is read as 32 zeros, or as 32 ones
PINNED = WORDS // 2  # so many words only: an algorithm that draws until it accepts a number must end
# Packages that draw from the global generators alone
LIBRARIES = {*sys.stdlib_module_names, "numpy", "torch", "torchvision", "torchaudio", "timm", "transformers", "measure"}


class Draws:
    """Whether a number was drawn: ``made`` is set when the context ends."""

    made = False


@cache
def _state(pin: int | None) -> tuple[tuple[int, ...], bytes]:
    """Return the words of a generator that has drawn nothing, and torch's state of it."""
    import torch

    words = list(random.Random(0).getstate()[1][:WORDS])
    if pin is not None:
        words[:PINNED] = [pin] * PINNED
    state = bytearray(torch.Generator().manual_seed(0).get_state().numpy().tobytes())
    # After the seed: the words left and one, that it is seeded, the next word. It takes no state with all words left.
    struct.pack_into(f"=iiQ{WORDS}Q", state, 8, WORDS, 1, 1, *words)
    return tuple(words), bytes(state)


def _is_own(value: Any) -> bool:
    """Whether a class, function or module is a user's."""
    return str(getattr(value, "__module__", value.__name__)).partition(".")[0] not in LIBRARIES


def _held_generators(root: Any) -> list[Any]:
    """Return the generators of Python and NumPy that a network or function holds or names, in globals and closures."""
    import numpy as np
    import torch

    found, seen, left = [], {}, [root]
    while left:
        value = left.pop()
        if id(value) in seen or isinstance(value, (str, int, float, torch.Tensor)):
            continue
        seen[id(value)] = value
        if isinstance(value, (random.Random, np.random.Generator, np.random.RandomState)):
            found.append(value)
        elif isinstance(value, FunctionType) and _is_own(value):
            names = _names(value.__code__)
            globals_ = [value.__globals__[name] for name in names & value.__globals__.keys()]
            modules = [each for each in globals_ if isinstance(each, ModuleType) and _is_own(each)]
            left += [*globals_, *(vars(each).get(name) for each in modules for name in names)]
            left += [value.__closure__, value.__defaults__, value.__kwdefaults__, vars(value)]
        elif isinstance(value, type) and _is_own(value):
            left += [*vars(value).values(), *value.__bases__]
        elif isinstance(value, torch.nn.Module) and not _is_own(type(value)):  # a user may have changed it
            left += [*value._modules.values(), value._forward_hooks, value._forward_pre_hooks]
            left.append(vars(value).get("forward"))
        elif not isinstance(value, (FunctionType, ModuleType, type)):
            left += gc.get_referents(value)
    return found


def _names(code: CodeType) -> set[str]:
    """Return the names of globals and attributes in a function and in its inner functions."""
    return {*code.co_names}.union(*(_names(each) for each in code.co_consts if isinstance(each, CodeType)))


def _hold(generator: Any, words: tuple[int, ...]) -> tuple[Callable[[], bool], Callable[[], None]]:
    """Set the state of a generator. Return two functions: whether it has drawn since, and one to restore its state."""
    import numpy as np

    before: Any
    key = np.array(words, np.uint32)
    if isinstance(generator, random.Random):
        before = generator.getstate()
        generator.setstate((3, (*words, 0), None))
        return lambda: generator.getstate()[1] != (*words, 0), lambda: generator.setstate(before)
    if isinstance(generator, np.random.RandomState) and isinstance(generator._bit_generator, np.random.MT19937):
        before = generator.get_state()
        generator.set_state(("MT19937", key, 0, 0, 0.0))
        return lambda: bool(generator.get_state(legacy=False)["state"]["pos"]), lambda: generator.set_state(before)
    before, twister = generator._bit_generator, np.random.MT19937(0)
    twister.state = {"bit_generator": "MT19937", "state": {"key": key, "pos": 0}}
    generator.__init__(twister)
    return lambda: bool(twister.state["state"]["pos"]), lambda: generator.__init__(before)


@contextmanager
def same_draws(pin: int | None = None, root: Any = None) -> Iterator[Draws]:
    """Draw the same random numbers each time, also from the generators that ``root`` holds, a network or function.

    ``pin`` makes the first draws the ``LOWEST`` or ``HIGHEST`` of their range: the first 156 of ``random.random()``.
    Restores the generators at the end.
    """
    import numpy as np
    import torch
    from torch.utils._python_dispatch import _disable_current_modes

    def of_torch() -> bytes:
        with _disable_current_modes():
            return torch.default_generator.get_state().numpy().tobytes()

    def set_torch(state: bytes) -> None:
        with _disable_current_modes():
            torch.default_generator.set_state(torch.frombuffer(bytearray(state), dtype=torch.uint8))

    with _disable_current_modes():
        words, state_of_torch = _state(pin)
    system, draws = random.Random(0), Draws()
    held = {id(each): each for each in (random._inst, np.random.mtrand._rand, system, *_held_generators(root))}
    has_drawn = [lambda: of_torch() != state_of_torch]
    thread, usual_seed = threading.get_ident(), random.Random.seed

    def seed(self: random.Random, a: Any = None, version: int = 2) -> None:
        usual_seed(self, a, version)
        if a is None and threading.get_ident() == thread:
            has_drawn.append(_hold(self, words)[0])

    def system_bytes(usual: Callable[[int], bytes]) -> Callable[[int], bytes]:
        return lambda count: system.randbytes(count) if threading.get_ident() == thread else usual(count)

    with ExitStack() as undo:
        undo.callback(set_torch, of_torch())
        set_torch(state_of_torch)
        for generator in held.values():
            drew, restore = _hold(generator, words)
            undo.callback(restore)
            has_drawn.append(drew)
        for owner, name, value in (
            (random.Random, "seed", seed),
            (random, "seed", seed.__get__(random._inst)),
            (random, "_urandom", system_bytes(os.urandom)),  # secrets and new generators of NumPy draw from it
            (os, "urandom", system_bytes(os.urandom)),
            (torch, "seed", torch.initial_seed),
        ):
            undo.callback(setattr, owner, name, getattr(owner, name))
            setattr(owner, name, value)
        try:
            yield draws
        finally:
            draws.made = any(drew() for drew in has_drawn)
