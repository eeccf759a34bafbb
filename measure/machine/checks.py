"""Doctor's checks of the host, the libraries and NVIDIA's GPUs; who uses a machine before a run."""

import math
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from measure.domain.cautions import in_use
from measure.domain.values import duration, si
from measure.machine import container, devices, processor
from measure.machine.environment import hypervisor, installed_version
from measure.machine.nvidia import ask, board_of
from measure.machine.processor import SYSTEM_CPUS, content_of
from measure.machine.sensors import POWER_CAP, Conditions, HostLoad, ProcessorSensors, load_since, nvidia_throttling

# A warning shifts figures or widens their intervals. A problem spoils or prevents them.
OK, WARNING, PROBLEM, UNCHECKED = "ok", "warning", "problem", "unchecked"
NEVER = math.inf
COMPATIBLE_SET = "pip install --constraint constraints.txt torch torchvision torchaudio (a set that works together)"

# A check: the least value that is a warning, the least value that is a problem, the remedy.
CHECKS: dict[str, tuple[float, float, str]] = {
    "load": (0.1, 0.5, "end them, or wait until they are done"),  # cores in use; a desktop at rest uses less
    "virtual machine": (0.0, 0.05, "measure again later and compare, or use dedicated hardware"),  # share of time
    "cores": (1, NEVER, "use the whole processor (no taskset or --cpuset-cpus) and at least two cores"),
    "quota": (1, 2, "assign whole cores (docker --cpuset-cpus, not --cpus): threads stop when the time is used up"),
    "frequency scaling": (1, NEVER, "sudo cpupower frequency-set --governor performance"),
    "turbo": (1, NEVER, f"write 1 to intel_pstate/no_turbo or 0 to cpufreq/boost in {SYSTEM_CPUS}"),
    "throttling": (1, 2, "distrust rounds flagged throttled; let it cool down, or improve the cooling"),
    "power": (1, 1, "plug it in"),
    "memory": (1, 2, "end other programs, raise the control group's limit, or measure smaller --batch-sizes"),
    "swap": (1, 2, "end programs that need much memory, then sudo swapoff -a; sudo swapon -a"),
    "utilization": (1, 2, "end them, wait, or choose another GPU (--device cuda:N)"),
    "persistence mode": (1, NEVER, "sudo nvidia-smi --persistence-mode=1"),
    "clock": (1, 2, "see nvidia-smi --query --display=PERFORMANCE; let it cool down if heat is the reason"),
    "hardware counters": (1, NEVER, "set NVreg_RestrictProfilingToAdminUsers=0, or docker run --cap-add=SYS_ADMIN"),
}  # fmt: skip

# A library's name, a trial of it, and the level and effect of a failure. Triton is needed on a GPU only.
LIBRARIES = (
    ("torch", "import torch; print(torch.cuda.is_available())", PROBLEM, "nothing can be measured"),
    # torchvision registers its compiled operators only if it was built for this torch, so call one
    ("torchvision", "import torch, torchvision; torchvision.ops.nms(torch.rand(2, 4), torch.rand(2), 0.5)",
     PROBLEM, "it provides the models"),
    ("torchaudio", "import torchaudio", WARNING, "its models cannot be measured"),
    ("psutil", "import psutil", PROBLEM, "load, cores and memory cannot be read"),
    ("numba", "import numba", WARNING, "a processor's clock and its roofs in registers and caches cannot be measured"),
    ("rich", "import rich", PROBLEM, "progress cannot be shown"),
    ("triton", "import triton", WARNING, "a GPU's multiply-adds are not measured, and its memory roof is torch's own"),
)  # fmt: skip

WINDOW_S, GLANCE_S = 1.0, 0.25  # of watching for the doctor, and before a run
PAUSE_S = 5.0  # between two looks at a machine that a run waits for
BUSY_CORE, BUSY_GPU_PERCENT, USED_GPU_BYTE = 0.05, 2, 2**30  # more is another program
LEAST_MEMORY_BYTE = 2 * 2**30  # for torch and the smallest models
NVIDIA_DRIVER = Path("/proc/driver/nvidia")
SYS_ADMIN = 1 << 21  # the bit of CAP_SYS_ADMIN in a process's capabilities (capabilities(7))


@dataclass(frozen=True)
class Finding:
    """One fact of a machine, its weight, and the remedy."""

    level: str
    subject: str
    fact: str
    advice: str | None = None


def grade(check: str, value: float | None, fact: str = "", subject: str = "") -> Finding:
    """Hold a value against the limits of a check. None: the system or the driver hides it."""
    if value is None:
        return Finding(UNCHECKED, subject or check, f"{check} is not reported here")
    warning, problem, remedy = CHECKS[check]
    level = PROBLEM if value >= problem else WARNING if value >= warning else OK
    return Finding(level, subject or check, fact, None if level == OK else remedy)


def uses_of_machine(device: str) -> list[Finding]:
    """Watch the machine for a moment, and return who uses its cores or this GPU; none on a quiet machine."""
    import psutil

    sensors = HostLoad()
    list(psutil.process_iter(["cpu_percent"]))  # psutil measures from the previous call on
    opening = sensors.read()
    time.sleep(GLANCE_S)
    found = [check_load(load_since(opening, sensors) or 0.0)]
    handles = devices.nvidia_handles() if device.startswith("cuda") else []
    number = int(device.partition(":")[2] or 0)
    if number < len(handles):
        used = ask("DeviceGetUtilizationRates", handles[number])
        # Not its processes alone: one of them may be this one, under another number outside the container
        if used is not None and used.gpu >= BUSY_GPU_PERCENT:
            found += [next(_check_gpu(device, handles[number]))]
    return [finding for finding in found if finding.level == PROBLEM]


def warning_of_use(device: str, hint: str = "") -> str | None:
    """Return a warning that names who uses the machine, with ``hint`` as a further remedy; None on a quiet machine."""
    found = uses_of_machine(device)
    remedies = dict.fromkeys(finding.advice or "" for finding in found)
    return in_use("; ".join(each.fact for each in found), "; ".join(remedies) + hint) if found else None


def wait_for_quiet(device: str, limit_s: float, say: Callable[[str], object]) -> float:
    """Wait until nobody else uses the machine, ``limit_s`` at most. Return the waiting time (s), and say why."""
    began = time.monotonic()
    found = uses_of_machine(device)
    if found:
        who = "; ".join(f"{finding.fact}; {finding.advice}" for finding in found)
        say(f"Waiting for quiet, up to {duration(limit_s)}: {who}")
    while found and (left_s := began + limit_s - time.monotonic()) > 0:
        time.sleep(min(PAUSE_S, left_s))
        # Twice: between two steps of a program its cores rest
        found = uses_of_machine(device) or uses_of_machine(device)
        if not found:
            say(f"Quiet after {duration(time.monotonic() - began)}")
    return time.monotonic() - began


def check_host(largest: tuple[str, int] | None) -> Iterator[Finding]:
    """Watch the machine for ``WINDOW_S``, then check it. ``largest`` is the largest counted cell: label, bytes."""
    try:
        import psutil
    except ImportError:  # check_libraries reports the reason
        return
    sensors = ProcessorSensors()
    list(psutil.process_iter(["cpu_percent"]))  # psutil measures from the previous call on
    times_before, swap_before, opening = psutil.cpu_times(), psutil.swap_memory(), sensors.read()
    time.sleep(WINDOW_S)
    conditions = Conditions.between(opening, sensors.read())
    times, swap = psutil.cpu_times(), psutil.swap_memory()
    stolen_s = getattr(times, "steal", 0.0) - getattr(times_before, "steal", 0.0)
    yield from check_cores(conditions.load or 0.0, stolen_s / (sum(times) - sum(times_before) or 1.0))
    yield from check_clock(conditions.throttle is not None)
    yield from check_memory(largest, swap.used, swap.sin + swap.sout - swap_before.sin - swap_before.sout)


def check_cores(load: float, stolen: float) -> Iterator[Finding]:
    """Check the shares of core time that other programs and other guests got, and the cores of this process."""
    yield check_load(load)
    logical, usable, physical = os.cpu_count() or 1, processor.visible_cores(), processor.physical_cores()
    host = hypervisor()
    if host == "none":
        yield Finding(OK, "virtual machine", "no hypervisor")
    else:
        fact = f"other guests got {100 * stolen:.1f} % of the time and share caches and memory; none of them is visible"
        yield grade("virtual machine", None if host is None else stolen, fact)
    fact = f"this process may use {usable} of {logical} logical cores, on {physical} physical ones"
    yield grade("cores", usable < max(logical, 2), fact)
    quota, threads = container.quota_cores(), container.default_threads()
    if quota is None:
        yield grade("quota", None)
    elif quota >= physical:
        yield grade("quota", 0, "processor time is not limited")
    else:
        fact = f"{quota:g} cores of processor time on {physical} physical cores; measuring uses {threads} threads"
        yield grade("quota", 2 if quota < threads else 1, fact)


def check_load(load: float) -> Finding:
    """Check the share of core time that other programs got, and name the busiest since psutil last saw them."""
    import psutil

    processes = [each for each in psutil.process_iter(["name", "cpu_percent"]) if each.pid != os.getpid()]
    used = [((each.info["cpu_percent"] or 0.0) / 100, f"{each.info['name']} ({each.pid})") for each in processes]
    busiest = ", ".join(f"{name} {share:.2f}" for share, name in sorted(used)[:-4:-1] if share >= BUSY_CORE)
    logical = os.cpu_count() or 1
    fact = f"other programs use {load * logical:.2f} of {logical} cores"
    return grade("load", load * logical, f"{fact}: {busiest}" if busiest else fact)


def check_clock(is_throttled: bool) -> Iterator[Finding]:
    """Check the causes of a changing clock. ``is_throttled``: heat lowered it while the machine was watched."""
    import psutil

    governors = {content_of(path) for path in SYSTEM_CPUS.glob("cpufreq/policy*/scaling_governor")} - {""}
    fact = f"the governor is {', '.join(sorted(governors))}"
    yield grade("frequency scaling", governors != {"performance"} if governors else None, fact)
    no_turbo, boost = content_of(SYSTEM_CPUS / "intel_pstate/no_turbo"), content_of(SYSTEM_CPUS / "cpufreq/boost")
    is_on = no_turbo == "0" if no_turbo else boost == "1" if boost else None
    fact = "on: the clock depends on heat, the number of busy cores, and time" if is_on else "off: the clock is steady"
    yield grade("turbo", is_on, fact)
    counts = [content_of(path) for path in SYSTEM_CPUS.glob("cpu*/thermal_throttle/core_throttle_count")]
    count = sum(int(text) for text in counts if text.isdigit())
    value = 2 if is_throttled else min(count, 1) if counts else None
    when = "within the last second" if is_throttled else f"{count} times since the machine started"
    yield grade("throttling", value, f"heat has lowered the clock {when}")
    battery = psutil.sensors_battery()
    is_draining = battery is not None and battery.power_plugged is False
    fact = "the machine runs on its battery, which lowers the clock" if is_draining else "not from a battery"
    yield grade("power", is_draining, fact)


def check_memory(largest: tuple[str, int] | None, swap_byte: int, moved_byte: int) -> Iterator[Finding]:
    """Check the free memory, and the swap in use and moved while the machine was watched."""
    free_byte, (label, needed_byte) = container.available_memory_byte(), largest or ("", 0)
    fact = f"{si(free_byte, 'B')} are free"
    if largest:
        fact += f"; {label} needs {si(needed_byte, 'B')} besides torch"
    is_short = free_byte < needed_byte + LEAST_MEMORY_BYTE
    yield grade("memory", 2 if free_byte < LEAST_MEMORY_BYTE else is_short, fact)
    fact = f"{si(swap_byte, 'B')} in use, {si(moved_byte, 'B')} moved within the last second"
    yield grade("swap", 2 if moved_byte else swap_byte > 0, fact)


def check_gpus() -> Iterator[Finding]:
    """Check every NVIDIA GPU that torch would see, then access to the hardware counters."""
    handles = devices.nvidia_handles()
    for index, handle in enumerate(handles):
        yield from _check_gpu(f"cuda:{index}", handle)
    if handles:
        yield check_counters()
    elif NVIDIA_DRIVER.is_dir():
        remedy = "pip install nvidia-ml-py, and check nvidia-smi and CUDA_VISIBLE_DEVICES"
        yield Finding(WARNING, "gpu", "a driver is loaded, but shows no GPU", remedy)
    else:
        yield Finding(UNCHECKED, "gpu", "no NVIDIA driver is loaded here")


def _check_gpu(gpu: str, handle: Any) -> Iterator[Finding]:
    processes = ask("DeviceGetComputeRunningProcesses", handle) or []
    memory, utilization = ask("DeviceGetMemoryInfo", handle), ask("DeviceGetUtilizationRates", handle)
    used_byte, percent = memory.used if memory else None, utilization.gpu if utilization else None
    busy = "of unknown utilization" if percent is None else f"{percent} % busy"
    in_use = "unknown memory" if used_byte is None else si(used_byte, "B")
    fact = f"{ask('DeviceGetName', handle) or 'NVIDIA GPU'} is {busy}, with {in_use} in use"
    value = None if percent is None else 0
    if processes or (percent or 0) >= BUSY_GPU_PERCENT:
        value = 2
    elif (used_byte or 0) >= USED_GPU_BYTE:  # under WSL 2 a busy GPU looks idle
        value = 1
    who = ", ".join(f"process {each.pid}" for each in processes) or "processes that are not visible here"
    yield grade("utilization", value, f"{fact}, by {who}" if value else fact, gpu)
    is_on = ask("DeviceGetPersistenceMode", handle)
    effect = "on" if is_on else "off: the driver releases the GPU between processes, and its clock falls"
    yield grade("persistence mode", None if is_on is None else not is_on, f"persistence mode is {effect}", gpu)
    reasons = nvidia_throttling(board_of(handle) or handle)
    if reasons:
        fact = f"the clock is lowered now ({reasons.replace(';', ', ')})"
        yield grade("clock", 1 if reasons == POWER_CAP else 2, fact, gpu)


def check_counters(status: Path = Path("/proc/self/status")) -> Finding:
    """Check whether this user may read hardware counters: anybody, or CAP_SYS_ADMIN, which root in Docker lacks."""
    restricted = re.search(r"^RmProfilingAdminOnly:\s*(\d)", content_of(NVIDIA_DRIVER / "params"), re.MULTILINE)
    capabilities = re.search(r"^CapEff:\s*([0-9a-f]+)", content_of(status), re.MULTILINE)
    if restricted is None:
        return grade("hardware counters", None)
    is_allowed = restricted[1] == "0" or (capabilities is not None and int(capabilities[1], 16) & SYS_ADMIN)
    fact = "the driver keeps its hardware counters for administrators (RmProfilingAdminOnly is 1)"
    return grade("hardware counters", not is_allowed, "this user may read them" if is_allowed else fact)


def check_libraries() -> Iterator[Finding]:
    """Try every library in a process of its own, which takes seconds."""
    from concurrent.futures import ThreadPoolExecutor

    has_gpu = bool(devices.nvidia_handles()) or devices.available_names()[0].startswith("cuda")
    rows = [row for row in LIBRARIES if has_gpu or row[0] != "triton"]
    with ThreadPoolExecutor() as pool:
        trials = list(pool.map(run_trial, [trial for _, trial, *_ in rows]))
    for (name, _, level, loss), (_, failure) in zip(rows, trials, strict=True):
        title = f"{name} {installed_version(name) or ''}".strip()
        if failure:
            remedy = COMPATIBLE_SET if name.startswith("torch") else f"pip install --force-reinstall {name}"
            yield Finding(level, "libraries", f"{title} does not import ({failure}): {loss}", remedy)
        else:
            yield Finding(OK, "libraries", f"{title} imports")
    if has_gpu and not (os.environ.get("CC") or shutil.which("gcc") or shutil.which("clang")):
        fact = "Triton finds no C compiler: a GPU's multiply-adds are not measured"
        yield Finding(WARNING, "libraries", fact, "install gcc, or set the variable CC to a compiler")
    if has_gpu and trials[0][0].strip() == "False":  # of torch
        remedy = "install a torch that is built for this GPU and its driver"
        yield Finding(PROBLEM, "gpu", f"torch {installed_version('torch')} cannot use it", remedy)


def run_trial(trial: str, limit_s: float = 300.0) -> tuple[str, str | None]:  # a cold network disk is slow
    """Run Python code in a process of its own. Return its output and the reason of its failure, None if it succeeds."""
    try:
        command = [sys.executable, "-c", trial]
        run = subprocess.run(command, capture_output=True, errors="replace", timeout=limit_s, check=False)
    except subprocess.TimeoutExpired:
        return "", f"no answer within {limit_s:g} s"
    if run.returncode == 0:
        return run.stdout, None
    errors = re.findall(r"^\w[\w.]*: .*", run.stderr, re.MULTILINE)
    return run.stdout, errors[-1] if errors else f"exit code {run.returncode}"


def check_tuning(variables: Mapping[str, str]) -> Iterator[Finding]:
    for setting in processor.precision_overrides(variables):
        yield Finding(PROBLEM, "tuning", f"{setting} sets the precision of fp32 products", "unset it")
    if tuned := processor.tuning(variables):
        remedy = "unset them unless intended: rows measured with them belong to a separate environment"
        yield Finding(WARNING, "tuning", f"variables change speed: {tuned.replace(';', ', ')}", remedy)
    else:
        yield Finding(OK, "tuning", "no variable tunes torch or its libraries")
