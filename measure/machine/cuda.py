"""GPUs that torch calls CUDA devices: NVIDIA's, and AMD's if torch is built for ROCm."""

import importlib.util
import platform
import re
from abc import abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any

from measure.domain.precisions import has_units
from measure.domain.words import TF32
from measure.errors import UserError
from measure.machine.device import CudaEvents, Device, Events, cache_sweep
from measure.machine.nvidia import ask, board_of, nvidia_driver, nvidia_handles, text_of, uuid_of
from measure.machine.processor import content_of
from measure.machine.sensors import HostLoad, NvidiaSensors, Sensors

LEAST_SHARE = 0.8
"""torch reports at least this share of the driver's memory: it leaves out what the driver reserves."""

NO_KERNEL = ("no kernel image", "invalid device function")
"""Errors of CUDA and HIP for a library that is built for other GPUs."""

AMDGPU_VERSION = Path("/sys/module/amdgpu/version")
"""The version of AMD's own driver. The driver in Linux's kernel has no such file."""

INFINITY_CACHE_BYTE = 2**28
"""The largest cache of an AMD GPU (MI300X). torch reports a smaller one: the second level of one die."""


class Cuda(Device):
    """A GPU that torch calls ``cuda:N``."""

    kind = "cuda"
    is_asynchronous = True

    def __init__(self, index: int) -> None:
        self.torch_name = f"cuda:{index}"

    @abstractmethod
    def _name(self) -> str:
        """Return the vendor's name of the GPU."""

    @abstractmethod
    def _architecture(self) -> str:
        """Return the architecture that kernels are built for."""

    @abstractmethod
    def _has_tf32(self) -> bool:
        """Return whether torch can multiply fp32 as TF32."""

    def _properties(self) -> Any:
        import torch

        return torch.cuda.get_device_properties(self.torch_name)

    def _check_same_gpu(self) -> None:
        """Raise UserError if torch uses another GPU than the identified one."""

    def prepare(self, threads: int) -> None:
        import torch

        if not torch.cuda.is_available():
            raise UserError(
                f"--device {self.torch_name}: this torch ({torch.__version__}) cannot use the GPU; "
                "install one that is built for this driver"
            )
        torch.cuda.set_device(self.torch_name)
        self._check_same_gpu()
        try:  # torch reports a missing kernel at launch only
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
        torch.set_num_threads(threads)
        self.allow_tf32(False)  # cuDNN and cuBLAS would compute fp32 on tf32 units

    def allow_tf32(self, allowed: bool) -> None:
        import torch

        if not self._has_tf32():
            super().allow_tf32(allowed)
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
        torch.cuda.empty_cache()  # cached memory would spare the next task its own allocations

    def events(self) -> Events:
        return CudaEvents()

    def cache_clearer(self) -> Callable[[], object]:
        return cache_sweep(self.torch_name, self._properties().L2_cache_size)


class Nvidia(Cuda):
    """An NVIDIA GPU, numbered in bus order among those in CUDA_VISIBLE_DEVICES."""

    is_nvidia = True

    def __init__(self, index: int) -> None:
        import pynvml

        super().__init__(index)
        self._nvml, self._handle = pynvml, nvidia_handles()[index]
        self._board = board_of(self._handle) or self._handle

    def identity(self) -> dict[str, str]:
        memory_byte = self._own_memory_byte()
        memory = {} if memory_byte is None else {"memory": str(memory_byte)}
        bus = ask(self._board, self._nvml.nvmlDeviceGetPciInfo)
        place = {} if bus is None else {"pci": f"{bus.pciDeviceId:08x}"}  # a Jetson's GPU is on no bus
        return {"name": self._name(), **memory, **place}

    def _name(self) -> str:
        return text_of(self._nvml.nvmlDeviceGetName(self._handle))

    def driver(self) -> str | None:
        return nvidia_driver()

    def capability(self) -> str | None:
        pair = ask(self._board, self._nvml.nvmlDeviceGetCudaComputeCapability)
        return None if pair is None else ".".join(map(str, pair))

    def memory_byte(self) -> int:
        """Return the size of the GPU's memory, or of the system's if they are one (GB10, Jetson)."""
        own_byte = self._own_memory_byte()
        return super().memory_byte() if own_byte is None else own_byte

    def _own_memory_byte(self) -> int | None:
        memory = ask(self._handle, self._nvml.nvmlDeviceGetMemoryInfo)
        return None if memory is None else int(memory.total)

    def _torch_capability(self) -> tuple[int, int]:
        import torch

        return torch.cuda.get_device_capability(self.torch_name)

    def _architecture(self) -> str:
        return "compute capability {}.{}".format(*self._torch_capability())

    def _has_tf32(self) -> bool:
        return has_units(self._torch_capability(), TF32)

    def _check_same_gpu(self) -> None:
        import torch

        used = self._properties()
        if used.is_integrated and torch.cuda.device_count() == 1 == len(nvidia_handles()):
            return  # the driver and torch name a Jetson's only GPU differently
        used_uuid, uuid = f"GPU-{used.uuid}", uuid_of(self._handle)
        if uuid and board_of(self._handle) is None:
            is_same = used_uuid == uuid
        else:  # for a slice torch may report the UUID of its board
            least_byte = LEAST_SHARE * (self._own_memory_byte() or 0)
            is_same = used.name == self._name() and used.total_memory >= least_byte
        if not is_same:
            raise UserError(
                f"--device {self.torch_name}: the driver reports {self._name()} ({uuid}), but torch uses {used.name} "
                f"({used_uuid}); set CUDA_VISIBLE_DEVICES to the UUID of the one to measure (nvidia-smi -L lists them)"
            )

    def sensors(self) -> Sensors:
        return NvidiaSensors(self._handle)


class Rocm(Cuda):
    """An AMD GPU as described by a torch that is built for ROCm. Its sensors are not read."""

    def identity(self) -> dict[str, str]:
        return {"name": self._name(), "memory": str(self.memory_byte())}

    def _name(self) -> str:
        name = self._properties().name or self._architecture()
        return re.sub("MI250X?$", r"\g<0> (one of two dies)", name)  # a program sees each die as a GPU

    def driver(self) -> str:
        """Return the version of AMD's own driver, or the kernel's version if the driver is the kernel's."""
        return content_of(AMDGPU_VERSION) or platform.release()

    def memory_byte(self) -> int:
        return int(self._properties().total_memory)

    def _architecture(self) -> str:
        return str(self._properties().gcnArchName).partition(":")[0]

    def _has_tf32(self) -> bool:
        import torch

        return hasattr(torch.cuda, "is_tf32_supported") and bool(torch.cuda.is_tf32_supported())  # torch 2.7 added it

    def allow_tf32(self, allowed: bool) -> None:
        import torch

        super().allow_tf32(allowed)
        if allowed and not torch.backends.cuda.matmul.allow_tf32:  # github.com/pytorch/pytorch/pull/143549
            raise NotImplementedError(
                "this torch multiplies as tf32 on AMD GPUs only if HIPBLASLT_ALLOW_TF32=1; set it and measure with "
                "--force"
            )

    def cache_clearer(self) -> Callable[[], object]:
        return cache_sweep(self.torch_name, INFINITY_CACHE_BYTE)

    def sensors(self) -> Sensors:
        return HostLoad()


def hip_version() -> str | None:
    """Return the HIP version that torch is built for, without importing torch; None if it has no ROCm."""
    torch = importlib.util.find_spec("torch")
    text = content_of(Path(torch.origin).with_name("version.py")) if torch and torch.origin else ""
    built = re.search(r"""^hip\b.*=\s*['"]([^'"]+)['"]""", text, re.MULTILINE)
    return built[1] if built else None


def rocm_gpu_count() -> int:
    """Return the number of GPUs that a torch for ROCm sees; 0 if it cannot be imported."""
    try:
        import torch
    except (ImportError, OSError):  # the doctor reports the reason
        return 0
    return torch.cuda.device_count()
