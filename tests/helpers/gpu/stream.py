"""The time of a GPU that is not there: the host's is real, the device's passes at once.

An operator adds its time to the work of the stream. Waiting for the stream puts the clock forward to the end of its
work. So a round lasts about as long as its calls take on the host alone, and reads as if the device had worked. Only
``time.perf_counter``, ``time.perf_counter_ns`` and ``time.sleep`` follow it; ``time.monotonic``, the clock of budgets
and limits, stays real.
"""

import sys
import threading
import time
from collections import defaultdict
from dataclasses import dataclass

_real_ns, _real_sleep = time.perf_counter_ns, time.sleep
SLOT_NS = 100_000_000


@dataclass(frozen=True)
class Kernel:
    """A kernel: its name, work and time."""

    name: str
    precision: str
    flop: int
    read_byte: int
    written_byte: int
    time_ns: int


class Meter:
    """What kernels use, each evenly over its time, in slots of the stream's clock."""

    def __init__(self):
        self._slots = defaultdict(float)

    def add(self, start_ns, end_ns, amount):
        for slot in range(start_ns // SLOT_NS, end_ns // SLOT_NS + 1):
            within_ns = min(end_ns, (slot + 1) * SLOT_NS) - max(start_ns, slot * SLOT_NS)
            self._slots[slot] += amount * within_ns / (end_ns - start_ns)

    def until(self, now_ns):
        """The amount that was used before a moment, evenly within a slot."""
        slot, rest_ns = divmod(now_ns, SLOT_NS)
        full = sum(amount for number, amount in self._slots.items() if number < slot)
        return full + self._slots.get(slot, 0.0) * rest_ns / SLOT_NS


class Stream:
    """One device's only stream of work; times are nanoseconds of the clock that is put forward.

    ``watchers`` are told of each kernel and of when it begins, as it is launched. ``energy_j`` is that of kernels
    besides the idle power, ``capped_ns`` the time of kernels that draw more than the board's limit: they are no slower.
    """

    def __init__(self):
        self._ahead_ns = self._busy_until_ns = self.worked_ns = 0
        self.energy_j, self.capped_ns = Meter(), Meter()
        self._thread = self.gpu = None
        self.watchers = []

    def begin(self, gpu):
        """Be this device's. The pauses of this thread, which uses it, pass at once, too."""
        self.gpu = gpu
        self._thread = threading.get_ident()

    def now_ns(self):
        return _real_ns() + self._ahead_ns

    def launch(self, kernel):
        """Append a kernel, which begins when those before it are done."""
        start_ns = self.mark_ns()
        self._busy_until_ns = start_ns + kernel.time_ns
        self.worked_ns += kernel.time_ns
        energy_j = self.gpu.kernel_j(kernel)
        self.energy_j.add(start_ns, self._busy_until_ns, energy_j)
        if self.gpu.idle_w + 1e9 * energy_j / kernel.time_ns > self.gpu.power_w:
            self.capped_ns.add(start_ns, self._busy_until_ns, kernel.time_ns)
        for watch in self.watchers:
            watch(kernel, start_ns)

    def mark_ns(self):
        """When the work so far is done: now, if it is already."""
        return max(self.now_ns(), self._busy_until_ns)

    def is_busy(self):
        return self._busy_until_ns > self.now_ns()

    def synchronize(self):
        """Wait for all work."""
        self._ahead_ns += max(0, self._busy_until_ns - self.now_ns())

    def sleep(self, seconds):
        is_waiting_for_process = sys._getframe(1).f_globals.get("__name__") == "subprocess"
        if threading.get_ident() == self._thread and not is_waiting_for_process:
            self._ahead_ns += round(seconds * 1e9)
        else:
            _real_sleep(seconds)


STREAM = Stream()  # this process's


def begin():
    """Put this process's clock and pauses into the hands of ``STREAM``, before anything takes hold of them."""
    time.perf_counter_ns = STREAM.now_ns
    time.perf_counter = lambda: STREAM.now_ns() / 1e9
    time.sleep = STREAM.sleep
