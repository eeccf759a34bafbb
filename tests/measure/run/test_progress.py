"""The output of a run: the progress of its parts, its summary, and the contents of the cache."""

import io
import re
from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

import pytest
from helpers.cells import changed, inference_task, run_cache
from helpers.rows import profile, roof_measurement, run
from rich.console import Console

from measure.domain.models import Model
from measure.models import catalog
from measure.run import runner
from measure.run.plan import Part
from measure.run.request import Request
from measure.run.runner import RunProgress, Summary, lines, resumption
from measure.run.tasks import Failure
from measure.timing.sampling import TimedSample, Timing
from measure.verbs.listing import contents

CELL = inference_task(catalog.find(["alexnet"])[0], 64, "fp32", "eager", 0)
TASKS = [changed(CELL, number) for number in range(3)]
DONE, FULL = Timing(1, (TimedSample(1.0),) * 3), Failure("oom", "[full]")
UNSUPPORTED = Failure("unsupported", "not worth its time")


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    """The runner's clock. Only a test moves its hands."""
    clock = SimpleNamespace(now=100.0)
    monkeypatch.setattr(runner, "time", SimpleNamespace(monotonic=lambda: clock.now))
    return clock


def show(outcomes, deadline=None, shows_tasks=False):
    """Return the output of a run of one part after these outcomes."""
    output = io.StringIO()
    with RunProgress(TASKS, Console(file=output, width=120), deadline, shows_tasks) as display:
        display.begin_part("batch 64", TASKS)
        for task, outcome in zip(TASKS, outcomes, strict=False):
            display.begin(task)
            display.end(task, outcome)
        assert (display.done, display.total) == (len(outcomes), 3)
    return output.getvalue()


def test_piped_progress_is_a_plain_line_a_part(golden):
    # A task is expected to take 1 s; two took no time, so that the third takes 20 / 22 of it.
    without_budget = show([]) + show([DONE] * 3) + show([DONE, FULL])
    with_budget = show([DONE], 130.0) + show([DONE], 90.0) + show([DONE, FULL], 130.0, shows_tasks=True)
    golden("run-progress", without_budget + with_budget)


def test_on_a_terminal_lines_about_failures_are_red():
    output = io.StringIO()
    console = Console(file=output, width=120, force_terminal=True, force_interactive=False, color_system="standard")
    with RunProgress(TASKS, console, shows_tasks=True) as display:
        display.say("Waiting for quiet")
        display.begin_part("batch 64", TASKS)
        for task, outcome in zip(TASKS, (DONE, FULL), strict=False):
            display.begin(task)
            display.end(task, outcome)
    red = re.findall(r"\x1b\[31m([^\x1b]*)", output.getvalue())
    assert [line.split(":")[0].strip() for line in red] == [f"[2/3] {TASKS[1].label}".split(":")[0], "batch 64"]


def test_the_time_left_is_the_estimate_at_the_pace_of_the_run(clock):
    output = io.StringIO()
    with RunProgress(TASKS[:2], Console(file=output, width=120), seconds=lambda _: 40.0) as display:
        display.extend(TASKS[2:])
        assert display.total == 3
        display.begin_part("batch 64", TASKS)
        display.begin(TASKS[0])
        clock.now += 100  # in place of 40 s; with a prior of 20 s: (100 + 20) / (40 + 20) = 2
        display.end(TASKS[0], DONE)
        display.skip(TASKS[1])
    assert output.getvalue() == "batch 64: 2 done, 1 left; 2 min; about 1 min left\n"  # 2 * 40 s


def test_a_run_ends_with_a_summary(golden):
    failures = [(changed(CELL, batch=batch), Failure("oom", f"full at {batch}")) for batch in (64, 128, 256, 512)]
    failures.insert(1, (changed(CELL, batch=1), UNSUPPORTED))
    text = lines(Summary(Counter(ok=4)), ["data/workload", "data/machines/box"])
    text += lines(Summary(Counter(oom=4, unsupported=1), failures, 2), ["box"])
    text += [resumption("python -m measure", force=False), resumption("python -m measure --force", force=True)]
    golden("run-summary", "\n".join([*text, ""]))


NET = Model("net", "torchvision", "plain", (3, 2, 2))
REQUEST = Request([NET], [1, 64], ["fp32"], ["inference"], ["eager"], training_models=[NET], training_batch_sizes=[32])
ASKED = [run(), run(round_=1), run(batch=64), run(batch=32, phase="step"), profile(batch=64)]
OTHERS = [run("other"), run(batch=8), run(batch=64, status="oom", round_=1), profile(batch=8)]  # or without a result
KERNELS = [replace(roof_measurement(), roof_kernel=name) for name in ("matmul", "stream_triad")]


def test_the_contents_of_a_cache(golden):
    parts = [Part("batch 1", TASKS[:1]), Part("further rounds", TASKS)]
    empty, full, one = (
        contents(REQUEST, run_cache(*rows), left, "make report")
        for rows, left in (([], parts), ([*ASKED, *OTHERS, *KERNELS], []), ([run(), *KERNELS[:1]], []))
    )
    golden("run-contents", "\n".join([*empty, "", *full, "", *one, ""]))
