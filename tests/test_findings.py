"""Every finding on the tiny cache, against arithmetic by hand, and on an empty one."""

import inspect
from dataclasses import replace

import pytest
from papers import empty, tiny, wide

from report import findings
from report.available import Missing
from report.paper import Clock
from report.prose import Prose
from report.quantities import SPACE

MODULES = (
    findings.abstract, findings.chips, findings.comparisons, findings.precisions, findings.generations,
    findings.workload, findings.machines, findings.benchmarks, findings.utilisation,
)  # fmt: skip


def calls():
    """Every finding with every kind of device that it is asked for."""
    for module in MODULES:
        for name, function in inspect.getmembers(module, inspect.isfunction):
            if function.__module__ == module.__name__ and hasattr(function, "__wrapped__"):
                asked = list(inspect.signature(function).parameters)[1:]
                for arguments in [("cpu",), ("gpu",)] if asked == ["kind"] else [()]:
                    yield pytest.param(
                        function, arguments, id="-".join([module.__name__.split(".")[-1], name, *arguments])
                    )


def plain(text):
    return text.replace(SPACE, " ")


def with_cells(keep):
    """The tiny paper with its CPU alone, and of that only the cells for which ``keep`` holds."""
    cpu = tiny().machine("cpu")
    return replace(tiny(), machines=(replace(cpu, cells=cpu.cells[keep(cpu.cells)]),))


@pytest.mark.parametrize(("function", "arguments"), list(calls()))
def test_every_finding_is_whole_sentences(function, arguments):
    text = function(wide(), *arguments)
    assert isinstance(text, Prose)
    assert not isinstance(text, Missing)
    assert text.endswith(".")
    assert text[0].isupper() or text[0].isdigit()
    assert not {"nan", "None", "inf"} & set(plain(text).replace(",", " ").replace(".", " ").split())


@pytest.mark.parametrize(("function", "arguments"), list(calls()))
def test_without_data_every_finding_says_what_is_missing(function, arguments):
    text = function(empty(), *arguments)
    assert isinstance(text, Missing)
    assert text.endswith(".")


def test_workload():
    # 5 GFLOP / 100 MFLOP = 50; 25 M / 1 M = 25; 102 MB / 10 MB = 10.2
    text = plain(findings.workload.spans(tiny()))
    assert "4 models of 4 families" in text
    assert "100 MFLOP (lean) to 5.00 GFLOP (deep), a factor of 50.0" in text
    assert "1.00 M parameters (lean) to 25.0 M parameters (broad), a factor of 25.0" in text
    assert "10.0 MB (lean) to 102 MB (broad), a factor of 10.2" in text
    # broad 510e6 / 25e6 = 20.4; deep 5e9 / 10e6 = 500
    assert "20.4 FLOP in broad and in 500 in deep" in findings.workload.unlike(tiny())
    # growth from 1 to 8: lean 15.38/10, broad 35.17/5, deep 333.3/100, tokens 133.3/40: median of 1.54 3.33 3.33 7.03
    text = plain(findings.workload.intensities(tiny()))
    assert "from 5.00 FLOP/B (broad) to 100 FLOP/B (deep)" in text
    assert "grows 3.33 times in the median, most in broad (7.03 times) and least in lean (1.54 times)" in text
    assert "4 models" in plain(findings.workload.inputs(tiny()))
    assert "3×224×224" in findings.workload.inputs(tiny())
    # shares at batch 1: .4 .9804 .8 .8 -> median .8; at 8: 4/52 100/116 40/120 80/240 -> .333
    assert "80 % of the footprint at batch size 1 and 33 % of the footprint at batch size 8" in plain(
        findings.workload.parameter_share(tiny())
    )


def test_machines():
    text = findings.machines.shown(tiny())
    assert "2 machines: the Example CPU (4 cores) and the Example GPU." in plain(text)
    only_cpu = replace(tiny(), machines=tiny().machines[:1])
    assert "No GPU has been measured yet" in findings.machines.shown(only_cpu)
    text = plain(findings.machines.outcome(tiny()))
    assert "On the Example CPU (4 cores), 8 of 9 cells were measured; 1 ran out of memory." in text
    assert "1 cell has fewer than six samples" in text
    assert "On the Example GPU, all 2 cells that were tried were measured." in text
    assert "torch 2.14.1 on Python 3.12.1 with 2 threads (environment cpu-new" in plain(
        findings.machines.environments(tiny())
    )


def test_latency():
    text = plain(findings.benchmarks.latency(tiny()))
    assert "4 models were measured at fp32" in text
    assert (
        "at batch size 1 from 4.00 ms (lean) to 100 ms (deep); at batch size 8 from 16.0 ms (lean) to 320 ms (deep)"
        in text
    )
    # lean's half width: (5.0 - 3.8) / 2 / 4.0 = 15 %; the others' samples are equal
    assert "at most 15 %" in text


def test_throughput():
    text = plain(findings.benchmarks.throughput(tiny()))
    assert (
        "The highest throughput of the Example CPU (4 cores) is 500 inputs/s, by lean at batch size 8."
        in text
    )
    # lean 500/250 = 2, broad 166.7/50 = 3.33, deep 25/10 = 2.5; tokens has one batch size only
    assert "highest at 8 for 3 models" in text
    assert "2.50 times the throughput of the smallest in the median, and 3.33 times for broad" in text
    # lean at bf16 8 ms against 4 ms
    assert "0.500 times as fast as at fp32 in the median of 1 pair; 1 of them is slower" in text
    assert "No model was measured at more than one batch size" in findings.benchmarks.throughput(tiny())


def test_roofs():
    text = plain(findings.utilisation.roofs(tiny(), tiny().machine("cpu")))
    assert (
        "100 GFLOP/s for arithmetic and 10.0 GB/s for memory; they meet at the ridge point of 10.0 FLOP/B"
        in text
    )
    # 100 of 128 GFLOP/s
    assert (
        "is derived: 2 cores × 32 FLOP/cycle (Example core, avx2) × 2.00 GHz = 128 GFLOP/s, of which 78 % was "
        "measured" in text
    )
    assert "what it says (ExampleVendor family 1 model 5)" in text
    assert "a floating-point addition took 3.00 cycles" in text
    assert "At no precision was more measured than derived" in text
    # 8 of 10 TFLOP/s; 500 of 1000 GB/s
    text = plain(findings.utilisation.roofs(tiny(), tiny().machine("gpu")))
    assert "80 % of that peak and 50 % of that bandwidth were measured" in text


def test_roofs_without_a_datasheet():
    cpu = tiny().machine("cpu")
    text = findings.utilisation.roofs(tiny(), replace(cpu, clock=None))
    assert (
        "of the Example CPU stands alone: no datasheet roof can be derived, since its clock was not measured"
        in text
    )
    slow = replace(cpu, clock=Clock(1e9, None))
    # 100 GFLOP/s measured, 2 * 32 * 1 GHz = 64 GFLOP/s derived
    text = plain(findings.utilisation.roofs(tiny(), slow))
    assert "Of the derived peak 160 % at fp32 was measured, so one of these assumptions does not hold" in text
    assert "floating-point addition" not in text


def test_attained():
    text = plain(findings.utilisation.attained(tiny()))
    assert "1 of 4 models is memory-bound at batch size 1 (broad) and none of 3 models at 8" in text
    # sorted shares .25 .5 .5 .51 .8 .85 1.25
    assert "51 % in the median of 7 cells; highest in deep at batch size 8 (130 %, 125 GFLOP/s)" in text
    assert "lowest in lean at batch size 1 (25 %)" in text
    assert "1 cell lies above the measured roof (deep), by at most 25 %" in text
    assert "less arithmetic than is counted" in text
    assert "caches" not in text  # deep is compute-bound


def test_below_the_roof():
    text = findings.utilisation.attained(
        with_cells(lambda cells: (cells.batch == 8) & (cells.model != "deep"))
    )
    assert "every model is compute-bound" in text
    assert text.endswith("No point is above the measured roof.")


def test_one_cell():
    one = with_cells(lambda cells: (cells.model == "lean") & (cells.batch == 1) & (cells.precision == "fp32"))
    assert "at batch size 1 4.00 ms (lean, the only one measured)" in plain(findings.benchmarks.latency(one))
    assert "The one cell measured (lean) achieves 25 %" in plain(findings.utilisation.attained(one))
    assert "1 model was measured" in plain(findings.benchmarks.latency(one))


def test_only_failed_cells():
    failed = with_cells(lambda cells: cells.status != "ok")
    for text in (findings.benchmarks.latency(failed), findings.utilisation.attained(failed)):
        assert isinstance(text, Missing)
        assert "python -m measure --device cpu" in text
    assert "none of 1 cell was measured; 1 ran out of memory" in plain(findings.machines.outcome(failed))
    assert "python -m measure" in findings.abstract.measured(failed)


def test_abstract():
    text = plain(findings.abstract.scope(tiny()))
    assert "4 models of 4 families" in text
    assert "100 MFLOP (lean) to 5.00 GFLOP (deep)" in text
    text = plain(findings.abstract.measured(tiny()))
    assert "On the Example CPU (4 cores), 8 of 9 cells were measured" in text
    assert "On the Example GPU, all 2 cells" in text


def test_what_one_machine_lacks_is_said_beside_what_the_other_has():
    cpu, gpu = tiny().machine("cpu"), tiny().machine("gpu")
    bare = replace(gpu, roofs=gpu.roofs.iloc[:0])
    text = plain(findings.utilisation.attained(replace(tiny(), machines=(cpu, bare))))
    assert "The measured roof of the Example CPU" in text
    assert "The fp32 roof of the Example GPU has not been measured; python -m measure --device cuda" in text
