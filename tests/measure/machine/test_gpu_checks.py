from dataclasses import replace

import pytest
from helpers.sound_machine import HERE, SOUND

from measure.machine.gpus import Nvidia, nvidia_findings
from measure.machine.host import OK, PROBLEM, UNCHECKED, WARNING


def findings(nvidia=HERE, libraries=SOUND, **changes):
    return list(nvidia_findings(replace(nvidia, gpus=tuple(replace(gpu, **changes) for gpu in nvidia.gpus)), libraries))


def test_an_idle_gpu_whose_counters_may_be_read_has_nothing_to_mend():
    assert {finding.level for finding in findings()} == {OK}


@pytest.mark.parametrize(
    ("changes", "level", "words"),
    [
        ({"others": ("python (7)",)}, PROBLEM, "NVIDIA H200 serves others: python (7)"),
        ({"busy": 0.5}, PROBLEM, "50 % busy, with 0.0 GB in use, by processes that are not visible here"),
        ({"used_byte": 9 * 10**9}, WARNING, "0 % busy, with 9.0 GB in use, by processes that are not"),
        (
            {"used_byte": 9 * 10**9, "busy": None},
            WARNING,
            "has 9.0 GB in use, by processes that are not visible here, and does not tell how busy it is",
        ),
        ({"persistence": False}, WARNING, "persistence mode is off"),
        ({"uncorrected": 2}, PROBLEM, "ECC found 2 errors"),
        ({"temperature_c": 80.0}, WARNING, "80 °C, and the limit is 87 °C"),
        ({"throttle": "power cap;software thermal"}, PROBLEM, "lowered now (power cap, software thermal)"),
        ({"throttle": "power cap"}, WARNING, "lowered now (power cap)"),
    ],
)
def test_what_spoils_a_measurement_is_found_and_comes_with_advice(changes, level, words):
    (finding,) = [each for each in findings(**changes) if each.level != OK]
    assert (finding.level, finding.subject) == (level, "cuda:0")
    assert words in finding.fact
    assert finding.advice


def test_cooling_is_no_advice_against_a_power_cap():
    (heat,), (cap,) = (
        [each.advice for each in findings(throttle=reason) if each.level != OK]
        for reason in ("software thermal", "power cap")
    )
    assert "cool" in heat
    assert "cool" not in cap


def test_what_the_driver_does_not_tell_is_said():
    silent = dict.fromkeys(("others", "used_byte", "busy", "persistence", "ecc", "temperature_c"))
    unknown = findings(replace(HERE, counters_admin_only=None), **silent)
    assert [finding.level for finding in unknown] == [UNCHECKED] * 5  # load, persistence, ECC, heat, counters


def test_a_gpu_that_does_not_tell_how_busy_it_is_is_not_called_idle():
    (finding,) = [each for each in findings(busy=None) if each.level != OK]
    assert (finding.level, finding.fact) == (UNCHECKED, "NVIDIA H200 does not tell how busy it is")


def test_whether_ecc_is_on_is_said():
    assert any(finding.fact == "ECC is on" for finding in findings())
    assert any(finding.fact == "ECC is off" for finding in findings(ecc=False))


@pytest.mark.parametrize(("admin", "level"), [(False, WARNING), (True, OK)])
def test_counters_kept_for_administrators_are_a_warning_to_others(admin, level):
    finding = findings(replace(HERE, counters_admin_only=True, is_admin=admin))[-1]
    assert (finding.subject, finding.level) == ("hardware counters", level)


def test_a_gpu_that_torch_cannot_use_is_a_problem():
    finding = findings(libraries=replace(SOUND, cuda=False))[0]
    assert finding.level == PROBLEM
    assert finding.fact == "torch 2.14.1 cannot use it"


@pytest.mark.parametrize(("driver", "level"), [(True, WARNING), (False, UNCHECKED)])
def test_no_gpu_is_one_line(driver, level):
    (finding,) = findings(Nvidia(driver, (), None, False))
    assert finding.level == level
