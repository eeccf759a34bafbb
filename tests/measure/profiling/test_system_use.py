import mmap
import sys

import pytest

from measure.profiling.profile import SystemMeter

PAGES = 5000


def touch(pages):
    """Gets so many pages from the system, and writes into each."""
    with mmap.mmap(-1, pages * mmap.PAGESIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        if hasattr(mmap, "MADV_NOHUGEPAGE"):
            memory.madvise(mmap.MADV_NOHUGEPAGE)
        for start in range(0, len(memory), mmap.PAGESIZE):
            memory[start] = 1


def test_each_new_page_is_a_fault_and_the_first_call_does_not_count():
    sizes = iter([4 * PAGES, 1 * PAGES, 3 * PAGES])
    meter = SystemMeter(lambda: touch(next(sizes)))
    for _ in range(3):
        meter()
    # The mean of 1 and 3 times as many; an interpreter at work may need a few of its own.
    assert 2 * PAGES <= meter.use().page_faults < 2.1 * PAGES


def test_the_time_of_many_faults_is_seen():
    meter = SystemMeter(lambda: touch(20 * PAGES))
    for _ in range(6):
        meter()
    assert meter.use().system_s > 0


def test_what_asks_nothing_of_the_system_has_no_faults():
    meter = SystemMeter(lambda: None)
    for _ in range(100):
        meter()
    assert meter.use().page_faults < 1


def test_one_call_alone_says_nothing():
    meter = SystemMeter(lambda: None)
    assert meter.use() is None
    meter()
    assert meter.use() is None


def test_a_system_that_does_not_say(monkeypatch):
    monkeypatch.setitem(sys.modules, "resource", None)  # as on Windows
    calls = []
    meter = SystemMeter(lambda: calls.append(1))
    for _ in range(3):
        meter()
    assert len(calls) == 3
    assert meter.use() is None


def test_what_a_call_raises_comes_through():
    meter = SystemMeter(lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        meter()
