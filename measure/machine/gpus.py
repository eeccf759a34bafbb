"""This machine's NVIDIA GPUs, as far as they can spoil a measurement, by NVML and the driver's files.

Values that the driver does not report are None.

From facts of GPUs to findings; what a driver does not tell is a finding too.
"""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from measure.machine import devices, host
from measure.machine.host import OK, PROBLEM, UNCHECKED, WARNING, Finding, gigabytes, judged, untold
from measure.machine.libraries import Libraries
from measure.machine.nvidia import ask
from measure.machine.sensors import NoSensors, NvidiaSensors
from measure.timing.sampling import POWER_CAP

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


GPU_BUSY, GPU_USED_BYTE = 0.02, 2**30
"""A GPU's busy part and its memory in use, from which others are at work where no process is shown."""


def nvidia_findings(nvidia: Nvidia, libraries: Libraries) -> Iterator[Finding]:
    if not nvidia.gpus:
        if nvidia.has_driver:
            fact = "a driver is loaded, but shows no GPU"
            advice = "pip install nvidia-ml-py, and see what nvidia-smi and CUDA_VISIBLE_DEVICES say"
            yield Finding(WARNING, "gpu", fact, advice)
        else:
            yield Finding(UNCHECKED, "gpu", "no NVIDIA driver is loaded here")
        return
    if libraries.cuda is False:
        fact = f"torch {libraries.versions['torch']} cannot use it"
        yield Finding(PROBLEM, "gpu", fact, "install a torch that is built for CUDA and for this driver")
    for gpu in nvidia.gpus:
        yield from _nvidia_gpu_findings(gpu)
    if nvidia.counters_admin_only is None:
        yield untold("the driver", "hardware counters", "who may read its hardware counters")
    elif nvidia.counters_admin_only and not nvidia.is_admin:
        fact = "the driver keeps its hardware counters for administrators (RmProfilingAdminOnly is 1)"
        advice = "load it with NVreg_RestrictProfilingToAdminUsers=0, or run the container with --cap-add=SYS_ADMIN"
        yield Finding(WARNING, "hardware counters", fact, advice)
    else:
        yield Finding(OK, "hardware counters", "this user may read hardware counters")


def _nvidia_gpu_findings(gpu: Gpu) -> Iterator[Finding]:
    at = gpu.torch_name
    yield _gpu_load(gpu)
    if gpu.persistence is None:
        yield untold("the driver", at, "whether persistence mode is on")
    elif gpu.persistence:
        yield Finding(OK, at, "persistence mode is on")
    else:
        fact = "persistence mode is off: between processes the driver lets go of the GPU, and its clock falls"
        yield Finding(WARNING, at, fact, "sudo nvidia-smi --persistence-mode=1")
    if gpu.ecc is None:
        yield untold("the driver", at, "of ECC")
    elif gpu.uncorrected:
        fact = f"ECC found {gpu.uncorrected} errors of memory that it could not correct"
        yield Finding(PROBLEM, at, fact, "reset the GPU or replace it; see nvidia-smi --query --display=ECC")
    else:
        yield Finding(OK, at, f"ECC is {'on' if gpu.ecc else 'off'}")
    yield _gpu_heat(gpu)
    if gpu.throttle == POWER_CAP:
        fact = f"the clock is lowered now ({POWER_CAP})"
        yield Finding(WARNING, at, fact, "mind rounds flagged capped, and see nvidia-smi --query --display=POWER")
    elif gpu.throttle:
        fact = f"the clock is lowered now ({gpu.throttle.replace(';', ', ')})"
        yield Finding(PROBLEM, at, fact, "let it cool down, and see nvidia-smi --query --display=PERFORMANCE")


def _gpu_load(gpu: Gpu) -> Finding:
    at, advice = gpu.torch_name, "end them, wait, or choose another GPU (--device cuda:N)"
    if gpu.others:
        return Finding(PROBLEM, at, f"{gpu.name} serves others: {', '.join(gpu.others)}", advice)
    busy, in_use = gpu.busy or 0.0, gigabytes(gpu.used_byte or 0)
    level = PROBLEM if busy >= GPU_BUSY else WARNING if (gpu.used_byte or 0) >= GPU_USED_BYTE else OK
    who = "" if level == OK else ", by processes that are not visible here"
    if gpu.busy is not None:
        return judged(level, at, f"{gpu.name} is {100 * busy:.0f} % busy, with {in_use} in use{who}", advice)
    if level == OK:  # as under WSL 2, where a GPU at work looks like an idle one
        return untold(gpu.name, at, "how busy it is")
    return judged(level, at, f"{gpu.name} has {in_use} in use{who}, and does not tell how busy it is", advice)


def _gpu_heat(gpu: Gpu) -> Finding:
    if gpu.temperature_c is None:
        return untold("the driver", gpu.torch_name, "the temperature")
    return host.temperature_finding(gpu.torch_name, "the GPU has", gpu.temperature_c, gpu.limit_c)
