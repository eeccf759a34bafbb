import dataclasses

from helpers.comparing import CELL, ENVIRONMENT, NEWER, machine, put

from measure.domain.latency import timed_cell, timed_cells


def test_a_cell_has_the_median_of_its_rounds_and_what_is_held_against_any(tmp_path):
    folder = machine(tmp_path)
    put(folder, 0, [0.10, 0.11, 0.12])
    put(folder, 1, [0.20, 0.21, 0.22], flags="wide")
    put(folder, 2, [0.30, 0.31, 0.32], flags="drifting;wide")
    (cell,) = timed_cells(folder, ENVIRONMENT)
    assert (cell.cell, cell.status, cell.rounds) == (CELL, "ok", 3)
    assert cell.latency_s == 0.21  # of 0.11, 0.21, 0.31
    assert cell.latency_low_s < 0.11 < 0.31 < cell.latency_high_s  # Student's, of two degrees of freedom: 4.3 times
    assert cell.inputs_per_s == 1 / 0.21
    assert cell.flags == ("drifting", "wide")


def test_a_cell_that_failed_has_its_reason_and_no_latency(tmp_path):
    folder = machine(tmp_path)
    put(folder, 0, [], status="oom", reason="too large")
    (cell,) = timed_cells(folder, ENVIRONMENT)
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
    (cell,) = timed_cells(folder, ENVIRONMENT)
    assert (cell.status, cell.reason, cell.latency_s, cell.rounds) == ("ok", None, 0.1, 1)


def test_the_stages_of_a_step_are_no_cells_of_their_own(tmp_path):
    folder = machine(tmp_path)
    put(folder, 0, [0.1])
    (run,) = folder.runs()
    step = dataclasses.replace(run, phase="step")
    folder.put_run(step, [], [(dataclasses.replace(run, phase="forward"), [])])
    assert [cell.phase for cell in timed_cells(folder, ENVIRONMENT)] == ["inference", "step"]


def test_what_another_environment_measured_is_left_out(tmp_path):
    folder = machine(tmp_path, "box", ENVIRONMENT, NEWER)
    put(folder, 0, [0.1])
    put(folder, 0, [0.2], environment=NEWER)
    assert [cell.latency_s for cell in timed_cells(folder, NEWER)] == [0.2]


def test_of_a_language_model_tokens_a_second_are_told():
    read = timed_cell(CELL._replace(model="gpt2_prefill_128", batch=4), [[0.5] * 6] * 3, (), "128")
    assert read.tokens_per_s == 4 * 128 / 0.5
    assert timed_cell(CELL._replace(model="gpt2_decode_128", batch=4), [[0.5] * 6] * 3, (), "1").tokens_per_s == 8.0
    assert timed_cell(CELL, [[0.5] * 6] * 3, (), None).tokens_per_s is None
