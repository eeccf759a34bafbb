from dataclasses import replace

import pytest
from helpers.rows import ENVIRONMENT, machine_in, profile, roof_measurement, run
from helpers.sound_machine import SOUND

from measure.cache.folders import MachineFolder
from measure.cache.hand_kept import Chip
from measure.cache.records import Sample
from measure.diagnosis import libraries, page
from measure.diagnosis.page import Results, latency_lines, results_in, roof_lines
from measure.errors import UserError
from measure.machine import devices

TESTED = """<?xml version="1.0" encoding="utf-8"?>
<testsuites name="pytest tests"><testsuite name="pytest" errors="1" failures="1" skipped="1" tests="4">
<testcase classname="tests.test_devices" name="test_of_sensors" time="0.1" />
<testcase classname="tests.test_profile" name="test_of_kernels" time="0.1">
<failure message="assert 0.4 &gt; 0.5&#10; +  where 0.4 = sum()">long</failure></testcase>
<testcase classname="tests.test_counters" name="test_of_counters" time="0.1">
<error message="failed on setup with &quot;no ncu&quot;">long</error></testcase>
<testcase classname="tests.test_forward" name="test_of_bf16" time="0.1"><skipped message="no units" /></testcase>
</testsuite></testsuites>
"""


def test_what_did_not_pass_is_a_line_each(tmp_path):
    file = tmp_path / "tests.xml"
    file.write_text(TESTED)
    assert results_in(file) == Results(
        1,
        (
            "tests.test_profile.test_of_kernels: assert 0.4 > 0.5 + where 0.4 = sum()",
            'tests.test_counters.test_of_counters: failed on setup with "no ncu"',
            "tests.test_forward.test_of_bf16: no units",
        ),
    )


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("<testsuites />", "tests.xml: no test ran"),
        ("<testsuites", "tests.xml: pytest left no results (unclosed token: line 1, column 0)"),
    ],
)
def test_that_nothing_was_tested_is_a_failure(tmp_path, text, line):
    file = tmp_path / "tests.xml"
    file.write_text(text)
    assert results_in(file) == Results(0, (line,))


def chip(precision, unit, peak_flop_per_s):
    about = ("Bead 2", "", "Bead", "", "gpu", 2021, precision, unit)
    return Chip(*about, peak_flop_per_s, None, 320e9, "", None, "", "yes", "", "")


SHEET = [chip("fp32", "vector", 8e12), chip("fp16", "tensor", 64e12), chip("fp16", "vector", 16e12)]


def roof(kernel, precision, size, flop, byte, latency_s, pace="sustained"):
    return replace(
        roof_measurement(size, latency_s), roof_kernel=kernel, precision=precision, flop=flop, byte=byte, pace=pace
    )


def test_roofs_stand_beside_the_datasheet():
    rows = [
        roof("matmul", "fp32", 2048, 20 * 10**9, 0, 0.01),  # 2 TFLOP/s
        roof("matmul", "fp32", 4096, 20 * 10**9, 0, 0.005),  # 4 TFLOP/s, half of 8
        roof("matmul", "fp32", 2048, 20 * 10**9, 0, 0.0025, "burst"),
        roof("matmul", "fp16", 4096, 16 * 10**9, 0, 0.001),  # 16 TFLOP/s, a quarter of the tensor units' 64
        roof("fma", "fp16", 1024, 12 * 10**9, 0, 0.001),  # 12 TFLOP/s, three quarters of the vector units' 16
        roof("fma", "fp64", 1024, 10**9, 0, 0.004),  # 0.25 TFLOP/s
        roof("stream_triad", "fp32", 2**20, 0, 10**6, 1e-6),  # 1000 GB/s out of a cache
        roof("stream_triad", "fp32", 2**30, 0, 24 * 10**8, 0.01),  # 240 GB/s, three quarters of 320
    ]
    assert list(roof_lines(rows, SHEET)) == [
        "matmul fp32: 4 TFLOP/s, 50 % of the datasheet's 8",
        "matmul fp16: 16 TFLOP/s, 25 % of the datasheet's 64",
        "fma fp16: 12 TFLOP/s, 75 % of the datasheet's 16",
        "fma fp64: 0.25 TFLOP/s",
        "stream_triad fp32: 240 GB/s, 75 % of the datasheet's 320",
    ]
    failed = replace(rows[0], status="unsupported", reason="no", latency_s=None)
    assert list(roof_lines([failed], SHEET)) == []


def sample(latency_s, event_s, round_, model="net", phase="inference"):
    return Sample("e1", model, 8, "fp32", phase, "eager", 0, 1, latency_s, round_, event_s)


def test_latencies_are_medians_of_rounds_with_what_is_held_against_them():
    runs = [replace(run(batch=8), flags="wide;capped"), replace(run(batch=8, round_=1), flags="capped")]
    samples = [
        *(sample(latency_s, 0.9 * latency_s, 0) for latency_s in (0.010, 0.010, 0.080)),  # the median is 10 ms
        sample(0.011, 0.0099, 1),
        sample(0.012, 0.0108, 2),
        sample(0.5, None, 0, "other", "step"),
        sample(0.1, None, 0, "other", "forward"),
    ]
    # 9.0, 9.9 and 10.8 ms by the GPU's clock
    assert list(latency_lines(runs, samples)) == [
        "net batch 8 fp32: 11.0 ms, 9.90 ms by the GPU's clock, 3 of 3 rounds (capped, wide)",
        "training other batch 8 fp32: 500 ms, 1 of 3 rounds",
    ]


def test_ten_latencies_are_enough():
    assert len(list(latency_lines([], [sample(1.0, None, 0, f"net{number}") for number in range(12)]))) == 10


class Gpu:
    def identity(self):
        return {"name": "Example GPU"}

    def memory_byte(self):
        return 16 * 10**9

    def driver(self):
        return "550.54"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """What a sound check of a GPU leaves: a cell that did not fit is no failure of it."""
    monkeypatch.setattr(devices, "find", lambda name: Gpu())
    machine_in(tmp_path / "data" / "machines" / "box", replace(ENVIRONMENT, name="Tesla T4", device="cuda"))
    (tmp_path / "tests.xml").write_text('<testsuites><testcase classname="a" name="b" /></testsuites>')
    return tmp_path


def test_a_page_has_the_gpu_its_software_and_what_came_of_both(folder):
    text, is_well = page.page(folder, replace(SOUND, cupti="13.0.85", c_compiler="/usr/bin/gcc"))
    assert is_well
    lines = text.splitlines()
    assert "GPU         Example GPU, 16.0 GB" in lines
    assert "driver      550.54" in lines
    assert "CUPTI       13.0.85" in lines
    assert "Triton      not installed" in lines
    assert "C compiler  /usr/bin/gcc" in lines
    assert "tests       1 passed, 0 failed" in lines
    # 1024 FLOP in 0.5 s, held against the T4 of data/chips.csv
    assert "  matmul fp32: 2.048e-09 TFLOP/s, 0 % of the datasheet's 8.1" in lines
    assert "  net batch 1 fp32: 1.10 s, 1 of 3 rounds" in lines  # of 0.1, 1.1 and 2.1 s
    assert lines[-2:] == ["Failures", "  net batch 64 fp32: oom: needs 9 GB"]


def test_a_test_an_error_and_no_measurement_are_failures(folder):
    box = MachineFolder(folder / "data", "box")
    box.put_profile(profile(batch=2, status="error", reason="CUDA error: device lost"), [])
    text, is_well = page.page(folder, SOUND)
    assert not is_well
    assert "  operators of net batch 2 fp32: error: CUDA error: device lost" in text.splitlines()
    (folder / "tests.xml").unlink()
    for table in box.folder.iterdir():
        table.unlink()
    text, is_well = page.page(folder, replace(SOUND, cuda=False))
    assert not is_well
    assert "torch       2.14.1, which cannot use the GPU" in text.splitlines()
    assert "tests       0 passed, 1 failed" in text.splitlines()
    assert text.endswith("\n  nothing was measured; the last line of python -m measure says why")


def test_the_exit_code_says_whether_all_is_well(folder, monkeypatch, capsys):
    monkeypatch.setattr(libraries, "observe", lambda: SOUND)
    assert page.main([str(folder)]) == 0
    assert "Example GPU" in capsys.readouterr().out
    assert page.main([str(folder / "data")]) == 1
    with pytest.raises(UserError, match="the following arguments are required: FOLDER"):
        page.main([])
