import dataclasses
import io

import pytest
from rich.console import Console

from measure.cache.records import Ceiling
from measure.hardware_counters.counted_cell import CountedCell
from measure.hardware_counters.raw_csv import Counted, CountedKernel
from measure.models import catalog
from measure.profiling.attribution import AttributedTime
from measure.profiling.profile import Profiled
from measure.run import progress
from measure.run.plan import CeilingTask, InferenceTask, TrainingTask
from measure.run.worker import Failure
from measure.timing.sampling import TimedSample, Timing
from measure.timing.training import StepTiming

CELL = InferenceTask(catalog.find(["alexnet"])[0], 64, "fp32", "eager", 0)
ROOF = CeilingTask("matmul", "fp32", 8, "sustained")


def timing(*latencies_s):
    return Timing(1, tuple(map(TimedSample, latencies_s)))


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.4, "0 s"), (59, "59 s"), (61, "1 min"), (3599, "1 h 00 min"), (3900, "1 h 05 min")],
)
def test_durations_are_for_people(seconds, text):
    assert progress.duration(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (1.234, "1.23 s"),
        (123.4, "123 s"),
        (0.99999, "1.00 s"),
        (0.0456, "45.6 ms"),
        (7.89e-4, "789 µs"),
        (1e-8, "0.0100 µs"),
    ],
)
def test_latencies_have_three_digits_and_a_unit(seconds, text):
    assert progress.latency(seconds) == text


def test_outcomes_in_a_few_words():
    # Six values: the interval reaches from 0.9 to 1.1, half of it is 10 % of the median 1.0.
    assert progress.describe(timing(0.9, 1.0, 1.0, 1.0, 1.0, 1.1)) == "1.00 s (±10.0 %, 6 samples)"
    assert progress.describe(timing(1.0, 1.0, 1.0)) == "1.00 s (no interval, 3 samples)"
    step = StepTiming({"step": timing(1.0, 1.0, 1.0), "forward": timing(0.1, 0.1, 0.1)}, 1024)
    assert progress.describe(step) == "1.00 s (no interval, 3 samples)"
    assert progress.describe(Failure("oom", "full")) == "oom: full"
    times = (
        AttributedTime("inference", ".", "add", 1, 0.01),
        AttributedTime("inference", "a", "linear", 2, 0.02),
    )
    profiled = Profiled(3, 0.035, 0.04, times)
    assert progress.describe(profiled) == "35.0 ms, profiled 40.0 ms, 75% of it in operators"
    kernel = CountedKernel("sgemm", 3, 0.5, *[None] * 9)
    assert progress.describe(CountedCell(2, "ncu", Counted((kernel,), "8.0", None))) == "3 kernels, 500 ms"
    product = Ceiling("e", "matmul", "fp32", 8, 4_000_000_000, 1, "ok", None, 2.0, 2.0, 2.0, 6)
    assert progress.describe(product) == "2.0 GFLOP/s"
    multiply_adds = Ceiling("e", "fma", "fp32", 8, 6_000_000_000, 0, "ok", None, 2.0, 2.0, 2.0, 6)
    assert progress.describe(multiply_adds) == "3.0 GFLOP/s"
    triad = Ceiling("e", "stream_triad", "fp64", 8, 1, 6_000_000_000, "ok", None, 2.0, 2.0, 2.0, 6)
    assert progress.describe(triad) == "3.0 GB/s"
    chain = Ceiling("e", "chain", "int64", 7_400_000_000, 0, 0, "ok", None, 2.0, 2.0, 2.0, 6)
    assert progress.describe(chain) == "3.700 additions/ns"


def test_the_time_left_follows_the_effort_and_then_what_a_cell_took():
    again, other = dataclasses.replace(CELL, round=1), dataclasses.replace(CELL, batch=1)
    left = progress.TimeLeft([ROOF, CELL, again, other])
    assert left.text() == ""
    # A roof is an effort of 4, the cells are 5 + 64 / 2 = 37 each and 5.5: at 2 s an effort, 79.5 of them are left.
    left.done(ROOF, 8.0)
    assert left.seconds() == pytest.approx(2 * 79.5)
    assert left.text() == "about 3 min left"
    # Now the cell took 33 s: so will its second round. The other goes by (8 + 33) / 41 = 1 s an effort.
    left.done(CELL, 33.0)
    assert left.seconds() == pytest.approx(33 + 5.5)
    left.skip(again)
    assert left.seconds() == pytest.approx(5.5)


def test_a_training_step_is_a_cell_beside_the_forward_pass():
    step = TrainingTask(CELL.model, 64, "fp32", "eager", 0)
    left = progress.TimeLeft([CELL, step, dataclasses.replace(step, round=1)])
    # Three passes instead of one: 5 + 3 * 64 / 2 = 101 beside 37. At 1 s an effort, two of them are left.
    left.done(CELL, 37.0)
    assert left.seconds() == pytest.approx(2 * 101)
    left.done(step, 50.0)
    assert left.seconds() == pytest.approx(50)


def show(terminal):
    output = io.StringIO()
    console = Console(file=output, force_terminal=terminal, width=120)
    tasks = [CELL, ROOF]
    with progress.RunProgress(tasks, console) as shown:
        shown.begin(CELL)
        shown.end(CELL, Failure("oom", "[full]"))
    return output.getvalue()


def test_piped_progress_is_a_plain_line_for_each_task():
    (line,) = show(terminal=False).splitlines()
    assert line.startswith("[1/2] alexnet batch 64 fp32, round 1: oom: [full]; about ")
    assert "\x1b" not in line


def test_a_terminal_without_a_cursor_gets_plain_lines_as_well():
    output = io.StringIO()
    console = Console(file=output, force_terminal=True, width=120, _environ={"TERM": "dumb"})
    with progress.RunProgress([CELL], console) as shown:
        shown.begin(CELL)
        shown.end(CELL, timing(1.0, 1.0, 1.0))
        assert shown.done == 1
    said = "alexnet batch 64 fp32, round 1: 1.00 s (no interval, 3 samples)"
    assert output.getvalue() == f"[1/1] {said}; about 0 s left\n"


@pytest.mark.parametrize(("environment", "is_red"), [({}, True), ({"NO_COLOR": "1"}, False)])
def test_failures_are_red_unless_colour_is_not_wanted(environment, is_red):
    output = io.StringIO()
    console = Console(
        file=output, force_terminal=True, color_system="standard", width=120, _environ=environment
    )
    with progress.RunProgress([CELL], console) as shown:
        shown.begin(CELL)
        shown.end(CELL, Failure("oom", "full"))
    assert ("\x1b[31malexnet batch 64 fp32, round 1: oom: full" in output.getvalue()) == is_red


def test_a_terminal_sees_a_bar():
    text = show(terminal=True)
    assert "1/2" in text
    assert "━" in text
