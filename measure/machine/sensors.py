"""Readings of a device and its machine while they work: load, clock, temperature, power, energy.

A reading takes microseconds to some milliseconds, so it is taken between samples and once in ``WINDOW_S`` at most:
energy counters move in steps (NVIDIA's about every 100 ms), and a system counts its cores' time in hundredths of a
second. What is not available here is None, never 0.
"""

import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from measure.machine.nvidia import ask, board_of
from measure.machine.processor import content_of

WINDOW_S = 0.5
"""The shortest time over which load and energy are taken."""

NVIDIA_THROTTLING = {
    0x04: "power cap",
    0x08: "hardware slowdown",
    0x20: "software thermal",
    0x40: "hardware thermal",
    0x80: "power brake",
}
"""The reasons of heat and power for which an NVIDIA GPU lowers its clock, by their bits in NVML's
``nvmlClocksEventReasons``. The others are that it has nothing to do, and what somebody has set."""

CLOCK_REASONS = ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons")
"""NVML's question why a clock is lowered: its name, which older drivers do not know, and its former one, which goes
away with CUDA 14."""

PROCESSOR_THROTTLING = "thermal"
"""The one reason that Linux counts for a processor."""

THERMOMETERS = ("coretemp", "k10temp", "zenpower", "cpu_thermal")
"""Linux's names for the sensors of Intel's, AMD's and Arm's processors."""


@dataclass(frozen=True)
class Reading:
    """One moment: counters since some start, and values of now.

    Counters are ``core_s``, the time of all cores, ``idle_s``, what of it nobody used, ``process_s``, what this process
    did, and ``energy_j``. ``throttle`` are the reasons for a clock lowered by heat or power, joined by ``;``.
    """

    core_s: float | None = None
    idle_s: float | None = None
    process_s: float | None = None
    energy_j: float | None = None
    clock_hz: float | None = None
    temperature_c: float | None = None
    power_w: float | None = None
    throttle: str | None = None


@dataclass(frozen=True)
class Conditions:
    """Under which samples were taken; the fields are columns of ``records.Sample``."""

    load: float | None = None
    clock_hz: float | None = None
    temperature_c: float | None = None
    power_w: float | None = None
    throttle: str | None = None
    energy_j: float | None = None

    @classmethod
    def at(cls, reading: Reading) -> "Conditions":
        """Return the conditions of one reading, without load and energy, which take time."""
        return cls(None, reading.clock_hz, reading.temperature_c, reading.power_w, reading.throttle)

    @classmethod
    def between(cls, opening: Reading, closing: Reading, calls: int | None) -> "Conditions":
        """Return the conditions over a window of so many calls; None if they were not all that took its energy."""
        used_j = _increase(opening.energy_j, closing.energy_j)
        energy_j = used_j / calls if used_j and calls else None
        return replace(cls.at(closing), load=_load(opening, closing), energy_j=energy_j)


def load_since(opening: Reading, sensors: "Sensors") -> float | None:
    """Return the share of all cores that other processes used since a reading; None where the system hides it."""
    return _load(opening, sensors.read())


def _load(opening: Reading, closing: Reading) -> float | None:
    """Return the part of all cores that other processes used, including what a hypervisor took away."""
    core_s = _increase(opening.core_s, closing.core_s)
    idle_s = _increase(opening.idle_s, closing.idle_s)
    process_s = _increase(opening.process_s, closing.process_s)
    if not core_s or idle_s is None or process_s is None:
        return None
    return min(1.0, max(0.0, 1 - (idle_s + process_s) / core_s))


def _increase(opening: float | None, closing: float | None) -> float | None:
    return None if opening is None or closing is None else closing - opening


class Sensors(Protocol):
    def read(self) -> Reading: ...


class NoSensors:
    """A device without sensors."""

    def read(self) -> Reading:
        return Reading()


class ProcessorSensors:
    """A processor's readings: its cores' time from the system, the rest from Linux's files where they exist.

    The clock is the mean of what the frequency drivers report, the temperature the hottest sensor's, energy that of
    all packages by their RAPL counters, without memory, where this user may read them. ``system`` is where the files
    lie.
    """

    def __init__(self, system: Path = Path("/sys")) -> None:
        cores = system / "devices/system/cpu"
        self._clocks = _readable(cores.glob("cpufreq/policy*/scaling_cur_freq"))
        self._throttles = _readable(cores.glob("cpu*/thermal_throttle/*_throttle_count"))
        self._throttled = sum(_numbers(self._throttles))
        self._thermometers = _readable(
            thermometer
            for name in system.glob("class/hwmon/hwmon*/name")
            if content_of(name) in THERMOMETERS
            for thermometer in name.parent.glob("temp*_input")
        )
        self._packages = [
            Package(name.parent)
            for name in system.glob("class/powercap/intel-rapl:*/name")
            if content_of(name).startswith("package") and _readable([name.parent / "energy_uj"])
        ]

    def read(self) -> Reading:
        import psutil

        times = psutil.cpu_times()
        guests_s = getattr(times, "guest", 0.0) + getattr(times, "guest_nice", 0.0)  # in the host's time already
        clocks, temperatures = _numbers(self._clocks), _numbers(self._thermometers)
        throttled_before, self._throttled = self._throttled, sum(_numbers(self._throttles))
        return Reading(
            core_s=sum(times) - guests_s,
            idle_s=times.idle + getattr(times, "iowait", 0.0),
            process_s=time.process_time(),
            energy_j=sum(package.energy_j() for package in self._packages) if self._packages else None,
            clock_hz=1e3 * sum(clocks) / len(clocks) if clocks else None,
            temperature_c=max(temperatures) / 1e3 if temperatures else None,
            throttle=PROCESSOR_THROTTLING if self._throttled > throttled_before else None,
        )


class Package:
    """A processor package's RAPL counter of microjoules, which starts again at the end of its range."""

    def __init__(self, folder: Path) -> None:
        self._counter = folder / "energy_uj"
        self._range_uj = int(content_of(folder / "max_energy_range_uj"))
        self._last_uj = int(content_of(self._counter))
        self._used_uj = 0

    def energy_j(self) -> float:
        """Return the energy used since this object was made, if called at least once in a range: some minutes."""
        now_uj = int(content_of(self._counter))
        self._used_uj += (now_uj - self._last_uj) % self._range_uj
        self._last_uj = now_uj
        return self._used_uj / 1e6


def _readable(paths: Iterable[Path]) -> list[Path]:
    return [path for path in paths if content_of(path).isdigit()]


def _numbers(paths: Iterable[Path]) -> list[int]:
    return [int(text) for text in map(content_of, paths) if text.isdigit()]


class NvidiaSensors:
    """An NVIDIA GPU's readings by NVML, and the load of the processor that feeds it.

    A slice (MIG device) has the clock and the temperature of its board. The board's power and energy are not known for
    a slice: others work on the same board.
    """

    def __init__(self, handle: Any, processor: Sensors) -> None:
        board = board_of(handle)
        self._is_slice = board is not None
        self._board = handle if board is None else board
        self._processor = processor

    def read(self) -> Reading:
        import pynvml

        clock_mhz = ask(self._board, pynvml.nvmlDeviceGetClockInfo, pynvml.NVML_CLOCK_SM)
        temperature_c = ask(self._board, pynvml.nvmlDeviceGetTemperature, pynvml.NVML_TEMPERATURE_GPU)
        power_mw = None if self._is_slice else ask(self._board, pynvml.nvmlDeviceGetPowerUsage)
        energy_mj = None if self._is_slice else ask(self._board, pynvml.nvmlDeviceGetTotalEnergyConsumption)
        reasons = self._reasons()
        return replace(
            self._processor.read(),
            energy_j=_scaled(energy_mj, 1e-3),
            clock_hz=_scaled(clock_mhz, 1e6),
            temperature_c=_scaled(temperature_c, 1.0),
            power_w=_scaled(power_mw, 1e-3),
            throttle=";".join(name for bit, name in NVIDIA_THROTTLING.items() if reasons & bit) or None,
        )

    def _reasons(self) -> int:
        """Return the bits of all reasons for which the clock is lowered, 0 where the driver tells none."""
        import pynvml

        questions = (getattr(pynvml, name, None) for name in CLOCK_REASONS)
        told = (ask(self._board, question) for question in questions if question is not None)
        return next((reasons for reasons in told if reasons is not None), 0)


def _scaled(value: int | None, unit: float) -> float | None:
    return None if value is None else value * unit


class HostLoad:
    """The readings of a GPU that has no sensors here: the load of the processor that feeds it."""

    def __init__(self, processor: Sensors) -> None:
        self._processor = processor

    def read(self) -> Reading:
        host = self._processor.read()
        return Reading(core_s=host.core_s, idle_s=host.idle_s, process_s=host.process_s)
