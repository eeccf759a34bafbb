"""A module with the interface that NVIDIA documents replaces ``ncu_report``: no test has a report of its own.

NVIDIA's sample reports (github.com/NVIDIA/nsight-training) were read with ncu-report 2026.3.1 by hand.
"""

import sys
from types import SimpleNamespace

import pytest

from measure.errors import UserError
from measure.profiling import ncu_rep

TIME, READ = "gpu__time_duration.sum", "dram__bytes_read.sum"
FMA = "sm__sass_thread_inst_executed_op_ffma_pred_on.sum"
GPU = {"major": (8, ""), "minor": (6, "")}


def metric(value, unit):
    """``IMetric``"""
    return SimpleNamespace(
        value=lambda: value, as_double=lambda: float(value), unit=lambda: unit, has_value=lambda: value is not None
    )


class Action(dict):
    """``IAction``: one launch; iterating gives names of metrics, as a dictionary does."""

    NameBase_DEMANGLED = 1

    def __init__(self, name, **metrics):
        capability = {f"device__attribute_compute_capability_{part}": each for part, each in GPU.items()}
        super().__init__({key: metric(*each) for key, each in {**capability, **metrics}.items()})
        self._name = name

    def name(self, base):
        assert base == self.NameBase_DEMANGLED
        return self._name


@pytest.fixture
def read(monkeypatch, tmp_path):
    """Read a report of these ranges, each a list of launches."""

    def read(*ranges, steps=1):
        module = SimpleNamespace(load_report=lambda _path: ranges)
        monkeypatch.setitem(sys.modules, "ncu_report", module)
        return ncu_rep.read(tmp_path / "some.ncu-rep", steps, "imported")

    return read


def test_the_launches_of_all_ranges_are_summed_in_base_units(read):
    first = Action("axpy", **{TIME: (3000, "ns"), READ: (2, "Kbyte"), FMA: (None, "inst"), "other": ("text", "")})
    second = Action("axpy", **{TIME: (5, "us"), READ: (500, "byte")})
    third = Action("copy", **{TIME: (1, "ms"), READ: (float("nan"), "byte")})
    counted = read([first], [second, third])
    assert (counted.capability, counted.steps, counted.tool) == ("8.6", 1, "imported")
    axpy, copy = counted.kernels
    # 3 us + 5 us; 2000 B + 500 B; a value that is no number is unknown
    assert (axpy.kernel, axpy.calls, axpy.time_s, axpy.dram_read_byte) == ("axpy", 2, pytest.approx(8e-6), 2500)
    assert (copy.kernel, copy.time_s, copy.dram_read_byte, copy.fp32_flop) == ("copy", pytest.approx(1e-3), None, None)


@pytest.mark.parametrize(
    ("ranges", "words"),
    [
        ([], "holds no kernel"), ([[]], "holds no kernel"),
        ([[Action("axpy")]], "kernel 1 lacks its name or gpu__time_duration.sum"),
        ([[Action(" ", **{TIME: (1, "ns")})]], "kernel 1 lacks its name"),
        ([[Action("axpy", **{TIME: (1, "fortnight")})]], "kernel 1, metric gpu__time_duration.sum: inf"),
        ([[Action("axpy", **{TIME: (-1, "ns")})]], "kernel 1, metric gpu__time_duration.sum: -1"),
        ([[Action("axpy", **{TIME: ("x", "ns")})]], "cannot be read (ValueError"),
    ],
)  # fmt: skip
def test_an_unreadable_report_is_one_sentence(read, ranges, words):
    with pytest.raises(UserError, match=r"some\.ncu-rep: ") as problem:
        read(*ranges)
    assert words in str(problem.value)
    assert "\n" not in str(problem.value)


def test_a_missing_package_is_named_with_another_way(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "ncu_report", None)
    with pytest.raises(UserError, match=r"roofwright\[counters\].*ncu --import FILE --csv --page raw"):
        ncu_rep.read(tmp_path / "some.ncu-rep", 1, "imported")
