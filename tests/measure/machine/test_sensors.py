import pytest

from measure.machine.sensors import Conditions, HostLoad, NvidiaSensors, ProcessorSensors, Reading, Sensors


@pytest.fixture
def system(tmp_path):
    """The files in which Linux shows sensors: write one by its path."""

    def write(path, content):
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{content}\n")

    return tmp_path, write


def test_load_is_what_others_used_of_all_cores():
    opening = Reading(core_s=100.0, idle_s=50.0, process_s=7.0)
    # Of 4 s of two cores' time, 1 s was idle and 2 s our own.
    assert Conditions.between(opening, Reading(core_s=104.0, idle_s=51.0, process_s=9.0), 1).load == 0.25


def test_load_stays_between_nothing_and_everything_though_counters_step():
    opening = Reading(core_s=0.0, idle_s=0.0, process_s=0.0)
    assert Conditions.between(opening, Reading(core_s=1.0, idle_s=0.5, process_s=0.51), 1).load == 0.0
    assert Conditions.between(opening, Reading(core_s=1.0, idle_s=-0.01, process_s=0.0), 1).load == 1.0


def test_counters_that_stand_still_are_no_load_and_no_energy():
    still = Reading(core_s=100.0, idle_s=50.0, process_s=7.0, energy_j=3.0)
    conditions = Conditions.between(still, still, 10)
    assert (conditions.load, conditions.energy_j) == (None, None)


def test_energy_is_that_of_one_call():
    conditions = Conditions.between(Reading(energy_j=10.0), Reading(energy_j=40.0), 60)
    assert conditions.energy_j == 0.5


def test_energy_that_other_work_took_too_is_not_known():
    assert Conditions.between(Reading(energy_j=10.0), Reading(energy_j=40.0), None).energy_j is None


def test_what_is_not_there_is_none():
    silent = Sensors()
    assert Conditions.between(silent.read(), silent.read(), 1) == Conditions()


def test_one_reading_says_all_but_load_and_energy():
    reading = Reading(1.0, 1.0, 1.0, 1.0, clock_hz=2e9, temperature_c=50.0, power_w=90.0, throttle="power cap")
    assert Conditions.between(reading, reading, 1) == Conditions(None, 2e9, 50.0, 90.0, "power cap", None)


def test_a_processor_counts_its_cores_time(system):
    pytest.importorskip("psutil", reason="the system's counters are read with psutil")
    root, _ = system
    sensors = ProcessorSensors(root)
    opening = sensors.read()
    total = 0
    while (closing := sensors.read()).core_s - opening.core_s < 0.1:  # until the counters have stepped
        total += sum(range(10_000))
    assert total
    assert closing.process_s > opening.process_s
    assert closing.idle_s >= opening.idle_s
    assert 0 <= Conditions.between(opening, closing, 1).load < 1


def test_a_processor_without_files_says_nothing_more(system):
    root, _ = system
    reading = ProcessorSensors(root).read()
    assert (reading.clock_hz, reading.temperature_c, reading.power_w) == (None, None, None)
    assert (reading.throttle, reading.energy_j) == (None, None)


def test_a_processors_clock_is_the_mean_of_its_frequencies(system):
    root, write = system
    write("devices/system/cpu/cpufreq/policy0/scaling_cur_freq", 3_000_000)  # kHz
    write("devices/system/cpu/cpufreq/policy1/scaling_cur_freq", 2_000_000)
    assert ProcessorSensors(root).read().clock_hz == 2.5e9


def test_a_processors_temperature_is_that_of_its_hottest_sensor(system):
    root, write = system
    write("class/hwmon/hwmon0/name", "nvme")
    write("class/hwmon/hwmon0/temp1_input", 90_000)
    write("class/hwmon/hwmon1/name", "coretemp")
    write("class/hwmon/hwmon1/temp1_input", 61_000)  # thousandths of a degree
    write("class/hwmon/hwmon1/temp2_input", 64_500)
    assert ProcessorSensors(root).read().temperature_c == 64.5


def test_a_processor_is_throttled_where_its_counter_has_moved(system):
    root, write = system
    counter = "devices/system/cpu/cpu0/thermal_throttle/package_throttle_count"
    write(counter, 7)
    sensors = ProcessorSensors(root)
    assert sensors.read().throttle is None
    write(counter, 8)
    assert sensors.read().throttle == "thermal"
    assert sensors.read().throttle is None


def package(write, number, name, used_uj, range_uj=1_000_000_000):
    folder = f"class/powercap/intel-rapl:{number}"
    write(f"{folder}/name", name)
    write(f"{folder}/max_energy_range_uj", range_uj)
    write(f"{folder}/energy_uj", used_uj)


def test_a_processors_energy_is_that_of_its_packages(system):
    root, write = system
    package(write, "0", "package-0", 1_000_000)
    package(write, "0:0", "core", 500_000)  # within package 0
    package(write, "1", "package-1", 2_000_000)
    package(write, "2", "psys", 9_000_000)  # the whole machine
    sensors = ProcessorSensors(root)
    before_j = sensors.read().energy_j
    package(write, "0", "package-0", 4_000_000)
    package(write, "0:0", "core", 2_500_000)
    package(write, "1", "package-1", 2_500_000)
    package(write, "2", "psys", 99_000_000)
    assert sensors.read().energy_j - before_j == pytest.approx(3.5)  # 3 J and 0.5 J


def test_an_energy_counter_starts_again_at_the_end_of_its_range(system):
    root, write = system
    package(write, "0", "package-0", 9_000_000, range_uj=10_000_000)
    sensors = ProcessorSensors(root)
    before_j = sensors.read().energy_j
    package(write, "0", "package-0", 2_000_000, range_uj=10_000_000)
    assert sensors.read().energy_j - before_j == pytest.approx(3.0)


def test_an_energy_counter_that_this_user_may_not_read_is_none(system):
    root, write = system
    package(write, "0", "package-0", 1_000_000)
    (root / "class/powercap/intel-rapl:0/energy_uj").unlink()
    (root / "class/powercap/intel-rapl:0/energy_uj").mkdir()  # reading it fails, for root too
    assert ProcessorSensors(root).read().energy_j is None


class Driver:
    """NVML's answers about one GPU."""

    def __init__(self, pynvml, monkeypatch, **answers):
        for name, answer in answers.items():
            monkeypatch.setattr(pynvml, name, self._answering(pynvml, answer))

    @staticmethod
    def _answering(pynvml, answer):
        def function(handle, *_):
            assert handle == "gpu"
            if answer is None:
                raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
            return answer

        return function


def nvidia(monkeypatch, **changed):
    pynvml = pytest.importorskip("pynvml", reason="nvidia-ml-py is part of the measure extra")
    answers = {
        "nvmlDeviceGetClockInfo": 1980,  # MHz
        "nvmlDeviceGetTemperature": 61,
        "nvmlDeviceGetPowerUsage": 687_500,  # mW
        "nvmlDeviceGetTotalEnergyConsumption": 12_345,  # mJ
        "nvmlDeviceGetCurrentClocksEventReasons": 0x4 | 0x20 | 0x2,
        "nvmlDeviceGetCurrentClocksThrottleReasons": None,
        "nvmlDeviceIsMigDeviceHandle": None,  # as GPUs before Ampere
    }
    Driver(pynvml, monkeypatch, **answers | changed)
    return NvidiaSensors("gpu").read()


def test_a_gpu_answers_in_base_units(monkeypatch):
    reading = nvidia(monkeypatch)
    assert (reading.clock_hz, reading.temperature_c) == (1.98e9, 61.0)
    assert (reading.power_w, reading.energy_j) == (pytest.approx(687.5), pytest.approx(12.345))


def test_a_gpus_throttling_is_heat_and_power_but_no_setting_and_no_idleness(monkeypatch):
    assert nvidia(monkeypatch).throttle == "power cap;software thermal"
    assert nvidia(monkeypatch, nvmlDeviceGetCurrentClocksEventReasons=0x1 | 0x2 | 0x100).throttle is None


def test_what_a_gpu_does_not_answer_is_none(monkeypatch):
    reading = nvidia(monkeypatch, nvmlDeviceGetTotalEnergyConsumption=None, nvmlDeviceGetPowerUsage=None)
    assert (reading.energy_j, reading.power_w, reading.temperature_c) == (None, None, 61.0)
    reading = nvidia(monkeypatch, nvmlDeviceGetCurrentClocksEventReasons=None)
    assert reading.throttle is None


def test_a_driver_that_knows_the_former_question_alone_is_asked_that(monkeypatch):
    former = {"nvmlDeviceGetCurrentClocksEventReasons": None, "nvmlDeviceGetCurrentClocksThrottleReasons": 0x4}
    assert nvidia(monkeypatch, **former).throttle == "power cap"


@pytest.mark.parametrize(("gone", "left"), [("Throttle", "Event"), ("Event", "Throttle")])
def test_a_library_may_have_one_of_the_questions_alone(monkeypatch, gone, left):
    nvidia(monkeypatch, **{f"nvmlDeviceGetCurrentClocks{left}Reasons": 0x40})
    monkeypatch.delattr(f"pynvml.nvmlDeviceGetCurrentClocks{gone}Reasons")
    assert NvidiaSensors("gpu").read().throttle == "hardware thermal"


def test_a_gpus_load_is_that_of_its_host(monkeypatch):
    pytest.importorskip("psutil", reason="the system's counters are read with psutil")
    for reading in (nvidia(monkeypatch), HostLoad().read()):
        assert 0 <= reading.idle_s < reading.core_s
        assert reading.process_s > 0
    assert (reading.clock_hz, reading.temperature_c, reading.energy_j, reading.throttle) == (None,) * 4


def test_a_sensor_that_stops_answering_is_none(system):
    root, write = system
    write("class/hwmon/hwmon1/name", "k10temp")
    write("class/hwmon/hwmon1/temp1_input", 61_000)
    sensors = ProcessorSensors(root)
    assert sensors.read().temperature_c == 61.0
    (root / "class/hwmon/hwmon1/temp1_input").unlink()
    assert sensors.read().temperature_c is None
