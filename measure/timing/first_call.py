"""The first call of a variant that sets something up in it: it compiles, or tries algorithms, for minutes perhaps.

No other call may be silent for so long, so this one has a limit of its own and shows signs of life meanwhile.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from measure.cache import variants
from measure.machine.device import Device

EVERY_S = 1.0
"""The time between two signs of life."""


def make(call: Callable[[], object], variant: str, device: Device, beat: Callable[[], None]) -> None:
    """Run a call once, before it is timed, if its variant sets something up in the first one."""
    limit_s = variants.first_call_s(variant)
    if limit_s:
        with beating(beat, limit_s):
            call()
            device.synchronize()


@contextmanager
def beating(beat: Callable[[], None], limit_s: float) -> Iterator[None]:
    """Show signs of life while a block runs, from a thread of their own, but for no longer than the limit.

    Whoever waits for them ends the process after the limit, and after what else a call may take.
    """
    has_ended = threading.Event()

    def show() -> None:
        for _ in range(round(limit_s / EVERY_S)):
            if has_ended.wait(EVERY_S):
                return
            beat()

    signs = threading.Thread(target=show, name=__name__, daemon=True)
    signs.start()
    try:
        yield
    finally:
        has_ended.set()
        signs.join()
