from dataclasses import replace

import pytest
from helpers.sound_machine import IDEAL, ROOMY

from measure.machine import host
from measure.machine.host import OK, PROBLEM, UNCHECKED, WARNING, memory_findings, processor_findings, warning_of_load


def found(subject, **changes):
    (finding,) = [each for each in processor_findings(replace(IDEAL, **changes)) if each.subject == subject]
    return finding


@pytest.mark.parametrize("load_cores", [None, 0.0, 0.4])
def test_a_run_beside_little_else_begins_without_a_warning(monkeypatch, load_cores):
    monkeypatch.setattr(host, "load_cores", lambda: load_cores)
    assert warning_of_load() is None


def test_a_run_beside_others_work_begins_with_a_warning(monkeypatch):
    monkeypatch.setattr(host, "load_cores", lambda: 1.6)
    assert warning_of_load().startswith("Other programs use 1.6 of this machine's cores: ")


def test_a_quiet_machine_with_a_steady_clock_has_nothing_to_mend():
    findings = list(processor_findings(IDEAL)) + list(memory_findings(ROOMY, ("vgg19 batch 256 fp32", 7 * 10**9)))
    assert {finding.level for finding in findings} == {OK}
    assert not any(finding.advice for finding in findings)


@pytest.mark.parametrize(
    ("subject", "changes", "level", "words"),
    [
        ("load", {"load_cores": 0.3}, WARNING, "others use 0.30 of 8 cores"),
        ("load", {"load_cores": 1.2, "busiest": ("make (7) 1.10",)}, PROBLEM, "1.20 of 8 cores: make (7) 1.10"),
        ("virtual machine", {"is_virtual": True}, WARNING, "gave 0.0 % of its time to others"),
        ("virtual machine", {"is_virtual": True, "stolen": 0.08}, PROBLEM, "gave 8.0 % of its time to others"),
        ("cores", {"usable_cores": 4}, WARNING, "4 of 8 logical cores may be used"),
        ("cores", {"usable_cores": 1, "logical_cores": 1}, WARNING, "1 of 1 logical cores"),
        ("quota", {"quota_cores": 1.5}, PROBLEM, "allows 1.5 cores of time, and 4 threads measure"),
        ("frequency scaling", {"governors": ("performance", "powersave")}, WARNING, "performance, powersave"),
        ("turbo", {"has_turbo": True}, WARNING, "depends on heat"),
        ("heat", {"heat": (95.0, 100.0)}, WARNING, "95 °C, and the limit is 100 °C"),
        ("throttling", {"throttled": "thermal"}, PROBLEM, "within the last second"),
        ("throttling", {"throttle_count": 12}, WARNING, "lowered the clock 12 times"),
        ("power", {"on_battery": True}, PROBLEM, "runs on its battery"),
    ],
)
def test_what_spoils_a_measurement_is_found_and_comes_with_advice(subject, changes, level, words):
    finding = found(subject, **changes)
    assert finding.level == level
    assert words in finding.fact
    assert finding.advice


@pytest.mark.parametrize(
    ("subject", "changes"),
    [
        ("load", {"load_cores": None}),
        ("virtual machine", {"is_virtual": None}),
        ("hyper-threads", {"siblings": None}),
        ("frequency scaling", {"governors": None}),
        ("turbo", {"has_turbo": None}),
        ("heat", {"heat": None}),
        ("throttling", {"throttle_count": None}),
    ],
)
def test_what_a_system_does_not_show_is_said(subject, changes):
    finding = found(subject, **changes)
    assert finding.level == UNCHECKED
    assert "system" in finding.fact


def test_a_quota_of_as_many_cores_as_threads_stops_none():
    assert found("quota", quota_cores=4.0).level == OK


@pytest.mark.parametrize(
    ("subject", "changes", "level", "words"),
    [
        ("memory", {"available_byte": 10**9}, PROBLEM, "1.0 GB are free"),
        ("memory", {"available_byte": 8 * 10**9}, WARNING, "8.0 GB are free; vgg19 needs 7.0 GB"),
        ("shared memory", {"shared_byte": 64 * 2**20}, WARNING, "0.1 GB are free in /dev/shm"),
        ("swap", {"swap_used_byte": 3 * 10**9}, WARNING, "3.0 GB lie in swap"),
        ("swap", {"swap_used_byte": 10**9, "swap_moved_byte": 10**8}, PROBLEM, "0.1 GB went to or from swap"),
    ],
)
def test_too_little_memory_is_found_and_comes_with_advice(subject, changes, level, words):
    findings = memory_findings(replace(ROOMY, **changes), ("vgg19", 7 * 10**9))
    (finding,) = [each for each in findings if each.subject == subject]
    assert finding.level == level
    assert words in finding.fact
    assert finding.advice


def test_memory_is_weighed_without_a_workload_table_and_without_shared_memory():
    memory, shared, _ = memory_findings(replace(ROOMY, shared_byte=None), None)
    assert (memory.level, memory.fact) == (OK, "32.0 GB are free")
    assert shared.level == UNCHECKED
