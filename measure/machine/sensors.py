"""Sensors of a device and its host: load, clock, temperature, power, energy, throttling.

A reading takes up to milliseconds: take it between samples, at most once per ``WINDOW_S``. A missing value is None,
never 0.
"""

import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from measure.machine.nvidia import ask, board_of
from measure.machine.processor import content_of

WINDOW_S = 0.5
"""The shortest window for load and energy. NVIDIA's energy counter steps about every 100 ms, core time every 10 ms."""

POWER_CAP = "power cap"
"""The usual throttle reason of a GPU with a small power budget, such as a T4. It does not call for cooling."""

NVIDIA_THROTTLING = {
    0x04: POWER_CAP,
    0x08: "hardware slowdown",
    0x20: "software thermal",
    0x40: "hardware thermal",
    0x80: "power brake",
}
"""Bits of NVML's ``nvmlClocksEventReasons`` that mean heat or power. The other bits mean idle or a user's setting."""

THERMOMETERS = ("coretemp", "k10temp", "zenpower", "cpu_thermal")
"""Linux's names for the sensors of Intel, AMD and Arm processors."""


@dataclass(frozen=True)
class Reading:
    """One moment. Times and energy count from an arbitrary start; the other values are current.

    ``core_s`` is the time of all cores, ``idle_s`` its idle part, ``process_s`` the time of this process; a device that
    does not count them has 0. ``throttle`` joins the reasons (heat, power) for a lowered clock with ``;``.
    """

    core_s: float = 0.0
    idle_s: float = 0.0
    process_s: float = 0.0
    energy_j: float | None = None
    clock_hz: float | None = None
    temperature_c: float | None = None
    power_w: float | None = None
    throttle: str | None = None


@dataclass(frozen=True)
class Conditions:
    """The conditions of a window of samples; the fields are columns of ``records.Sample``."""

    load: float | None = None
    clock_hz: float | None = None
    temperature_c: float | None = None
    power_w: float | None = None
    throttle: str | None = None
    energy_j: float | None = None

    @classmethod
    def at(cls, reading: Reading) -> "Conditions":
        """Return the conditions of one reading. Load and energy are None because they need a window."""
        return cls(None, reading.clock_hz, reading.temperature_c, reading.power_w, reading.throttle)

    @classmethod
    def between(cls, opening: Reading, closing: Reading, calls: int | None) -> "Conditions":
        """Return the conditions of a window of ``calls`` calls; None calls: other work used energy in it too.

        The load is the share of all cores that other processes used, including the time a hypervisor took; None if the
        counters stand still.
        """
        core_s, idle_s = closing.core_s - opening.core_s, closing.idle_s - opening.idle_s
        process_s = closing.process_s - opening.process_s
        load = min(1.0, max(0.0, 1 - (idle_s + process_s) / core_s)) if core_s else None
        energy_j = None
        if calls and opening.energy_j is not None and closing.energy_j is not None:
            energy_j = (closing.energy_j - opening.energy_j) / calls or None
        return replace(cls.at(closing), load=load, energy_j=energy_j)


class Sensors:
    """The sensors of a device. The base class has none."""

    def read(self) -> Reading:
        return Reading()


def load_since(opening: Reading, sensors: Sensors) -> float | None:
    """Return the share of all cores that other processes used since a reading; None if the system hides it."""
    return Conditions.between(opening, sensors.read(), None).load


class HostLoad(Sensors):
    """Core time of the host: all that a GPU without readable sensors has."""

    def read(self) -> Reading:
        import psutil

        times = psutil.cpu_times()
        guests_s = getattr(times, "guest", 0.0) + getattr(times, "guest_nice", 0.0)  # already in user time
        idle_s = times.idle + getattr(times, "iowait", 0.0)
        return Reading(sum(times) - guests_s, idle_s, time.process_time())


class ProcessorSensors(HostLoad):
    """Sensors of a processor, from Linux's files under ``system`` where they exist.

    The clock is the mean over the frequency drivers, the temperature that of the hottest sensor. Energy is the sum of
    the packages' RAPL counters (without DRAM), if this user may read them.
    """

    def __init__(self, system: Path = Path("/sys")) -> None:
        cores, names = system / "devices/system/cpu", system.glob("class/hwmon/hwmon*/name")
        self._clocks = _readable(cores.glob("cpufreq/policy*/scaling_cur_freq"))
        self._throttles = _readable(cores.glob("cpu*/thermal_throttle/*_throttle_count"))
        self._throttled = sum(_numbers(self._throttles))
        chips = [name.parent for name in names if content_of(name) in THERMOMETERS]
        self._thermometers = _readable(file for chip in chips for file in chip.glob("temp*_input"))
        self._packages = [
            Package(counter)
            for counter in _readable(system.glob("class/powercap/intel-rapl:*/energy_uj"))
            if content_of(counter.with_name("name")).startswith("package")
        ]

    def read(self) -> Reading:
        clocks, temperatures = _numbers(self._clocks), _numbers(self._thermometers)
        throttled_before, self._throttled = self._throttled, sum(_numbers(self._throttles))
        return replace(
            super().read(),
            energy_j=sum(package.energy_j() for package in self._packages) if self._packages else None,
            clock_hz=1e3 * sum(clocks) / len(clocks) if clocks else None,
            temperature_c=max(temperatures) / 1e3 if temperatures else None,
            throttle="thermal" if self._throttled > throttled_before else None,
        )


class Package:
    """A processor package's RAPL counter (microjoules), which wraps around at the end of its range."""

    def __init__(self, counter: Path) -> None:
        self._counter, self._used_uj = counter, 0
        self._range_uj = int(content_of(counter.with_name("max_energy_range_uj")))
        self._last_uj = int(content_of(counter))

    def energy_j(self) -> float:
        """Return the energy used since this object was made. Call it at least once per range (some minutes)."""
        now_uj = int(content_of(self._counter))
        self._used_uj += (now_uj - self._last_uj) % self._range_uj
        self._last_uj = now_uj
        return self._used_uj / 1e6


def _readable(paths: Iterable[Path]) -> list[Path]:
    return [path for path in paths if content_of(path).isdigit()]


def _numbers(paths: Iterable[Path]) -> list[int]:
    return [int(text) for text in map(content_of, paths) if text.isdigit()]


class NvidiaSensors(HostLoad):
    """Sensors of an NVIDIA GPU, read by NVML.

    A MIG slice has the clock and temperature of its board. It has no power and energy, because the board's other
    slices use them too.
    """

    def __init__(self, handle: Any) -> None:
        board = board_of(handle)
        self._is_slice = board is not None
        self._board = board or handle

    def read(self) -> Reading:
        import pynvml

        power_mw = energy_mj = None
        if not self._is_slice:
            power_mw = ask("DeviceGetPowerUsage", self._board)
            energy_mj = ask("DeviceGetTotalEnergyConsumption", self._board)
        return replace(
            super().read(),
            energy_j=_scale(energy_mj, 1e-3),
            clock_hz=_scale(ask("DeviceGetClockInfo", self._board, pynvml.NVML_CLOCK_SM), 1e6),
            temperature_c=_scale(ask("DeviceGetTemperature", self._board, pynvml.NVML_TEMPERATURE_GPU), 1.0),
            power_w=_scale(power_mw, 1e-3),
            throttle=nvidia_throttling(self._board),
        )


def nvidia_throttling(handle: Any) -> str | None:
    """Return the reasons (heat, power) for which a GPU lowers its clock now, joined by ``;``; None if none is known."""
    bits = ask("DeviceGetCurrentClocksEventReasons", handle)
    if bits is None:  # old drivers know the former name only
        bits = ask("DeviceGetCurrentClocksThrottleReasons", handle) or 0
    return ";".join(name for bit, name in NVIDIA_THROTTLING.items() if bits & bit) or None


def _scale(value: int | None, unit: float) -> float | None:
    return None if value is None else value * unit
