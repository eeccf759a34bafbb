"""NVML without a driver: the answers of a machine's GPUs to the program's questions."""

from ctypes import c_uint
from functools import partial
from types import SimpleNamespace

from helpers.gpu.stream import STREAM

STEP_NS, LAG_NS = 100_000_000, 30_000_000  # of the energy counter


def _memory(gpu):
    total = gpu.memory_byte
    return None if total is None else SimpleNamespace(total=total, free=total - 2**28, used=2**28)


def _energy_j(gpu, until_ns):
    """The energy since the clock began: idle power always, and the work of kernels."""
    return 1e-9 * gpu.idle_w * until_ns + STREAM.energy_j.until(until_ns)


def _counted_mj(gpu):
    """What the counter shows: the energy up to its last step, which it takes up late."""
    return round(1000 * _energy_j(gpu, (STREAM.now_ns() - LAG_NS) // STEP_NS * STEP_NS))


def _power_mw(gpu):
    """The mean over a second, as NVML says of GPUs since Ampere."""
    now_ns = STREAM.now_ns()
    return round(1000 * (_energy_j(gpu, now_ns) - _energy_j(gpu, now_ns - 10**9)))


def _violation(_gpu, policy):
    return SimpleNamespace(referenceTime=0, violationTime=_lowered_ns()[VIOLATIONS[policy]])


def _fields(_gpu, numbers):
    """Values of fields, or that NVML does not support one."""
    found = _lowered_ns()
    return [
        SimpleNamespace(
            fieldId=number, nvmlReturn=0 if number in found else 3, value=SimpleNamespace(ullVal=found.get(number, 0))
        )
        for number in numbers
    ]


def _lowered_ns():
    """How long the clock was lowered: for the power limit, and never for heat in software, hardware or a brake."""
    return {74: round(STREAM.capped_ns.until(STREAM.now_ns())), 269: 0, 270: 0, 271: 0}


VIOLATIONS = {0: 74, 1: 269}  # of power and of heat: the field with the same
ANSWERS = {  # by the question's name without ``nvmlDeviceGet``; None is Not Supported
    "Name": lambda gpu: gpu.name,
    "UUID": lambda gpu: gpu.uuid,
    "PciInfo": lambda gpu: SimpleNamespace(pciDeviceId=gpu.pci_device),
    "MemoryInfo": _memory,
    "CudaComputeCapability": lambda gpu: gpu.capability,
    "MigMode": lambda gpu: [int(gpu.sliced is not None)] * 2 if gpu.capability in ((8, 0), (9, 0)) else None,
    "ClockInfo": lambda gpu, _clock: gpu.clock_mhz if STREAM.is_busy() else gpu.idle_clock_mhz,
    "Temperature": lambda gpu, _sensor: 60 if STREAM.worked_ns else 35,
    "PowerUsage": _power_mw,
    "TotalEnergyConsumption": _counted_mj,
    "FieldValues": _fields,
    "ViolationStatus": _violation,
    "EnforcedPowerLimit": lambda gpu: 1000 * gpu.power_w,
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

    def ask(question, gpu, *details):
        if question in gpu.untold or (value := ANSWERS[question](gpu, *details)) is None:
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
