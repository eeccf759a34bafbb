"""What a run prints: the progress of its parts, its summary, and what the cache holds."""

import io
from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

import pytest
from helpers.rows import profile, roof_measurement, run
from helpers.tasks import changed, inference_task, run_cache
from rich.console import Console

from measure.domain.models import Model
from measure.models import catalog
from measure.run import runner
from measure.run.plan import Part
from measure.run.request import Request
from measure.run.runner import RunProgress, Summary, lines, resumption
from measure.run.task import Failure
from measure.timing.sampling import TimedSample, Timing
from measure.verbs.listing import contents

CELL = inference_task(catalog.find(["alexnet"])[0], 64, "fp32", "eager", 0)
TASKS = [changed(CELL, number) for number in range(3)]
DONE, FULL = Timing(1, (TimedSample(1.0),) * 3), Failure("oom", "[full]")


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    """The runner's clock, which stands still unless a test moves its hands."""
    clock = SimpleNamespace(now=100.0)
    monkeypatch.setattr(runner, "time", SimpleNamespace(monotonic=lambda: clock.now))
    return clock


def show(outcomes, deadline=None, shows_tasks=False, begins=False, **settings):
    """What a run of one part shows, whose first tasks end so."""
    output = io.StringIO()
    with RunProgress(TASKS, Console(file=output, **{"width": 120} | settings), deadline, shows_tasks) as shown:
        shown.begin_part("batch 64", TASKS)
        for task, outcome in zip(TASKS, outcomes, strict=False):
            shown.begin(task)
            shown.end(task, outcome)
        if begins:
            shown.begin(TASKS[len(outcomes)])
        assert (shown.done, shown.total) == (len(outcomes), 3)
    return output.getvalue()


@pytest.mark.parametrize(
    ("outcomes", "how", "text"),
    [
        ([], {}, ""),
        # A task is expected to take 1 s; two took no time, so that the third takes 20 / 22 of it.
        ([DONE, DONE, DONE], {}, "batch 64: 3 done; 0 s; about 0 s left\n"),
        ([DONE, FULL], {}, "batch 64: 1 done, 1 without a result, 1 left; 0 s; about 1 s left\n"),
        ([DONE], {"deadline": 130.0}, "batch 64: 1 done, 2 left; 0 s; 0:30 to the end of the budget\n"),
        ([DONE], {"deadline": 90.0}, "batch 64: 1 done, 2 left; 0 s; 0:00 to the end of the budget\n"),
        (
            [DONE, FULL],
            {"shows_tasks": True, "deadline": 130.0},
            "  [1/3] alexnet batch 64 fp32, round 1: 1.00 s (no interval, 3 samples)\n"
            "  [2/3] alexnet batch 64 fp32, round 2: oom: [full]\n"
            "batch 64: 1 done, 1 without a result, 1 left; 0 s; 0:30 to the end of the budget\n",
        ),
        # A terminal without a cursor gets the same lines.
        (
            [DONE],
            {"deadline": 130.0, "force_terminal": True, "_environ": {"TERM": "dumb"}},
            "batch 64: 1 done, 2 left; 0 s; 0:30 to the end of the budget\n",
        ),
    ],
)
def test_piped_progress_is_a_plain_line_a_part(outcomes, how, text):
    assert show(outcomes, **how) == text


@pytest.mark.parametrize(
    ("environment", "failure", "is_red"),
    [({}, FULL, True), ({"NO_COLOR": "1"}, FULL, False), ({}, Failure("unsupported", "not worth its time"), False)],
)
def test_a_part_with_failures_is_red_unless_colour_is_not_wanted(environment, failure, is_red):
    text = show([failure], force_terminal=True, color_system="standard", _environ=environment)
    assert ("\x1b[31mbatch 64: 0 done, 1 without a result" in text) == is_red


@pytest.mark.parametrize(("width", "end"), [(120, "alexnet batch 64 fp32, round 1"), (60, "alexnet ba…")])
def test_a_terminal_sees_the_present_task_in_one_line(width, end):
    text = show([], 160.0, begins=True, force_terminal=True, width=width)
    assert f"batch 64: 3 left; 1:00 to the end of the budget; {end}" in text


def test_the_time_left_is_the_estimate_at_the_pace_of_the_run(clock):
    output = io.StringIO()
    with RunProgress(TASKS[:2], Console(file=output, width=120), seconds=lambda _: 40.0) as shown:
        shown.extend(TASKS[2:])
        assert shown.total == 3
        shown.begin_part("batch 64", TASKS)
        shown.begin(TASKS[0])
        clock.now += 100  # in place of 40 s, of which 20 s more are thought to be known: (100 + 20) / (40 + 20) = 2
        shown.end(TASKS[0], DONE)
        shown.skip(TASKS[1])
    assert output.getvalue() == "batch 64: 2 done, 1 left; 2 min; about 1 min left\n"  # 2 * 40 s


def test_a_run_that_did_everything():
    assert lines(Summary(Counter(ok=4)), ["data/workload", "data/machines/box"]) == [
        "4 done, 0 left; the files are in data/workload and data/machines/box"
    ]


def test_what_failed_stands_by_status_with_its_first_reasons():
    failures = [(changed(CELL, batch=batch), Failure("oom", f"full at {batch}")) for batch in (64, 128, 256, 512)]
    failures.insert(1, (changed(CELL, batch=1), Failure("unsupported", "no kernel")))
    assert lines(Summary(Counter(oom=4, unsupported=1), failures), ["box"]) == [
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


NET = Model("net", "torchvision", "plain", (3, 2, 2))
REQUEST = Request([NET], [1, 64], ["fp32"], ["inference"], ["eager"], training_models=[NET], training_batch_sizes=[32])
ASKED = [run(), run(round_=1), run(batch=64), run(batch=32, phase="step"), profile(batch=64)]
OTHERS = [run("other"), run(batch=8), run(batch=64, status="oom", round_=1), profile(batch=8)]  # or without a result
KERNELS = [replace(roof_measurement(), roof_kernel=name) for name in ("matmul", "stream_triad")]


@pytest.mark.parametrize(
    ("rows", "parts", "said"),
    [
        (
            [],
            [Part("batch 1", TASKS[:1]), Part("further rounds", TASKS)],
            [
                "The paper has nothing of this machine yet.",
                "It lacks batch 1 (1), further rounds (3).",
                "To add that: make report",
            ],
        ),
        (
            [*ASKED, *OTHERS, *KERNELS],
            [],
            [
                "The paper has a roof by 2 kernels, 1 model at batch 1, 1 model at batch 64, training steps of 1, "
                "operators of 1, 1 to 2 rounds of each.",
                "It lacks nothing of what was asked for.",
            ],
        ),
        (
            [run(), *KERNELS[:1]],
            [],
            ["The paper has a roof by 1 kernel, 1 model at batch 1.", "It lacks nothing of what was asked for."],
        ),
    ],
)
def test_the_contents_of_a_cache(rows, parts, said):
    assert contents(REQUEST, run_cache(*rows), parts, "make report") == said
