import subprocess
import sys
from dataclasses import replace
from random import Random

import kills
import psutil
import pytest
from harness import Failure, kill
from helpers.rows import machine_in, run, samples

from measure.cache.folders import MachineFolder
from measure.domain.records import Run


@pytest.mark.slow
def test_a_measurement_killed_again_and_again_loses_nothing(tmp_path):
    last, counted = kills.torment(kills.SLEEPS, tmp_path, 8, Random(3), kills.LONGEST_SLEEPS_S)
    assert counted["kills"] == 8
    runs = MachineFolder(last, "box").rows(Run)
    assert sorted((row.model, row.round) for row in runs) == [
        (model, number) for model in ("alexnet", "resnet18", "vgg11") for number in range(3)
    ]


def test_a_row_that_is_gone_or_another_is_a_failure(tmp_path):
    folder = machine_in(tmp_path / "machines" / "box")
    before = kills.committed(tmp_path)
    folder.put_run(run(round_=1), samples(1, round_=1))
    now = kills.committed(tmp_path)
    kills.check_nothing_is_lost(before, now)
    folder.put_run(replace(run(), flags="wide"), samples(3))
    for other, text in ((before, "eager 1 is lost"), (kills.committed(tmp_path), "eager 0 is changed")):
        with pytest.raises(Failure, match=text):
            kills.check_nothing_is_lost(now, other)


def test_a_process_that_ends_before_it_is_killed_is_none_to_kill():
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        process = psutil.Process(child.pid)
        kill(process)
    assert child.returncode == -9
    kill(process)
