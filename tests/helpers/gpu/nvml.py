"""NVML without a driver: the answers of a machine's GPUs to those of its questions that the program asks."""

from ctypes import c_uint
from types import ModuleType, SimpleNamespace
from typing import Any

from helpers.gpu.catalogue import Gpu, Machine
from helpers.gpu.stream import STREAM

IDLE_W = 20
POWER_CAP = 0x04
"""``nvmlClocksEventReasonSwPowerCap``."""


class Nvml:
    """NVML's questions by their names, with handles that are the GPUs themselves; errors are those of ``pynvml``."""

    def __init__(self, machine: Machine, pynvml: ModuleType) -> None:
        self._machine = machine
        self._pynvml = pynvml

    def nvmlInit(self) -> None: ...  # noqa: N802

    def nvmlSystemGetDriverVersion(self) -> str:  # noqa: N802
        return self._machine.driver

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        return len(self._machine.gpus)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> Gpu:  # noqa: N802
        if index >= len(self._machine.gpus):
            raise self._error("INVALID_ARGUMENT")
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
        for board in self._machine.gpus:
            if gpu in (board.sliced or ()):
                return board
        raise self._error("INVALID_ARGUMENT")

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


def is_capped(gpu: Gpu) -> bool:
    """Return whether the GPU has worked so long that its power cap holds its clock down."""
    return gpu.capped_clock_mhz is not None and STREAM.worked_ns >= gpu.capped_after_s * 1e9


def clock_mhz(gpu: Gpu) -> int:
    return gpu.capped_clock_mhz if is_capped(gpu) else gpu.clock_mhz


def slowdown(gpu: Gpu) -> float:
    """Return by what its arithmetic takes longer than at the full clock."""
    return gpu.clock_mhz / clock_mhz(gpu)


def _memory(gpu: Gpu) -> SimpleNamespace | None:
    total = gpu.memory_byte
    return None if total is None else SimpleNamespace(total=total, free=total - 2**28, used=2**28)


def _energy_mj(gpu: Gpu) -> int:
    """Return what was used since the clock began: idle always, and up to the full power at work."""
    return round((IDLE_W * STREAM.now_ns() + (gpu.power_w - IDLE_W) * STREAM.worked_ns) * 1e-6)


ANSWERS = {
    "Name": lambda gpu: gpu.name,
    "UUID": lambda gpu: gpu.uuid,
    "PciInfo": lambda gpu: SimpleNamespace(pciDeviceId=gpu.pci_device),
    "MemoryInfo": _memory,
    "CudaComputeCapability": lambda gpu: gpu.capability,
    "MigMode": lambda gpu: [int(gpu.sliced is not None)] * 2 if gpu.capability in ((8, 0), (9, 0)) else None,
    "ClockInfo": clock_mhz,
    "Temperature": lambda gpu: 60 if STREAM.worked_ns else 35,
    "PowerUsage": lambda gpu: 1000 * (gpu.power_w if STREAM.worked_ns else IDLE_W),
    "TotalEnergyConsumption": _energy_mj,
    "CurrentClocksEventReasons": lambda gpu: POWER_CAP if is_capped(gpu) else 0,
    "CurrentClocksThrottleReasons": lambda gpu: POWER_CAP if is_capped(gpu) else 0,
    "UtilizationRates": lambda gpu: SimpleNamespace(gpu=0, memory=0),
    "ComputeRunningProcesses": lambda gpu: [],
    "PersistenceMode": lambda gpu: 1,
}
"""What a GPU says, by the question's name without ``nvmlDeviceGet``; None is Not Supported."""

QUESTIONS = (
    *(name for name in vars(Nvml) if name.startswith("nvml")),
    *(f"nvmlDeviceGet{question}" for question in ANSWERS),
)


def answers(machine: Machine, pynvml: ModuleType) -> dict[str, Any]:
    """Return what takes the place of the functions of ``pynvml``, by their names."""
    nvml = Nvml(machine, pynvml)
    return {name: getattr(nvml, name) for name in QUESTIONS}
