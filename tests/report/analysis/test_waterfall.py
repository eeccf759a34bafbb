from dataclasses import replace

import pytest
from helpers.papers import empty, tiny
from helpers.profiled_papers import profiled

from report.analysis import waterfall
from report.analysis.available import DataMissingError
from report.load.cells import INFERENCE_CELL


def terms(kind, model, batch):
    """The terms of a cell in milliseconds."""
    rows = waterfall.terms(profiled(), profiled().machine(kind))
    own = rows[(rows.model == model) & (rows.batch == batch)]
    assert own.term.is_unique
    return {row.term: pytest.approx(1e3 * row.time_s, abs=1e-6) for row in own.itertuples()}


def test_terms():
    # Model: 100 MFLOP in 1 ms, longer than 4.504 MB in 0.45 ms; operators 1.0 + 0.5 + 0.5 = 2.0 ms.
    # The operators took 1.5, 0.7 and 0.6 of 4.5 ms under the profiler, so 1.5 * 3.92 / 4.5 = 1.306667, 0.609778 and
    # 0.522667 of a plain call of 3.92 ms, 2.439111 in all; the latency is 4.0 ms.
    assert terms("cpu", "lean", 1) == {
        "model bound": 1.0, "operator by operator": 1.0, "convolution": 0.306667, "elementwise": 0.109778,
        "matrix product": 0.022667, "framework": 1.480889, "residual": 0.08,
    }  # fmt: skip


def test_terms_may_be_negative():
    # Model 8.0 ms; operators 7.3 + 4.0 + 2.0 = 13.3 ms; they took 8.3, 2.0 and 2.4 of 18 ms under the profiler, times
    # 16.5 / 18 that is 7.608333, 1.833333 and 2.2 of 16.5 ms, 11.641667 in all; the latency is 16 ms.
    assert terms("cpu", "lean", 8) == {
        "model bound": 8.0, "operator by operator": 5.3, "convolution": 0.308333, "elementwise": -2.166667,
        "matrix product": 0.2, "framework": 4.858333, "residual": -0.5,
    }  # fmt: skip


def test_an_operator_that_was_not_counted_has_no_least_time():
    # Model 50 ms; operators 49 + 1.1 + 1.0 = 51.1 ms; they took 90, 3, 2 and 0.5 of 99.2 ms under the profiler, times
    # 98.2 / 99.2 that is 89.092742, 2.969758, 1.979839 and 0.494960 of 98.2 ms; the latency is 100 ms.
    assert terms("cpu", "deep", 1) == {
        "model bound": 50, "operator by operator": 1.1, "convolution": 40.092742, "batch norm": 1.869758,
        "matrix product": 0.979839, "other": 0.494960, "framework": 3.662702, "residual": 1.8,
    }  # fmt: skip


def test_terms_on_a_gpu():
    # Model: 100 MFLOP at 8 TFLOP/s, 12.5 us; operators 20 + 10 + 10 us by their bytes; they took 100 us of 1 ms.
    assert terms("gpu", "lean", 1) == {
        "model bound": 0.0125, "operator by operator": 0.0275, "convolution": 0.030, "elementwise": 0.005,
        "matrix product": 0.025, "framework": 0.9, "residual": 0,
    }  # fmt: skip


def test_terms_sum_to_the_latency():
    for machine in profiled().machines:
        rows = waterfall.terms(profiled(), machine)
        sums = rows.groupby(INFERENCE_CELL).agg(time_s=("time_s", "sum"), latency_s=("latency_s", "first"))
        assert len(sums) == {"cpu": 3, "gpu": 1}[machine.chip_kind]
        assert sums.time_s.tolist() == pytest.approx(sums.latency_s.tolist(), rel=1e-12)
        assert rows.groupby(INFERENCE_CELL).share.sum().tolist() == pytest.approx([1] * len(sums))


def test_only_profiles_that_worked_count():
    # broad was counted and measured, and ran out of memory under the profiler.
    assert "broad" not in set(waterfall.profiled(profiled().machine("cpu")).model)


def test_what_is_missing():
    cpu = profiled().machine("cpu")
    with pytest.raises(
        DataMissingError,
        match=r"time of the operators on the Example CPU \(4 cores\) at fp32 has not been measured; `python -m measure "
        "--device cpu --sections workload operators --precisions fp32` measures it",
    ):
        waterfall.terms(tiny(), tiny().machine("cpu"))
    with pytest.raises(DataMissingError, match="fp32 roof of the Example CPU"):
        waterfall.profiled(replace(cpu, roofs=cpu.roofs.iloc[:0]))
    with pytest.raises(DataMissingError, match="No inference cell"):
        waterfall.profiled(replace(cpu, cells=cpu.cells.iloc[:0]))
    assert empty().machines == ()
