import dataclasses
import io
from collections import Counter
from types import SimpleNamespace

import pytest
from helpers.rows import ENVIRONMENT, profile, roof_measurement, run
from helpers.tasks import changed, inference_task
from rich.console import Console

from measure.cache.records import Profile, RoofMeasurement, Run
from measure.domain.models import Model
from measure.models import catalog
from measure.run import runner
from measure.run.plan import Part
from measure.run.request import Request
from measure.run.runner import RunProgress, Summary, lines, resumption
from measure.run.sections import RoofTask
from measure.run.task import Failure, RunCache
from measure.timing.sampling import TimedSample, Timing
from measure.verbs.listing import contents

CELL = inference_task(catalog.find(["alexnet"])[0], 64, "fp32", "eager", 0)
ROOF = RoofTask("matmul", "fp32", 8, "sustained")


def timing(*latencies_s):
    return Timing(1, tuple(map(TimedSample, latencies_s)))


def test_the_time_left_is_the_estimate_at_the_pace_of_the_run(monkeypatch):
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(runner, "time", SimpleNamespace(monotonic=lambda: clock.now))
    output = io.StringIO()
    tasks = [changed(CELL, number) for number in range(3)]
    with RunProgress(tasks, Console(file=output, width=120), seconds=lambda _: 40.0) as shown:
        shown.begin_part("batch 64", tasks)
        shown.begin(tasks[0])
        clock.now = 100.0  # in place of 40 s, of which 20 s more are thought to be known: (100 + 20) / (40 + 20) = 2
        shown.end(tasks[0], timing(1.0))
        shown.skip(tasks[1])
    assert output.getvalue() == "batch 64: 2 done, 1 left; 2 min; about 1 min left\n"  # 2 * 40 s


def show(outcomes, terminal=False, deadline=None, shows_tasks=False, **settings):
    """What a run of one part shows, whose first tasks end so."""
    output = io.StringIO()
    console = Console(file=output, force_terminal=terminal, width=120, **settings)
    tasks = [changed(CELL, number) for number in range(3)]
    with RunProgress(tasks, console, deadline, shows_tasks) as shown:
        shown.begin_part("batch 64", tasks)
        for task, outcome in zip(tasks, outcomes, strict=False):
            shown.begin(task)
            shown.end(task, outcome)
        assert (shown.done, shown.total) == (len(outcomes), 3)
    return output.getvalue()


DONE = timing(1.0, 1.0, 1.0)


@pytest.fixture
def standing_clock(monkeypatch):
    monkeypatch.setattr(runner, "time", SimpleNamespace(monotonic=lambda: 100.0))


@pytest.mark.usefixtures("standing_clock")
def test_piped_progress_is_a_plain_line_a_part():
    # A task is expected to take 1 s; two took no time, so that the third takes 20 / 22 of it.
    assert show([DONE, DONE, DONE]) == "batch 64: 3 done; 0 s; about 0 s left\n"
    failed = Failure("oom", "[full]")
    assert show([DONE, failed]) == "batch 64: 1 done, 1 without a result, 1 left; 0 s; about 1 s left\n"


@pytest.mark.usefixtures("standing_clock")
def test_with_a_budget_its_end_is_told():
    assert show([DONE], deadline=130.0) == "batch 64: 1 done, 2 left; 0 s; 0:30 to the end of the budget\n"
    assert show([DONE], deadline=90.0).endswith("; 0:00 to the end of the budget\n")


@pytest.mark.usefixtures("standing_clock")
def test_a_part_of_which_nothing_was_done_says_nothing():
    assert show([]) == ""


def test_each_task_is_shown_where_that_is_asked_for():
    first, second, part = show([DONE, Failure("oom", "[full]")], shows_tasks=True).splitlines()
    assert first == "  [1/3] alexnet batch 64 fp32, round 1: 1.00 s (no interval, 3 samples)"
    assert second == "  [2/3] alexnet batch 64 fp32, round 2: oom: [full]"
    assert part.startswith("batch 64: ")


def test_a_terminal_without_a_cursor_gets_the_same_lines():
    text = show([DONE], terminal=True, _environ={"TERM": "dumb"})
    assert text.startswith("batch 64: 1 done, 2 left; ")
    assert "\x1b" not in text


@pytest.mark.parametrize(
    ("environment", "failure", "is_red"),
    [
        ({}, Failure("oom", "full"), True),
        ({"NO_COLOR": "1"}, Failure("oom", "full"), False),
        ({}, Failure("unsupported", "not worth its time"), False),
    ],
)
def test_a_part_with_failures_is_red_unless_colour_is_not_wanted(environment, failure, is_red):
    text = show([failure], terminal=True, color_system="standard", _environ=environment)
    assert ("\x1b[31mbatch 64: 0 done, 1 without a result" in text) == is_red


def test_a_terminal_sees_what_is_being_measured_and_how_much_is_left(monkeypatch):
    monkeypatch.setattr(runner, "time", SimpleNamespace(monotonic=lambda: 100.0))
    output = io.StringIO()
    with RunProgress([CELL, ROOF], Console(file=output, force_terminal=True, width=120), 160.0) as shown:
        shown.begin_part("batch 64", [CELL, ROOF])
        shown.begin(CELL)
    assert "batch 64: 2 left; 1:00 to the end of the budget; alexnet batch 64 fp32, round 1" in output.getvalue()


def test_the_moving_line_is_one_line_on_a_narrow_terminal(monkeypatch):
    monkeypatch.setattr(runner, "time", SimpleNamespace(monotonic=lambda: 100.0))
    output = io.StringIO()
    with RunProgress([CELL], Console(file=output, force_terminal=True, width=60), 160.0) as shown:
        shown.begin_part("batch 64", [CELL])
        shown.begin(CELL)
    assert "batch 64: 1 left; 1:00 to the end of the budget; alexnet ba…" in output.getvalue()


def test_further_tasks_are_added_to_those_that_are_known():
    console = Console(file=io.StringIO())
    with RunProgress([CELL], console) as shown:
        shown.extend([changed(CELL, 1)])
        assert shown.total == 2


ALEXNET = catalog.find(["alexnet"])[0]
NET = Model("net", "torchvision", "plain", (3, 2, 2))
AGAIN = "make report"


def task(batch):
    return inference_task(ALEXNET, batch, "fp32", "eager", 0)


def test_a_run_that_did_everything():
    assert lines(Summary(Counter(ok=4)), ["data/workload", "data/machines/box"]) == [
        "4 done, 0 left; the files are in data/workload and data/machines/box"
    ]


def test_what_failed_stands_by_status_with_its_first_reasons():
    failures = [(task(batch), Failure("oom", f"full at {batch}")) for batch in (64, 128, 256, 512)]
    failures.insert(1, (task(1), Failure("unsupported", "no kernel")))
    summary = Summary(Counter(oom=4, unsupported=1), failures)
    assert lines(summary, ["box"]) == [
        "0 done, 5 without a result, 0 left; the files are in box",
        "  4 oom:",
        "    alexnet batch 64 fp32, round 1: full at 64",
        "    alexnet batch 128 fp32, round 1: full at 128",
        "    alexnet batch 256 fp32, round 1: full at 256",
        "    and 1 more",
        "  1 unsupported:",
        "    alexnet batch 1 fp32, round 1: no kernel",
    ]


def test_a_command_that_measures_again_by_force_does_not_go_on():
    assert resumption("python -m measure", force=False) == "To go on with what is left: python -m measure"
    assert resumption("python -m measure --force", force=True) == (
        "The tasks left keep their earlier rows; to measure everything again: python -m measure --force"
    )


def cache(runs=(), roofs=(), profiles=()):
    folder = SimpleNamespace(rows={Run: runs, RoofMeasurement: roofs, Profile: profiles}.get)
    return RunCache(SimpleNamespace(), folder, ENVIRONMENT)


REQUEST = Request([NET], [1, 64], ["fp32"], ["inference"], ["eager"], training_models=[NET], training_batch_sizes=[32])


def test_an_empty_cache_has_nothing_and_lacks_what_is_left():
    parts = [Part("batch 1", [task(1)]), Part("further rounds", [task(1), task(64), task(8)])]
    assert contents(REQUEST, cache(), parts, AGAIN) == [
        "The paper has nothing of this machine yet.",
        "It lacks batch 1 (1), further rounds (3).",
        "To add that: make report",
    ]


def test_a_full_cache_says_what_it_has_and_that_it_lacks_nothing():
    runs = [run(batch=1), run(batch=1, round_=1), run(batch=64), run(batch=32, phase="step")]
    runs += [run("other"), run(batch=8), run(batch=64, status="oom", round_=1)]  # not asked for, or without a result
    kernels = [roof_measurement(), dataclasses.replace(roof_measurement(), roof_kernel="stream_triad")]
    assert contents(REQUEST, cache(runs, kernels, [profile(batch=64), profile(batch=8)]), [], AGAIN) == [
        "The paper has a roof by 2 kernels, 1 model at batch 1, 1 model at batch 64, training steps of 1, "
        "operators of 1, 1 to 2 rounds of each.",
        "It lacks nothing of what was asked for.",
    ]


@pytest.mark.parametrize(("count", "said"), [(1, "1 kernel,"), (2, "2 kernels,")])
def test_a_roof_of_some_kernels(count, said):
    kernels = [dataclasses.replace(roof_measurement(), roof_kernel=name) for name in ("matmul", "fma")[:count]]
    assert said in contents(REQUEST, cache([run()], kernels), [], AGAIN)[0]
