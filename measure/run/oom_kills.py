"""How many processes the system has killed because memory ran out."""

import re
from collections.abc import Iterable
from pathlib import Path

from measure.machine.processor import content_of

COUNTERS = tuple(
    map(Path, ("/proc/vmstat", "/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control"))
)
"""Where Linux counts them: on the whole machine (since 4.13), in this control group (of version 2, of version 1)."""


def oom_kills(counters: Iterable[Path] = COUNTERS) -> int:
    """Return the sum of these counters, which tells only whether any has moved; 0 where the system has none."""
    return sum(int(count) for path in counters for count in re.findall(r"^oom_kill (\d+)$", content_of(path), re.M))
