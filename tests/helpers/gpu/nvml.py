"""NVML without a driver: the answers of a machine's GPUs to the program's questions."""

from ctypes import c_uint
from functools import partial
from types import SimpleNamespace

from helpers.gpu.stream import STREAM

IDLE_W = 20


def _memory(gpu):
    total = gpu.memory_byte
    return None if total is None else SimpleNamespace(total=total, free=total - 2**28, used=2**28)


def _energy_mj(gpu):
    """The energy since the clock began: idle power always, full power at work."""
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


def answers(machine, pynvml):
    """The functions of ``pynvml`` by their names. Handles are the GPUs themselves."""

    def error(name):
        return pynvml.NVMLError(getattr(pynvml, f"NVML_ERROR_{name}"))

    def ask(question, gpu, *_details):
        if question in gpu.untold or (value := ANSWERS[question](gpu)) is None:
            raise error("NOT_SUPPORTED")
        return value

    def slice_of(gpu, index):
        if gpu.sliced is None or index >= len(gpu.sliced):
            raise error("NOT_FOUND")
        return gpu.sliced[index]

    def board_of(piece):
        return next(board for board in machine.gpus if piece in (board.sliced or ()))

    return {
        "nvmlInit": lambda: None,
        "nvmlSystemGetDriverVersion": lambda: machine.driver,
        "nvmlDeviceGetCount": lambda: len(machine.gpus),
        "nvmlDeviceGetHandleByIndex": lambda index: machine.gpus[index],
        "nvmlDeviceGetMaxMigDeviceCount": lambda gpu: 0 if gpu.sliced is None else 7,
        "nvmlDeviceGetMigDeviceHandleByIndex": slice_of,
        "nvmlDeviceIsMigDeviceHandle": lambda gpu: c_uint(gpu.is_slice),  # a number of C, as pynvml's answer
        "nvmlDeviceGetDeviceHandleFromMigDeviceHandle": board_of,
        **{f"nvmlDeviceGet{question}": partial(ask, question) for question in ANSWERS},
    }
