"""NVML without a driver: the answers of a machine's GPUs to those of its questions that the program asks."""

from ctypes import c_uint
from types import ModuleType, SimpleNamespace
from typing import Any

from helpers.gpu.catalogue import Gpu, Machine
from helpers.gpu.stream import STREAM

IDLE_W = 20


class Nvml:
    """NVML's questions by their names, with handles that are the GPUs themselves; errors are those of ``pynvml``."""

    def __init__(self, machine: Machine, pynvml: ModuleType) -> None:
        self._machine, self._pynvml = machine, pynvml

    def nvmlInit(self) -> None: ...  # noqa: N802

    def nvmlSystemGetDriverVersion(self) -> str:  # noqa: N802
        return self._machine.driver

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        return len(self._machine.gpus)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> Gpu:  # noqa: N802
        return self._machine.gpus[index]

    def nvmlDeviceGetMaxMigDeviceCount(self, gpu: Gpu) -> int:  # noqa: N802
        return 0 if gpu.sliced is None else 7

    def nvmlDeviceGetMigDeviceHandleByIndex(self, gpu: Gpu, index: int) -> Gpu:  # noqa: N802
        if gpu.sliced is None or index >= len(gpu.sliced):
            raise self._error("NOT_FOUND")
        return gpu.sliced[index]

    def nvmlDeviceIsMigDeviceHandle(self, gpu: Gpu) -> c_uint:  # noqa: N802
        """Answer by a number of C, as pynvml does."""
        return c_uint(gpu.is_slice)

    def nvmlDeviceGetDeviceHandleFromMigDeviceHandle(self, gpu: Gpu) -> Gpu:  # noqa: N802
        return next(board for board in self._machine.gpus if gpu in (board.sliced or ()))

    def __getattr__(self, name: str) -> Any:
        """Return a question of the form ``nvmlDeviceGet...(gpu, ...)`` that one GPU answers."""
        question = name.removeprefix("nvmlDeviceGet")
        answer = ANSWERS[question]  # KeyError: this double does not know it yet

        def ask(gpu: Gpu, *_details: int) -> Any:
            if question in gpu.untold or (told := answer(gpu)) is None:
                raise self._error("NOT_SUPPORTED")
            return told

        return ask

    def _error(self, name: str) -> Exception:
        error: Exception = self._pynvml.NVMLError(getattr(self._pynvml, f"NVML_ERROR_{name}"))
        return error


def _memory(gpu: Gpu) -> SimpleNamespace | None:
    total = gpu.memory_byte
    return None if total is None else SimpleNamespace(total=total, free=total - 2**28, used=2**28)


def _energy_mj(gpu: Gpu) -> int:
    """Return what was used since the clock began: idle always, and up to the full power at work."""
    return round((IDLE_W * STREAM.now_ns() + (gpu.power_w - IDLE_W) * STREAM.worked_ns) * 1e-6)


ANSWERS = {  # by the question's name without ``nvmlDeviceGet``; None is Not Supported
    "Name": lambda gpu: gpu.name,
    "UUID": lambda gpu: gpu.uuid,
    "PciInfo": lambda gpu: SimpleNamespace(pciDeviceId=gpu.pci_device),
    "MemoryInfo": _memory,
    "CudaComputeCapability": lambda gpu: gpu.capability,
    "MigMode": lambda gpu: [int(gpu.sliced is not None)] * 2 if gpu.capability in ((8, 0), (9, 0)) else None,
    "ClockInfo": lambda gpu: gpu.clock_mhz,
    "Temperature": lambda gpu: 60 if STREAM.worked_ns else 35,
    "PowerUsage": lambda gpu: 1000 * (gpu.power_w if STREAM.worked_ns else IDLE_W),
    "TotalEnergyConsumption": _energy_mj,
    "CurrentClocksEventReasons": lambda gpu: 0,
    "CurrentClocksThrottleReasons": lambda gpu: 0,
    "UtilizationRates": lambda gpu: SimpleNamespace(gpu=0, memory=0),
    "ComputeRunningProcesses": lambda gpu: [],
    "PersistenceMode": lambda gpu: 1,
}


def answers(machine: Machine, pynvml: ModuleType) -> dict[str, Any]:
    """Return what takes the place of the functions of ``pynvml``, by their names."""
    nvml, names = Nvml(machine, pynvml), [name for name in vars(Nvml) if name.startswith("nvml")]
    return {name: getattr(nvml, name) for name in (*names, *(f"nvmlDeviceGet{question}" for question in ANSWERS))}
