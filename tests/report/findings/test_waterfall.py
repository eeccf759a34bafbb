from dataclasses import replace

import pandas as pd
from helpers.papers import tiny
from helpers.profiled_papers import profiled
from helpers.sentences import plain

from report.analysis.available import Missing
from report.findings import waterfall

FINDINGS = (waterfall.waiting, waterfall.gaps, waterfall.system, waterfall.largest, waterfall.profiled)


def test_without_operators_the_command_is_named():
    assert "--device cpu --sections workload operators" in waterfall.gaps(tiny())
    assert "operators of the models have not been counted yet at fp32" in waterfall.waiting(tiny())


def test_waiting():
    # Least times by memory: lean at 1 all of 2.0 ms, at 8 all of 13.3; deep the 1.1 of 51.1 ms; broad its one operator,
    # 12 ms of bytes. At batch size 1 the median is that of 100, 100 and 2.15 %.
    text = plain(waterfall.waiting(profiled()))
    assert (
        "On the Example CPU (4 cores), of the least time of all operators one after the other, those that wait for "
        "memory take in the median of 3 models, by batch size, 100 % at 1 and 100 % at 8. They take most "
        "in " in text
    )
    assert "and least in deep at 1 (2.2 %)." in text


def test_gaps():
    text = plain(waterfall.gaps(profiled(gpu=False)))
    # Latencies over bounds: deep 100 / 50, lean 4 / 1; shares in the median of the two, 50 and 25 %, 1.1 and 25 %;
    # inefficiencies 43.44 and 10.98 %; frameworks 3.66 and 37.02 %
    assert (
        "On the Example CPU (4 cores) at batch size 1, a latency is 3.00 times the bound of the whole model in the "
        "median of 2 models. The ends are 2.00 (deep) and 4.00 (lean). The bound is 38 % of the latency in the median; "
        "what adds most to it is the inefficiency of operators, 27 %. The operators that lose most are convolution in "
        "2 of 2 models." in text
    )
    # lean: 16 / 8 ms; 5.3, -1.658 and 4.858 of 16
    assert (
        "at batch size 8, a latency is 2.00 times the bound of the whole model in the median of 1 model. The bound is "
        "50 % of the latency in the median; what adds most to it is running operator by operator, 33 %. The operators "
        "that lose most are convolution in 1 of 1 model." in text
    )


def with_system(**columns):
    """The CPU alone, its three profiles with these columns, in the order deep at 1, lean at 1 and at 8."""
    cpu = profiled().machine("cpu")
    taken = cpu.profiles[cpu.profiles.status == "ok"].sort_values(["model", "batch"])
    return replace(profiled(), machines=(replace(cpu, profiles=taken.assign(**columns)),))


def test_system():
    # Of two threads: 19.64 of 2 x 98.2 ms; 0.784 of 2 x 3.92 ms; 16.5 of 2 x 16.5 ms
    text = plain(
        waterfall.system(with_system(system_s=[19.64e-3, 0.784e-3, 16.5e-3], page_faults=[70.0, 5.0, 81234.5]))
    )
    assert text == (
        "On the Example CPU (4 cores) the operating system takes, of the threads' time in the median of 1 model, by "
        "batch size, 10 % at 1 and 50 % at 8. It takes most, 50 %, in lean at 8, where a call causes 81,200 page "
        "faults."
    )


def test_system_that_was_not_measured():
    text = waterfall.system(with_system(system_s=None, page_faults=None))
    assert isinstance(text, Missing)
    assert (
        "What the operating system takes of a call on the Example CPU (4 cores) has not been measured; `python -m "
        "measure --device cpu --sections workload operators --precisions fp32 --force` measures it." in plain(text)
    )


def test_largest():
    text = plain(waterfall.largest(profiled()))
    # At batch size 8 lean has twice the throughput, deep 8 * 100 / 320 = 2.5 times that: 2.25 in the median.
    assert (
        "On the Example CPU (4 cores) the largest term is model bound in 2 of 3 cells and framework in 1. Something "
        "that was measured makes 2 of 3 cells faster, by a factor of 2.3 in the median. What helps most is batch size "
        "8 in 2 of 2 cells. For the others there are hypotheses to try: bf16 in 1 of 1 cell." in text
    )
    assert (
        "On the Example GPU the largest term is framework in 1 of 1 cell. Nothing that was measured makes any of 1 "
        "cell faster. For the others there are hypotheses to try: compile in 1 of 1 cell." in text
    )


def test_profiled():
    text = plain(waterfall.profiled(profiled(gpu=False)))
    # 99.2 / 98.2, 4.5 / 3.92 and 18 / 16.5; residuals 1.8, 2.0 and 3.1 %
    assert (
        "takes 1.1 times as long as without in the median of 3 cells, at most 1.15 times (lean at batch size 1)" in text
    )
    assert "The residual is 2.0 % of the latency in the median, at most 3.1 % (lean at batch size 8). It" in text
    # 98.2 of 100, 3.92 of 4 and 16.5 of 16 ms
    assert "slower than the cell's rounds, in 0 of 2 cells at batch size 1 and 1 of 1 cell at batch size 8." in text
    # Of 7 cells at batch sizes 1 and 8, those of broad, tokens, and deep at 8
    assert (
        "Of 7 cells measured at the same batch sizes, 4 have no profile (broad, deep and tokens); `python -m measure "
        "--device cpu --sections workload operators --precisions fp32` takes them." in text
    )


def test_everything_profiled():
    cpu = profiled().machine("cpu")
    only = cpu.cells[(cpu.cells.model == "lean") & (cpu.cells.precision == "fp32")]
    text = waterfall.profiled(replace(profiled(), machines=(replace(cpu, cells=only),)))
    assert text.endswith("Every cell that was measured at the same batch sizes was profiled.")


def test_counts():
    assert plain(waterfall.counts(pd.Series(["b", "a", "b"]), "cell")) == "b in 2 of 3 cells and a in 1"


def shares(**terms):
    """The terms of models at one batch size, with the share of each, by model."""
    rows = [(model, 8, term, part) for model, parts in terms.items() for term, part in parts.items()]
    return pd.DataFrame(rows, columns=["model", "batch", "term", "share"])


def test_lowered():
    base = shares(
        a={"model bound": 0.5, "convolution": 0.3, "pooling": 0.1, "framework": 0.1},
        b={"model bound": 0.25, "convolution": 0.5, "framework": 0.25},
    )
    lower = shares(
        a={"model bound": 0.4, "convolution": 0.4, "framework": 0.2},
        b={"model bound": 0.1, "convolution": 0.7, "framework": 0.2},
    )
    # Over the bound: 1 / 0.4 = 2.5 and 1 / 0.1 = 10, in the median 6.25; at fp32 2 and 4, in the median 3.
    assert plain(waterfall.lowered(tiny().machine("cpu"), base, lower)) == (
        "On the Example CPU (4 cores) at batch size 8, a latency at bf16 is 6.25 times the bound of the whole model in "
        "the median of 2 models, at fp32 3.00 times: no nearer its roof, as far as these models tell."
    )


def test_without_profiles_at_the_lower_precision_the_command_is_named():
    text = waterfall.at_lower_precision(profiled(gpu=False))
    assert isinstance(text, Missing)
    assert "--precisions bf16" in plain(text)
