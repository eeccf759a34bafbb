"""Doctor's checks of NVIDIA GPUs, by NVML and the driver's files. A value the driver hides is a finding as well."""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from measure.machine import devices
from measure.machine.host import OK, PROBLEM, UNCHECKED, WARNING, Finding, check_temperature, gigabytes, grade
from measure.machine.nvidia import ask, board_of, text_of
from measure.machine.sensors import POWER_CAP, nvidia_throttling

DRIVER = Path("/proc/driver/nvidia")

SYS_ADMIN = 1 << 21
"""The bit of CAP_SYS_ADMIN in a process's capabilities (capabilities(7))."""

GPU_BUSY, GPU_USED_BYTE = 0.02, 2**30
"""Utilization and memory in use that mean other programs, even if no process is visible."""


def check_gpus() -> Iterator[Finding]:
    """Check every GPU that torch would see, then access to the hardware counters."""
    handles = devices.nvidia_handles()
    if not handles and not DRIVER.is_dir():
        yield Finding(UNCHECKED, "gpu", "no NVIDIA driver is loaded here")
    elif not handles:
        advice = "pip install nvidia-ml-py, and check nvidia-smi and CUDA_VISIBLE_DEVICES"
        yield Finding(WARNING, "gpu", "a driver is loaded, but shows no GPU", advice)
    for index, handle in enumerate(handles):
        for check in (check_load, check_persistence, check_ecc, check_heat, check_clock):
            if finding := check(f"cuda:{index}", handle):
                yield finding
    if handles:
        yield check_counters()


def check_load(gpu: str, handle: Any) -> Finding:
    import pynvml

    name = text_of(ask(handle, pynvml.nvmlDeviceGetName) or "NVIDIA GPU")
    processes = ask(handle, pynvml.nvmlDeviceGetComputeRunningProcesses)
    memory, utilization = ask(handle, pynvml.nvmlDeviceGetMemoryInfo), ask(handle, pynvml.nvmlDeviceGetUtilizationRates)
    advice = "end them, wait, or choose another GPU (--device cuda:N)"
    if processes:
        return Finding(PROBLEM, gpu, f"{name} is in use by {', '.join(map(_process_name, processes))}", advice)
    used_byte = int(memory.used) if memory else 0
    is_busy = utilization is not None and utilization.gpu / 100 >= GPU_BUSY
    level = PROBLEM if is_busy else WARNING if used_byte >= GPU_USED_BYTE else OK
    if utilization is None and level == OK:  # under WSL 2 a busy GPU looks idle
        return Finding(UNCHECKED, gpu, f"{name} hides its utilization")
    busy = "hides its utilization" if utilization is None else f"is {utilization.gpu:.0f} % busy"
    who = "" if level == OK else ", by processes that are not visible here"
    return grade(level, gpu, f"{name} {busy}, with {gigabytes(used_byte)} in use{who}", advice)


def _process_name(process: Any) -> str:
    """Return name and number of a process on a GPU; only the number if this container does not see it."""
    import psutil

    try:
        return f"{psutil.Process(process.pid).name()} ({process.pid})"
    except psutil.Error:
        return f"process {process.pid}"


def check_persistence(gpu: str, handle: Any) -> Finding:
    import pynvml

    is_on = ask(handle, pynvml.nvmlDeviceGetPersistenceMode)
    if is_on is None:
        return Finding(UNCHECKED, gpu, "the driver hides persistence mode")
    if is_on:
        return Finding(OK, gpu, "persistence mode is on")
    fact = "persistence mode is off: the driver releases the GPU between processes, and its clock falls"
    return Finding(WARNING, gpu, fact, "sudo nvidia-smi --persistence-mode=1")


def check_ecc(gpu: str, handle: Any) -> Finding:
    import pynvml

    ecc = ask(handle, pynvml.nvmlDeviceGetEccMode)  # now, and after the next start
    errors = ask(
        handle, pynvml.nvmlDeviceGetTotalEccErrors, pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, pynvml.NVML_VOLATILE_ECC
    )
    if ecc is None:
        return Finding(UNCHECKED, gpu, "the driver hides ECC")
    if errors:
        advice = "reset or replace the GPU; see nvidia-smi --query --display=ECC"
        return Finding(PROBLEM, gpu, f"ECC found {errors} errors of memory that it could not correct", advice)
    return Finding(OK, gpu, f"ECC is {'on' if ecc[0] else 'off'}")


def check_heat(gpu: str, handle: Any) -> Finding:
    import pynvml

    temperature_c = ask(board_of(handle) or handle, pynvml.nvmlDeviceGetTemperature, pynvml.NVML_TEMPERATURE_GPU)
    if temperature_c is None:
        return Finding(UNCHECKED, gpu, "the driver hides the temperature")
    threshold = pynvml.NVML_TEMPERATURE_THRESHOLD_SLOWDOWN
    limit_c = ask(handle, pynvml.nvmlDeviceGetTemperatureThreshold, threshold)
    return check_temperature(gpu, "the GPU", temperature_c, limit_c)


def check_clock(gpu: str, handle: Any) -> Finding | None:
    """Return a finding if heat or power lowers the clock now."""
    reasons = nvidia_throttling(board_of(handle) or handle)
    if reasons is None:
        return None
    fact = f"the clock is lowered now ({reasons.replace(';', ', ')})"
    if reasons == POWER_CAP:
        return Finding(WARNING, gpu, fact, "distrust rounds flagged capped; see nvidia-smi --query --display=POWER")
    return Finding(PROBLEM, gpu, fact, "let it cool down; see nvidia-smi --query --display=PERFORMANCE")


def check_counters(driver: Path = DRIVER, status: Path = Path("/proc/self/status")) -> Finding:
    """Check whether this user may read hardware counters: anybody, or (in a container often not root) CAP_SYS_ADMIN."""
    subject = "hardware counters"
    restricted = _match(driver / "params", r"^RmProfilingAdminOnly:\s*(\d)")
    if restricted is None:
        return Finding(UNCHECKED, subject, "the driver does not say who may read its hardware counters")
    capabilities = _match(status, r"^CapEff:\s*([0-9a-f]+)")
    is_root = hasattr(os, "geteuid") and os.geteuid() == 0
    is_admin = bool(int(capabilities, 16) & SYS_ADMIN) if capabilities else is_root
    if restricted == "0" or is_admin:
        return Finding(OK, subject, "this user may read hardware counters")
    fact = "the driver keeps its hardware counters for administrators (RmProfilingAdminOnly is 1)"
    advice = "load it with NVreg_RestrictProfilingToAdminUsers=0, or run the container with --cap-add=SYS_ADMIN"
    return Finding(WARNING, subject, fact, advice)


def _match(file: Path, pattern: str) -> str | None:
    try:
        match = re.search(pattern, file.read_text(), re.MULTILINE)
    except OSError:
        return None
    return match[1] if match else None
