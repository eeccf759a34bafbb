"""This machine's NVIDIA GPUs, as far as they can spoil a measurement, by NVML and the driver's files.

Values that the driver does not report are None.
"""

import os
import re
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from measure.machine import devices
from measure.machine.nvidia import ask
from measure.machine.sensors import NoSensors, NvidiaSensors

DRIVER = Path("/proc/driver/nvidia")

SYS_ADMIN = 1 << 21
"""The bit of CAP_SYS_ADMIN among a process's capabilities (capabilities(7))."""


@dataclass(frozen=True)
class Gpu:
    """One GPU, under torch's name. ``others`` are the other processes on it, ``used_byte`` the memory in use,
    ``busy`` the part of the last moment in which it computed; ``limit_c`` the temperature at which it slows down;
    ``throttle`` the reasons of heat and power for which its clock is lowered now; ``uncorrected`` the errors of
    memory that ECC found and could not correct since the driver was loaded.
    """

    torch_name: str
    name: str
    others: tuple[str, ...] | None
    used_byte: int | None
    busy: float | None
    persistence: bool | None
    ecc: bool | None
    uncorrected: int | None
    temperature_c: float | None
    limit_c: float | None
    throttle: str | None


@dataclass(frozen=True)
class Nvidia:
    """``counters_admin_only``: whether the driver keeps its hardware counters for administrators; ``is_admin``:
    whether this process is one.
    """

    has_driver: bool
    gpus: tuple[Gpu, ...]
    counters_admin_only: bool | None
    is_admin: bool


def observe() -> Nvidia:
    """Observe the GPUs that torch would see here."""
    gpus = tuple(_gpu(f"cuda:{index}", handle) for index, handle in enumerate(devices.nvidia_handles()))
    return Nvidia(DRIVER.is_dir() or bool(gpus), gpus, counters_admin_only(), is_admin())


def _gpu(torch_name: str, handle: Any) -> Gpu:
    import pynvml

    asked = partial(ask, handle)
    name, memory = asked(pynvml.nvmlDeviceGetName), asked(pynvml.nvmlDeviceGetMemoryInfo)
    busy, running = asked(pynvml.nvmlDeviceGetUtilizationRates), asked(pynvml.nvmlDeviceGetComputeRunningProcesses)
    persistence, ecc = asked(pynvml.nvmlDeviceGetPersistenceMode), asked(pynvml.nvmlDeviceGetEccMode)
    errors = (pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, pynvml.NVML_VOLATILE_ECC)
    reading = NvidiaSensors(handle, NoSensors()).read()
    return Gpu(
        torch_name=torch_name,
        name=name.decode() if isinstance(name, bytes) else name or "NVIDIA GPU",
        others=None if running is None else tuple(map(_process, running)),
        used_byte=memory and int(memory.used),
        busy=None if busy is None else busy.gpu / 100,
        persistence=None if persistence is None else bool(persistence),
        ecc=None if ecc is None else bool(ecc[0]),  # now, and after the next start
        uncorrected=asked(pynvml.nvmlDeviceGetTotalEccErrors, *errors),
        temperature_c=reading.temperature_c,
        limit_c=asked(pynvml.nvmlDeviceGetTemperatureThreshold, pynvml.NVML_TEMPERATURE_THRESHOLD_SLOWDOWN),
        throttle=reading.throttle,
    )


def _process(process: Any) -> str:
    """Name a process on a GPU; by its number where this container does not see it."""
    import psutil

    try:
        return f"{psutil.Process(process.pid).name()} ({process.pid})"
    except psutil.Error:
        return f"process {process.pid}"


def counters_admin_only(driver: Path = DRIVER) -> bool | None:
    """Return whether the driver's parameter keeps its hardware counters for administrators."""
    try:
        match = re.search(r"^RmProfilingAdminOnly:\s*(\d)", (driver / "params").read_text(), re.MULTILINE)
    except OSError:
        return None
    return match[1] != "0" if match else None


def is_admin(status: Path = Path("/proc/self/status")) -> bool:
    """Return whether this process has the capability that the driver asks for; root in a container often lacks it."""
    try:
        match = re.search(r"^CapEff:\s*([0-9a-f]+)", status.read_text(), re.MULTILINE)
    except OSError:
        match = None
    return bool(int(match[1], 16) & SYS_ADMIN) if match else hasattr(os, "geteuid") and os.geteuid() == 0
