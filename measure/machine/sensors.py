"""Sensors of a device and its host: load, clock, temperature, power, energy, throttling. A missing value is None."""

import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from measure.machine.nvidia import ask, board_of
from measure.machine.processor import content_of

ENERGY_STEPS = 20  # a window of fewer steps of the energy counter has no energy: each end is off by up to one step
NVIDIA_STEP_S, RAPL_STEP_S = 0.1, 0.001  # between two steps of the energy counter
POWER_CAP = "power cap"  # usual for a GPU with a small power budget, such as a T4; cooling does not help
# Bits of NVML's ``nvmlClocksEventReasons`` that mean heat or power. The other bits mean idle or a user's setting.
NVIDIA_THROTTLING = {
    0x04: POWER_CAP, 0x08: "hardware slowdown",
    0x20: "software thermal", 0x40: "hardware thermal", 0x80: "power brake",
}  # fmt: skip
THERMOMETERS = ("coretemp", "k10temp", "zenpower", "cpu_thermal")  # of Intel, AMD and Arm processors in Linux


@dataclass(frozen=True)
class Reading:
    """One moment. Times (0 if not counted) and energy run from an arbitrary start; the other values are current."""

    at_s: float = 0.0
    core_s: float = 0.0  # of all cores
    idle_s: float = 0.0  # its idle part
    process_s: float = 0.0  # of this process
    energy_j: float | None = None
    energy_step_s: float = 0.0  # the energy rises in steps about so far apart
    clock_hz: float | None = None
    temperature_c: float | None = None
    power_w: float | None = None
    throttle: str | None = None  # the reasons (heat, power) for a lowered clock, joined by ``;``
    throttle_count: int = 0  # how often a processor lowered its clock for heat


@dataclass(frozen=True)
class Conditions:
    """The conditions of a window, such as a round; the fields are columns of ``records.Sample``.

    ``clock_hz`` is the mean of both ends, ``power_w`` the energy by the time if there is a counter of energy, and
    ``energy_j`` the energy of one call.
    """

    load: float | None = None
    clock_hz: float | None = None
    temperature_c: float | None = None
    power_w: float | None = None
    throttle: str | None = None
    energy_j: float | None = None

    @classmethod
    def between(cls, opening: Reading, closing: Reading, call_s: float | None = None) -> "Conditions":
        """Return the conditions between two readings; ``call_s`` is the time from one call to the next.

        None for ``call_s``: other work used energy too. The load is the share of all cores that other processes and a
        hypervisor used; None if the counters do not move. A counter of energy that falls was reset.
        """
        core_s, process_s = closing.core_s - opening.core_s, closing.process_s - opening.process_s
        load = min(1.0, max(0.0, 1 - (closing.idle_s - opening.idle_s + process_s) / core_s)) if core_s else None
        window_s, power_w, energy_j = closing.at_s - opening.at_s, closing.power_w, None
        if opening.energy_j is not None and closing.energy_j is not None:
            used_j = closing.energy_j - opening.energy_j
            if used_j > 0 and window_s > 0 and window_s >= ENERGY_STEPS * closing.energy_step_s:
                power_w = used_j / window_s
                energy_j = power_w * call_s if call_s else None
        clocks = [each.clock_hz for each in (opening, closing) if each.clock_hz is not None]
        clock_hz = fmean(clocks) if clocks else None
        throttle = "thermal" if closing.throttle_count > opening.throttle_count else closing.throttle
        return cls(load, clock_hz, closing.temperature_c, power_w, throttle, energy_j)


class Sensors:
    """The sensors of a device. The base class has none."""

    is_asynchronous = False  # whether they must be read before the device has finished its work

    def read(self) -> Reading:
        return Reading()


def load_since(opening: Reading, sensors: Sensors) -> float | None:
    """Return the share of all cores that other processes used since a reading; None if the system hides it."""
    return Conditions.between(opening, sensors.read()).load


class HostLoad(Sensors):
    """Core time of the host: all that a GPU without readable sensors has."""

    def __init__(self) -> None:
        import psutil  # takes so long that no reading may wait for it

        self._cpu_times = psutil.cpu_times

    def read(self) -> Reading:
        times = self._cpu_times()
        guests_s = getattr(times, "guest", 0.0) + getattr(times, "guest_nice", 0.0)  # already in user time
        idle_s = times.idle + getattr(times, "iowait", 0.0)
        return Reading(time.perf_counter(), sum(times) - guests_s, idle_s, time.process_time())


class ProcessorSensors(HostLoad):
    """Sensors of a processor, from Linux's files under ``system`` where they exist.

    The clock is the mean over the frequency drivers, the temperature is the hottest sensor's. Energy is the sum of
    the packages' RAPL counters (without DRAM); read it at least once per range of a counter (some minutes).
    """

    def __init__(self, system: Path = Path("/sys")) -> None:
        super().__init__()
        cores, names = system / "devices/system/cpu", system.glob("class/hwmon/hwmon*/name")
        self._clocks = _readable(cores.glob("cpufreq/policy*/scaling_cur_freq"))
        self._throttles = _readable(cores.glob("cpu*/thermal_throttle/*_throttle_count"))
        chips = [name.parent for name in names if content_of(name) in THERMOMETERS]
        self._thermometers = _readable(file for chip in chips for file in chip.glob("temp*_input"))
        counters = _readable(system.glob("class/powercap/intel-rapl:*/energy_uj"))
        self._packages = [file for file in counters if content_of(file.with_name("name")).startswith("package")]
        self._ranges_uj = _numbers(file.with_name("max_energy_range_uj") for file in self._packages)
        self._last_uj, self._used_uj = _numbers(self._packages), 0

    def read(self) -> Reading:
        clocks, temperatures = _numbers(self._clocks), _numbers(self._thermometers)
        before_uj, self._last_uj = self._last_uj, _numbers(self._packages)
        for before, now, end in zip(before_uj, self._last_uj, self._ranges_uj, strict=True):
            self._used_uj += (now - before) % end  # a counter wraps around at the end of its range
        return replace(
            super().read(),
            energy_j=self._used_uj / 1e6 if self._packages else None,
            energy_step_s=RAPL_STEP_S,
            clock_hz=1e3 * sum(clocks) / len(clocks) if clocks else None,
            temperature_c=max(temperatures) / 1e3 if temperatures else None,
            throttle_count=sum(_numbers(self._throttles)),
        )


def _readable(paths: Iterable[Path]) -> list[Path]:
    return [path for path in paths if content_of(path).isdigit()]


def _numbers(paths: Iterable[Path]) -> list[int]:
    return [int(text) for text in map(content_of, paths) if text.isdigit()]


class NvidiaSensors(HostLoad):
    """NVML's sensors. A slice has its board's clock and temperature, but no power or energy: slices share them."""

    is_asynchronous = True

    def __init__(self, handle: Any) -> None:
        super().__init__()
        board = board_of(handle)
        self._board, self._is_slice = board or handle, board is not None

    def read(self) -> Reading:
        import pynvml

        answers = {
            "clock_hz": (ask("DeviceGetClockInfo", self._board, pynvml.NVML_CLOCK_SM), 1e6),
            "temperature_c": (ask("DeviceGetTemperature", self._board, pynvml.NVML_TEMPERATURE_GPU), 1.0),
        }
        if not self._is_slice:
            answers["power_w"] = ask("DeviceGetPowerUsage", self._board), 1e-3
            answers["energy_j"] = ask("DeviceGetTotalEnergyConsumption", self._board), 1e-3
        values: dict[str, Any] = {name: value * unit for name, (value, unit) in answers.items() if value is not None}
        return replace(super().read(), energy_step_s=NVIDIA_STEP_S, throttle=nvidia_throttling(self._board), **values)


def nvidia_throttling(handle: Any) -> str | None:
    """Return why a GPU lowers its clock now (heat, power), joined by ``;``; None if no reason is known."""
    names = "DeviceGetCurrentClocksEventReasons", "DeviceGetCurrentClocksThrottleReasons"  # since driver 535, before
    bits = ask(names[0], handle) or ask(names[1], handle) or 0
    return ";".join(name for bit, name in NVIDIA_THROTTLING.items() if bits & bit) or None
