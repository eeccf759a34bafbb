import sys
from dataclasses import replace
from random import Random

import pytest
from helpers.places import ROOT

pytest.importorskip("psutil", reason="processes are found with psutil")
pytest.importorskip("rich", reason="progress is shown with rich")
pytest.importorskip("torch", reason="a measurement names the version of torch")

import kills
from helpers.rows import ENVIRONMENT, layer, run, samples, workload

from measure.cache.folders import MachineFolder
from measure.cache.records import Run
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


def test_a_row_that_is_gone_or_another_is_a_violation(tmp_path, folder):
    before = kills.kept(tmp_path)
    assert len(before) == 1 + 1 + 1 + 2 + 6  # workload, layer, environment, runs, samples
    folder.put_run(run(round_=2), samples(1, round_=2))
    now = kills.kept(tmp_path)
    kills.check_nothing_is_lost(before, now)
    folder.put_run(replace(run(round_=1), flags="wide"), samples(3, round_=1))
    for other, said in ((before, "eager 2 is lost"), (kills.kept(tmp_path), "eager 1 is changed")):
        with pytest.raises(kills.Violation, match=said):
            kills.check_nothing_is_lost(now, other)
