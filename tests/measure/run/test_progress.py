import dataclasses
import io
from types import SimpleNamespace

import pytest
from helpers.tasks import changed, inference_task, training_task
from rich.console import Console

from measure.models import catalog
from measure.run import progress
from measure.run.sections.roofs import RoofTask
from measure.run.task import Failure
from measure.timing.sampling import TimedSample, Timing

CELL = inference_task(catalog.find(["alexnet"])[0], 64, "fp32", "eager", 0)
ROOF = RoofTask("matmul", "fp32", 8, "sustained")


def timing(*latencies_s):
    return Timing(1, tuple(map(TimedSample, latencies_s)))


def test_the_time_left_follows_what_a_section_took_and_then_what_a_cell_took():
    again, other = changed(CELL, 1), changed(CELL, batch=1)
    left = progress.TimeLeft([ROOF, CELL, again, other])
    assert left.text() == ""
    # The cells are efforts of 5 + 64 / 2 = 37 each and 5.5: 79.5 at the usual half a second, whatever roofs take.
    left.done(ROOF, 400.0)
    assert left.seconds() == pytest.approx(0.5 * 79.5)
    assert left.text() == "about 40 s left"
    # Now the cell took 33 s: so will its second round. The other goes by (33 + 20 / 2) / (37 + 20) s an effort.
    left.done(CELL, 33.0)
    assert left.seconds() == pytest.approx(33 + 5.5 * 43 / 57)
    left.skip(again)
    assert left.seconds() == pytest.approx(5.5 * 43 / 57)


def test_a_first_task_that_waits_for_imports_says_little():
    left = progress.TimeLeft([ROOF, *[dataclasses.replace(ROOF, size=size) for size in (16, 32, 64)]])
    # Efforts of 4: (26 + 20 / 2) / (4 + 20) = 1.5 s each
    left.done(ROOF, 26.0)
    assert left.seconds() == pytest.approx(3 * 4 * 1.5)


def test_no_more_time_is_left_than_the_budget_has(monkeypatch):
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: 90.0))
    left = [progress.TimeLeft([ROOF, CELL], deadline) for deadline in (100.0, 1000.0)]
    for each in left:
        each.done(ROOF, 8.0)  # the cell, an effort of 37, takes 18.5 s
    assert [each.seconds() for each in left] == [10.0, 18.5]


def test_a_training_step_is_a_cell_beside_the_forward_pass():
    step = training_task(CELL.model, 64, "fp32", "eager", 0)
    left = progress.TimeLeft([CELL, step, dataclasses.replace(step, round=1)])
    # Three passes instead of one: 5 + 3 * 64 / 2 = 101 beside 37. At half a second, two of them are left.
    left.done(CELL, 37.0)
    assert left.seconds() == pytest.approx(101)
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
    console = Console(file=output, force_terminal=True, color_system="standard", width=120, _environ=environment)
    with progress.RunProgress([CELL], console) as shown:
        shown.begin(CELL)
        shown.end(CELL, Failure("oom", "full"))
    assert ("\x1b[31malexnet batch 64 fp32, round 1: oom: full" in output.getvalue()) == is_red


def test_a_terminal_sees_a_bar():
    text = show(terminal=True)
    assert "1/2" in text
    assert "━" in text
