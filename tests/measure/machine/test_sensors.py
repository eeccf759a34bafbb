import dataclasses

import pynvml
import pytest

from measure.machine.sensors import Conditions, NvidiaSensors, ProcessorSensors, Reading

ALL = Reading(1.0, 1.0, 1.0, 1.0, 1.0, clock_hz=2e9, temperature_c=50.0, power_w=90.0, throttle="power cap")


def energy(at_s, energy_j, step_s=0.1):
    return Reading(at_s, energy_j=energy_j, energy_step_s=step_s, power_w=9.0)


@pytest.mark.parametrize(
    ("opening", "closing", "call_s", "expected"),
    [
        # Of 4 s of two cores' time, 1 s was idle and 2 s our own.
        (Reading(0, 100, 50, 7), Reading(2, 104, 51, 9), 1, Conditions(load=0.25)),
        # It stays between nothing and everything though counters step.
        (Reading(0, 0, 0, 0), Reading(1, 1, 0.5, 0.51), 1, Conditions(load=0.0)),
        (Reading(0, 100, 50, 7, 3), Reading(1, 100, 50, 7, 3), 10, Conditions()),  # counters that do not move
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
    def answering(answer):
        def function(handle, *_):
            assert handle == "gpu"
            if answer is None:
                raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
            return answer

        return function

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
