"""The rounds that groups of processes still need, and the rows of their outcomes."""

from dataclasses import replace

import pytest
from helpers.cells import ask, changed_rows, run_cache
from helpers.rows import ENVIRONMENT, VERSION, collective, data_parallel_step

from measure.cache.folders import MachineFolder, Workloads
from measure.domain.records import CollectiveMeasurement, DataParallelStep
from measure.errors import UserError
from measure.machine import devices
from measure.models import catalog
from measure.run import group_storing, sections
from measure.run.estimate import DurationEstimate
from measure.run.group_tasks import CollectiveTask, DataParallelTask, GroupFailure, GroupResult
from measure.run.plan import missing_tasks
from measure.run.runner import Summary
from measure.run.storing import RunCache
from measure.run.tasks import Failure
from measure.verbs.run_flags import make_request, parser

SMALL, LARGE = ("all_reduce", 4096), ("all_reduce", 65536)
TIMES = {"latency_s": 0.5, "latency_low_s": 0.4, "latency_high_s": 0.6, "sample_count": 6, "block": 2}
REPORT = {**TIMES, "load": 0.0, "flags": []}
STEPS = {"training_models": catalog.find(["alexnet"]), "training_batch_sizes": [1], "has_named_models": True}


@pytest.fixture(autouse=True)
def few(monkeypatch):
    """All-reduces of two sizes on two processes."""
    monkeypatch.setattr(group_storing, "TIMED_COLLECTIVES", ("all_reduce",))
    monkeypatch.setattr(group_storing, "SIZES", {"cpu": [4096, 65536], "cuda": [4096]})
    monkeypatch.setitem(group_storing.PROCESSES, "cpu", (2,))


def request(**changes):
    return ask(sections=["distributed"], **{"rounds": 2, "most_rounds": 2} | changes)


def lacking(request, *rows, **environment):
    tasks = missing_tasks(request, run_cache(*rows, **environment))
    return [(type(task), task.round, sorted(task.items)) for task in tasks]


def measured(*sizes, **changes):
    return [collective(size, number, **changes) for size in sizes for number in range(2)]


def test_each_round_lacks_what_has_no_row():
    both = [SMALL, LARGE]
    assert lacking(request()) == [(CollectiveTask, 0, both), (CollectiveTask, 1, both)]
    assert lacking(request(), collective(4096)) == [(CollectiveTask, 0, [LARGE]), (CollectiveTask, 1, both)]
    assert lacking(request(), *measured(4096, 65536)) == []
    assert lacking(request(force=True), *measured(4096, 65536)) == lacking(request())
    elsewhere = changed_rows(*measured(4096, 65536), environment_id="before")
    assert lacking(request(), *elsewhere) == lacking(request())


def test_a_failed_size_is_not_tried_again_and_a_killed_one_is_in_the_next_run():
    failed = collective(65536, status="oom", reason="full")
    assert lacking(request(), *measured(4096), failed) == []
    killed = replace(failed, status="killed", session="before")
    assert lacking(request(), *measured(4096), killed) == [(CollectiveTask, 0, [LARGE]), (CollectiveTask, 1, [LARGE])]


def test_disturbed_and_wide_times_have_further_rounds():
    more = request(most_rounds=3)
    loaded = measured(4096, 65536, flags="loaded")
    assert lacking(more, *loaded) == [(CollectiveTask, 2, [SMALL, LARGE])]
    wide = [collective(4096, 0, latency_s=0.5), collective(4096, 1, latency_s=1.0), *measured(65536)]
    assert lacking(more, *wide) == [(CollectiveTask, 2, [SMALL, LARGE])]  # two rounds never have an interval
    steady = [*measured(4096, 65536), collective(4096, 2), collective(65536, 2, latency_s=1.0)]
    assert lacking(request(rounds=3, most_rounds=9), *steady) == [(CollectiveTask, 3, [LARGE])]


def test_steps_are_those_of_named_models_or_of_the_leading_ones():
    named = request(rounds=1, most_rounds=1, **STEPS)
    done = changed_rows(data_parallel_step("alexnet", "none"), input_shape="3x224x224")
    assert lacking(named, collective(4096), collective(65536), *done) == [(DataParallelTask, 0, ["overlapped"])]
    stale = changed_rows(*done, input_shape="3x8x8")
    assert (DataParallelTask, 0, ["none", "overlapped"]) in lacking(named, *stale)
    every = make_request(parser().parse_args(["--sections", "distributed", "--variants", "eager", "channels_last"]))
    cells = group_storing.step_cells(every.on(ENVIRONMENT))
    assert {(model.name, cell.variant) for model, cell in cells} == {("mobilenet_v2", "eager"), ("resnet18", "eager")}


def test_a_group_has_at_most_one_process_a_gpu(monkeypatch):
    for gpus, processes in ((2, {2}), (4, {2, 4}), (7, {2, 4}), (8, {2, 4, 8})):
        names = [*(f"cuda:{number}" for number in range(gpus)), "cpu"]
        monkeypatch.setattr(devices, "available_names", lambda names=names: names)
        tasks = missing_tasks(request(), run_cache(device="cuda"))
        assert {task.processes for task in tasks} == processes
    monkeypatch.setattr(devices, "available_names", lambda: ["cuda:0", "cpu"])
    for kind, lack in (("cuda", "two GPUs or more"), ("mps", "collectives, which torch lacks for mps")):
        assert missing_tasks(request(), run_cache(device=kind)) == []
        with pytest.raises(UserError, match=f"needs {lack}; --device cpu"):
            group_storing.check_groups(kind)


def test_a_run_that_names_no_section_has_it_on_several_gpus_alone(monkeypatch):
    def usual(words=""):
        return "distributed" in make_request(parser().parse_args(words.split())).sections

    assert not usual()
    monkeypatch.setattr(devices, "available_names", lambda: ["cuda:0", "cuda:1", "cpu"])
    assert usual()
    assert usual("--device cuda")
    for words in ("--device cpu", "--device cuda:1", "--quick", "--sections roofs", "--cluster auto"):
        assert not usual(words)


@pytest.fixture
def cache(tmp_path):
    return RunCache(Workloads(tmp_path), MachineFolder(tmp_path, "box"), ENVIRONMENT, 1, "today", VERSION)


def test_a_group_that_ends_early_keeps_what_it_has_measured(cache):
    third = ("all_reduce", 2**20)
    task = CollectiveTask(4, "fp32", (SMALL, LARGE, third), 0)
    ended = GroupFailure("killed", "rank 1 of 4 was killed", (LARGE,), GroupResult(1, ((SMALL, REPORT),)))
    sections.put(cache, task, ended)
    small, large = cache.rows(CollectiveMeasurement)  # the third is left to be done
    assert (small.message_byte, small.status, small.latency_s, small.threads) == (4096, "ok", 0.5, 1)
    assert small.flags == "oversubscribed"  # four processes on the two cores of ENVIRONMENT
    assert (large.message_byte, large.status, large.reason) == (65536, "killed", "rank 1 of 4 was killed")
    assert (large.latency_s, large.processes, large.backend) == (None, 4, "gloo")


def test_a_group_that_does_not_begin_fails_as_a_whole_and_its_further_rounds_are_skipped(cache):
    task, summary = CollectiveTask(2, "fp32", (SMALL, LARGE), 0), Summary()
    failure = Failure("unsupported", "this torch is built without its distributed package")
    sections.put(cache, task, failure)
    assert [row.reason for row in cache.rows(CollectiveMeasurement)] == 2 * [failure.reason]
    summary.count(task, failure)
    assert summary.is_hopeless(replace(task, items=(LARGE, SMALL), round=1))
    assert not summary.is_hopeless(replace(task, processes=4))


def test_an_unsupported_collective_and_a_loaded_one_are_marked(cache):
    unsupported = {"status": "unsupported", "reason": "gloo does not support it"}
    result = GroupResult(1, ((SMALL, unsupported), (LARGE, {**REPORT, "load": 0.5, "flags": ["wide"]})))
    sections.put(cache, CollectiveTask(2, "fp32", (SMALL, LARGE), 0), result)
    small, large = cache.rows(CollectiveMeasurement)
    assert (small.status, small.reason) == ("unsupported", "gloo does not support it")
    assert (large.flags, large.load) == ("wide;loaded", 0.5)


def test_a_step_is_stored_with_its_network_and_its_gradients(cache):
    (model,) = STEPS["training_models"]
    ((_, cell),) = request(**STEPS).cells("step")
    task = DataParallelTask(model, cell, 2, ("none", "overlapped"), 0)
    found = {**REPORT, "gradient_byte": 400}
    sections.put(cache, task, GroupResult(1, (("none", found), ("overlapped", {**found, "latency_s": 0.6}))))
    rows = cache.rows(DataParallelStep)
    assert [(row.communication, row.latency_s, row.gradient_byte) for row in rows] == [
        ("none", 0.5, 400), ("overlapped", 0.6, 400),
    ]  # fmt: skip
    assert {(row.model, row.phase, row.input_shape) for row in rows} == {("alexnet", "step", "3x224x224")}
    cache.folder.leave_out(["alexnet"])
    assert cache.rows(DataParallelStep) == []


def test_outcomes_of_groups_in_a_few_words():
    (model,) = STEPS["training_models"]
    ((_, cell),) = request(**STEPS).cells("step")
    step = DataParallelTask(model, cell, 2, ("none", "overlapped"), 0)
    times = GroupResult(1, (("none", REPORT), ("overlapped", {**REPORT, "latency_s": 0.6})))
    assert sections.describe(step, times) == "600 ms with communication, 500 ms without"
    task = CollectiveTask(4, "fp32", (SMALL, LARGE), 0)
    words = "2 times; all_reduce of 65.5 kB at 197 kB/s of bus bandwidth"  # 2 * 3/4 * 65536 B / 0.5 s
    assert sections.describe(task, GroupResult(1, ((SMALL, REPORT), (LARGE, REPORT)))) == words
    assert step.label == "data-parallel training alexnet batch 1 fp32, 2 processes, round 1"
    assert task.label == "all_reduce fp32 at 2 sizes, 4 processes, round 1"


def test_a_group_takes_its_launch_and_a_second_or_two_an_item():
    estimate = DurationEstimate(request(), run_cache())
    one, two = (estimate.seconds(CollectiveTask(2, "fp32", items, 0)) for items in ((SMALL,), (SMALL, LARGE)))
    assert 8 < one < 11
    assert 0.5 < two - one < 2.1
