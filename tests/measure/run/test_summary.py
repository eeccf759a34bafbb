import dataclasses
from collections import Counter
from types import SimpleNamespace

import pytest
from helpers.rows import ENVIRONMENT, profile, roof_measurement, run
from helpers.tasks import inference_task

from measure.domain.models import Model
from measure.models import catalog
from measure.run.plan import Part
from measure.run.progress import contents, lines, resumption
from measure.run.request import Request
from measure.run.run_cache import RunCache
from measure.run.runner import Summary
from measure.run.task import Failure

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
    folder = SimpleNamespace(runs=lambda: runs, roof_measurements=lambda: roofs, profiles=lambda: profiles)
    return RunCache(SimpleNamespace(), folder, ENVIRONMENT)


REQUEST = Request([NET], [1, 64], ["fp32"], ["inference"], ["eager"], training_models=[NET], training_batch_sizes=[32])


def test_an_empty_cache_has_nothing_and_lacks_what_is_left():
    parts = [Part("batch 1", [task(1)]), Part("further rounds", [task(1), task(64)]), Part("further rounds", [task(8)])]
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
