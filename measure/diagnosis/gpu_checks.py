"""From facts of GPUs to findings; what a driver does not tell is a finding too."""

from collections.abc import Iterator

from measure.diagnosis import finding
from measure.diagnosis.finding import OK, PROBLEM, UNCHECKED, WARNING, Finding, gigabytes, judged, untold
from measure.diagnosis.gpus import Gpu, Nvidia
from measure.diagnosis.libraries import Libraries
from measure.timing.sampling import POWER_CAP

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
    return finding.temperature_finding(gpu.torch_name, "the GPU has", gpu.temperature_c, gpu.limit_c)
