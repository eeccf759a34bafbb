from dataclasses import replace

import pytest
from helpers.comparing import CELL, ENVIRONMENT, NEWER, machine, put
from helpers.rows import run, samples

from measure.cache.records import Run
from measure.domain.latency import Cell, group_rounds, summarise_cell


def test_a_cell_has_the_median_of_its_rounds_and_what_is_held_against_any(tmp_path):
    folder = machine(tmp_path)
    put(folder, 0, [0.10, 0.11, 0.12])
    put(folder, 1, [0.20, 0.21, 0.22])
    put(folder, 2, [0.30, 0.31, 0.32], flags="drifting;throttled")
    (cell,) = folder.cells(ENVIRONMENT)
    assert (Cell.of(cell), cell.status, cell.rounds) == (CELL, "ok", 3)
    assert cell.latency_s == 0.21  # of 0.11, 0.21, 0.31
    assert cell.latency_low_s < 0.11 < 0.31 < cell.latency_high_s  # Student's, of two degrees of freedom: 4.3 times
    assert cell.inputs_per_s == 1 / 0.21
    assert cell.flags == ("throttled", "wide")


def test_the_interval_between_rounds_decides_whether_a_cell_is_wide():
    flagged = [replace(run(round_=number), flags="drifting;loaded;wide") for number in range(2)]
    # Rounds that agree are an interval of no width; rounds of 0.1 s and 1.1 s, one sample each, are far apart.
    agreeing, apart = [*samples(1), *samples(1, round_=1)], [*samples(1), replace(samples(2)[1], round=1)]
    assert [rounds.flags for rounds in group_rounds(flagged, agreeing).values()] == [{"loaded"}]
    assert [rounds.flags for rounds in group_rounds(flagged, apart).values()] == [{"loaded", "wide"}]
    (one,) = group_rounds(flagged[:1], samples(3)).values()
    assert one.flags == {"drifting", "loaded", "wide"}


@pytest.mark.parametrize(
    ("rounds", "expected"),
    [
        ([([], "oom", "too large")], ("oom", "too large", None, None, 0)),
        # A later round that failed takes nothing from the others
        ([([0.1], "ok", None), ([], "timeout", "slow")], ("ok", None, 0.1, 10.0, 1)),
        # A round with a result decides, and without one the first failure
        ([([], "oom", "first"), ([], "timeout", "second")], ("oom", "first", None, None, 0)),
        ([([], "oom", "first"), ([0.1], "ok", None)], ("ok", None, 0.1, 10.0, 1)),
    ],
)
def test_the_status_of_a_cell_and_its_latency_are_those_of_the_rounds_with_a_result(tmp_path, rounds, expected):
    folder = machine(tmp_path)
    for number, (latencies, status, reason) in enumerate(rounds):
        put(folder, number, latencies, status=status, reason=reason)
    (cell,) = folder.cells(ENVIRONMENT)
    assert (cell.status, cell.reason, cell.latency_s, cell.inputs_per_s, cell.rounds) == expected


def test_the_stages_of_a_step_are_no_cells_of_their_own(tmp_path):
    folder = machine(tmp_path)
    put(folder, 0, [0.1])
    (whole,) = folder.rows(Run)
    step = replace(whole, phase="step")
    folder.put_run(step, [], [(replace(whole, phase="forward"), [])])
    assert [cell.phase for cell in folder.cells(ENVIRONMENT)] == ["inference", "step"]


def test_what_another_environment_measured_is_left_out(tmp_path):
    folder = machine(tmp_path, "box", ENVIRONMENT, NEWER)
    put(folder, 0, [0.1])
    put(folder, 0, [0.2], environment=NEWER)
    assert [cell.latency_s for cell in folder.cells(NEWER)] == [0.2]


@pytest.mark.parametrize(
    ("model", "tokens", "per_s"),
    [("gpt2_prefill_128", "128", 4 * 128 / 0.5), ("gpt2_decode_128", "1", 8.0), ("alexnet", None, None)],
)
def test_of_a_language_model_tokens_a_second_are_told(model, tokens, per_s):
    cell = CELL._replace(model=model, batch=4)
    assert summarise_cell(cell, [[0.5] * 6] * 3, (), tokens).tokens_per_s == per_s


def test_the_samples_of_a_round_are_those_of_its_run():
    runs = [run(round_=0), run(round_=1), run("other")]
    timed = [*samples(2, round_=0), *samples(1, round_=1), *samples(1, round_=2)]  # the last has no run
    rounds = group_rounds(runs, timed)
    assert set(rounds) == {Cell.of(runs[0]), Cell.of(runs[2])}
    assert rounds[Cell.of(runs[0])].latencies == ((0.1, 1.1), (0.1,))
    assert rounds[Cell.of(runs[2])].latencies == ()
