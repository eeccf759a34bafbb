"""The kinds of device that can be measured, and each one's quirks: its identity, its clockwork, its memory.

Identity is read without torch, so that a plan, or a run with nothing left to do, answers at once.
"""

import os
import platform
import re
from collections.abc import Callable
from typing import Any, Protocol

from measure.cli.suggestion import did_you_mean
from measure.errors import UserError
from measure.machine import processor
from measure.machine.sensors import NvidiaSensors, ProcessorSensors, Sensors

SWEEP = 4
"""How many times its size is read and written to clear a cache: it need not let go of the oldest first."""

SMALLEST_CACHE_BYTE = 2**25
"""Taken for a cache that does not say its size, or says less, as a guest's often does."""


class Events(Protocol):
    """A device's own stopwatch: two marks in its stream of work."""

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def elapsed_s(self) -> float:
        """Between the marks, once the device is synchronised."""


class Device(Protocol):
    """One device of this machine, under the name that torch gives it."""

    kind: str
    torch_name: str
    is_asynchronous: bool
    """Whether operators return before the device has done them."""

    def identity(self) -> dict[str, str]:
        """What makes this hardware another one when it changes; its ``name`` among them."""

    def driver(self) -> str | None:
        """The driver's version, where there is one."""

    def memory_byte(self) -> int:
        """The memory that tensors of this device live in."""

    def prepare(self, threads: int) -> None:
        """Sets this process up to measure: threads, and no silent change of precision."""

    def allow_tf32(self, allowed: bool) -> None:
        """Lets fp32 be multiplied as TF32, or forbids it. Raises NotImplementedError where a device has no TF32."""

    def synchronize(self) -> None:
        """Waits until the device has done all that it was given."""

    def events(self) -> Events | None:
        """The device's own stopwatch; None where the host's is all there is."""

    def cache_clearer(self) -> Callable[[], object]:
        """What, when called, leaves nothing in the caches that a network could use."""

    def sensors(self) -> Sensors:
        """What the device says of itself."""


class Cpu:
    """The processor, through all its cores."""

    kind = "cpu"
    torch_name = "cpu"
    is_asynchronous = False

    def identity(self) -> dict[str, str]:
        said = processor.described()
        name = said.get("model name") or said.get("Model") or platform.machine() or "unknown processor"
        keys = ("cpu family", "model", "stepping", "CPU part")
        parts: dict[str, str] = {key: said[key] for key in keys if key in said}
        return {
            "name": name,
            "cores": str(processor.visible_cores()),
            "architecture": platform.machine(),
            **parts,
        }

    def driver(self) -> str | None:
        return None

    def memory_byte(self) -> int:
        import psutil

        return psutil.virtual_memory().total

    def prepare(self, threads: int) -> None:
        import torch

        torch.set_num_threads(threads)
        _limit_memory(processor.available_memory_byte())

    def allow_tf32(self, allowed: bool) -> None:
        _refuse_tf32(allowed)

    def synchronize(self) -> None:
        """Operators on the CPU return when they are done."""

    def events(self) -> None:
        return None

    def cache_clearer(self) -> Callable[[], object]:
        caches = processor.caches()
        return _sweep(self.torch_name, caches[-1].byte if caches else 0)

    def sensors(self) -> Sensors:
        return ProcessorSensors()


def _refuse_tf32(wanted: bool) -> None:
    if wanted:
        raise NotImplementedError(
            "tf32 is a format of NVIDIA's tensor cores from Ampere on; this device has none"
        )


def _sweep(torch_name: str, cache_byte: int) -> Callable[[], object]:
    """A call that reads and writes memory of its own, several times the cache: stores alone may pass caches by."""
    import torch

    buffer = torch.zeros(SWEEP * max(cache_byte, SMALLEST_CACHE_BYTE) // 4, device=torch_name)
    return lambda: buffer.add_(1.0)


def _limit_memory(byte: int) -> None:
    """Lets an allocation fail in this process before the system has to kill something."""
    if platform.system() != "Linux":
        return
    import resource

    import psutil

    private = psutil.Process().memory_info()
    data = getattr(private, "data", 0)  # what the limit counts already
    resource.setrlimit(resource.RLIMIT_DATA, (data + byte, resource.RLIM_INFINITY))


AMPERE = (8, 0)
"""The compute capability from which tensor cores have TF32."""


class Cuda:
    """One NVIDIA GPU, ``cuda:N`` as torch counts them: by CUDA_VISIBLE_DEVICES where that is set."""

    kind = "cuda"
    is_asynchronous = True

    def __init__(self, index: int) -> None:
        self.torch_name = f"cuda:{index}"
        self._handle = nvidia_handles()[index]

    def identity(self) -> dict[str, str]:
        import pynvml

        bus = pynvml.nvmlDeviceGetPciInfo(self._handle)
        return {
            "name": _text(pynvml.nvmlDeviceGetName(self._handle)),
            "memory": str(self.memory_byte()),
            "pci": f"{bus.pciDeviceId:08x}",
        }

    def driver(self) -> str | None:
        import pynvml

        return _text(pynvml.nvmlSystemGetDriverVersion())

    def memory_byte(self) -> int:
        import pynvml

        return int(pynvml.nvmlDeviceGetMemoryInfo(self._handle).total)

    def prepare(self, threads: int) -> None:
        import torch

        if not torch.cuda.is_available():
            raise UserError(
                f"--device {self.torch_name}: this torch ({torch.__version__}) cannot use the GPU; "
                "install one that is built for this driver"
            )
        torch.set_num_threads(threads)
        torch.cuda.set_device(self.torch_name)
        self.allow_tf32(False)  # cuDNN and cuBLAS would compute fp32 on tf32 units

    def allow_tf32(self, allowed: bool) -> None:
        import torch

        _refuse_tf32(allowed and torch.cuda.get_device_capability(self.torch_name) < AMPERE)
        torch.backends.cuda.matmul.allow_tf32 = allowed
        torch.backends.cudnn.allow_tf32 = allowed

    def synchronize(self) -> None:
        import torch

        torch.cuda.synchronize(self.torch_name)

    def events(self) -> "CudaEvents":
        return CudaEvents()

    def cache_clearer(self) -> Callable[[], object]:
        import torch

        return _sweep(self.torch_name, torch.cuda.get_device_properties(self.torch_name).L2_cache_size)

    def sensors(self) -> Sensors:
        return NvidiaSensors(self._handle, ProcessorSensors())


class CudaEvents:
    """Two marks in the current stream of the current GPU, between which it takes the time."""

    def __init__(self) -> None:
        import torch

        self._first, self._last = (torch.cuda.Event(enable_timing=True) for _ in range(2))

    def start(self) -> None:
        self._first.record()

    def stop(self) -> None:
        self._last.record()

    def elapsed_s(self) -> float:
        return self._first.elapsed_time(self._last) / 1e3


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value


def nvidia_handles() -> list[Any]:
    """The driver's handles of the GPUs that torch would see, in torch's order; none without driver or library."""
    os.environ.setdefault("CUDA_DEVICE_ORDER", "PCI_BUS_ID")  # the driver's order; CUDA's is fastest first
    try:
        import pynvml

        pynvml.nvmlInit()
    except Exception:  # no library, no driver, no permission: whatever it is, there is no GPU to use
        return []
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())]
    handles = []
    for name in filter(None, (part.strip() for part in visible.split(","))):
        try:
            if name.lstrip("-").isdigit():
                handles.append(pynvml.nvmlDeviceGetHandleByIndex(int(name)))
            else:
                handles.append(pynvml.nvmlDeviceGetHandleByUUID(name.encode()))
        except pynvml.NVMLError:
            break  # CUDA ignores everything from the first invalid name on
    return handles


class Mps:
    """The GPU of an Apple chip."""

    kind = "mps"
    torch_name = "mps"
    is_asynchronous = True

    def identity(self) -> dict[str, str]:
        return {**Cpu().identity(), "gpu": "mps"}

    def driver(self) -> str | None:
        return platform.mac_ver()[0] or None

    def memory_byte(self) -> int:
        return Cpu().memory_byte()

    def prepare(self, threads: int) -> None:
        import torch

        if not torch.backends.mps.is_available():
            raise UserError(
                "--device mps: this torch cannot use the GPU; it needs macOS 12.3 and a build for arm64"
            )
        torch.set_num_threads(threads)

    def allow_tf32(self, allowed: bool) -> None:
        _refuse_tf32(allowed)

    def synchronize(self) -> None:
        import torch

        torch.mps.synchronize()

    def events(self) -> None:
        return None

    def cache_clearer(self) -> Callable[[], object]:
        return _sweep(self.torch_name, 0)

    def sensors(self) -> Sensors:
        return ProcessorSensors()


def available_names() -> list[str]:
    """The devices of this machine, the one that ``auto`` takes first."""
    names = [f"cuda:{index}" for index in range(len(nvidia_handles()))]
    if platform.system() == "Darwin" and platform.machine() == "arm64":
        names.append("mps")
    return [*names, "cpu"]


def find(name: str) -> Device:
    """The device of this name: cpu, cuda, cuda:N, mps or auto. Raises UserError that says which there are."""
    if not re.fullmatch(r"auto|cpu|mps|cuda(:\d+)?", name):
        raise UserError(
            f"--device: {name!r} is no device; say cpu, cuda, cuda:N, mps or auto"
            + did_you_mean(name, ("cpu", "cuda", "mps", "auto"))
        )
    there = available_names()
    wanted = {"auto": there[0], "cuda": "cuda:0"}.get(name, name)
    if wanted not in there:
        raise UserError(f"--device: there is no {name} on this machine; say {' or '.join(there)}")
    if wanted == "cpu":
        return Cpu()
    return Mps() if wanted == "mps" else Cuda(int(wanted.partition(":")[2]))
