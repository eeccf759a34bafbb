from types import SimpleNamespace

import pytest

from measure.machine import host, processor
from measure.machine.sensors import Reading

psutil = pytest.importorskip("psutil", reason="load and memory need psutil")


def write(root, files):
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(f"{text}\n")


def test_the_load_is_what_others_took_of_the_cores(monkeypatch):
    # Of 8 s of all cores' time 2 s were idle, and this process took 4 s: a quarter of 4 cores is others'
    readings = [Reading(core_s=0.0, idle_s=0.0, process_s=0.0), Reading(core_s=8.0, idle_s=2.0, process_s=4.0)]
    monkeypatch.setattr(host.ProcessorSensors, "read", lambda _: readings.pop(0))
    monkeypatch.setattr(processor, "visible_cores", lambda: 4)
    assert host.load_cores(0.0) == 1.0


def test_governors_are_named_once_each(tmp_path):
    assert host.governors(tmp_path) is None
    names = ("powersave", "powersave", "performance")
    write(tmp_path, {f"{host.CPUS}/cpufreq/policy{core}/scaling_governor": name for core, name in enumerate(names)})
    assert host.governors(tmp_path) == ("performance", "powersave")


@pytest.mark.parametrize(
    ("file", "text", "turbo"),
    [
        ("intel_pstate/no_turbo", "0", True),
        ("intel_pstate/no_turbo", "1", False),
        ("cpufreq/boost", "1", True),
        ("cpufreq/boost", "0", False),
        ("other", "1", None),
    ],
)
def test_turbo_is_told_by_the_driver_of_either_vendor(tmp_path, file, text, turbo):
    write(tmp_path, {f"{host.CPUS}/{file}": text})
    assert host.has_turbo(tmp_path) is turbo


def test_throttling_is_counted_over_cores(tmp_path):
    assert host.throttle_count(tmp_path) is None
    write(tmp_path, {f"{host.CPUS}/cpu{core}/thermal_throttle/core_throttle_count": core for core in (2, 3)})
    assert host.throttle_count(tmp_path) == 5  # 2 + 3


def test_the_tightest_quota_of_a_group_and_those_above_counts(tmp_path):
    own = tmp_path / "cgroup"
    own.write_text("0::/docker/box\n")
    groups = tmp_path / "groups"
    write(groups, {"docker/cpu.max": "150000 100000", "docker/box/cpu.max": "max 100000"})
    assert host.quota_cores(own, groups) == 1.5
    write(groups, {"docker/box/cpu.max": "50000 100000"})
    assert host.quota_cores(own, groups) == 0.5
    write(groups, {"docker/cpu.max": "max 100000", "docker/box/cpu.max": "max 100000"})
    assert host.quota_cores(own, groups) is None


def test_a_container_sees_its_own_group_at_the_root(tmp_path):
    own = tmp_path / "cgroup"
    own.write_text("0::/not/shown/here\n")
    write(tmp_path / "groups", {"cpu.max": "200000 100000"})
    assert host.quota_cores(own, tmp_path / "groups") == 2.0


def test_control_groups_of_version_1_state_quota_and_period_apart(tmp_path):
    own = tmp_path / "cgroup"
    own.write_text("5:memory:/box\n3:cpu,cpuacct:/box\n1:name=systemd:/\n")
    groups = tmp_path / "groups"
    write(groups, {"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"})
    assert host.quota_cores(own, groups) is None
    write(groups, {"cpu/box/cpu.cfs_quota_us": "300000", "cpu/box/cpu.cfs_period_us": "100000"})
    assert host.quota_cores(own, groups) == 3.0


def test_a_system_without_control_groups_has_no_quota(tmp_path):
    assert host.quota_cores(tmp_path / "none", tmp_path) is None


@pytest.mark.parametrize(
    ("said", "virtual"), [({"flags": "fpu hypervisor sse2"}, True), ({"flags": "fpu"}, False), ({}, None)]
)
def test_a_hypervisor_shows_among_the_processors_flags(monkeypatch, said, virtual):
    monkeypatch.setattr(host.platform, "system", lambda: "Linux")
    monkeypatch.setattr(processor, "described", lambda: said)
    assert host.is_virtual() is virtual


def test_the_sensor_nearest_to_its_limit_counts():
    def sensor(current, high=None, critical=None):
        return SimpleNamespace(current=current, high=high, critical=critical)

    assert host.nearest_to_limit({}) is None
    assert host.nearest_to_limit({"board": [sensor(50.0), sensor(60.0)]}) == (60.0, None)
    # 10, 25 and 5 degrees are left; a sensor without a limit says nothing of how near it is.
    chips = {
        "cpu": [sensor(70.0, 80.0), sensor(75.0, None, 100.0)],
        "disk": [sensor(55.0, 60.0)],
        "board": [sensor(99.0)],
    }
    assert host.nearest_to_limit(chips) == (55.0, 60.0)


def test_this_machine_can_be_observed(monkeypatch):
    monkeypatch.setattr(host, "WINDOW_S", 0.05)
    seen, memory = host.observe()
    assert 1 <= seen.threads <= seen.usable_cores <= seen.logical_cores
    assert seen.load_cores is None or 0 <= seen.load_cores <= seen.logical_cores
    assert memory.available_byte > 0
    assert memory.swap_moved_byte >= 0


def test_a_process_that_computes_is_named(monkeypatch):
    busy = SimpleNamespace(pid=7, info={"name": "make"}, cpu_percent=lambda: 90.0)
    idle = SimpleNamespace(pid=8, info={"name": "sh"}, cpu_percent=lambda: 1.0)

    def gone():
        raise psutil.NoSuchProcess(9)

    ended = SimpleNamespace(pid=9, info={"name": "ls"}, cpu_percent=gone)
    assert host._busiest([idle, busy, ended]) == ("make (7) 0.90",)
