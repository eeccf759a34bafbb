from collections import Counter

from helpers.tasks import inference_task

from measure.models import catalog
from measure.run.runner import Summary
from measure.run.summary import lines, resumption
from measure.run.task import Failure

ALEXNET = catalog.find(["alexnet"])[0]
RESUME, REPORT = resumption("python -m measure --budget 10m", force=False), "python -m report"


def task(batch):
    return inference_task(ALEXNET, batch, "fp32", "eager", 0)


def test_a_run_that_did_everything():
    summary = Summary(Counter(ok=4), cells_s=120.0, executing_s=108.0)
    assert lines(summary, ["data/workload", "data/machines/box"], RESUME, REPORT) == [
        "4 done, 0 failed, 0 left; the files are in data/workload and data/machines/box",
        "Of the 2 min that cells took, 90% passed within their calls",
        "Next: python -m report",
    ]


def test_what_failed_stands_by_status_with_its_first_reasons():
    failures = [(task(batch), Failure("oom", f"full at {batch}")) for batch in (64, 128, 256, 512)]
    failures.insert(1, (task(1), Failure("unsupported", "no kernel")))
    summary = Summary(Counter(oom=4, unsupported=1), failures)
    assert lines(summary, ["box"], RESUME, REPORT) == [
        "0 done, 5 failed, 0 left; the files are in box",
        "  4 oom:",
        "    alexnet batch 64 fp32, round 1: full at 64",
        "    alexnet batch 128 fp32, round 1: full at 128",
        "    alexnet batch 256 fp32, round 1: full at 256",
        "    and 1 more",
        "  1 unsupported:",
        "    alexnet batch 1 fp32, round 1: no kernel",
        "Next: python -m report",
    ]


def test_a_run_that_its_budget_ended_says_how_to_go_on():
    said = lines(Summary(Counter(ok=1), left=7), ["box"], RESUME, REPORT)
    assert said[0].startswith("1 done, 0 failed, 7 left")
    assert said[-2:] == ["To go on with what is left: python -m measure --budget 10m", "Next: python -m report"]


def test_a_command_that_measures_again_by_force_does_not_go_on():
    assert resumption("python -m measure --force", force=True) == (
        "What is left keeps the rows that it had; to measure all of it again: python -m measure --force"
    )
