"""The limits of this process inside a container or a batch job: processor time, threads and memory.

Reads both versions of Linux's control groups (cgroups(7)), which a system may mix. The limit of a group also binds the
groups inside it. The cores of a group need no reading: the kernel removes the others from a process's affinity.
"""

import math
from pathlib import Path

from measure.machine.processor import content_of, physical_cores

PROCESS, GROUPS = Path("/proc/self/cgroup"), Path("/sys/fs/cgroup")


def _groups(controller: str) -> tuple[list[Path], bool]:
    """Return the folders of this process's group and the groups around it, and whether they are of version 2.

    The list is empty if the system hides them. A container may see the path of its group on the host, which is not
    mounted here, and its own group as the root. Folders that do not exist hold no limit.
    """
    found: tuple[list[Path], bool] = [], True
    for line in content_of(PROCESS).splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        mounts = (GROUPS / controllers, GROUPS / controller) if controllers else (GROUPS, GROUPS / "unified")
        sign = "cgroup.procs" if controllers else "cgroup.controllers"  # in each group's folder
        root = next((mount for mount in mounts if (mount / sign).exists()), None)
        parts = [part for part in path.split("/") if part not in ("", "..")]
        groups = [root.joinpath(*parts[:depth]) for depth in range(len(parts) + 1)] if root else []
        if controllers:  # a controller of version 1 is not in version 2
            return groups, False
        found = groups, True
    return found


def quota_cores() -> float | None:
    """Return the processor time that this process may use, in cores.

    Infinite without a limit; None if the system does not report it.
    """
    groups, is_unified = _groups("cpu")
    found = [math.inf] if groups else []
    for group in groups:
        if is_unified:
            quota, _, period = content_of(group / "cpu.max").partition(" ")  # "max 100000" without a limit
        else:
            quota, period = (content_of(group / f"cpu.cfs_{name}_us") for name in ("quota", "period"))
        if quota.isdigit() and period.isdigit():  # version 1 has the quota -1 without a limit
            found.append(int(quota) / int(period))
    return min(found, default=None)


def default_threads() -> int:
    """Return the physical cores that this process may use, or fewer if its processor time is less."""
    return max(1, math.floor(min(physical_cores(), quota_cores() or math.inf)))


def _memory_limits() -> list[tuple[int, int]]:
    """Return limit and use (B) of each group around this process that has a limit.

    The use leaves out inactive page cache: the kernel drops it before it refuses memory. Kubernetes counts this way.
    """
    groups, is_unified = _groups("memory")
    names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
    limit_name, used_name, cache_name = ("memory.max", "memory.current", "inactive_file") if is_unified else names
    found = []
    for group in groups:
        limit, used = content_of(group / limit_name), content_of(group / used_name)
        if limit.isdigit() and used.isdigit():
            cache = dict(line.split() for line in content_of(group / "memory.stat").splitlines()).get(cache_name, "0")
            found.append((int(limit), int(used) - int(cache)))
    return found


def memory_byte() -> int:
    """Return the memory of the machine, or of the container if that is less."""
    import psutil

    return min([psutil.virtual_memory().total, *(limit for limit, _ in _memory_limits())])


def available_memory_byte() -> int:
    """Return the memory that a new process can use without swapping or reaching a control group's limit."""
    import psutil

    left = [limit - used for limit, used in _memory_limits()]
    return max(0, min([psutil.virtual_memory().available, *left]))
