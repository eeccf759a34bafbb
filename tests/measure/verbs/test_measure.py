import json
import re

import pytest

from measure import __main__ as command
from measure.cache.folders import MachineFolder
from measure.domain.cell import Cell
from measure.domain.records import Environment, Run, Sample
from measure.machine import devices, processor
from measure.machine.environment import current, installed_version
from measure.run.worker import Worker
from measure.timing.sampling import Timing
from measure.timing.stopwatch import TimedSample
from measure.verbs.run_flags import make_request, parser

SMALL = "--device cpu --models squeezenet1_0 --batch-sizes 1 --variants eager --seed 1"


def call(data, words):
    return command.main([*words.split(), "--data", str(data), "--machine", "box"])


def make(words):
    return make_request(parser().parse_args(words.split()))


def models(words):
    return [{model.name for model in chosen} for chosen in (make(words).models, make(words).training_models)]


def test_a_request_has_the_defaults_and_what_the_flags_name():
    for words, *expected in (
        ("", [1, 64, 256], [], None, 9),  # the variants usual on the machine
        ("--budget none --quick", [1, 64], ["eager"], None, 3),
        ("--budget 20m", [1, 64, 256], ["eager"], 1200.0, 9),
        ("--budget 90s --batch-sizes 2 --variants compile", [2], ["compile"], 90.0, 9),
    ):
        request = make(words)
        assert [request.batch_sizes, request.variants, request.budget_s, request.most_rounds] == expected
        assert request.sections == ["workload", "roofs", "inference", "training", "operators"]  # not hardware counters
        assert (request.training_batch_sizes, request.optimizers) == ([32], ["sgd"])
    (whole, trained), (quick, quickly_trained) = models(""), models("--quick")
    assert trained == whole  # all are trained
    assert quickly_trained < quick < whole
    assert models("--quick --models vgg11") == [{"vgg11"}, {"vgg11"}]


def test_the_plan_lists_what_is_missing_and_measures_nothing(tmp_path, capsys):
    assert call(tmp_path, f"--plan {SMALL}") == 0
    *labels, last = capsys.readouterr().out.splitlines()
    assert "squeezenet1_0 batch 1 fp32, round 1" in labels
    assert last.startswith(f"{len(labels)} to measure")
    assert call(tmp_path, f"--plan --json {SMALL}") == 0
    assert [task["label"] for task in json.loads(capsys.readouterr().out)["tasks"]] == labels
    assert not any(tmp_path.iterdir())


@pytest.fixture
def box(tmp_path):
    """The folder of this machine, known by its environment."""
    folder = MachineFolder(tmp_path, "box")
    folder.put_environment(current(devices.find("cpu"), processor.physical_cores()))
    return folder


def put(box, model, status, day, number=0):
    """Put a round without samples of a cell at batch size 1."""
    (environment,) = box.rows(Environment)
    cell = environment.environment_id, *Cell(model, 1, "fp32", "inference", "eager")
    reason = None if status == "ok" else "x"
    box.put_run(Run(*cell, status=status, reason=reason, recorded_at=f"{day}T00:00:00+00:00", round=number), [])


def test_the_plan_gives_the_dates_of_earlier_rows(box, tmp_path, capsys):
    """On a machine equal to the reference one, all may be there already."""
    for number, day in enumerate(("2026-01-02", "2026-01-01")):
        put(box, "squeezenet1_0", "oom", day, number)
    assert call(tmp_path, f"--plan {SMALL}") == 0
    assert "Rows in this folder were measured from 2026-01-01 to 2026-01-02" in capsys.readouterr().out


def test_a_budget_too_short_for_one_latency_is_refused(tmp_path, capsys):
    assert call(tmp_path, f"{SMALL} --sections inference --budget 1s") == 2
    sentence = r"--budget: 1 s end before the first latency.* about \d+ s; give \d+s or more"
    assert re.search(sentence, capsys.readouterr().err)


def test_a_budget_is_never_too_short_to_go_on(box, tmp_path, capsys):
    put(box, "alexnet", "ok", "2026-01-01")
    assert call(tmp_path, f"{SMALL} --sections inference --budget 1s") == 0
    assert "0 done" in capsys.readouterr().out


def test_batch_sizes_joined_by_commas_are_one_sentence(tmp_path, capsys):
    assert call(tmp_path, "--plan --batch-sizes 1,64") == 2
    assert "--batch-sizes: '1,64' is not a number; write several with spaces: 1 64" in capsys.readouterr().err


def test_a_damaged_cache_is_an_error_before_measuring(box, tmp_path, capsys):
    box.paths[Sample].write_text("environment_id,colour\n")
    assert call(tmp_path, SMALL) == 2
    assert "machines/box/samples.csv, line 1: unknown column 'colour'" in capsys.readouterr().err


# ±2.8 %: 4.85 / sqrt(3) times a deviation of 1 %; and ±70 % after three rounds, after four or five not much less
@pytest.mark.parametrize("latencies_s", [[1.0, 1.01, 0.99], [1.0, 1.3, 0.8, 1.0, 1.0]])
def test_rounds_are_added_until_the_latency_is_certain_enough(tmp_path, capsys, monkeypatch, latencies_s):
    given, rounds = iter(latencies_s), len(latencies_s)
    monkeypatch.setattr(Worker, "run", lambda *_: Timing(1, (TimedSample(next(given)),), ()))
    words = f"{SMALL} --sections inference --max-rounds 5"
    assert call(tmp_path, words) == 0
    assert f"\n{rounds} done, 0 left; " in capsys.readouterr().out
    runs = MachineFolder(tmp_path, "box").rows(Run)
    assert [run.round for run in runs] == list(range(rounds))
    assert len({(run.session, run.seed, run.version) for run in runs}) == 1
    assert (runs[0].seed, runs[0].version.split()[0]) == (1, installed_version("roofwright"))
    assert call(tmp_path, words) == 0
    assert "Nothing left to measure" in capsys.readouterr().out
