import dataclasses
import json

import pytest
from helpers.rows import cell_columns

from measure import __main__ as command
from measure.cache.folders import MachineFolder
from measure.cache.records import Run
from measure.machine import devices, processor
from measure.machine.environment import current, installed_version
from measure.run.worker import Worker
from measure.timing.sampling import Timing
from measure.timing.stopwatch import TimedSample
from measure.verbs.measure import make_request, parser

pytest.importorskip("torch", reason="measuring needs torch")
SMALL = "--device cpu --models squeezenet1_0 --batch-sizes 1 --variants eager --seed 1"
LABEL = "squeezenet1_0 batch 1 fp32, round 1"


def call(data, words):
    return command.main([*words.split(), "--data", str(data), "--machine", "box"])


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("", {"batch_sizes": [1, 64, 256], "variants": [], "budget_s": None}),  # the variants usual on the machine
        ("--budget none", {"batch_sizes": [1, 64, 256], "variants": [], "budget_s": None}),
        ("--budget 20m", {"batch_sizes": [1, 64, 256], "variants": ["eager"], "budget_s": 1200.0}),
        ("--budget 20m --quick", {"batch_sizes": [1, 64], "variants": ["eager"], "budget_s": 1200.0}),
        (
            "--budget 90s --batch-sizes 2 --variants compile",
            {"batch_sizes": [2], "variants": ["compile"], "budget_s": 90.0},
        ),
        ("", {"training_batch_sizes": [32], "optimizers": ["sgd"]}),
        (
            "--training-batch-sizes 64 32 --optimizers adam sgd",
            {"training_batch_sizes": [32, 64], "optimizers": ["sgd", "adam"]},
        ),
        ("", {"sections": ["workload", "roofs", "inference", "training", "operators"]}),  # not hardware counters
        ("--quick", {"sections": ["workload", "roofs", "inference", "training", "operators"], "most_rounds": 3}),
        ("--quick --sections operators", {"sections": ["operators"]}),
    ],
)
def test_a_request_has_what_is_usual_and_what_the_flags_name(words, expected):
    request = make_request(parser().parse_args(words.split()))
    assert {name: getattr(request, name) for name in expected} == expected


def models(words):
    request = make_request(parser().parse_args(words.split()))
    return [{model.name for model in chosen} for chosen in (request.models, request.training_models)]


def test_quick_is_a_part_of_the_default_and_explicit_models_go_before_it():
    (whole, trained), (quick, quickly_trained) = models(""), models("--quick")
    assert trained == whole  # all are trained
    assert quickly_trained < quick < whole
    assert models("--quick --models vgg11") == [{"vgg11"}, {"vgg11"}]


def test_the_plan_lists_what_is_missing_and_measures_nothing(tmp_path, capsys):
    assert call(tmp_path, f"--plan {SMALL}") == 0
    *labels, last = capsys.readouterr().out.splitlines()
    assert LABEL in labels
    assert last.startswith(f"{len(labels)} to measure")
    assert call(tmp_path, f"--plan --json {SMALL}") == 0
    assert [task["label"] for task in json.loads(capsys.readouterr().out)["tasks"]] == labels
    assert not any(tmp_path.iterdir())


def test_the_plan_of_a_budget_is_shown_part_by_part(tmp_path, capsys):
    assert call(tmp_path, f"--plan --budget 3m {SMALL} --sections inference") == 0
    first, task, further, *_, last = capsys.readouterr().out.splitlines()
    assert first.startswith("batch 1, about ")
    assert first.endswith("; all of 1 within 3 min:")
    assert task == f"  {LABEL}"
    assert further.startswith("further rounds, about ")
    assert last.startswith("3 to measure on ")


def test_with_v_a_plan_says_on_standard_error_what_it_leaves_out_and_why(tmp_path, capsys):
    here = current(devices.find("cpu"), processor.physical_cores())
    cell = cell_columns("squeezenet1_0", 1, "inference", environment=here.environment_id)
    failed = Run(**cell, status="oom", reason="full", recorded_at="2026-01-01", round=0)
    MachineFolder(tmp_path, "box").put_run(failed, [])
    assert call(tmp_path, f"--plan {SMALL}") == 0
    quiet = capsys.readouterr()
    assert (quiet.err, LABEL in quiet.out) == ("", False)
    assert call(tmp_path, f"--plan -v {SMALL}") == 0
    told = capsys.readouterr()
    assert told.out == quiet.out
    cell = "squeezenet1_0 batch 1 fp32 inference eager"
    assert f"measure.run.cell_tasks: not tried again without --force: {cell}, oom (full)" in told.err
    assert "measure.run.plan: inference: 0 to do" in told.err


def damaged(folder):
    folder.put_environment(current(devices.find("cpu"), processor.physical_cores()))
    (folder.folder / "samples.csv").write_text("environment_id,colour\n")


def of_another_machine(folder):
    here = current(devices.find("cpu"), processor.physical_cores())
    folder.put_environment(dataclasses.replace(here, hardware_id="another", name="Other Chip"))


@pytest.mark.parametrize(
    ("damage", "culprit"),
    [
        (damaged, "machines/box/samples.csv, line 1: unknown column 'colour'"),
        (of_another_machine, "holds another machine (Other Chip)"),
        (lambda folder: folder.folder.parents[1].touch(), "is a file"),
    ],
)
def test_a_cache_that_cannot_be_used_is_said_before_measuring(tmp_path, capsys, damage, culprit):
    damage(MachineFolder(tmp_path / "data", "box"))
    assert call(tmp_path / "data", SMALL) == 2
    assert culprit in capsys.readouterr().err


@pytest.mark.parametrize(
    ("latencies_s", "rounds"),
    [
        ([1.0, 1.01, 0.99], 3),  # ±2.8 %: 4.85 / sqrt(3) times a deviation of 1 %
        # ±70 % after three rounds; of 1.0, 1.3, 0.8 and 1.0 or of five not much less
        ([1.0, 1.3, 0.8, 1.0, 1.0], 5),
    ],
)
def test_rounds_are_added_until_the_latency_is_known_or_there_are_enough(
    tmp_path, capsys, monkeypatch, latencies_s, rounds
):
    given = iter(latencies_s)
    monkeypatch.setattr(Worker, "run", lambda *_: Timing(1, (TimedSample(next(given)),), ()))
    words = f"{SMALL} --sections inference --max-rounds 5"
    assert call(tmp_path, words) == 0
    said = capsys.readouterr().out
    assert f"round {rounds}: 1 done; " in said
    assert f"\n{rounds} done, 0 left; " in said
    runs = MachineFolder(tmp_path, "box").rows(Run)
    assert [run.round for run in runs] == list(range(rounds))
    assert len({(run.sitting, run.seed, run.version) for run in runs}) == 1
    assert (runs[0].seed, runs[0].version.split()[0]) == (1, installed_version("roofwright"))
    assert call(tmp_path, words) == 0
    assert "Nothing left to measure" in capsys.readouterr().out
