from dataclasses import replace

import pandas as pd
import pytest
from helpers.answering import timed
from helpers.profiled_papers import profiled
from helpers.rows import ENVIRONMENT, profile

from measure.domain.advice import advise
from measure.domain.demands import LayerDemand
from report.analysis import remedies
from report.analysis.remedies import HYPOTHESIS, MEASURED, NONE


def largest(machine, paper=None):
    rows = remedies.largest(paper or profiled(), machine)
    return {(row.model, row.batch): row for row in rows.itertuples()}


def cells(machine, **changes):
    """The machine with other numbers in the cells of a model at batch size 1, by column."""
    found = machine.cells.copy()
    own = (found.model == "deep") & (found.batch == 1) & (found.precision == "fp32")
    for column, value in changes.items():
        found.loc[own, column] = value
    return replace(machine, cells=found)


def alone():
    """The CPU with deep at batch size 1 and fp32 alone."""
    cpu = profiled().machine("cpu")
    return replace(cpu, cells=cpu.cells[(cpu.cells.model == "deep") & (cpu.cells.batch == 1)])


def tried(name, speed_up, low, high):
    columns = ["model", "batch", "precision", "variant", "speed_up", "speed_up_low", "speed_up_high"]
    return pd.DataFrame([("deep", 1, "fp32", name, speed_up, low, high)], columns=columns)


def test_the_largest_term():
    found = largest(profiled().machine("cpu"))
    # lean at 1: 1.48 of 4 ms are the framework's; the bounds of lean at 8 and of deep are half of their latencies.
    assert {key: (row.term, row.share) for key, row in found.items()} == {
        ("lean", 1): ("framework", pytest.approx(1.480889 / 4)),
        ("lean", 8): ("model bound", pytest.approx(0.5)),
        ("deep", 1): ("model bound", pytest.approx(0.5)),
    }


def test_the_bound_is_held_against_the_inefficiency_as_a_whole():
    # Three groups lose 20 ms each beside a bound of 50 of 120 ms: together they are the largest term, and the first of
    # the groups stands for them.
    cpu = profiled().machine("cpu")
    times = cpu.operators[cpu.operators.model == "deep"].copy()
    # Least times: convolution 49, batch norm 1.1, linear 1.0 ms
    times["time_s"] = times.operator.map({"conv2d": 0.0691, "batch_norm": 0.0211, "linear": 0.021, "zeta": 0.0})
    profiles = cpu.profiles.assign(plain_s=0.12, profiled_s=0.12)
    machine = cells(replace(cpu, operators=times, profiles=profiles), latency_s=0.12)
    deep = largest(machine)["deep", 1]
    assert (deep.term, deep.share) == ("convolution", pytest.approx(20.1 / 120))


def test_a_remedy_is_what_was_measured_to_help_this_cell():
    machine = replace(alone(), variants=tried("kept_memory", 2.0, 1.5, 2.7))
    deep = largest(machine)["deep", 1]
    assert (deep.remedy, deep.basis, deep.gain) == ("kept_memory", MEASURED, 2.0)


@pytest.mark.parametrize("interval", [(0.9, 2.7), (float("nan"), float("nan"))])
def test_what_may_not_help_is_no_remedy(interval):
    machine = replace(alone(), variants=tried("kept_memory", 2.0, *interval))
    assert largest(machine)["deep", 1].basis == HYPOTHESIS


def larger_batch(latency_s):
    """Deep at batch size 8 beside that at 1, which takes 100 ms."""
    machine = alone()
    eight = machine.cells.assign(
        batch=8, latency_s=latency_s, latency_low_s=0.99 * latency_s, latency_high_s=1.01 * latency_s
    )
    return replace(machine, cells=pd.concat([machine.cells, eight], ignore_index=True))


def test_a_larger_batch_is_no_remedy_where_its_throughput_is_lower():
    # 8 inputs in 400 ms are twice the throughput of one in 100 ms, in 1.6 s half of it.
    found = largest(larger_batch(0.4))["deep", 1]
    assert (found.remedy, found.basis) == ("batch size 8", MEASURED)
    assert found.gain == pytest.approx(2)
    assert largest(larger_batch(1.6))["deep", 1].basis == HYPOTHESIS


def at_bf16(latency_s, precision="bf16"):
    machine = alone()
    lower = machine.cells.assign(
        precision=precision, latency_s=latency_s, latency_low_s=0.99 * latency_s, latency_high_s=1.01 * latency_s
    )
    return replace(machine, cells=pd.concat([machine.cells, lower], ignore_index=True))


def test_a_lower_precision_that_was_measured_and_does_not_help_is_not_suggested():
    # The bound is the largest term, for which a lower precision would be tried.
    untried, slower, faster = (largest(machine)["deep", 1] for machine in (alone(), at_bf16(0.2), at_bf16(0.05)))
    assert (untried.remedy, untried.basis) == ("bf16", HYPOTHESIS)
    assert (slower.remedy, slower.basis) == ("nothing that was tried", NONE)
    assert (faster.remedy, faster.basis) == ("bf16", MEASURED)
    assert faster.gain == pytest.approx(2)
    without_bf16 = largest(at_bf16(0.2, "fp16"))["deep", 1]  # on a GPU that has no units for bf16
    assert (without_bf16.remedy, without_bf16.basis) == ("nothing that was tried", NONE)


def test_of_several_that_help_the_remedy_is_the_one_that_helps_most():
    machine = replace(at_bf16(0.05), variants=tried("kept_memory", 3.0, 2.5, 3.5))
    assert largest(machine)["deep", 1].remedy == "kept_memory"


@pytest.mark.parametrize(
    ("operator", "remedy"),
    [
        ("conv2d", "channels_last"),
        ("batch_norm", "compile"),
        ("linear", "bf16"),
        ("scaled_dot_product_attention", "bf16"),
    ],
)
def test_an_operator_that_takes_most(operator, remedy):
    # All operators but one take nothing, that one twice the call under the profiler.
    cpu = alone()
    times = cpu.operators[cpu.operators.model == "deep"].assign(time_s=0.0, path=None)
    times.loc[times.index[0], ["operator", "time_s"]] = operator, 0.2
    assert largest(replace(cpu, operators=times))["deep", 1].remedy == remedy


@pytest.mark.parametrize(("system_s", "remedy"), [(0.03, "channels_last"), (0.05, "kept_memory")])
def test_memory_that_the_system_gives_again_and_again(system_s, remedy):
    # All operators but one take nothing, that one 200 of 99.2 ms under the profiler: times 98.2 / 99.2 that is 198 of
    # 98.2 ms, of which the roof allows 49: 149 % of a latency of 100 ms. Of two threads in a plain call of 98.2 ms,
    # 30 ms are 15 %, below the 20 % from which keeping memory is suggested; 50 ms are 25 %.
    cpu = alone()
    times = cpu.operators[cpu.operators.model == "deep"].assign(time_s=0.0, path=None)
    times.loc[times.index[0], ["operator", "time_s"]] = "conv2d", 0.2
    machine = replace(cpu, operators=times, profiles=cpu.profiles.assign(system_s=system_s))
    deep = largest(machine)["deep", 1]
    assert (deep.term, deep.remedy, deep.basis) == ("convolution", remedy, HYPOTHESIS)


def test_a_residual_that_is_largest_is_measured_again():
    cpu = alone()
    deep = largest(replace(cpu, profiles=cpu.profiles.assign(plain_s=0.0)))["deep", 1]
    assert (deep.term, deep.remedy) == ("residual", "measure again")


@pytest.mark.parametrize(("system_s", "remedy"), [(0.03, "channels_last"), (0.05, "kept_memory")])
def test_the_terminal_gives_the_same_advice_for_the_same_cell(system_s, remedy):
    cpu = alone()
    times = cpu.operators[cpu.operators.model == "deep"].assign(time_s=0.0, path=None)
    times.loc[times.index[0], ["operator", "time_s"]] = "conv2d", 0.2
    machine = replace(cpu, operators=times, profiles=cpu.profiles.assign(system_s=system_s))
    layers = [LayerDemand("path", "Conv2d", "convolution", 1, 0, 0, 0, None, 0.2, None)]
    own = replace(profile("deep"), plain_s=0.0982, system_s=system_s)
    base = replace(timed(latency_s=0.1), model="deep")
    on_terminal = advise(base, [base], own, layers, ENVIRONMENT)  # of two threads, as the machine of the paper
    assert largest(machine)["deep", 1].remedy == on_terminal.remedy == remedy
