"""The devices that can be measured, with their quirks: identity, stopwatch, memory.

Identity is read without torch, so that a plan, or a run with nothing left to do, answers at once.
"""

import gc
import platform
import re
from abc import ABC, abstractmethod
from collections.abc import Callable

from measure.cache.words import TF32
from measure.cli.suggestion import did_you_mean
from measure.errors import UserError
from measure.machine import apple, processor
from measure.machine.amd_smi import AmdSmi
from measure.machine.events import CudaEvents, Events, MpsEvents
from measure.machine.nvidia import ask, board_of, nvidia_driver, nvidia_handles, text_of, uuid_of
from measure.machine.precisions import has_units
from measure.machine.rocm import driver_version, listed_name, rocm_gpus
from measure.machine.sensors import AmdSensors, NvidiaSensors, ProcessorSensors, Sensors

SWEEP = 4
"""How many times its size is read and written to clear a cache, which need not evict the oldest first."""

SMALLEST_CACHE_BYTE = 2**25
"""Taken for a cache that does not say its size, or says less, as a guest's often does."""


class Device(ABC):
    """One device of this machine, under the name that torch gives it; as it is here, one without a clock of its own."""

    kind: str
    torch_name: str
    is_asynchronous = False
    """Whether operators return before the device has done them."""
    is_nvidia = False
    """Whether it is a GPU whose hardware counters Nsight Compute reads."""

    @abstractmethod
    def identity(self) -> dict[str, str]:
        """Return what tells this hardware from other hardware; its ``name`` among it."""

    def driver(self) -> str | None:
        """Return the driver's version, where there is one."""
        return None

    def capability(self) -> str | None:
        """Return an NVIDIA GPU's compute capability, where the driver tells it."""
        return None

    def memory_byte(self) -> int:
        """Return the size of the memory that holds this device's tensors."""
        import psutil

        return psutil.virtual_memory().total

    @abstractmethod
    def prepare(self, threads: int) -> None:
        """Set this process up to measure: threads, and no silent change of precision."""

    def allow_tf32(self, allowed: bool) -> None:
        """Let fp32 be multiplied as TF32, or forbid it. Raise NotImplementedError where a device has no TF32."""
        _refuse_tf32(allowed)

    def refuse_emulation(self, precision: str) -> None:  # noqa: B027 - most devices compute in what torch offers them
        """Raise NotImplementedError where the device has no units for a precision, and torch converts it for others."""

    @abstractmethod
    def synchronize(self) -> None:
        """Wait until the device has done all its work."""

    def release_memory(self) -> None:
        """Free what a task has left in this process, for the next one."""
        gc.collect()

    def events(self) -> Events | None:
        """Return the device's own stopwatch; None where the host's is all there is."""
        return None

    @abstractmethod
    def cache_clearer(self) -> Callable[[], object]:
        """Return a call that leaves nothing in the caches that a network could use."""

    def sensors(self) -> Sensors:
        return ProcessorSensors()


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
        return _sweep(self.torch_name, caches[-1].byte if caches else 0)


def _refuse_tf32(wanted: bool) -> None:
    if wanted:
        raise NotImplementedError(
            "tf32 is a format of NVIDIA's tensor cores (Ampere on) and of AMD's (MI300); this device has none"
        )


def _sweep(torch_name: str, cache_byte: int) -> Callable[[], object]:
    """Return a call that reads and writes memory of its own, several times the cache: stores alone may bypass it."""
    import torch

    buffer = torch.zeros(SWEEP * max(cache_byte, SMALLEST_CACHE_BYTE) // 4, device=torch_name)
    return lambda: buffer.add_(1.0)


def _limit_memory(byte: int) -> None:
    """Let an allocation fail in this process before the system has to kill something."""
    if platform.system() != "Linux":
        return
    import resource

    import psutil

    private = psutil.Process().memory_info()
    data = getattr(private, "data", 0)  # what the limit counts already
    resource.setrlimit(resource.RLIMIT_DATA, (data + byte, resource.RLIM_INFINITY))


LEAST_SHARE = 0.8
"""The part of the memory told by the driver that torch tells at least: it leaves out what the driver keeps."""

NO_KERNEL = ("no kernel image", "invalid device function")
"""What CUDA and HIP say where a library is built for other GPUs."""


class Cuda(Device):
    """One GPU as torch's CUDA device ``cuda:N``: NVIDIA's, or AMD's where torch is built for ROCm."""

    kind = "cuda"
    is_asynchronous = True

    def __init__(self, index: int) -> None:
        self.torch_name = f"cuda:{index}"

    @abstractmethod
    def _name(self) -> str:
        """Return what its vendor calls it."""

    @abstractmethod
    def _architecture(self) -> str:
        """Return what kernels are built for."""

    @abstractmethod
    def _has_tf32(self) -> bool:
        """Return whether torch multiplies fp32 as TF32 on it."""

    @abstractmethod
    def _check_that_torch_uses_it(self) -> None:
        """Raise UserError where torch uses another GPU than the one that was identified."""

    def prepare(self, threads: int) -> None:
        import torch

        if not torch.cuda.is_available():
            raise UserError(
                f"--device {self.torch_name}: this torch ({torch.__version__}) cannot use the GPU; "
                "install one that is built for this driver"
            )
        torch.cuda.set_device(self.torch_name)
        self._check_that_torch_uses_it()
        self._check_kernels()
        torch.set_num_threads(threads)
        self.allow_tf32(False)  # cuDNN and cuBLAS would compute fp32 on tf32 units

    def _check_kernels(self) -> None:
        """Raise UserError where torch is built for other GPUs, which it says only when it launches a kernel."""
        import torch

        try:
            torch.ones(8, device=self.torch_name).mul_(2.0)  # no matrix product: its library would keep memory
            self.synchronize()
        except RuntimeError as problem:
            if not any(words in str(problem) for words in NO_KERNEL):
                raise
            raise UserError(
                f"--device {self.torch_name}: this torch ({torch.__version__}) has no kernels for {self._name()} of "
                f"{self._architecture()}, only for {', '.join(torch.cuda.get_arch_list())}; "
                "install one that is built for it"
            ) from None

    def allow_tf32(self, allowed: bool) -> None:
        import torch

        _refuse_tf32(allowed and not self._has_tf32())
        torch.backends.cuda.matmul.allow_tf32 = allowed
        torch.backends.cudnn.allow_tf32 = allowed

    def refuse_emulation(self, precision: str) -> None:
        import torch

        if precision == "bf16" and not torch.cuda.is_bf16_supported(including_emulation=False):
            raise NotImplementedError(
                f"{self._name()} has no units for bf16 ({self._architecture()}): torch would convert it to fp32 and "
                "back"
            )

    def synchronize(self) -> None:
        import torch

        torch.cuda.synchronize(self.torch_name)

    def release_memory(self) -> None:
        import torch

        super().release_memory()
        torch.cuda.empty_cache()  # what torch keeps of it would spare the next task its own allocations

    def events(self) -> Events:
        return CudaEvents()

    def cache_clearer(self) -> Callable[[], object]:
        import torch

        return _sweep(self.torch_name, torch.cuda.get_device_properties(self.torch_name).L2_cache_size)


class Nvidia(Cuda):
    """An NVIDIA GPU, numbered by its place on the bus among those that CUDA_VISIBLE_DEVICES names."""

    is_nvidia = True

    def __init__(self, index: int) -> None:
        import pynvml

        super().__init__(index)
        self._nvml, self._handle = pynvml, nvidia_handles()[index]

    def identity(self) -> dict[str, str]:
        memory_byte = self._told_memory_byte()
        memory = {} if memory_byte is None else {"memory": str(memory_byte)}
        bus = ask(board_of(self._handle) or self._handle, self._nvml.nvmlDeviceGetPciInfo)
        place = {} if bus is None else {"pci": f"{bus.pciDeviceId:08x}"}  # a Jetson's GPU is on no bus
        return {"name": self._name(), **memory, **place}

    def _name(self) -> str:
        return text_of(self._nvml.nvmlDeviceGetName(self._handle))

    def driver(self) -> str | None:
        return nvidia_driver()

    def capability(self) -> str | None:
        told = ask(board_of(self._handle) or self._handle, self._nvml.nvmlDeviceGetCudaComputeCapability)
        return None if told is None else ".".join(map(str, told))

    def memory_byte(self) -> int:
        """Return the size of the GPU's memory; that of the system's where they are one (GB10, Jetson)."""
        told = self._told_memory_byte()
        return super().memory_byte() if told is None else told

    def _told_memory_byte(self) -> int | None:
        memory = ask(self._handle, self._nvml.nvmlDeviceGetMemoryInfo)
        return None if memory is None else int(memory.total)

    def _architecture(self) -> str:
        import torch

        major, minor = torch.cuda.get_device_capability(self.torch_name)
        return f"compute capability {major}.{minor}"

    def _has_tf32(self) -> bool:
        import torch

        return has_units(torch.cuda.get_device_capability(self.torch_name), TF32)

    def _check_that_torch_uses_it(self) -> None:
        import torch

        used, told_byte = torch.cuda.get_device_properties(self.torch_name), self._told_memory_byte()
        if used.is_integrated and torch.cuda.device_count() == 1 == len(nvidia_handles()):
            return  # the one GPU of a chip, which on a Jetson the driver and torch call by different names
        used_uuid, uuid = f"GPU-{used.uuid}", uuid_of(self._handle)
        if uuid and board_of(self._handle) is None:
            is_same = used_uuid == uuid
        else:  # of a slice torch may tell the UUID of its board
            is_same = used.name == self._name() and used.total_memory >= LEAST_SHARE * (told_byte or 0)
        if not is_same:
            raise UserError(
                f"--device {self.torch_name}: the driver tells of {self._name()} ({uuid}), but torch uses {used.name} "
                f"({used_uuid}); set CUDA_VISIBLE_DEVICES to the UUID of the one to measure (nvidia-smi -L lists them)"
            )

    def sensors(self) -> Sensors:
        return NvidiaSensors(self._handle, ProcessorSensors())


class Amd(Cuda):
    """An AMD GPU under Linux, numbered as ROCm does among those that its variables name."""

    def __init__(self, index: int) -> None:
        super().__init__(index)
        self._gpu = rocm_gpus()[index]
        self._smi = AmdSmi(self._gpu.bus)

    def identity(self) -> dict[str, str]:
        memory = {} if self._gpu.memory_byte is None else {"memory": str(self._gpu.memory_byte)}
        return {"name": self._name(), **memory, "pci": self._gpu.pci_id}

    def _name(self) -> str:
        told = self._smi.market_name() or listed_name(self._gpu) or self._gpu.architecture
        name = told if told.startswith("AMD ") else f"AMD {told}"  # older tables of names leave it out
        return f"{name} (one of two dies)" if self._gpu.is_one_of_two_dies else name

    def driver(self) -> str:
        return driver_version()

    def memory_byte(self) -> int:
        """Return the size of the GPU's memory; that of the system's where they are one."""
        return self._gpu.memory_byte or super().memory_byte()

    def _architecture(self) -> str:
        return self._gpu.architecture

    def _has_tf32(self) -> bool:
        import torch

        # torch 2.7 and later say; a capability is none of AMD's, though torch calls gfx1100 11.0
        return hasattr(torch.cuda, "is_tf32_supported") and bool(torch.cuda.is_tf32_supported())

    def allow_tf32(self, allowed: bool) -> None:
        import torch

        super().allow_tf32(allowed)
        if allowed and not torch.backends.cuda.matmul.allow_tf32:  # github.com/pytorch/pytorch/pull/143549
            raise NotImplementedError(
                "this torch multiplies as tf32 on AMD's GPUs where HIPBLASLT_ALLOW_TF32=1 is set; set it, and measure "
                "with --force"
            )

    def _check_that_torch_uses_it(self) -> None:
        import torch

        used, expected = torch.cuda.get_device_properties(self.torch_name), self._gpu.unique_id
        told = bytes.fromhex(str(used.uuid).replace("-", "")).decode("ascii", "replace")  # HIP spells the digits
        if expected and re.fullmatch(r"[0-9a-f]{16}", told) and told != expected:
            raise UserError(
                f"--device {self.torch_name}: the kernel tells of {self._name()} (GPU-{expected}), but torch uses "
                f"{used.name} (GPU-{told}); set ROCR_VISIBLE_DEVICES to the UUID of the one to measure (rocminfo lists "
                "them)"
            )

    def cache_clearer(self) -> Callable[[], object]:
        return _sweep(self.torch_name, self._gpu.cache_byte)

    def sensors(self) -> Sensors:
        return AmdSensors(self._smi, ProcessorSensors(), self._gpu.is_one_of_two_dies)


class Mps(Device):
    """The GPU of an Apple chip."""

    kind = torch_name = "mps"
    is_asynchronous = True

    def identity(self) -> dict[str, str]:
        chip, cores = Cpu().identity(), apple.gpu_cores()
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
        return _sweep(self.torch_name, 0)


def available_names() -> list[str]:
    """Return the devices of this machine, first the one that ``auto`` takes."""
    names = [f"cuda:{index}" for index in range(len(rocm_gpus() or nvidia_handles()))]
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
    return Amd(index) if rocm_gpus() else Nvidia(index)
