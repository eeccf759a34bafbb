import dataclasses
import sys
from random import Random

import pytest
from helpers.places import ROOT

pytest.importorskip("psutil", reason="processes are found with psutil")
pytest.importorskip("rich", reason="progress is shown with rich")
pytest.importorskip("torch", reason="a measurement names the version of torch")

import kills
from helpers.rows import ENVIRONMENT, layer, run, samples, workload

from measure.cache.folders import MachineFolder
from measure.cache.records import Run, Sample
from measure.cache.table import append
from measure.cache.workload_records import Layer, Workload

# Three rounds whatever a busy machine makes of the sleeps that are timed: a wide interval would ask for more
SELECTION = (
    "--device cpu --sections inference --variants eager --models alexnet resnet18 vgg11 --batch-sizes 1 --max-rounds 3"
)
FAKE = [sys.executable, str(ROOT / "tests/helpers/measurement.py"), *SELECTION.split()]


@pytest.mark.slow
def test_a_measurement_that_is_killed_again_and_again_loses_nothing_and_has_nothing_twice(tmp_path):
    planned = kills.kills(Random(3), 8, 1.5)
    tally = kills.torment(FAKE, tmp_path, planned, lambda _: None)
    assert tally.kills == 8
    (last,) = [tmp_path / str(tally.ends)]
    runs = MachineFolder(last, "box").rows(Run)
    assert sorted((row.model, row.round) for row in runs) == [
        (model, number) for model in ("alexnet", "resnet18", "vgg11") for number in range(3)
    ]


@pytest.fixture
def folder(tmp_path):
    """Two rounds of a cell, and a model's workload."""
    append(tmp_path / "workload" / "models.csv", Workload, [workload()])
    append(tmp_path / "workload" / "layers.csv", Layer, [layer()])
    folder = MachineFolder(tmp_path, "box")
    folder.put_environment(ENVIRONMENT)
    for number in range(2):
        folder.put_run(run(round_=number), samples(3, round_=number))
    return folder


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda folder: append(folder.paths[Run], Run, [run(round_=1)]), "inference eager 1 stands twice"),
        # A run without its samples, one with a gap among them, and a failure that has some
        (lambda folder: append(folder.paths[Run], Run, [run(round_=2)]), r"2, which is ok, has .* \[\]"),
        (lambda folder: folder.put_run(run(round_=2), samples(3, round_=2)[::2]), r"2, which is ok, has .* \[0, 2\]"),
        (lambda folder: folder.put_run(run(status="oom"), samples(1)), r"0, which is oom, has .* \[0\]"),
    ],
)
def test_rows_that_do_not_belong_together_are_a_violation(tmp_path, folder, wrong, said):
    wrong(folder)
    with pytest.raises(kills.Violation, match=said):
        kills.kept(tmp_path)


def test_a_row_that_is_gone_or_another_is_a_violation_and_one_that_no_row_commits_is_half_written(tmp_path, folder):
    before = kills.kept(tmp_path)
    assert len(before) == 1 + 1 + 1 + 2 + 6  # workload, layer, environment, runs, samples
    folder.put_run(run(round_=2), samples(1, round_=2))
    now = kills.kept(tmp_path)
    kills.check_nothing_is_lost(before, now)
    with pytest.raises(kills.Violation, match="Run e1 net 1 fp32 inference eager 2 is lost"):
        kills.check_nothing_is_lost(now, before)
    folder.put_run(dataclasses.replace(run(round_=1), flags="wide"), samples(3, round_=1))
    with pytest.raises(kills.Violation, match="Run e1 net 1 fp32 inference eager 1 is changed"):
        kills.check_nothing_is_lost(now, kills.kept(tmp_path))
    path = folder.paths[Sample]
    whole = path.read_bytes()
    assert not kills.is_half_written(tmp_path)
    append(path, Sample, samples(2, round_=3))
    assert kills.is_half_written(tmp_path)
    path.write_bytes(whole + b"e1,net,1")
    assert kills.is_half_written(tmp_path)
    path.write_bytes(whole)
    (folder.folder / "runs.csv.part").touch()
    assert kills.is_half_written(tmp_path)


def test_a_measurement_that_fails_by_itself_or_leaves_something_is_a_violation(tmp_path, folder):
    def measurement(script):
        return kills.Measurement([sys.executable, "-c", script], tmp_path)

    failing = measurement("import sys; sys.exit('no disk')")
    with pytest.raises(kills.Violation, match="exit code 1: no disk"):
        failing.is_killed(kills.Kill(60.0, None, alone=False))
    with pytest.raises(kills.Violation, match="did not come to its end: no disk"):
        failing.run_to_its_end()
    with pytest.raises(kills.Violation, match="something was left: 1 measured"):
        measurement("print('1 measured')").run_to_its_end()
    folder.put_run(run(batch=2, status="oom", reason="full"), [])
    with pytest.raises(kills.Violation, match="Run e1 net 2 fp32 inference eager 0 is oom: full"):
        measurement("print('Nothing left to measure')").run_to_its_end()
