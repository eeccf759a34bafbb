"""Sensors of a device and its host: load, clock, temperature, power, energy, throttling. A missing value is None."""

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
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
# NVML's counters of the time (ns) with a lowered clock: fields by today's numbers, and ``nvmlPerfPolicyType_t`` for
# drivers that do not know all. Early versions of its header gave the last three other numbers, which are others' now.
NVIDIA_FIELDS = {74: POWER_CAP, 269: "software thermal", 270: "hardware thermal", 271: "power brake"}
NVIDIA_POLICIES = {0: POWER_CAP, 1: "thermal"}
# A lowered clock counts in more than this share of a window. In a smaller one even a clock that stands still would
# cost less than 1 %, well within the interval that a round is asked for.
LOWERED = 0.01
THERMOMETERS = ("coretemp", "k10temp", "zenpower", "cpu_thermal")  # of Intel, AMD and Arm processors in Linux


@dataclass(frozen=True)
class Reading:
    """One moment. Times (0 if not counted) and energy run from an arbitrary start; the other values are current."""

    at_s: float = 0.0
    core_s: float = 0.0  # of all cores
    idle_s: float = 0.0  # its idle part
    process_s: float = 0.0  # of this process
    stolen_s: float = 0.0  # that a hypervisor gave to other guests
    ran_s: float = 0.0  # of this process's threads, if their waits are counted
    waited_s: float = 0.0  # of its threads, for a core
    energy_j: float | None = None
    energy_step_s: float = 0.0  # the energy rises in steps about so far apart
    clock_hz: float | None = None
    temperature_c: float | None = None
    power_w: float | None = None
    throttle: str | None = None  # the current reasons (heat, power) for a lowered clock, joined by ``;``
    lowered_s: Mapping[str, float] = field(default_factory=dict)  # the time with a lowered clock by reason, if counted
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

        None for ``call_s``: other work used energy too. The load is the share of time in which the threads waited for
        a core, or a hypervisor kept it from them; without counted waits, the share of all cores that others used. It
        is None if the counters do not move. A counter of energy that falls was reset.
        """
        window_s, power_w, energy_j = closing.at_s - opening.at_s, closing.power_w, None
        core_s, idle_s = closing.core_s - opening.core_s, closing.idle_s - opening.idle_s
        load = 1 - (idle_s + closing.process_s - opening.process_s) / core_s if core_s else None
        if load is not None and closing.ran_s and window_s:
            stolen = (closing.stolen_s - opening.stolen_s) / max(core_s - idle_s, 1e-9)  # of the cores at work
            load = (closing.waited_s - opening.waited_s + stolen * (closing.ran_s - opening.ran_s)) / window_s
        load = None if load is None else min(1.0, max(0.0, load))
        if opening.energy_j is not None and closing.energy_j is not None:
            used_j = closing.energy_j - opening.energy_j
            if used_j > 0 and window_s > 0 and window_s >= ENERGY_STEPS * closing.energy_step_s:
                power_w = used_j / window_s
                energy_j = power_w * call_s if call_s else None
        clocks = [each.clock_hz for each in (opening, closing) if each.clock_hz is not None]
        clock_hz = fmean(clocks) if clocks else None
        throttle = "thermal" if closing.throttle_count > opening.throttle_count else closing.throttle
        if any(closing.lowered_s.values()):  # counters that are all 0 may count nothing
            rises_s = {name: at_s - opening.lowered_s.get(name, at_s) for name, at_s in closing.lowered_s.items()}
            lowered = [name for name, rise_s in rises_s.items() if rise_s > LOWERED * window_s]
            throttle = ";".join(lowered) or None
        return cls(load, clock_hz, closing.temperature_c, power_w, throttle, energy_j)


class Sensors:
    """The sensors of a device. The base class has none."""

    is_asynchronous = False  # whether they must be read before the device has finished its work

    def read(self) -> Reading:
        return Reading()


def load_since(opening: Reading, sensors: Sensors) -> float | None:
    """Return the load (``Conditions.between``) since a reading; None if the system hides it."""
    return Conditions.between(opening, sensors.read()).load


class HostLoad(Sensors):
    """Core time of the host."""

    def __init__(self) -> None:
        import psutil  # takes so long that no reading may wait for it

        self._cpu_times = psutil.cpu_times

    def read(self) -> Reading:
        times = self._cpu_times()
        guests_s = getattr(times, "guest", 0.0) + getattr(times, "guest_nice", 0.0)  # already in user time
        idle_s = times.idle + getattr(times, "iowait", 0.0)
        stolen_s = getattr(times, "steal", 0.0)
        return Reading(time.perf_counter(), sum(times) - guests_s, idle_s, time.process_time(), stolen_s)


class LaunchLoad(HostLoad):
    """How long the threads of this process wait for a core: a GPU idles when they do, however many cores are free.

    A backward pass launches its kernels from a thread of its own, so all threads count. Linux counts their time.
    """

    def __init__(self, threads: Path = Path("/proc/self/task")) -> None:
        super().__init__()
        self._threads = threads

    def read(self) -> Reading:
        rows = [content_of(file).split() for file in self._threads.glob("*/schedstat")]  # ran, waited (ns), turns
        ran_s, waited_s = (sum(int(row[column]) for row in rows if len(row) == 3) / 1e9 for column in (0, 1))
        return replace(super().read(), ran_s=ran_s, waited_s=waited_s)


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


class NvidiaSensors(LaunchLoad):
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
        values["lowered_s"] = nvidia_lowered_s(self._board)
        values["throttle"] = nvidia_throttling(self._board)
        return replace(super().read(), energy_step_s=NVIDIA_STEP_S, **values)


def nvidia_throttling(handle: Any) -> str | None:
    """Return why a GPU lowers its clock now (heat, power), joined by ``;``; None if no reason is known."""
    names = "DeviceGetCurrentClocksEventReasons", "DeviceGetCurrentClocksThrottleReasons"  # since driver 535, before
    bits = ask(names[0], handle) or ask(names[1], handle) or 0
    return ";".join(name for bit, name in NVIDIA_THROTTLING.items() if bits & bit) or None


def nvidia_lowered_s(handle: Any) -> dict[str, float]:
    """Return how long a GPU's clock has been lowered for each reason; empty if the driver does not count it."""
    fields = ask("DeviceGetFieldValues", handle, [*NVIDIA_FIELDS]) or ()
    found = {NVIDIA_FIELDS[each.fieldId]: each.value.ullVal / 1e9 for each in fields if each.nvmlReturn == 0}
    if len(found) < len(NVIDIA_FIELDS):
        statuses = {name: ask("DeviceGetViolationStatus", handle, policy) for policy, name in NVIDIA_POLICIES.items()}
        found |= {name: status.violationTime / 1e9 for name, status in statuses.items() if status is not None}
    return found
