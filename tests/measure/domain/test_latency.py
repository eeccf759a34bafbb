from dataclasses import replace

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


def test_a_cell_that_failed_has_its_reason_and_no_latency(tmp_path):
    folder = machine(tmp_path)
    put(folder, 0, [], status="oom", reason="too large")
    (cell,) = folder.cells(ENVIRONMENT)
    assert (cell.status, cell.reason, cell.latency_s, cell.inputs_per_s, cell.rounds) == (
        "oom",
        "too large",
        None,
        None,
        0,
    )


def test_a_later_round_that_failed_takes_nothing_from_the_others(tmp_path):
    folder = machine(tmp_path)
    put(folder, 0, [0.1])
    put(folder, 1, [], status="timeout", reason="slow")
    (cell,) = folder.cells(ENVIRONMENT)
    assert (cell.status, cell.reason, cell.latency_s, cell.rounds) == ("ok", None, 0.1, 1)


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


def test_of_a_language_model_tokens_a_second_are_told():
    read = summarise_cell(CELL._replace(model="gpt2_prefill_128", batch=4), [[0.5] * 6] * 3, (), "128")
    assert read.tokens_per_s == 4 * 128 / 0.5
    assert summarise_cell(CELL._replace(model="gpt2_decode_128", batch=4), [[0.5] * 6] * 3, (), "1").tokens_per_s == 8.0
    assert summarise_cell(CELL, [[0.5] * 6] * 3, (), None).tokens_per_s is None


def test_the_samples_of_a_round_are_those_of_its_run():
    runs = [run(round_=0), run(round_=1), run("other")]
    timed = [*samples(2, round_=0), *samples(1, round_=1), *samples(1, round_=2)]  # the last has no run
    rounds = group_rounds(runs, timed)
    assert set(rounds) == {Cell.of(runs[0]), Cell.of(runs[2])}
    assert rounds[Cell.of(runs[0])].latencies == ((0.1, 1.1), (0.1,))
    assert rounds[Cell.of(runs[2])].latencies == ()


def test_a_round_with_a_result_decides_and_without_one_the_first_failure():
    failed, late = run(status="oom", reason="first", round_=0), run(status="timeout", reason="second", round_=1)
    (rounds,) = group_rounds([failed, late], []).values()
    assert rounds.deciding == failed
    ok = run(round_=2)
    (rounds,) = group_rounds([failed, ok], samples(1, round_=2)).values()
    assert (rounds.deciding, rounds.latencies) == (ok, ((0.1,),))
