"""Random numbers that are the same in each run: those of Python, NumPy's and torch's global generators on the CPU.

All three are Mersenne Twisters and take the same state. Generators that a network makes itself are its own affair.
"""

import random
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

WORDS = 624  # of 32 bits in the state of a Mersenne Twister, which are read one by one before it makes new ones
LOWEST, HIGHEST = 0, 0x12DD9BB3  # a word of the state that is read as 32 zeros, or as 32 ones
PINNED = WORDS // 2  # so many words only: an algorithm that draws until it accepts a number must end


class Draws:
    """Whether a number was drawn: ``made`` is known when the context ends."""

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


@contextmanager
def same_draws(pin: int | None = None) -> Iterator[Draws]:
    """Draw the same random numbers each time. Restore the generators at the end.

    ``pin`` makes the first draws the ``LOWEST`` or ``HIGHEST`` of their range: of ``random.random()`` the first 156.
    """
    import numpy as np
    import torch
    from torch.utils._python_dispatch import _disable_current_modes

    def states() -> tuple[Any, Any, bytes]:
        with _disable_current_modes():
            of_torch = torch.default_generator.get_state().numpy().tobytes()
        return random.getstate(), np.random.get_state(), of_torch

    def restore(of_python: Any, of_numpy: Any, of_torch: bytes) -> None:
        random.setstate(of_python)
        np.random.set_state(of_numpy)
        with _disable_current_modes():
            torch.default_generator.set_state(torch.frombuffer(bytearray(of_torch), dtype=torch.uint8))

    before, draws = states(), Draws()
    with _disable_current_modes():
        words, of_torch = _state(pin)
    restore((3, (*words, 0), None), ("MT19937", words, 0), of_torch)
    try:
        yield draws
    finally:
        (_, after, _), (_, _, place, *_), after_of_torch = states()
        draws.made = after != (*words, 0) or place != 0 or after_of_torch != of_torch
        restore(*before)
