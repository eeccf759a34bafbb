import json
from dataclasses import replace

from helpers.cells import inference_task, profile_task, training_task
from helpers.rows import ENVIRONMENT, workload

from measure.domain.workload_records import ONE_RUN
from measure.models import catalog
from measure.run.plan import Part
from measure.run.tasks import RoofTask, WorkloadTask
from measure.verbs.listing import models_as_lines, models_as_rows, parts_as_lines, plan_as_json

ALEXNET, VGG11 = catalog.find(["alexnet", "vgg11"])
COUNTED = replace(workload("alexnet", flop=1_428_375_360, parameter_count=61_100_840), input_shape="3x224x224")
COUNT, ROOF, FIRST, STEP, _ = TASKS = [
    WorkloadTask(ALEXNET, (1, 64), "bf16", "cpu"),
    RoofTask("matmul", "fp32", 8, "sustained"),
    inference_task(ALEXNET, 1, "fp32", "eager", 2),
    training_task(ALEXNET, 32, "fp32", "adam", 0),
    profile_task(ALEXNET, 32, "fp32", "adam", "step"),
]


def test_models_and_plans(golden):
    small = replace(COUNTED, model="vgg11", parameter_count=262_656, forward_flop=524_288)
    golden("list", "\n".join(models_as_lines(models_as_rows([ALEXNET, VGG11], [COUNTED, small]))) + "\n")
    decided = models_as_lines(models_as_rows([ALEXNET, VGG11], [replace(COUNTED, path=ONE_RUN)]))
    assert [line.endswith(ONE_RUN) for line in decided[1:]] == [True, False]
    golden("list-json", json.dumps({"models": models_as_rows([ALEXNET, VGG11], [COUNTED])}, indent=2) + "\n")
    planned = plan_as_json(TASKS, ENVIRONMENT, "data/machines/box")
    golden("plan-json", json.dumps(planned, indent=2) + "\n")
    assert len({tuple(task) for task in planned["tasks"]}) == 1  # all under the same keys
    parts = [Part("counts", [COUNT, ROOF]), Part("batch 1", [FIRST, STEP]), Part("further rounds", [FIRST])]
    # Of the second part, which ends after 100 s of 60, its first task ends after 30
    golden("plan-budget", "\n".join(parts_as_lines(parts, [2.0, 10.0, 30.0, 100.0, 130.0], 60.0)) + "\n")
