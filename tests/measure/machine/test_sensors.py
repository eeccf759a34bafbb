import dataclasses
from pathlib import Path

import pynvml
import pytest

from measure.machine.sensors import (
    Conditions,
    HostLoad,
    LaunchLoad,
    NvidiaSensors,
    ProcessorSensors,
    Reading,
    nvidia_lowered_s,
)  # fmt: skip

ALL = Reading(1.0, 1.0, 1.0, 1.0, 1.0, clock_hz=2e9, temperature_c=50.0, power_w=90.0, throttle="power cap")


def energy(at_s, energy_j, step_s=0.1):
    return Reading(at_s, energy_j=energy_j, energy_step_s=step_s, power_w=9.0)


def launching(at_s, core_s, idle_s, stolen_s, ran_s, waited_s):
    """On 16 cores."""
    return Reading(at_s, core_s, idle_s, stolen_s=stolen_s, ran_s=ran_s, waited_s=waited_s)


def lowered(at_s, **lowered_s):
    return Reading(at_s, throttle="now", lowered_s=lowered_s)


@pytest.mark.parametrize(
    ("opening", "closing", "call_s", "expected"),
    [
        # Of 4 s of two cores' time, 1 s was idle and 2 s our own.
        (Reading(0, 100, 50, 7), Reading(2, 104, 51, 9), 1, Conditions(load=0.25)),
        # It stays between nothing and everything though counters step.
        (Reading(0, 0, 0, 0), Reading(1, 1, 0.5, 0.51), 1, Conditions(load=0.0)),
        (Reading(0, 100, 50, 7, 3), Reading(1, 100, 50, 7, 3), 10, Conditions()),  # counters that do not move
        # The threads of a GPU's host ran for 1.5 s of 2 s and waited for 0.3 s. Of 6 s that cores were at work or
        # wanted, 1.2 s were stolen, a fifth: 0.3 s of ours. So 0.6 s of 2 s were lost, however many cores were idle.
        (launching(5, 100, 90, 0.0, 0.0, 0.0), launching(7, 132, 116, 1.2, 1.5, 0.3), 1, Conditions(load=0.3)),
        # 30 J in 2 s are 15 W, and a call takes 1/30 s of them; the current reading of power is another.
        (energy(5, 10), energy(7, 40), 1 / 30, Conditions(power_w=15.0, energy_j=0.5)),
        (energy(5, 10), energy(7, 40), None, Conditions(power_w=15.0)),  # other work took some of it
        # Fewer than 20 steps of the counter, a reset of it, and a counter that stops answering
        (energy(5, 10), energy(6.9, 40), 1, Conditions(power_w=9.0)),
        (energy(5, 10), energy(7, 2), 1, Conditions(power_w=9.0)),
        (energy(5, 10), energy(7, None), 1, Conditions(power_w=9.0)),
        (energy(5, None), energy(7, 10), 1, Conditions(power_w=9.0)),
        (energy(5, 10, 0.001), energy(5.025, 11, 0.001), 0.01, Conditions(power_w=40.0, energy_j=0.4)),
        (ALL, ALL, 1, Conditions(None, 2e9, 50.0, 90.0, "power cap", None)),
        # A lowered clock counts from 1 % of the window on: 20 ms of 2 s
        (lowered(5, cap=1.0, heat=3.0), lowered(7, cap=1.025, heat=3.0), 1, Conditions(throttle="cap")),
        (lowered(5, cap=1.0, heat=3.0), lowered(7, cap=1.015, heat=3.0), 1, Conditions()),
        (lowered(5, cap=1.0, heat=0.0), lowered(7, cap=1.5, heat=2.0), 1, Conditions(throttle="cap;heat")),
        (lowered(5), lowered(7, cap=1.5), 1, Conditions()),  # since when is unknown
        (lowered(5, cap=0.0), lowered(7, cap=0.0), 1, Conditions(throttle="now")),  # counters that do not work
        (Reading(throttle_count=7), Reading(throttle_count=7), 1, Conditions()),
        (Reading(throttle_count=7), Reading(throttle_count=8), 1, Conditions(throttle="thermal")),
    ],
)
def test_the_conditions_of_a_window(opening, closing, call_s, expected):
    found = Conditions.between(opening, closing, call_s)
    assert dataclasses.astuple(found) == pytest.approx(dataclasses.astuple(expected))


def sensors_of(root, files):
    """The sensors of a system with these files."""
    for path, content in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(f"{content}\n")
    return ProcessorSensors(root)


CPUFREQ = "devices/system/cpu/cpufreq"
CLOCKS = {f"{CPUFREQ}/policy0/scaling_cur_freq": 3_000_000, f"{CPUFREQ}/policy1/scaling_cur_freq": 2_000_000}  # kHz
DISK = {"class/hwmon/hwmon0/name": "nvme", "class/hwmon/hwmon0/temp1_input": 90_000}
CHIP = {
    "class/hwmon/hwmon1/name": "coretemp",
    "class/hwmon/hwmon1/temp1_input": 61_000,  # thousandths of a degree
    "class/hwmon/hwmon1/temp2_input": 64_500,
}


@pytest.mark.parametrize(
    ("files", "clock_hz", "temperature_c"),
    [
        (DISK, None, None),
        (CLOCKS | DISK | CHIP, 2.5e9, 64.5),  # the mean of 3 and 2 GHz; the hottest sensor
    ],
)
def test_a_processors_clock_and_temperature(tmp_path, files, clock_hz, temperature_c):
    sensors = sensors_of(tmp_path, files)
    reading = sensors.read()
    assert (reading.clock_hz, reading.temperature_c) == (clock_hz, temperature_c)
    assert (reading.power_w, reading.throttle, reading.energy_j) == (None, None, None)
    for file in tmp_path.rglob("temp*_input"):  # sensors that stop answering
        file.unlink()
    assert sensors.read().temperature_c is None


def test_a_processor_is_throttled_where_its_counter_has_moved(tmp_path):
    counter = "devices/system/cpu/cpu0/thermal_throttle/package_throttle_count"
    sensors = sensors_of(tmp_path, {counter: 7})
    opening = sensors.read()
    assert Conditions.between(opening, sensors.read()).throttle is None
    (tmp_path / counter).write_text("8\n")
    assert Conditions.between(opening, sensors.read()).throttle == "thermal"
    assert Conditions.between(sensors.read(), sensors.read()).throttle is None


def rapl(range_uj=10**9, **used_uj):
    """The counters of packages, of the cores within package 0, and of the whole machine."""
    folders = {"package_0": "0", "core": "0:0", "package_1": "1", "psys": "2"}
    files = {}
    for name, used in used_uj.items():
        folder = f"class/powercap/intel-rapl:{folders[name]}"
        files |= {f"{folder}/name": name.replace("_", "-"), f"{folder}/max_energy_range_uj": range_uj}
        files[f"{folder}/energy_uj"] = used
    return files


@pytest.mark.parametrize(
    ("before", "after", "energy_j"),
    [
        (
            rapl(package_0=1_000_000, core=500_000, package_1=2_000_000, psys=9_000_000),
            rapl(package_0=4_000_000, core=2_500_000, package_1=2_500_000, psys=99_000_000),
            3.5,  # of the packages: 3 J and 0.5 J
        ),
        # A counter starts again at the end of its range.
        (rapl(10_000_000, package_0=9_000_000), rapl(10_000_000, package_0=2_000_000), 3.0),
    ],
)
def test_a_processors_energy_is_that_of_its_packages(tmp_path, before, after, energy_j):
    sensors = sensors_of(tmp_path, before)
    before_j = sensors.read().energy_j
    sensors_of(tmp_path, after)
    assert sensors.read().energy_j - before_j == pytest.approx(energy_j)


ANSWERS = {
    "GetClockInfo": 1980,  # MHz
    "GetTemperature": 61,
    "GetPowerUsage": 687_500,  # mW
    "GetTotalEnergyConsumption": 12_345,  # mJ
    "GetCurrentClocksEventReasons": 0x4 | 0x20 | 0x2,
    "GetCurrentClocksThrottleReasons": None,
    "IsMigDeviceHandle": None,  # as GPUs before Ampere
}
ABSENT = object()  # a question that the library does not know


EVENTS, THROTTLES = "GetCurrentClocksEventReasons", "GetCurrentClocksThrottleReasons"


def answering(answer):
    def function(handle, *_):
        assert handle == "gpu"
        if answer is None:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        return answer

    return function


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, (1.98e9, 61.0, 687.5, 12.345, "power cap;software thermal")),
        ({"GetTotalEnergyConsumption": None, "GetPowerUsage": None, EVENTS: None}, (1.98e9, 61, None, None, None)),
        ({EVENTS: 0x1 | 0x2 | 0x100}, (1.98e9, 61, 687.5, 12.345, None)),  # no setting and no idleness
        # A driver or a library may know one of the two questions alone.
        ({EVENTS: ABSENT, THROTTLES: 0x40}, (1.98e9, 61, 687.5, 12.345, "hardware thermal")),
        ({EVENTS: 0x40, THROTTLES: ABSENT}, (1.98e9, 61, 687.5, 12.345, "hardware thermal")),
    ],
)
def test_a_gpu_answers_in_base_units(monkeypatch, changed, expected):
    for name, answer in (ANSWERS | changed).items():
        if answer is ABSENT:
            monkeypatch.delattr(pynvml, f"nvmlDevice{name}")
        else:
            monkeypatch.setattr(pynvml, f"nvmlDevice{name}", answering(answer))
    reading = NvidiaSensors("gpu").read()
    values = (reading.clock_hz, reading.temperature_c, reading.power_w, reading.energy_j, reading.throttle)
    assert values == tuple(pytest.approx(each) if isinstance(each, float) else each for each in expected)
    assert 0 <= reading.idle_s < reading.core_s  # the load is the host's
    assert reading.process_s > 0


def field(number, time_ns, is_known=True):
    value = pynvml.c_nvmlFieldValue_t(fieldId=number, nvmlReturn=0 if is_known else pynvml.NVML_ERROR_NOT_SUPPORTED)
    value.value.ullVal = time_ns
    return value


@pytest.mark.parametrize(
    ("fields", "violation_ns", "expected"),
    [
        (
            [field(74, 2 * 10**9), field(269, 10**6), field(270, 0), field(271, 0)], 7,
            {"power cap": 2.0, "software thermal": 0.001, "hardware thermal": 0.0, "power brake": 0.0},
        ),
        ([field(74, 0, False), field(269, 0, False)], 5 * 10**8, {"power cap": 0.5, "thermal": 0.5}),  # an older driver
        (None, 5 * 10**8, {"power cap": 0.5, "thermal": 0.5}),
        (None, None, {}),
    ],
)  # fmt: skip
def test_a_gpu_counts_how_long_its_clock_was_lowered(monkeypatch, fields, violation_ns, expected):
    violation = None if violation_ns is None else pynvml.c_nvmlViolationTime_t(0, violation_ns)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetFieldValues", answering(fields))
    monkeypatch.setattr(pynvml, "nvmlDeviceGetViolationStatus", answering(violation))
    assert nvidia_lowered_s("gpu") == expected


def test_the_threads_of_a_gpus_host_wait_for_cores(tmp_path):
    sensors = LaunchLoad(tmp_path)
    for thread, text in {"7": "1500000000 300000000 9", "8": "500000000 0 1", "9": "", "10": "0 0 0"}.items():
        (tmp_path / thread).mkdir()
        (tmp_path / thread / "schedstat").write_text(text + "\n")
    reading = sensors.read()
    assert (reading.ran_s, reading.waited_s) == (2.0, 0.3)
    assert (LaunchLoad(tmp_path / "absent").read().ran_s, HostLoad().read().ran_s) == (0.0, 0.0)
    if Path("/proc/thread-self/schedstat").exists():
        assert LaunchLoad().read().ran_s > 0
