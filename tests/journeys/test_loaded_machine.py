"""A user measures on a machine that other programs use."""

from dataclasses import replace

import pytest
from helpers.cells import ask, run_cache
from helpers.rows import roof_measurement, run, samples, workload

from measure import __main__ as command
from measure.cache.folders import MachineFolder
from measure.domain.records import Run
from measure.run import plan
from measure.run.tasks import RoofTask
from measure.run.worker import Worker
from measure.timing.sampling import TimedSample, Timing
from measure.verbs.listing import contents

WORDS = "--device cpu --threads 1 --machine box --models alexnet --batch-sizes 1 --variants eager --sections inference"


@pytest.mark.parametrize(
    ("flags", "rounds", "output"),
    [
        (["", "", "loaded", ""], 4, None),  # the latency leaves the third out, and three are wanted
        (["loaded"] * 5, 5, "1 of 1 cells (loaded)"),  # as many as --max-rounds allows
    ],
)
def test_disturbed_rounds_are_made_up_for_while_rounds_are_left(tmp_path, capsys, monkeypatch, flags, rounds, output):
    given = iter(flags)
    monkeypatch.setattr(Worker, "run", lambda *_: Timing(1, (TimedSample(1.0),), tuple(filter(None, [next(given)]))))
    words = [*WORDS.split(), "--max-rounds", "5", "--data", str(tmp_path)]
    assert command.main(words) == 0
    assert (output in capsys.readouterr().out) if output else ("(loaded)" not in capsys.readouterr().out)
    assert len(MachineFolder(tmp_path, "box").rows(Run)) == rounds
    assert command.main(words) == 0
    assert "Nothing left to measure" in capsys.readouterr().out


# 10 FLOP in 0.1 s are 100 FLOP/s; the kernel does 1024 FLOP in 20 s, 51 a second, or in 5 s, 205 a second
@pytest.mark.parametrize(
    ("latency_s", "recorded_at", "is_again", "is_reported"),
    [(20.0, "2025", True, True), (20.0, "2027", False, True), (5.0, "2025", False, False)],
)
def test_a_roof_below_a_network_is_measured_again_once(latency_s, recorded_at, is_again, is_reported):
    (sample,) = samples(1, "alexnet")
    task = next(task for task in plan.tasks_to_do(ask("", (), ["roofs"]), run_cache()) if task.roof_kernel == "matmul")
    row = replace(roof_measurement(latency_s=latency_s), recorded_at=recorded_at, **task.columns)
    cache = run_cache(
        replace(row, latency_low_s=latency_s, latency_high_s=latency_s),
        replace(workload("alexnet"), input_shape="3x224x224"),
        replace(run("alexnet"), input_shape="3x224x224"),
        sample,
    )
    request = ask(sections=["roofs", "inference"])
    assert (task in plan.tasks_to_do(request, cache)) is is_again
    assert isinstance(task, RoofTask)
    output = "\n".join(contents(request.on(cache.environment), cache, [], "make report"))
    assert ("alexnet at batch 1 runs at 100 FLOP/s, above the fp32 roof of 51.2 FLOP/s" in output) is is_reported
