"""The devices of this machine, by the names that torch gives them: its processor, an Apple GPU, and CUDA's.

The GPU of an Apple chip, as macOS tells of it.
"""

import platform
import re
import subprocess
from collections.abc import Callable

from measure.errors import UserError, did_you_mean
from measure.machine import processor
from measure.machine.cuda import Nvidia, Rocm, hip_version, rocm_gpu_count
from measure.machine.device import Device, Events, MpsEvents, swept
from measure.machine.nvidia import nvidia_handles


def gpu_cores() -> int | None:
    """Return the number of the GPU's cores, in which chips of one name differ; None where it is not told."""
    asked = ["ioreg", "-r", "-d", "1", "-w", "0", "-c", "AGXAccelerator"]
    try:
        answer = subprocess.run(asked, capture_output=True, text=True, check=False).stdout
    except OSError:
        return None
    told = re.search(r'"gpu-core-count" = (\d+)', answer)
    return int(told[1]) if told else None


class Cpu(Device):
    """The processor, through all its cores."""

    kind = torch_name = "cpu"

    def identity(self) -> dict[str, str]:
        said = processor.described()
        name = said.get("model name") or said.get("Model") or platform.machine() or "unknown processor"
        keys = ("cpu family", "model", "stepping", "CPU part")
        parts: dict[str, str] = {key: said[key] for key in keys if key in said}
        cores = str(processor.visible_cores())
        return {"name": name, "cores": cores, "architecture": platform.machine(), **parts}

    def prepare(self, threads: int) -> None:
        import torch

        torch.set_num_threads(threads)
        _limit_memory(processor.available_memory_byte())

    def synchronize(self) -> None:
        """Do nothing: operators on the CPU return when they are done."""

    def cache_clearer(self) -> Callable[[], object]:
        caches = processor.caches()
        return swept(self.torch_name, caches[-1].byte if caches else 0)


def _limit_memory(byte: int) -> None:
    """Let an allocation fail in this process before the system has to kill something."""
    if platform.system() != "Linux":
        return
    import resource

    import psutil

    private = psutil.Process().memory_info()
    data = getattr(private, "data", 0)  # what the limit counts already
    resource.setrlimit(resource.RLIMIT_DATA, (data + byte, resource.RLIM_INFINITY))


class Mps(Device):
    """The GPU of an Apple chip."""

    kind = torch_name = "mps"
    is_asynchronous = True

    def identity(self) -> dict[str, str]:
        chip, cores = Cpu().identity(), gpu_cores()
        name = f"{chip['name']} GPU" if cores is None else f"{chip['name']} GPU ({cores} cores)"
        return {**chip, "name": name, "gpu": "mps"}

    def driver(self) -> str | None:
        return platform.mac_ver()[0] or None

    def memory_byte(self) -> int:
        """Return how much of the machine's memory Metal lets the GPU use before it slows down."""
        import torch

        return int(torch.mps.recommended_max_memory())

    def prepare(self, threads: int) -> None:
        import torch

        if not torch.backends.mps.is_available():
            raise UserError("--device mps: this torch cannot use the GPU; use macOS 12.3 and a build for arm64")
        torch.set_num_threads(threads)

    def synchronize(self) -> None:
        import torch

        torch.mps.synchronize()

    def release_memory(self) -> None:
        import torch

        super().release_memory()
        torch.mps.empty_cache()

    def events(self) -> Events:
        return MpsEvents()

    def cache_clearer(self) -> Callable[[], object]:
        return swept(self.torch_name, 0)


def available_names() -> list[str]:
    """Return the devices of this machine, first the one that ``auto`` takes."""
    count = len(nvidia_handles()) if hip_version() is None else rocm_gpu_count()
    names = [f"cuda:{index}" for index in range(count)]
    if platform.system() == "Darwin" and platform.machine() == "arm64":
        names.append("mps")
    return [*names, "cpu"]


def find(name: str) -> Device:
    """Return the device of this name (cpu, cuda, cuda:N, mps, auto). Raise UserError that says which there are."""
    if not re.fullmatch(r"auto|cpu|mps|cuda(:\d+)?", name):
        raise UserError(
            f"--device: {name!r} is not a device; use cpu, cuda, cuda:N, mps or auto"
            + did_you_mean(name, ("cpu", "cuda", "mps", "auto"))
        )
    there = available_names()
    wanted = {"auto": there[0], "cuda": "cuda:0"}.get(name, name)
    if wanted not in there:
        raise UserError(f"--device: there is no {name} on this machine; use {' or '.join(there)}")
    if wanted in ("cpu", "mps"):
        return Cpu() if wanted == "cpu" else Mps()
    index = int(wanted.partition(":")[2])
    return Nvidia(index) if hip_version() is None else Rocm(index)
