from types import SimpleNamespace

import pytest

from measure.machine import host, processor
from measure.machine.host import OK, PROBLEM, UNCHECKED, WARNING, Activity, check_temperature, level_of, quota_cores
from measure.machine.sensors import Reading

psutil = pytest.importorskip("psutil", reason="load and memory need psutil")

GB = 10**9


def write(root, files):
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(f"{text}\n")


@pytest.mark.parametrize(("value", "level"), [(0.0, OK), (0.1, WARNING), (0.4, WARNING), (0.5, PROBLEM), (9, PROBLEM)])
def test_a_value_is_graded_by_the_bounds_that_it_reaches(value, level):
    assert level_of(value, (0.1, 0.5)) == level


def test_a_chip_near_its_limit_is_a_warning():
    assert check_temperature("heat", "it", 91.0, 100.0).level == WARNING
    assert check_temperature("heat", "it", 90.0, 100.0).level == OK
    assert check_temperature("heat", "it", 95.0, None).level == OK


def test_gigabytes_are_decimal():
    assert host.gigabytes(2.56e9) == "2.6 GB"
    assert host.gigabytes(2**30) == "1.1 GB"  # 1.0737e9


def test_load_counts_all_cores_though_this_process_may_use_one(monkeypatch):
    # Of 8 s of all cores' time 2 s were idle, and this process took 4 s: others used a quarter of 4 cores
    readings = [Reading(core_s=0.0, idle_s=0.0, process_s=0.0), Reading(core_s=8.0, idle_s=2.0, process_s=4.0)]
    monkeypatch.setattr(host.HostLoad, "read", lambda _: readings.pop(0))
    monkeypatch.setattr(host, "GLANCE_S", 0.0)
    monkeypatch.setattr(psutil, "cpu_count", lambda: 4)
    monkeypatch.setattr(processor, "visible_cores", lambda: 1)
    assert host.load_cores() == 1.0


@pytest.mark.parametrize("load_cores", [None, 0.0, 0.4])
def test_a_run_on_a_quiet_machine_starts_without_a_warning(monkeypatch, load_cores):
    monkeypatch.setattr(host, "load_cores", lambda: load_cores)
    assert host.warning_of_load() is None


def test_a_run_on_a_busy_machine_starts_with_a_warning(monkeypatch):
    monkeypatch.setattr(host, "load_cores", lambda: 1.6)
    assert host.warning_of_load().startswith("Other programs use 1.6 of this machine's cores: ")


@pytest.mark.parametrize(
    ("cores", "level", "words"),
    [
        (0.01, OK, "0.01 of 8"),
        (0.3, WARNING, "0.30 of 8"),
        (1.2, PROBLEM, "1.20 of 8 cores: make (7) 1.10"),
        (None, UNCHECKED, "system"),
    ],
)
def test_load_is_graded_and_names_the_busiest(monkeypatch, cores, level, words):
    monkeypatch.setattr(psutil, "cpu_count", lambda: 8)
    finding = host.check_load(Activity(cores, ("make (7) 1.10",), 0.0, False, 0))
    assert finding.level == level
    assert words in finding.fact
    assert bool(finding.advice) == (level in (WARNING, PROBLEM))


@pytest.mark.parametrize(
    ("cpuinfo", "stolen", "level"),
    [
        ({"flags": "fpu hypervisor sse2"}, 0.0, WARNING),
        ({"flags": "fpu hypervisor sse2"}, 0.08, PROBLEM),
        ({"flags": "fpu"}, 0.0, OK),
        ({}, 0.0, UNCHECKED),
    ],
)
def test_a_hypervisor_shows_among_the_processors_flags(monkeypatch, cpuinfo, stolen, level):
    monkeypatch.setattr(host.platform, "system", lambda: "Linux")
    monkeypatch.setattr(processor, "read_cpuinfo", lambda: cpuinfo)
    assert host.check_hypervisor(stolen).level == level


@pytest.mark.parametrize(("usable", "logical", "level"), [(8, 8, OK), (4, 8, WARNING), (1, 1, WARNING)])
def test_a_part_of_the_cores_and_a_single_core_are_warnings(monkeypatch, usable, logical, level):
    monkeypatch.setattr(processor, "visible_cores", lambda: usable)
    monkeypatch.setattr(psutil, "cpu_count", lambda: logical)
    assert host.check_cores().level == level


def test_a_quota_below_the_threads_is_a_problem(tmp_path):
    own, groups = tmp_path / "cgroup", tmp_path / "groups"
    assert host.check_quota(2, own, groups).level == OK  # no control groups
    own.write_text("0::/\n")
    write(groups, {"cpu.max": "150000 100000"})
    assert host.check_quota(2, own, groups).level == PROBLEM
    assert host.check_quota(1, own, groups).level == OK


def test_the_tightest_quota_of_a_group_and_its_parents_counts(tmp_path):
    own, groups = tmp_path / "cgroup", tmp_path / "groups"
    own.write_text("0::/docker/box\n")
    write(groups, {"docker/cpu.max": "150000 100000", "docker/box/cpu.max": "max 100000"})
    assert quota_cores(own, groups) == 1.5
    write(groups, {"docker/box/cpu.max": "50000 100000"})
    assert quota_cores(own, groups) == 0.5
    write(groups, {"docker/cpu.max": "max 100000", "docker/box/cpu.max": "max 100000"})
    assert quota_cores(own, groups) is None


def test_a_container_sees_its_own_group_at_the_root(tmp_path):
    own = tmp_path / "cgroup"
    own.write_text("0::/not/shown/here\n")
    write(tmp_path / "groups", {"cpu.max": "200000 100000"})
    assert quota_cores(own, tmp_path / "groups") == 2.0


def test_control_groups_of_version_1_keep_quota_and_period_in_two_files(tmp_path):
    own, groups = tmp_path / "cgroup", tmp_path / "groups"
    own.write_text("5:memory:/box\n3:cpu,cpuacct:/box\n1:name=systemd:/\n")
    write(groups, {"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"})
    assert quota_cores(own, groups) is None
    write(groups, {"cpu/box/cpu.cfs_quota_us": "300000", "cpu/box/cpu.cfs_period_us": "100000"})
    assert quota_cores(own, groups) == 3.0


@pytest.mark.parametrize(
    ("siblings", "words"), [(None, "unknown number of physical"), (((0, 4), (1, 5)), "on 2 physical")]
)
def test_hyper_threads_show_in_the_number_of_physical_cores(monkeypatch, siblings, words):
    monkeypatch.setattr(processor, "siblings", lambda: siblings)
    assert words in host.check_cores().fact


def test_a_governor_other_than_performance_is_a_warning(tmp_path):
    assert host.check_governors(tmp_path).level == UNCHECKED
    names = ("powersave", "powersave", "performance")
    write(tmp_path, {f"cpufreq/policy{core}/scaling_governor": name for core, name in enumerate(names)})
    assert host.check_governors(tmp_path).fact == "the governor is performance, powersave"
    write(tmp_path, {f"cpufreq/policy{core}/scaling_governor": "performance" for core in range(3)})
    assert host.check_governors(tmp_path).level == OK


@pytest.mark.parametrize(
    ("file", "text", "level", "remedy"),
    [
        ("intel_pstate/no_turbo", "0", WARNING, "echo 1 "),
        ("intel_pstate/no_turbo", "1", OK, ""),
        ("cpufreq/boost", "1", WARNING, "echo 0 "),
        ("cpufreq/boost", "0", OK, ""),
        ("other", "1", UNCHECKED, ""),
    ],
)
def test_turbo_is_read_from_the_driver_of_either_vendor(tmp_path, file, text, level, remedy):
    write(tmp_path, {file: text})
    finding = host.check_turbo(tmp_path)
    assert finding.level == level
    assert remedy in (finding.advice or "")


def test_the_sensor_nearest_to_its_limit_counts():
    def sensor(current, high=None, critical=None):
        return SimpleNamespace(current=current, high=high, critical=critical)

    assert host.check_heat({}).level == UNCHECKED
    assert "60 °C" in host.check_heat({"board": [sensor(50.0), sensor(60.0)]}).fact
    # 10, 25 and 5 degrees are left; a sensor without a limit does not count
    chips = {
        "cpu": [sensor(70.0, 80.0), sensor(75.0, None, 100.0)],
        "disk": [sensor(55.0, 60.0)],
        "board": [sensor(99.0)],
    }
    assert "55 °C (limit 60 °C)" in host.check_heat(chips).fact


def test_throttling_is_counted_over_cores(tmp_path):
    assert host.check_throttling(False, tmp_path).level == UNCHECKED
    assert host.check_throttling(True, tmp_path).level == PROBLEM
    write(tmp_path, {f"cpu{core}/thermal_throttle/core_throttle_count": core for core in (2, 3)})
    assert "the clock 5 times" in host.check_throttling(False, tmp_path).fact  # 2 + 3
    write(tmp_path, {f"cpu{core}/thermal_throttle/core_throttle_count": 0 for core in (2, 3)})
    assert host.check_throttling(False, tmp_path).level == OK


@pytest.mark.parametrize(("battery", "level"), [(None, OK), (True, OK), (False, PROBLEM)])
def test_a_machine_on_battery_is_a_problem(monkeypatch, battery, level):
    answer = None if battery is None else SimpleNamespace(power_plugged=battery)
    monkeypatch.setattr(psutil, "sensors_battery", lambda: answer, raising=False)
    assert host.check_battery().level == level


@pytest.mark.parametrize(
    ("available_byte", "largest", "level"),
    [
        (GB, None, PROBLEM),  # less than 2 GiB
        (8 * GB, None, OK),
        (8 * GB, ("vgg19", 7 * GB), WARNING),  # 1 GB is left for torch
        (32 * GB, ("vgg19", 7 * GB), OK),
    ],
)
def test_memory_holds_torch_and_the_largest_cell(available_byte, largest, level):
    assert host.check_memory(available_byte, largest).level == level


def test_little_shared_memory_is_a_warning(monkeypatch, tmp_path):
    assert host.check_shared_memory(tmp_path / "none").level == UNCHECKED
    for free_byte, level in ((64 * 2**20, WARNING), (GB, OK)):
        monkeypatch.setattr(psutil, "disk_usage", lambda _, free_byte=free_byte: SimpleNamespace(free=free_byte))
        assert host.check_shared_memory(tmp_path).level == level


@pytest.mark.parametrize(("used_byte", "moved_byte", "level"), [(0, 0, OK), (3 * GB, 0, WARNING), (GB, 10**8, PROBLEM)])
def test_swap_in_use_is_a_warning_and_swap_that_moves_a_problem(used_byte, moved_byte, level):
    assert host.check_swap(used_byte, moved_byte).level == level


def test_this_machine_can_be_checked(monkeypatch):
    monkeypatch.setattr(host, "WINDOW_S", 0.05)
    findings = list(host.check_host(None))
    assert len(findings) == 12
    assert all(finding.fact for finding in findings)


def test_a_process_that_computes_is_named(monkeypatch):
    def gone():
        raise psutil.NoSuchProcess(9)

    processes = [
        SimpleNamespace(pid=7, info={"name": "make"}, cpu_percent=lambda: 90.0),
        SimpleNamespace(pid=8, info={"name": "sh"}, cpu_percent=lambda: 1.0),
        SimpleNamespace(pid=9, info={"name": "ls"}, cpu_percent=gone),
    ]
    monkeypatch.setattr(host, "WINDOW_S", 0.0)
    monkeypatch.setattr(psutil, "process_iter", lambda _: processes)
    assert host._watch().busiest == ("make (7) 0.90",)
