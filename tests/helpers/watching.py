"""A clock and sensors that calls move, and how tests see the ends of processes and whether a write is under a lock."""

import fcntl
import time

import pytest

from measure.cache import table
from measure.machine import sensors
from measure.machine.sensors import Reading


class Hands:
    """A clock that a call moves by hand."""

    def __init__(self, durations_s):
        self.now = 0
        self.calls = 0
        self.synchronized = 0
        self._durations = iter(durations_s)
        self._last = 0.0

    def clock(self):
        return self.now

    def call(self):
        self._last = next(self._durations, self._last)
        self.now += round(self._last * 1e9)
        self.calls += 1

    def synchronize(self):
        self.synchronized += 1


class Sensors(sensors.Sensors):
    """Counters that rise with the clock: 4 cores, some idle and 1 at work here; 50 W; from some time on a throttle."""

    def __init__(self, hands, throttle=None, throttles_from_s=0.0, idle=2):
        self.hands, self.idle = hands, idle
        self.throttle, self.throttles_from_s = throttle, throttles_from_s

    def read(self):
        now_s = self.hands.clock() / 1e9
        return Reading(
            now_s,
            core_s=4 * now_s,
            idle_s=self.idle * now_s,
            process_s=now_s,
            energy_j=50 * now_s,
            clock_hz=1e9,
            temperature_c=40 + now_s,
            power_w=51.0,
            throttle=self.throttle if now_s >= self.throttles_from_s else None,
        )


class KilledError(BaseException):
    """Like SIGKILL, it reaches no handler of the program."""


def is_killed(monkeypatch, places, writes, call):
    """Make a call that is killed after so many writes by the functions ``places``. Return False if it ended before."""
    count = iter(range(1_000_000))

    def instead(original):
        def write(*arguments, **options):
            if next(count) >= writes:  # once killed, a process does not tidy up either
                raise KilledError
            return original(*arguments, **options)

        return write

    with monkeypatch.context() as patch:
        for place, name in places:
            patch.setattr(place, name, instead(getattr(place, name)))
        try:
            call()
        except KilledError:
            return True
    return False


def wait_until(is_so):
    """Fail the test unless this becomes true within a minute."""
    for _ in range(600):
        if is_so():
            return
        time.sleep(0.1)
    pytest.fail("it did not happen")


def has_ended(pid):
    import psutil

    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def watch_writes(monkeypatch: pytest.MonkeyPatch) -> dict[str, bool]:
    """Return the names of the tables that are written from now on, with whether each write was under a lock."""
    seen: dict[str, bool] = {}

    def watched(name):
        write = getattr(table, name)

        def wrapper(path, *arguments):
            with (path.parent / table.NAME).open("a") as lock:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    seen[path.name] = False  # nobody holds it, this process included
                except BlockingIOError:
                    seen.setdefault(path.name, True)
            return write(path, *arguments)

        return wrapper

    for name in ("write", "append"):
        monkeypatch.setattr(table, name, watched(name))
    return seen
