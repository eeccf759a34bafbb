"""GPUs that torch calls CUDA devices: NVIDIA's, and AMD's if torch is built for ROCm."""

import importlib.util
import platform
import re
from abc import abstractmethod
from contextlib import suppress
from pathlib import Path
from typing import Any

from measure.domain.precisions import has_units
from measure.domain.roofs import CacheLevel
from measure.domain.words import TF32
from measure.errors import UserError
from measure.machine import settings
from measure.machine.device import NO_TF32, Device, Events
from measure.machine.nvidia import ask, board_of, nvidia_handles
from measure.machine.processor import content_of
from measure.machine.sensors import LaunchLoad, NvidiaSensors, Sensors

NO_KERNEL = ("no kernel image", "invalid device function")  # CUDA's and HIP's errors for a build for other GPUs
AMDGPU_VERSION = Path("/sys/module/amdgpu/version")  # of AMD's own driver; the one in Linux's kernel has no such file


class Cuda(Device):
    """A GPU that torch calls ``cuda:N``."""

    kind = "cuda"
    is_asynchronous = True

    def __init__(self, index: int) -> None:
        self.torch_name = f"cuda:{index}"

    @abstractmethod
    def _architecture(self) -> str:
        """Return the architecture that kernels are built for."""

    def _properties(self) -> Any:
        return self.torch.cuda.get_device_properties(self.torch_name)

    def _check_same_gpu(self) -> None:
        """Raise UserError if torch uses another GPU than the identified one."""

    def prepare(self, threads: int) -> None:
        where = f"--device {self.torch_name}: this torch ({self.torch.__version__})"
        if not self.torch.cuda.is_available():
            raise UserError(f"{where} cannot use the GPU; install one that is built for this driver")
        self.torch.cuda.set_device(self.torch_name)
        self._check_same_gpu()
        try:  # torch reports a missing kernel at launch only
            self.torch.ones(8, device=self.torch_name).mul_(2.0)  # no matrix product: its library would keep memory
            self.synchronize()
        except RuntimeError as problem:
            if not any(words in str(problem) for words in NO_KERNEL):
                raise
            gpu = f"{self.identity()['name']} of {self._architecture()}"
            built = ", ".join(self.torch.cuda.get_arch_list())
            raise UserError(f"{where} has no kernels for {gpu}, only for {built}; install another build") from None
        self.torch.set_num_threads(threads)
        self.allow_tf32(False)  # cuDNN and cuBLAS would compute fp32 on tf32 units

    def allow_tf32(self, allowed: bool) -> None:
        settings.allow_tf32(allowed)

    def refuse_emulation(self, precision: str) -> None:
        if precision == "bf16" and not self.torch.cuda.is_bf16_supported(including_emulation=False):
            gpu = f"{self.identity()['name']} has no units for bf16 ({self._architecture()})"
            raise NotImplementedError(f"{gpu}: torch would convert it to fp32 and back")

    def synchronize(self) -> None:
        self.torch.cuda.synchronize(self.torch_name)

    def release_memory(self) -> None:
        super().release_memory()
        self.torch.cuda.empty_cache()  # cached memory would spare the next task its own allocations

    def events(self) -> Events:
        return Events()

    def cache_byte(self) -> int:
        return int(self._properties().L2_cache_size)


class Nvidia(Cuda):
    """An NVIDIA GPU, numbered in bus order among those in CUDA_VISIBLE_DEVICES."""

    is_nvidia = True

    def __init__(self, index: int) -> None:
        super().__init__(index)
        self._handle = nvidia_handles()[index]
        self._board = board_of(self._handle) or self._handle

    def identity(self) -> dict[str, str]:
        memory, bus = ask("DeviceGetMemoryInfo", self._handle), ask("DeviceGetPciInfo", self._board)
        identity = {"name": ask("DeviceGetName", self._handle)}
        if memory:
            identity["memory"] = str(memory.total)
        if bus:  # a Jetson's GPU is on no bus
            identity["pci"] = f"{bus.pciDeviceId:08x}"
        return identity

    def driver(self) -> str | None:
        return ask("SystemGetDriverVersion")

    def capability(self) -> str | None:
        pair = ask("DeviceGetCudaComputeCapability", self._board)
        return None if pair is None else "{}.{}".format(*pair)

    def power_limit_w(self) -> float | None:
        limit_mw = ask("DeviceGetEnforcedPowerLimit", self._board)
        return None if limit_mw is None else limit_mw / 1e3

    def facts(self) -> dict[str, Any]:
        facts: dict[str, Any] = {"caches": str(CacheLevel(2, self.cache_byte(), 1))}
        with suppress(RuntimeError):  # raised for a cuDNN that does not fit torch
            if version := self.torch.backends.cudnn.version():
                facts["cudnn"] = str(version)
        return facts

    def memory_byte(self) -> int:
        """Return the size of the GPU's memory, or of the system's if they are one (GB10, Jetson)."""
        memory = ask("DeviceGetMemoryInfo", self._handle)
        return int(memory.total) if memory else super().memory_byte()

    def _architecture(self) -> str:
        return f"compute capability {self.capability()}"

    def allow_tf32(self, allowed: bool) -> None:
        if allowed and not has_units(self.torch.cuda.get_device_capability(self.torch_name), TF32):
            raise NotImplementedError(NO_TF32)
        super().allow_tf32(allowed)

    def _check_same_gpu(self) -> None:
        used, name, uuid = self._properties(), self.identity()["name"], ask("DeviceGetUUID", self._handle)
        if used.is_integrated:  # the driver and torch name a Jetson's only GPU differently
            return
        used_uuid = f"GPU-{used.uuid}"
        has_uuid = uuid and self._board is self._handle  # for a slice torch may report the UUID of its board
        if used_uuid != uuid if has_uuid else used.name != name:
            raise UserError(
                f"--device {self.torch_name}: the driver reports {name} ({uuid}), but torch uses {used.name} "
                f"({used_uuid}); set CUDA_VISIBLE_DEVICES to the UUID of the one to measure (nvidia-smi -L lists them)"
            )

    def sensors(self) -> Sensors:
        return NvidiaSensors(self._handle)


class Rocm(Cuda):
    """An AMD GPU as described by a torch that is built for ROCm. Its sensors are not read."""

    def identity(self) -> dict[str, str]:
        name = self._properties().name or self._architecture()
        name = re.sub("MI250X?$", r"\g<0> (one of two dies)", name)  # a program sees each die as a GPU
        return {"name": name, "memory": str(self.memory_byte())}

    def driver(self) -> str:
        """Return the version of AMD's own driver, or the kernel's version if the driver is the kernel's."""
        return content_of(AMDGPU_VERSION) or platform.release()

    def memory_byte(self) -> int:
        return int(self._properties().total_memory)

    def _architecture(self) -> str:
        return str(self._properties().gcnArchName).partition(":")[0]

    def allow_tf32(self, allowed: bool) -> None:
        has_tf32 = getattr(self.torch.cuda, "is_tf32_supported", lambda: False)  # torch 2.7 added it
        if allowed and not has_tf32():
            raise NotImplementedError(NO_TF32)
        super().allow_tf32(allowed)
        if allowed and not self.torch.backends.cuda.matmul.allow_tf32:  # github.com/pytorch/pytorch/pull/143549
            setting = "HIPBLASLT_ALLOW_TF32=1; set it and measure with --force"
            raise NotImplementedError(f"this torch multiplies as tf32 on AMD GPUs only if {setting}")

    def cache_byte(self) -> int:
        return 2**28  # of an MI300X, the largest of AMD's GPUs; torch reports the second level of one die

    def sensors(self) -> Sensors:
        return LaunchLoad()


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
