"""The kinds of device that can be measured, and each one's quirks: its identity, its clockwork, its memory.

Identity is read without torch, so that a plan, or a run with nothing left to do, answers at once.
"""

import os
import platform
import re
from typing import Any, Protocol

from measure import processor
from measure.errors import UserError


class Device(Protocol):
    """One device of this machine, under the name that torch gives it."""

    kind: str
    torch_name: str

    def identity(self) -> dict[str, str]:
        """What makes this hardware another one when it changes; its ``name`` among them."""

    def driver(self) -> str | None:
        """The driver's version, where there is one."""

    def memory_byte(self) -> int:
        """The memory that tensors of this device live in."""

    def prepare(self, threads: int) -> None:
        """Sets this process up to measure: threads, and no silent change of precision."""

    def synchronize(self) -> None:
        """Waits until the device has done all that it was given."""


class Cpu:
    """The processor, through all its cores."""

    kind = "cpu"
    torch_name = "cpu"

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

    def synchronize(self) -> None:
        """Operators on the CPU return when they are done."""


def _limit_memory(byte: int) -> None:
    """Lets an allocation fail in this process before the system has to kill something."""
    if platform.system() != "Linux":
        return
    import resource

    import psutil

    private = psutil.Process().memory_info()
    data = getattr(private, "data", 0)  # what the limit counts already
    resource.setrlimit(resource.RLIMIT_DATA, (data + byte, resource.RLIM_INFINITY))


class Cuda:
    """One NVIDIA GPU, ``cuda:N`` as torch counts them: by CUDA_VISIBLE_DEVICES where that is set."""

    kind = "cuda"

    def __init__(self, index: int) -> None:
        self.torch_name = f"cuda:{index}"
        self._handle = _nvidia_handles()[index]

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
        torch.backends.cuda.matmul.allow_tf32 = False  # cuDNN and cuBLAS would compute fp32 on tf32 units
        torch.backends.cudnn.allow_tf32 = False

    def synchronize(self) -> None:
        import torch

        torch.cuda.synchronize(self.torch_name)


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value


def _nvidia_handles() -> list[Any]:
    """The driver's handles of the GPUs that torch would see, in torch's order; none without driver or library."""
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

    def synchronize(self) -> None:
        import torch

        torch.mps.synchronize()


def available_names() -> list[str]:
    """The devices of this machine, the one that ``auto`` takes first."""
    names = [f"cuda:{index}" for index in range(len(_nvidia_handles()))]
    if platform.system() == "Darwin" and platform.machine() == "arm64":
        names.append("mps")
    return [*names, "cpu"]


def find(name: str) -> Device:
    """The device of this name: cpu, cuda, cuda:N, mps or auto. Raises UserError that says which there are."""
    if not re.fullmatch(r"auto|cpu|mps|cuda(:\d+)?", name):
        raise UserError(f"--device: {name!r} is no device; say cpu, cuda, cuda:N, mps or auto")
    there = available_names()
    wanted = {"auto": there[0], "cuda": "cuda:0"}.get(name, name)
    if wanted not in there:
        raise UserError(f"--device: there is no {name} on this machine; there is {', '.join(there)}")
    if wanted == "cpu":
        return Cpu()
    return Mps() if wanted == "mps" else Cuda(int(wanted.partition(":")[2]))
