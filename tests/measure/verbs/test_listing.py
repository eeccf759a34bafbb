import re
from dataclasses import replace

import pytest
from helpers.places import ROOT
from helpers.rows import ENVIRONMENT
from helpers.tasks import inference_task, profile_task, training_task

from measure.cache.workload_records import Workload
from measure.models import catalog
from measure.run.plan import Part
from measure.run.sections import RoofTask, WorkloadTask
from measure.verbs.listing import models_as_lines, models_as_rows, parts_as_lines, plan_as_json

ALEXNET, VGG11 = catalog.find(["alexnet", "vgg11"])
COUNTED = Workload(
    "alexnet", "torchvision", "plain", "3x224x224", 1, "fp32", None, "ok", None,
    parameter_count=61_100_840, forward_flop=1_428_375_360,
)  # fmt: skip
TASKS = [
    WorkloadTask(ALEXNET, (1, 64), "bf16", "cpu"),
    RoofTask("matmul", "fp32", 8, "sustained"),
    inference_task(ALEXNET, 1, "fp32", "eager", 2),
    training_task(ALEXNET, 32, "fp32", "adam", 0),
    profile_task(ALEXNET, 32, "fp32", "adam", "step"),
]
DOCUMENT = (ROOT / "docs" / "json.md").read_text("utf-8")


def test_models_with_what_is_known_of_them():
    rows = known, unknown = models_as_rows([ALEXNET, VGG11], [COUNTED])
    assert known == {
        "model": "alexnet",
        "source": "torchvision",
        "family": "plain",
        "input_shape": "3x224x224",
        "parameter_count": 61_100_840,
        "forward_flop": 1_428_375_360,
    }
    assert (unknown["model"], unknown["forward_flop"]) == ("vgg11", None)
    first, second, third = models_as_lines(rows)
    assert first.split() == ["model", "source", "family", "input", "parameters", "FLOP"]
    assert second.split() == ["alexnet", "torchvision", "plain", "3x224x224", "61.1", "M", "1.43", "GFLOP"]
    assert third.split() == ["vgg11", "torchvision", "plain", "3x224x224"]
    # A small model asks for something, too
    small = replace(COUNTED, parameter_count=262_656, forward_flop=524_288)
    assert models_as_lines(models_as_rows([ALEXNET], [small]))[1].endswith("263 k  524 kFLOP")


def test_a_plan_says_all_of_each_task_under_the_same_keys():
    said = plan_as_json(TASKS, ENVIRONMENT, "data/machines/box")
    assert said["machine"] == {
        "name": "Chip, of 2 cores",
        "device": "cpu",
        "environment_id": "e1",
        "folder": "data/machines/box",
    }
    assert len({tuple(task) for task in said["tasks"]}) == 1
    assert [task["section"] for task in said["tasks"]] == [
        "workload", "roofs", "inference", "training", "operators",
    ]  # fmt: skip
    assert [task["batch_sizes"] for task in said["tasks"]] == [(1, 64), [], [1], [32], [32]]
    assert [task["phase"] for task in said["tasks"]] == [None, None, "inference", "step", "step"]
    assert [task["round"] for task in said["tasks"]] == [None, None, 2, 0, None]
    assert (said["tasks"][0]["autocast"], said["tasks"][3]["variant"]) == ("cpu", "adam")
    roof = said["tasks"][1]
    assert (roof["roof_kernel"], roof["size"], roof["pace"], roof["model"]) == ("matmul", 8, "sustained", None)


@pytest.mark.parametrize(
    ("title", "said"),
    [("--list", {"models": models_as_rows([ALEXNET], [COUNTED])}), ("--plan", plan_as_json(TASKS, ENVIRONMENT, "box"))],
)
def test_every_key_is_documented_and_every_documented_key_is_there(title, said):
    (section,) = (part for part in DOCUMENT.split("\n## ") if part.startswith(f"`python -m measure {title} "))
    documented = set(re.findall(r"`([a-z_]+)`", section)) - {"cpu", "cuda", "mps"}
    keys = set(said)
    for part in said.values():
        keys |= set(part[0] if isinstance(part, list) else part)
    assert documented == keys


def test_the_plan_of_a_budget_says_of_each_part_what_is_expected_to_be_reached():
    count, roof, first, step, _ = TASKS
    parts = [Part("counts", [count, roof]), Part("batch 1", [first, step]), Part("further rounds", [first])]
    assert parts_as_lines(parts, [2.0, 10.0, 30.0, 100.0, 130.0], 60.0) == [
        "counts, about 10 s; all of 2 within 1 min:",
        f"  {count.label}",
        f"  {roof.label}",
        "batch 1, about 2 min; 1 of 2 within 1 min:",  # 90 s
        f"  {first.label}",
        f"  {step.label}",
        "further rounds, about 30 s; none of 1 within 1 min:",
        f"  {first.label}",
    ]
