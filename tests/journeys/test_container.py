"""In a container or a batch job measuring uses its share of the host, not the whole host."""

import json
from types import SimpleNamespace

import psutil
import pytest

from measure.__main__ import main
from measure.machine import checks, container, devices, processor
from measure.run.request import parse_threads

GIB = 2**30
HOST_CORES, HOST_BYTE = 64, 256 * GIB
# Of 8 GiB 7.9 are in use, with 6 of idle page cache: 8 - (7.9 - 6) = 6.1 are left
LIMIT, USED, CACHE = 8 * GIB, int(7.9 * GIB), 6 * GIB
LEFT_GIB = pytest.approx(6.1, abs=1e-6)


@pytest.fixture
def host(monkeypatch, tmp_path):
    """Pretend a host with these control groups; return threads, free GiB and the doctor's findings."""

    def pretend(process, files, capsys):
        for path, text in {"process": process, **{f"groups/{path}": text for path, text in files.items()}}.items():
            (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / path).write_text(f"{text}\n")
        monkeypatch.setattr(container, "PROCESS", tmp_path / "process")
        monkeypatch.setattr(container, "GROUPS", tmp_path / "groups")
        assert main(["doctor", "--json", "--data", str(tmp_path / "data")]) in (0, 1)
        findings = {each["subject"]: each for each in json.loads(capsys.readouterr().out)}
        return parse_threads(None), container.available_memory_byte() / GIB, findings

    memory = SimpleNamespace(total=HOST_BYTE, available=HOST_BYTE)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: memory)
    monkeypatch.setattr(psutil, "cpu_count", lambda logical=True: HOST_CORES)
    monkeypatch.setattr(processor, "SYSTEM_CPUS", tmp_path / "none")
    monkeypatch.setattr(processor.os, "cpu_count", lambda: HOST_CORES)
    monkeypatch.setattr(processor.os, "sched_getaffinity", lambda _: set(range(HOST_CORES)), raising=False)
    for name, value in {"WINDOW_S": 0.0, "check_libraries": list, "check_gpus": list}.items():
        monkeypatch.setattr(checks, name, value)
    return pretend


V2 = {"cgroup.controllers": "cpuset cpu memory"}
BOX = "0::/docker/box"
V1 = "5:cpuset:/docker/box\n4:cpu,cpuacct:/docker/box\n3:memory:/docker/box\n0::/"


def unified(folder, **files):
    return {f"{folder}/{name.replace('_', '.', 1)}": text for name, text in files.items()}


@pytest.mark.parametrize(
    ("process", "files", "threads"),
    [
        # docker run --cpus=2: 200 ms of processor time in each 100 ms
        ("0::/", V2 | unified(".", cpu_max="200000 100000"), 2),
        (BOX, V2 | unified("docker/box", cpu_max="200000 100000"), 2),
        # The tightest of nested groups: a pod of 3 cores, its container without a limit or with 1.5
        (BOX, V2 | unified("docker", cpu_max="300000 100000") | unified("docker/box", cpu_max="max 100000"), 3),
        (BOX, V2 | unified("docker", cpu_max="300000 100000") | unified("docker/box", cpu_max="150000 100000"), 1),
        # The container sees its group's path on the host, and the group itself as the root
        ("0::/not/shown/here", V2 | unified(".", cpu_max="200000 100000"), 2),
        ("0::/../next", V2 | unified(".", cpu_max="200000 100000"), 2),
        # Version 1, in a folder for both controllers or for one, and its container's own root
        (V1, {"cpu,cpuacct/cgroup.procs": "1", "cpu,cpuacct/docker/box/cpu.cfs_quota_us": "200000",
              "cpu,cpuacct/docker/box/cpu.cfs_period_us": "100000"}, 2),
        (V1, {"cpu/cgroup.procs": "1", "cpu/cpu.cfs_quota_us": "50000", "cpu/cpu.cfs_period_us": "25000"}, 2),
        # Both versions at once: the unified one has no controllers
        (V1, {"cpu/cgroup.procs": "1", "cpu/cpu.cfs_quota_us": "200000", "cpu/cpu.cfs_period_us": "100000",
              "unified/cgroup.controllers": ""}, 2),
    ],
)  # fmt: skip
def test_a_quota_of_processor_time_is_the_number_of_threads(host, capsys, process, files, threads):
    found, _, findings = host(process, files, capsys)
    assert found == threads
    assert findings["quota"]["level"] == checks.WARNING
    assert f"measuring uses {threads} threads" in findings["quota"]["fact"]


@pytest.mark.parametrize(
    ("process", "files", "level"),
    [
        ("0::/", V2, checks.OK),  # the root of a host has no limit
        (BOX, V2 | unified("docker/box", cpu_max="max 100000"), checks.OK),
        (V1, {"cpu/cgroup.procs": "1", "cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, checks.OK),
        (BOX, {}, checks.UNCHECKED),  # nothing is mounted
        (V1, V2, checks.UNCHECKED),  # the version 1 that holds the limit is not mounted
        ("", {}, checks.UNCHECKED),  # another system
    ],
)
def test_without_a_limit_all_cores_are_used(host, capsys, process, files, level):
    threads, _, findings = host(process, files, capsys)
    assert (threads, findings["quota"]["level"]) == (HOST_CORES, level)


def test_less_than_one_core_is_a_problem(host, capsys):
    threads, _, findings = host("0::/", V2 | unified(".", cpu_max="50000 100000"), capsys)
    assert (threads, findings["quota"]["level"]) == (1, checks.PROBLEM)


def test_the_cores_of_a_cpuset_bound_the_threads_as_well(host, capsys, monkeypatch):
    monkeypatch.setattr(processor.os, "sched_getaffinity", lambda _: {4, 5, 6}, raising=False)
    assert host("0::/", V2 | unified(".", cpu_max="800000 100000"), capsys)[0] == 3


def group(limit=LIMIT, used=USED, cache=CACHE, version=2):
    if version == 1:
        statistics = f"cache 7\ninactive_file 1\ntotal_inactive_file {cache}"
        return {"memory.limit_in_bytes": limit, "memory.usage_in_bytes": used, "memory.stat": statistics}
    return {"memory.max": limit, "memory.current": used, "memory.stat": f"anon 1\nactive_file 5\ninactive_file {cache}"}


def at(folder, files):
    return {f"{folder}/{name}": text for name, text in files.items()}


UNLIMITED_V1 = 9223372036854771712  # version 1 without a limit: the largest whole page


@pytest.mark.parametrize(
    ("process", "files", "left_gib"),
    [
        ("0::/", V2 | group(), LEFT_GIB),
        (BOX, V2 | at("docker/box", group()), LEFT_GIB),
        # A group without a limit of its own, in a group with one
        (BOX, V2 | at("docker", group()) | at("docker/box", group("max", GIB, 0)), LEFT_GIB),
        # The inner group leaves 6.1 GiB, the outer one 16 - 12 = 4
        (BOX, V2 | at("docker", group(16 * GIB, 12 * GIB, 0)) | at("docker/box", group()), pytest.approx(4)),
        (V1, at("memory", {"cgroup.procs": "1"} | group(version=1)), LEFT_GIB),
        (V1, at("memory", {"cgroup.procs": "1"} | group(UNLIMITED_V1, USED, CACHE, version=1))
         | at("memory/docker/box", group(version=1)), LEFT_GIB),
        (V1, at("memory", {"cgroup.procs": "1"} | group(UNLIMITED_V1, USED, CACHE, version=1)), HOST_BYTE / GIB),
        # Version 2 for memory alone
        ("4:cpu:/\n0::/box", {"unified/cgroup.controllers": "memory"} | at("unified/box", group()), LEFT_GIB),
        ("0::/", V2 | group(LIMIT, LIMIT + GIB, 0), 0),  # lowered below its use
        ("0::/", {}, HOST_BYTE / GIB),
    ],
)  # fmt: skip
def test_page_cache_is_not_memory_in_use(host, capsys, process, files, left_gib):
    _, free_gib, findings = host(process, files, capsys)
    assert free_gib == left_gib
    assert findings["memory"]["level"] == (checks.PROBLEM if free_gib < 2 else checks.OK)


def test_the_memory_of_a_machine_is_that_of_its_container(host, capsys):
    host("0::/", V2 | group(), capsys)
    assert devices.find("cpu").memory_byte() == LIMIT


CORES = "processor\t: 0\nFeatures\t: fp asimd\nCPU part\t: 0xd08\n\nprocessor\t: 1\nFeatures\t: fp asimd\n"
PI = "Raspberry Pi 4 Model B Rev 1.4"


@pytest.mark.parametrize(
    ("cpuinfo", "board", "name"),
    [
        (f"{CORES}\nRevision\t: c03114\nSerial\t\t: 1000\nModel\t\t: {PI}\n", f"{PI}\0", PI),
        # A 32-bit system names its cores as well
        (f"{CORES.replace('Features', 'model name')}\nHardware\t: BCM2711\nModel\t\t: {PI}\n", "", PI),
        (CORES, "NVIDIA Jetson Orin Nano Developer Kit\0", "NVIDIA Jetson Orin Nano Developer Kit"),
        (CORES, "linux,dummy-virt\0", "aarch64"),  # a virtual machine of QEMU has no board
        (CORES, "", "aarch64"),
        ("processor : 0\nmodel : 17\nmodel name : EPYC 9554\n\nprocessor : 1\nmodel name : x\n", "", "EPYC 9554"),
    ],
)
def test_an_arm_board_is_called_by_its_name(monkeypatch, tmp_path, cpuinfo, board, name):
    for attribute, text in (("CPUINFO", cpuinfo), ("BOARD", board)):
        (tmp_path / attribute).write_text(text)
        monkeypatch.setattr(processor, attribute, tmp_path / attribute)
    monkeypatch.setattr(devices.platform, "machine", lambda: "aarch64")
    identity = devices.find("cpu").identity()
    assert identity["name"] == name
    assert "1000" not in identity.values()  # a serial number is private
