"""The devices of this machine by torch's names: the processor, an Apple GPU, CUDA GPUs."""

import platform
import re

from measure.errors import UserError, did_you_mean
from measure.machine import container, processor
from measure.machine.cuda import Nvidia, Rocm, hip_version, rocm_gpu_count
from measure.machine.device import Device, MpsEvents
from measure.machine.nvidia import nvidia_handles


class Cpu(Device):
    kind = torch_name = "cpu"

    def identity(self) -> dict[str, str]:
        cpuinfo = processor.read_cpuinfo()
        name = cpuinfo.get("Model") or cpuinfo.get("model name") or platform.machine() or "unknown processor"
        identity = {"name": name, "cores": str(processor.visible_cores()), "architecture": platform.machine()}
        numbers = ("cpu family", "model", "stepping", "CPU part")
        return identity | {key: cpuinfo[key] for key in numbers if key in cpuinfo}

    def prepare(self, threads: int) -> None:
        self.torch.set_num_threads(threads)
        if platform.system() == "Linux":  # let an allocation fail in this process before the system has to kill one
            import resource

            import psutil

            used_byte = psutil.Process().memory_info().data  # counts against the limit
            limit_byte = used_byte + container.available_memory_byte()
            resource.setrlimit(resource.RLIMIT_DATA, (limit_byte, resource.RLIM_INFINITY))

    def cache_byte(self) -> int:
        caches = processor.caches()
        return caches[-1].byte if caches else 0


class Mps(Device):
    """The GPU of an Apple chip."""

    kind = torch_name = "mps"
    is_asynchronous = True

    def identity(self) -> dict[str, str]:
        """Return the chip's identity with the number of its GPU's cores, which differs between chips of one name."""
        tree = processor.output_of("ioreg", "-r", "-d", "1", "-w", "0", "-c", "AGXAccelerator")
        chip, count = Cpu().identity(), re.search(r'"gpu-core-count" = (\d+)', tree)
        return {**chip, "name": f"{chip['name']} GPU" + (f" ({count[1]} cores)" if count else ""), "gpu": "mps"}

    def driver(self) -> str | None:
        return platform.mac_ver()[0] or None

    def memory_byte(self) -> int:
        """Return the share of the machine's memory that Metal lets the GPU use before it slows down."""
        return int(self.torch.mps.recommended_max_memory())

    def prepare(self, threads: int) -> None:
        if not self.torch.backends.mps.is_available():
            raise UserError("--device mps: this torch cannot use the GPU; use macOS 12.3 and a build for arm64")
        self.torch.set_num_threads(threads)

    def synchronize(self) -> None:
        self.torch.mps.synchronize()

    def release_memory(self) -> None:
        super().release_memory()
        self.torch.mps.empty_cache()

    def events(self) -> MpsEvents:
        return MpsEvents()


def available_names() -> list[str]:
    """Return the names of this machine's devices; ``auto`` takes the first."""
    count = len(nvidia_handles()) if hip_version() is None else rocm_gpu_count()
    names = [f"cuda:{index}" for index in range(count)]
    if platform.system() == "Darwin" and platform.machine() == "arm64":
        names.append("mps")
    return [*names, "cpu"]


def find(name: str) -> Device:
    """Return the device of a name (cpu, cuda, cuda:N, mps, auto). Raises UserError if there is none."""
    if not re.fullmatch(r"auto|cpu|mps|cuda(:\d+)?", name):
        hint = did_you_mean(name, ("cpu", "cuda", "mps", "auto"))
        raise UserError(f"--device: {name!r} is not a device; use cpu, cuda, cuda:N, mps or auto{hint}")
    names = ["cpu"] if name == "cpu" else available_names()  # imports no torch for the processor
    chosen = {"auto": names[0], "cuda": "cuda:0"}.get(name, name)
    if chosen not in names:
        raise UserError(f"--device: there is no {name} on this machine; use {' or '.join(names)}")
    kind, _, index = chosen.partition(":")
    if kind == "cuda":
        return Nvidia(int(index)) if hip_version() is None else Rocm(int(index))
    return Cpu() if kind == "cpu" else Mps()
