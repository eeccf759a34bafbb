from dataclasses import replace
from random import Random

import kills
import pytest
from helpers.rows import machine_in, run, samples

from measure.cache.folders import MachineFolder
from measure.cache.records import Run


@pytest.mark.slow
def test_a_measurement_that_is_killed_again_and_again_loses_nothing_and_has_nothing_twice(tmp_path):
    planned = kills.kills(Random(3), 8, kills.LONGEST_SLEEPS_S)
    tally = kills.torment(kills.sleeping(), tmp_path, planned, lambda _: None)
    assert tally.kills == 8
    (last,) = [tmp_path / str(tally.ends)]
    runs = MachineFolder(last, "box").rows(Run)
    assert sorted((row.model, row.round) for row in runs) == [
        (model, number) for model in ("alexnet", "resnet18", "vgg11") for number in range(3)
    ]


def test_a_row_that_is_gone_or_another_is_a_violation(tmp_path):
    folder = machine_in(tmp_path / "machines" / "box")
    before = kills.kept(tmp_path)
    folder.put_run(run(round_=1), samples(1, round_=1))
    now = kills.kept(tmp_path)
    kills.check_nothing_is_lost(before, now)
    folder.put_run(replace(run(), flags="wide"), samples(3))
    for other, said in ((before, "eager 1 is lost"), (kills.kept(tmp_path), "eager 0 is changed")):
        with pytest.raises(kills.Violation, match=said):
            kills.check_nothing_is_lost(now, other)
